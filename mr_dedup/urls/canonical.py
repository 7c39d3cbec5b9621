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
from urllib.parse import SplitResult, urlsplit, urlunsplit

from mr_dedup.errors import FormatError, MrDedupError

_DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21, "ws": 80, "wss": 443}

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

_PLAIN_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_IP_V6 = re.compile(r"[0-9a-f:.]+(%[\w.~-]+)?")
_MAX_HOST = 253
_HIGH_BYTES = re.compile(rb"[\x80-\xff]")


class NotAUrlError(MrDedupError):
    """A string is not a URL; the message has the reason."""


@dataclass(frozen=True)
class UrlForm:
    """The form that URLs are brought to: w3lib's canonical form and more, or none.

    In the canonical form schemes and hosts are in lower case, hosts in ASCII (IDNA 2008, mapped by
    UTS 46) without a dot at their end, default ports are removed, ``.`` and ``..`` resolved,
    escapes in capitals and only where they are needed, parameters sorted. Takes 15 microseconds a
    URL.

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
        try:
            from w3lib.url import canonicalize_url
        except ImportError as error:
            raise _needs("w3lib") from error
        text = _text(url)
        try:
            parts = urlsplit(text)
            port = parts.port
            if not parts.scheme or not parts.netloc:
                raise NotAUrlError("has no scheme and host: expected such as https://example.org/")
            host = _host(parts.hostname or "")
            prepared = self._prepared(parts, self._canonical_hosts.get(host, host), port)
            form = canonicalize_url(urlunsplit(prepared), keep_fragments=self.keep_fragments)
        except ValueError as error:
            raise NotAUrlError(f"not a URL: {error}") from error
        return form.encode()

    def of_each(self, urls: list[bytes]) -> list[bytes]:
        """Return ``urls`` in this form; raises as ``of``."""
        if not self.canonical and all(urls):
            return urls
        return [self.of(url) for url in urls]

    @functools.cached_property
    def _canonical_hosts(self) -> dict[str, str]:
        return {host: group[0] for group in self.mirrors for host in group}

    def _prepared(self, parts: SplitResult, host: str, port: int | None) -> SplitResult:
        """Return ``parts`` with the changes of this form that w3lib does not make."""
        user, at, _ = parts.netloc.rpartition("@")
        netloc = user + at + (f"[{host}]" if ":" in host else host)
        if port is not None and port != _DEFAULT_PORTS.get(parts.scheme):
            netloc += f":{port}"
        path = parts.path
        if self.drop_index:
            folder, slash, name = path.rpartition("/")
            path = folder + slash if name.lower() in INDEX_NAMES else path
        query = parts.query
        if self.drop_tracking and query:
            query = "&".join(item for item in query.split("&") if not tracks(item))
        return parts._replace(netloc=netloc, path=path, query=query)

    def describe(self) -> str:
        """Return the form in a few words, for messages."""
        if not self.canonical:
            return "as given"
        names = ("keep_fragments", "drop_index", "drop_tracking", "mirrors")
        chosen = [name.replace("_", " ") for name in names if getattr(self, name)]
        return ", ".join(["canonical", *chosen])

    def to_text(self) -> str:
        """Return the form as text, as stores have it."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_text(cls, text: str) -> UrlForm:
        """Return the form that ``to_text`` returned ``text`` for."""
        fields = json.loads(text)
        fields["mirrors"] = tuple(map(tuple, fields["mirrors"]))
        return cls(**fields)


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
            hosts = tuple(_host(name.lower()) for name in line.partition("#")[0].split())
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


def _host(name: str) -> str:
    """Return a lower-case host in canonical form; ValueError if it is not a host."""
    name = name.rstrip(".")
    if not _PLAIN_HOST.fullmatch(name) and not (":" in name and _IP_V6.fullmatch(name)):
        try:
            import idna
        except ImportError as error:
            raise _needs("idna") from error
        try:
            name = idna.encode(name, uts46=True).decode().rstrip(".")
        except idna.IDNAError as error:
            raise ValueError(f"{name!r} is not a host: {error}") from error
    if len(name) > _MAX_HOST:
        raise ValueError(f"a host has at most {_MAX_HOST} characters")
    return name


def _needs(package: str) -> MrDedupError:
    return MrDedupError(f"the canonical form of URLs needs {package}: pip install 'mr-dedup[urls]'")


def tracks(item: str) -> bool:
    """Return whether ``item`` of a query, ``name=value``, is a tracking parameter.

    >>> tracks("utm_source=feed"), tracks("page=2")
    (True, False)
    """
    name = item.partition("=")[0].lower()
    return name in TRACKING_NAMES or name.startswith(TRACKING_PREFIX)
