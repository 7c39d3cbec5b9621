"""Each failure of a store is one line that names the URI, and no secret."""

import importlib.util
import re
import sys

import pytest

from mr_dedup.cli.main import main
from mr_dedup.errors import MrDedupError
from mr_dedup.storage.errors import is_transient, reason_of, storage_errors
from mr_dedup.storage.listing import exists, file_info, list_files
from mr_dedup.storage.stores import STORES, open_store, require_writable
from mr_dedup.storage.uris import file_name, is_uri, joined, parent_of, without_secrets
from mr_dedup.storage.writing import put, refuse_existing
from tests.cli.documents import made_up_documents, write_jsonl
from tests.storage import stores
from tests.storage.servers import Fault


def said(call, *arguments):
    with pytest.raises(MrDedupError) as error:
        call(*arguments)
    message = str(error.value)
    assert "\n" not in message
    return message


def test_a_missing_file(place):
    place.write("a.jsonl", b"{}")
    uri = place.of("b.jsonl")
    assert said(file_info, uri) == f"{uri}: no such file"
    assert said(list_files, [uri]) == f"{uri}: no such file"


def test_a_missing_bucket(place):
    uri = place.no_bucket
    assert re.fullmatch(re.escape(uri) + ": no such (file|bucket)", said(file_info, uri))
    assert re.fullmatch(re.escape(uri) + ": no such (file|bucket)", said(list_files, [uri]))


def test_a_missing_bucket_of_s3_is_named(s3):
    assert said(list_files, [s3.no_bucket]) == f"{s3.no_bucket}: no such bucket"
    assert said(list_files, [f"s3://no-{s3.name}"]) == f"s3://no-{s3.name}: no such bucket"
    assert said(list_files, [f"s3://no-{s3.name}/*"]) == f"s3://no-{s3.name}/*: no such bucket"


def test_writing_to_a_missing_bucket(s3, gs, tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    for place in (s3, gs):
        assert said(put, tmp_path / "a", place.no_bucket).startswith(f"{place.no_bucket}: no such")


@pytest.mark.parametrize("kind", ["s3", "gs", "http", "hf"])
@pytest.mark.parametrize("status", [401, 403])
def test_denied_access(request, kind, status, capfd):
    place = request.getfixturevalue("web" if kind == "http" else kind)
    place.write("a.jsonl", b"{}")
    place.proxy.faults.append(Fault("", status))
    uri = place.of("a.jsonl")
    for call in (file_info, exists, lambda uri: list_files([uri])):
        assert said(call, uri).startswith(f"{uri}: access denied")
    assert capfd.readouterr() == ("", "")


def test_s3_without_credentials(s3, tmp_path):
    nothing = {
        "AWS_ACCESS_KEY_ID": None,
        "AWS_SECRET_ACCESS_KEY": None,
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
    }
    with stores.environment(**nothing):
        uri = s3.of("a.jsonl")
        assert said(file_info, uri).startswith(f"{uri}: no credentials: ")
        assert said(list_files, [uri]).startswith(f"{uri}: no credentials: ")


def test_azure_without_an_account():
    nothing = dict.fromkeys(
        ("AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_KEY")
    )
    with stores.environment(**nothing):
        assert said(file_info, "az://crawl/a.jsonl").startswith("az://crawl/a.jsonl: ")


@pytest.mark.parametrize(
    ("uri", "module", "extra"),
    [
        ("s3://crawl/a", "s3fs", "s3"),
        ("gs://crawl/a", "gcsfs", "gcs"),
        ("abfss://crawl@account.dfs.core.windows.net/a", "adlfs", "azure"),
        ("hdfs:///a", "hdfs_native", "hdfs"),
        ("https://example.org/a", "aiohttp", "http"),
        ("hf://datasets/a/b/c", "huggingface_hub", "hf"),
    ],
)
def test_a_package_that_is_not_installed(monkeypatch, uri, module, extra):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == module else find(n))
    message = f"{uri}: needs the package {module}: pip install 'mr-dedup[{extra}]'"
    assert said(list_files, [uri]) == message


@pytest.mark.parametrize("uri", ["ftp://example.org/a", "s4://a/b", "x+y://a"])
def test_an_unknown_scheme(uri):
    assert said(list_files, [uri]).startswith(f"{uri}: not a URI of a known store (s3://, ")


@pytest.mark.parametrize("uri", ["http://", "https:///a", "http://[::1/a", "http://:x/a"])
def test_web_addresses_that_are_none(uri):
    assert said(file_info, uri).startswith(f"{uri}: ")


def test_stores_that_are_only_read(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    for uri in ("https://example.org/a", "hf://datasets/a/b/c"):
        scheme = uri.partition(":")[0]
        message = f"{uri}: {scheme}:// is only read; write to another store"
        assert said(require_writable, uri) == message
        assert said(refuse_existing, uri, True) == message
        assert said(put, tmp_path / "a", uri) == message


def test_secrets_are_not_shown(web, quick):
    web.write("a.jsonl", b"{}")
    host = web.proxy.uri.removeprefix("http://")
    for status in (403, 404, 500):
        web.proxy.faults[:] = [Fault("", status)]
        uri = f"http://user:secret@{host}/{web.name}/a.jsonl?X-Amz-Signature=secret&sig=secret"
        message = said(file_info, uri)
        assert "secret" not in message
        assert message.startswith(f"http://{host}/{web.name}/a.jsonl?…: ")


def test_a_signed_address_is_sent_as_it_is(web):
    """A signature is of the address letter by letter."""
    web.write("a b.jsonl", b"{}")
    uri = f"{web.of('a b.jsonl')}?sig=a%2Bb%2Fc%3D&x=%C3%A9&y=a+b"
    assert file_info(uri).size_bytes == 2
    assert web.server.requests[-1][1] == uri.removeprefix(web.proxy.uri)


def test_errors_of_the_block_that_are_bugs_are_raised_as_they_are():
    with pytest.raises(ZeroDivisionError), storage_errors("s3://crawl/a"):
        raise ZeroDivisionError


def test_what_may_pass():
    from aiohttp import ClientPayloadError, ServerDisconnectedError

    passing = [ClientPayloadError(), ServerDisconnectedError(), TimeoutError(), OSError(110, "")]
    assert all(map(is_transient, passing))
    final = [FileNotFoundError(), PermissionError(), OSError(28, "no space"), ValueError()]
    assert not any(map(is_transient, final))
    caused = FileNotFoundError("x")
    caused.__cause__ = TimeoutError()
    assert is_transient(caused)
    assert reason_of(caused) == "the store did not respond in time"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://crawl/a?b=c", "s3://crawl/a?b=c"),
        ("hdfs://me:secret@host/a", "hdfs://me@host/a"),
        ("http://me:secret@host?x", "http://host?…"),
        ("https://host/a@b?", "https://host/a@b?"),
        ("abfs://crawl@account.dfs.core.windows.net/a", None),
        ("s3://crawl/a\nb\x1b[31m", "s3://crawl/a%0Ab%1B[31m"),
    ],
)
def test_what_is_shown_of_a_uri(uri, shown):
    assert without_secrets(uri) == (shown or uri)


def test_parts_of_uris():
    assert joined(parent_of("hdfs:///kept"), "x") == "hdfs:///x"
    assert joined("s3://crawl", "a") == joined("s3://crawl/", "a") == "s3://crawl/a"
    assert parent_of("s3://crawl/a/b/") == "s3://crawl/a"
    assert file_name("s3://crawl/a//") == "a"
    assert not any(map(is_uri, ("file:///a", "FILE:///a", "a:b", "/a://b", "://a")))


def test_the_path_of_a_uri_is_taken_letter_by_letter(s3, gs):
    for uri, path in (
        ("S3://crawl/a#b?c::d;e%20", "crawl/a#b?c::d;e%20"),
        ("s3a://crawl/a", "crawl/a"),
        ("s3n://crawl/a", "crawl/a"),
        ("gcs://crawl/a#12", "crawl/a#12"),
        ("hf://datasets/a/b@main/c#d", "datasets/a/b@main/c#d"),
    ):
        assert open_store(uri)[1] == path


def test_packages_are_imported_when_they_are_needed():
    import subprocess

    code = (
        "import sys, mr_dedup.storage.listing, mr_dedup.storage.scratch, mr_dedup.storage.writing\n"
        "print([name for name in sys.modules if name in sys.argv])"
    )
    modules = ["fsspec", *{store.module for store in STORES.values()}]
    done = subprocess.run([sys.executable, "-c", code, *modules], capture_output=True, text=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("status", [201, 202, 204, 205, 226, 300, 301, 302, 304, 307, 308, 399])
def test_responses_that_are_no_files(web, tmp_path, capfd, status):
    """They were read as the file, or as an empty one."""
    web.server.files[f"/{web.name}/a.jsonl"] = status
    assert main(["dedup", web.of("a.jsonl"), "-o", str(tmp_path / "out")]) == 2
    assert f"a.jsonl: the server sends no file (HTTP status {status})" in capfd.readouterr().err


@pytest.mark.parametrize(
    "uri", ["s3://me:SECRET@pages/a", "gs://SECRET@pages/a", "hf://SECRET@a/b"]
)
@pytest.mark.parametrize("how", [[], ["--against"], ["-o"], ["--debug"]])
def test_passwords_in_uris_of_stores_without_them(tmp_path, capfd, uri, how):
    path = write_jsonl(tmp_path / "a.jsonl", made_up_documents(1, 5))
    where = [uri] if how in ([], ["--debug"]) else [str(path)]
    options = [*how, uri] if how in (["--against"], ["-o"]) else how
    out = [] if how == ["-o"] else ["-o", str(tmp_path / "out")]
    assert main(["dedup", *where, *options, *out]) == 2
    said = capfd.readouterr().err
    assert "SECRET" not in said
    assert "takes no user and password" in said or "is only read" in said
