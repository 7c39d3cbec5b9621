"""What is hidden of URIs, parameters and headers, and what is not."""

import time
from urllib.parse import quote_plus

import pytest

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.redaction import redacted
from mr_dedup.storage.uris import without_secrets

PARAMETERS = (
    "X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token", "X-Goog-Signature",
    "X-Goog-Credential", "sig", "SIG", "token", "access_token", "AWSAccessKeyId", "Signature",
    "api_key", "apikey", "key", "password", "pwd", "client_secret", "X%2DAmz%2DSignature", "sas",
    "subscription-key", "x-functions-key", "passphrase", "hdnts", "jsessionid", "PHPSESSID",
    "sid", "token%5B%5D", "b[sig]", "auth.token", "hmac", "x" * 90 + "-secret",
)  # fmt: skip
AUTHORITIES = (
    "me:SECRET@", ":SECRET@", "SECRET@", "me:SEC%2FRET@", "me:SEC/RET@", "me:S#E?CRET@",
    "me:S:E@CRET@", "me:12#SECRET@",
)  # fmt: skip
FRAMES = ("{}", "error: {}: refused", "URL('{}')", '{{"uri":"{}"}}', "[{}]", "({}, x)", "<{}>")


def hides(text):
    return not any(part in text for part in ("SEC", "RET"))


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", PARAMETERS)
def test_values_of_parameters(name, frame):
    for mark in ("?", "?list=2&", "?list=2;", "?list=2&amp;", "?list=2\\u0026", "#", ";"):
        text = frame.format(f"https://host/a.jsonl{mark}{name}=SEC%2BRET&Expires=77&part=9")
        shown = redacted(text)
        assert shown == text.replace("SEC%2BRET", "…")
        assert redacted(shown) == shown


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("authority", AUTHORITIES)
@pytest.mark.parametrize("scheme", ["http", "HTTPS", "redis", "rediss"])
def test_users_and_passwords(scheme, authority, frame):
    text = frame.format(f"{scheme}://{authority}host:80/0")
    assert redacted(text) == frame.format(f"{scheme}://host:80/0")


@pytest.mark.parametrize("authority", AUTHORITIES)
@pytest.mark.parametrize("scheme", ["s3", "gs", "hf"])
def test_users_and_passwords_where_stores_take_none(scheme, authority):
    assert redacted(f"no {scheme}://{authority}b/c: x") == f"no {scheme}://b/c: x"


# without a colon it may be the name of a file
@pytest.mark.parametrize("authority", [each for each in AUTHORITIES if ":" in each])
@pytest.mark.parametrize("scheme", ["https:", "https:/", "redis:", "S3A:/"])
def test_passwords_of_mistyped_uris(scheme, authority):
    assert redacted(f"no {scheme}{authority}b/c: x") == f"no {scheme}b/c: x"


@pytest.mark.parametrize("authority", ["SEC/RET@", "SECRET/x@", "12/SECRET@"])
def test_passwords_of_redis_with_separators(authority):
    assert redacted(f"redis://{authority}host:6379/0#urls") == "redis://host:6379/0#urls"


@pytest.mark.parametrize("quote", [quote_plus, lambda uri: quote_plus(quote_plus(uri))])
@pytest.mark.parametrize(
    "uri", ["https://me:SECRET@host/a?b=2", "https://host/a?sig=SECRET", "redis://SEC/RET@host/0"]
)
def test_uris_in_the_query_of_others(uri, quote):
    shown = redacted(f"https://host/a?url={quote(uri)}&page=2")
    assert hides(shown)
    assert shown.endswith("&page=2")
    plain = f"https://host/a?url={quote('https://host/a b')}&page=2"
    assert redacted(plain) == plain


@pytest.mark.parametrize("scheme", ["hdfs", "ftp", "postgresql"])
def test_users_without_their_passwords(scheme):
    assert redacted(f"{scheme}://me:SECRET@host/a") == f"{scheme}://me@host/a"
    assert redacted(f"a={scheme}://x/b {scheme}://me:SEC@RET@host") == (
        f"a={scheme}://x/b {scheme}://me@host"
    )


@pytest.mark.parametrize(
    "text",
    [
        "{'Authorization': 'Basic SECRET=='}",
        "authorization: Bearer SECRET",
        "Authorization=SECRET",
        "{'X-Amz-Signature': 'SECRET'}",
        '{"secret": "SECRET", "key": 5}',
        "AccountName=me;AccountKey=SECRET==;EndpointSuffix=x",
        "sc://host:1/;token=SECRET;user_id=x",
        "spark.hadoop.fs.s3a.secret.key=SECRET",
        "spark.hadoop.fs.s3a.access.key=SECRET",
        "fs.s3a.session.token=SECRET",
        "fs.azure.account.key.pages.dfs.core.windows.net=SECRET==",
        "X-Auth-Token: SECRET",
        "x-amz-security-token: SECRET",
        "X-Api-Key: SECRET",
        "X-Functions-Key: SECRET",
        "Ocp-Apim-Subscription-Key: SECRET",
        "[('Authorization', 'Bearer SECRET'), (b'Cookie', b'a=SECRET')]",
        'cookie: "a=b"; c=SECRET',
        "Cookie: session=SEC; other=RET",
        "{'Set-Cookie': 'a=SECRET; Path=/'}",
        "https://host/a?hdnts=exp=1~acl=/*~hmac=SECRET",
    ],
)
def test_secrets_in_other_forms(text):
    assert hides(redacted(text))


@pytest.mark.parametrize(
    "text",
    [
        "pages.jsonl, line 3: token=5 is not a number",
        "abfs://pages@account.dfs.core.windows.net/a@b",
        "http://example.org:80/@user/posts?id=3&page=2#key",
        "http://[::1]:80/@a",
        "s3://bucket/2026-01-01T00:00/me@example.org",
        "minhash:bands=20,rows=5,min_shared_keys=1 finds pairs",
        "max_keys=3,signatures=2,max_id_tokens=4",
        "kept 5 of 6 documents (key: URL)",
        "C:/a@b, d: e@f",
        "http://example.org/?url=https%3A%2F%2Fexample.org%2Fa",
        "shown by cookies: yes",
        "http: //a@b",
        "redis://host:6379/0#a@b",
        "redis://host/0?client_name=me@x",
        "gs:my-file@v2.jsonl: not found",
        "hf:model@main",
        "https://host/a?code=404&partition_key=5&sort-key=a",
        "",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redacted(text) == text


def test_errors_have_no_secrets():
    for error in (
        MrDedupError("http://me:SECRET@host/a?sig=SECRET: no such file"),
        FormatError("http://me:SECRET@host/a?sig=SECRET", "line 1", "not JSON"),
    ):
        assert hides(str(error))
        assert "http://host/a?sig=…" in str(error)


def test_uris_of_the_web_are_shown_without_their_query():
    assert without_secrets("https://me:SECRET@host/a?page=2") == "https://host/a?…"
    assert without_secrets("az://pages/a?sig=SECRET&b=2") == "az://pages/a?sig=…&b=2"


@pytest.mark.parametrize(
    "part",
    [
        "a",
        "://",
        "?a=",
        "?sig=",
        "'",
        "?sig='",
        "authorization",
        "a://b:c",
        "secret=",
        "a:b",
        " ",
        "https:",
        "https:/",
        "a%3A%2F",
        "a%253A%252F",
        "cookie:",
        "#a=",
        "auth-token:",
        "#token[=",
    ],
)
def test_takes_linear_time(part):
    taken = []
    for count in (100_000, 400_000):
        begun = time.process_time()
        redacted(part * count + "://@=")
        taken.append(time.process_time() - begun)
    assert taken[1] < 16 * taken[0] + 0.5
