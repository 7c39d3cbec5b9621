"""The canonical form of URLs: one spelling for all URLs of a page."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.errors import FormatError, MrDedupError, newer

if TYPE_CHECKING:
    from can_ada import URL

_FORM_VERSION = 2
"""Of the canonical form. Digests of URLs in different versions are never compared."""

INDEX_NAMES = frozenset(
    f"{name}.{ending}"
    for name in ("index", "default")
    for ending in ("html", "htm", "shtml", "xhtml", "php", "asp", "aspx", "jsp", "cfm", "cgi")
)
"""Names of pages that servers commonly send for their directory."""

TRACKING_PREFIX = "utm_"
TRACKING_NAMES = frozenset(
    (
        "dclid", "fbclid", "gbraid", "gclid", "gclsrc", "igshid", "li_fat_id", "mc_cid", "mc_eid",
        "msclkid", "srsltid", "twclid", "ttclid", "wbraid", "yclid", "_ga", "_gl", "_hsenc",
        "_hsmi", "_openstat",
    )
)  # fmt: skip
"""Query parameters that identify the source of a visit, not the page."""

_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]")
_MAX_HOST = 253
_HIGH_BYTES = re.compile(rb"[\x80-\xff]")
_PERCENT = re.compile("%(?:([0-9A-Fa-f]{2})|)")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
"""Characters that mean the same whether they are escaped or not (RFC 3986, 2.3)."""


class NotAUrlError(MrDedupError):
    """A string is not a URL; the message has the reason."""


class OtherFormError(MrDedupError):
    """A store has URLs in the canonical form of another version; the message has no name."""


@dataclass(frozen=True)
class UrlForm:
    """The form that URLs are brought to: a canonical form, or none.

    The canonical form is how browsers write a URL, by the WHATWG's URL Standard: scheme and host in
    lower case, the host in ASCII (UTS 46), no default port, ``.`` and ``..`` resolved. In it the
    host has no dot at its end, unreserved characters are not escaped and escapes are in capitals
    (RFC 3986, 6.2.2), empty parameters are dropped, and parameters sorted by name, those of one
    name in their order. Reserved characters stay as they are, escaped or not. Takes 4 microseconds
    a URL.

    Args:
        canonical: False leaves URLs as they are; the other parameters have no effect then.
        keep_fragments: keep what follows ``#``, for pages that are made by scripts.
        drop_index: drop INDEX_NAMES at the end of a path.
        drop_tracking: drop TRACKING_NAMES and parameters that begin with TRACKING_PREFIX.
        mirrors: groups of hosts with the same pages; the first of each replaces the others.

    Raises:
        ValueError: a host is in two groups of mirrors, or not in canonical form.

    >>> UrlForm(drop_tracking=True).of(b"HTTP://Example.org:80/a/../b?z=1&utm_source=x&a=2")
    b'http://example.org/b?a=2&z=1'
    """

    canonical: bool = True
    keep_fragments: bool = False
    drop_index: bool = False
    drop_tracking: bool = False
    mirrors: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        for host, count in Counter(itertools.chain.from_iterable(self.mirrors)).items():
            if count > 1 or _host(host) != host:
                raise ValueError(
                    f"mirrors must be distinct hosts in canonical form, and {host!r} is not"
                )

    def of(self, url: bytes) -> bytes:
        """Return ``url`` in this form; NotAUrlError if it is not a URL, or is empty."""
        if not self.canonical:
            if not url:
                raise NotAUrlError("is empty")
            return url
        parsed = _parsed(_text(url))
        try:
            host = _canonical_host(parsed.hostname)
        except ValueError as error:
            raise NotAUrlError(f"not a URL: {error}") from error
        parsed.host = self._canonical_hosts.get(host, host) + parsed.host[len(parsed.hostname) :]
        path = _with_few_escapes(parsed.pathname)
        if self.drop_index:
            folder, slash, name = path.rpartition("/")
            path = folder + slash if name.lower() in INDEX_NAMES else path
        parsed.pathname = path
        # what is set loses one ? at its begin, as what is read has one
        query = self._query(parsed.search.removeprefix("?"))
        parsed.search = f"?{query}" if query else ""
        # the empty fragment is kept as its #
        fragment = parsed.hash if self.keep_fragments else ""
        parsed.hash = ""
        return (parsed.href + fragment).encode()

    def of_each(self, urls: list[bytes]) -> list[bytes]:
        """Return ``urls`` in this form; raises as ``of``."""
        if not self.canonical and all(urls):
            return urls
        return [self.of(url) for url in urls]

    @functools.cached_property
    def _canonical_hosts(self) -> dict[str, str]:
        return {host: group[0] for group in self.mirrors for host in group}

    def _query(self, query: str) -> str:
        """Return the parameters of ``query`` in this form."""
        items = filter(None, _with_few_escapes(query).replace("%20", "+").split("&"))
        pairs = [item.partition("=") for item in items]
        if self.drop_tracking:
            pairs = [pair for pair in pairs if not tracks(pair[0])]
        pairs.sort(key=lambda pair: pair[0])
        return "&".join(f"{name}={value}" for name, _, value in pairs)

    def describe(self) -> str:
        """Return the form in a few words, for messages."""
        if not self.canonical:
            return "as given"
        names = ("keep_fragments", "drop_index", "drop_tracking", "mirrors")
        chosen = [name.replace("_", " ") for name in names if getattr(self, name)]
        return ", ".join(["canonical", *chosen])

    def to_text(self) -> str:
        """Return the form as text, as stores have it."""
        version = {"version": _FORM_VERSION} if self.canonical else {}
        return json.dumps(dataclasses.asdict(self) | version)

    @classmethod
    def from_text(cls, text: str) -> UrlForm:
        """Return the form that ``to_text`` returned ``text`` for.

        Raises OtherFormError if that was in a version of mr_dedup with another canonical form.
        """
        fields = json.loads(text)
        fields["mirrors"] = tuple(map(tuple, fields["mirrors"]))
        version = fields.pop("version", 1)
        form = cls(**fields)
        if form.canonical and version != _FORM_VERSION:
            raise OtherFormError(
                f"its canonical form of {newer(version, _FORM_VERSION)}"
                if version > _FORM_VERSION
                else "has URLs in the canonical form of an earlier version of mr-dedup; make it "
                "anew from its lists of URLs"
            )
        return form


def read_mirrors(path: Path) -> tuple[tuple[str, ...], ...]:
    """Return the groups of mirrors in a file: a line each, hosts separated by spaces.

    A ``#`` begins a comment. Raises FormatError for what is not a host, and for one that occurs
    twice.
    """
    groups: list[tuple[str, ...]] = []
    seen: set[str] = set()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise FormatError(path, f"byte {error.start}", "is not UTF-8") from error
    for number, line in enumerate(lines, 1):
        try:
            hosts = tuple(map(_host, line.partition("#")[0].split()))
        except ValueError as error:
            raise FormatError(path, f"line {number}", str(error)) from error
        for host in hosts:
            if host in seen:
                raise FormatError(path, f"line {number}", f"names {host} a second time")
            seen.add(host)
        if hosts:
            groups.append(hosts)
    return tuple(groups)


def _text(url: bytes) -> str:
    """Return ``url`` as text, without spaces around it; bytes that are not UTF-8 are escaped."""
    try:
        return url.strip().decode()
    except UnicodeDecodeError:
        return _HIGH_BYTES.sub(lambda byte: b"%%%02X" % byte[0][0], url.strip()).decode()


def _parsed(url: str) -> URL:
    """Return ``url`` as a browser reads it; NotAUrlError if it is no URL with a host."""
    try:
        import can_ada
    except ImportError as error:
        raise MrDedupError(
            "the canonical form of URLs needs can_ada: pip install 'mr-dedup[urls]'"
        ) from error
    try:
        parsed = can_ada.parse(url)
    except ValueError as error:
        has_scheme = re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#]", url)
        raise NotAUrlError(
            "not a URL: its host or port is not valid" if has_scheme else _NO_HOST
        ) from error
    if not parsed.hostname:
        raise NotAUrlError(_NO_HOST)
    return parsed


_NO_HOST = "has no scheme and host: expected such as https://example.org/"


def _host(name: str) -> str:
    """Return a host in canonical form; ValueError if it is not a host."""
    try:
        parsed = _parsed(f"http://{name}/")
    except NotAUrlError as error:
        raise ValueError(f"{name!r} is not a host") from error
    if parsed.href != f"http://{parsed.hostname}/":
        raise ValueError(f"{name!r} is not a host")
    return _canonical_host(parsed.hostname)


def _canonical_host(name: str) -> str:
    """Return a host that a browser has read without the dot at its end.

    Raises ValueError for one that no server can have: with an empty label, other characters than
    names in the DNS have, or too long.
    """
    # of other schemes than those of the web it is as it was
    name = name.removesuffix(".").lower()
    if not _HOST.fullmatch(name):
        raise ValueError(f"{name!r} is not a host")
    if len(name) > _MAX_HOST:
        raise ValueError(f"a host has at most {_MAX_HOST} characters")
    return name


def _with_few_escapes(text: str) -> str:
    """Return a path or query with unreserved characters unescaped, and escapes in capitals."""
    return _PERCENT.sub(_shortest, text) if "%" in text else text


def _shortest(escape: re.Match[str]) -> str:
    digits = escape.group(1)
    if digits is None:
        return "%25"
    character = chr(int(digits, 16))
    return character if character in _UNRESERVED else f"%{digits.upper()}"


def tracks(item: str) -> bool:
    """Return whether ``item`` of a query, ``name=value``, is a tracking parameter.

    >>> tracks("utm_source=feed"), tracks("page=2")
    (True, False)
    """
    name = _with_few_escapes(item.partition("=")[0]).lower()
    return name in TRACKING_NAMES or name.startswith(TRACKING_PREFIX)
