"""Text without passwords, tokens and signatures: every message and log goes through it."""

from __future__ import annotations

import re
from urllib.parse import unquote

REDACTED = "…"
"""What stands for a secret."""

_URI = re.compile(r"(?<![A-Za-z0-9+.-])([A-Za-z0-9+.-]+)(://)(\S*)")
_PORT = re.compile(r":(?![\d,;'\")\]]|$)[^:\]]*$")
_USERLESS = (
    "http", "https", "redis", "rediss", "unix", "sc", "s3", "s3a", "s3n", "gs", "gcs", "hf",
)  # fmt: skip
"""Schemes whose user may be a token, or says nothing: others are accounts and containers."""

_MISTYPED = re.compile(rf"(?i)(?<![A-Za-z0-9+.-])({'|'.join(_USERLESS)})(:/?)(?!/)([^\s/:@]*:\S*)")
_QUOTED_URI = re.compile(r"(?i)(?<![A-Za-z0-9+.-])[a-z0-9+.-]+%(?:25)?3A%(?:25)?2F[^\s&;#'\"<>]*")
"""A URI in the query of another one."""

_NAME = re.compile(
    r"(?P<mark>^|[?&;#\s'\"({,]|\\u0026)(?P<name>[^=&?;#\s'\"({,:]{1,200})(?:=|['\"]\s{0,3}:\s{0,3}b?['\"])"
)
_VALUE = re.compile(r"(?:[^&;#\s\"'<>)\]},\\]|[\"'<>)\]},\\](?=[\w%]))+")
"""Up to the end of a parameter; a quote or bracket within it belongs to it."""

_SECRET = re.compile(
    r"signature(?!s)|secret|passw|passphrase|credential|"
    r"(?:security|access|auth|id|refresh|session)[-_.]?token(?!s)|"
    r"(?:access|account|api|subscription)[-_.]?key(?!s)"
)
"""In names of values that are secrets, wherever they stand."""

_SECRET_PARAMETER = re.compile(
    r"sig|sas|pwd?|pass|(?:x-functions-)?key|auth|authorization|.*token|jwt|password|hmac|"
    r"hdn[a-z]+|[a-z]*sess(?:ion)?[-_]?id|sid"
)
"""Names of secrets in the query of a URI, where other words of a text cannot be meant."""

_HEADER = re.compile(
    r"(?i)((?:authorization['\"]?\s{0,3}=|(?:authorization|"
    r"(?:auth|security|access|session|api|account|functions|subscription)[-_](?:token|key))"
    r"(?:['\"]\s{0,3},|['\"]?\s{0,3}:))"
    r"\s{0,3}(?:b?['\"])?(?:(?:basic|bearer|digest|token)\s+)?)[^\s'\",]+"
)
_COOKIE = re.compile(r"(?i)(cookie(?:['\"]\s{0,3},|['\"]?\s{0,3}:)\s{0,3})[^\r\n]+")


def redacted(text: str) -> str:
    """Return ``text`` without the secrets of URIs, parameters and headers in it.

    The user and password of a URI are left out, values of parameters become ``…``. Takes time
    linear in the text.

    >>> redacted("redis://:secret@cache:6379/0: refused")
    'redis://cache:6379/0: refused'
    >>> redacted("https://example.org/a?X-Amz-Signature=0a1b&X-Amz-Expires=60")
    'https://example.org/a?X-Amz-Signature=…&X-Amz-Expires=60'
    """
    if "%" in text:
        text = _QUOTED_URI.sub(_without_quoted, text)
    return _hidden(text) if "=" in text or ":" in text else text


def _hidden(text: str) -> str:
    text = _MISTYPED.sub(_without_password, _URI.sub(_without_password, text))
    text = _HEADER.sub(rf"\g<1>{REDACTED}", _without_values(text))
    return _COOKIE.sub(rf"\g<1>{REDACTED}", text)


def _without_quoted(found: re.Match[str]) -> str:
    """Return a quoted URI as it is, or without quotes if there are secrets in it."""
    uri = unquote(unquote(found[0]))
    shown = _hidden(uri)
    return found[0] if shown == uri else shown


def _without_password(found: re.Match[str]) -> str:
    scheme, mark, rests = found[1], found[2], found[3].split("://")
    return f"{scheme}{mark}" + "://".join(_without_user(scheme, rest) for rest in rests)


def _without_user(scheme: str, rest: str) -> str:
    """Return what follows ``scheme://`` without a password.

    The user stays where it is a name, such as that of an account.

    >>> _without_user("redis", ":a/b@cache/0"), _without_user("abfs", "pages@account/a@b")
    ('cache/0', 'pages@account/a@b')
    """
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        user, _, host = authority.rpartition("@")
        rest = host + rest[len(authority) :]
    elif "@" in rest and (
        _PORT.search(authority)
        or (":" in authority and rest.startswith(f"{authority}#"))
        or (scheme.lower().startswith("redis") and "@" in re.split("[?#]", rest, maxsplit=1)[0])
    ):
        # a password with a separator: Redis has no path, others a number for the port
        user, _, rest = rest.rpartition("@")
    else:
        return rest
    if scheme.lower() in _USERLESS:
        return rest
    return f"{user.partition(':')[0]}@{rest}"


def _without_values(text: str) -> str:
    parts, done = [], 0
    for found in _NAME.finditer(text):
        name = unquote(found["name"]).lower()
        in_query = found["mark"] in ("?", "&", ";", "#", "\\u0026")
        # of a[b] each part
        if _SECRET.search(name) or (
            in_query and any(map(_SECRET_PARAMETER.fullmatch, re.split(r"[\[\].]", name)))
        ):
            value = _VALUE.match(text, max(found.end(), done))
            if value:
                parts += [text[done : value.start()], REDACTED]
                done = value.end()
    return "".join(parts) + text[done:]
