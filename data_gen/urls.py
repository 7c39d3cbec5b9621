"""URLs as a crawler meets them: few pages often, many once, some spelled in another way.

A page has a number, and a URL made from it. Visits draw pages by Zipf's law and spell the URL as it
is, or as an alias of it. The truth counts visits of pages, whatever the spelling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data_gen.outputs import whole_folder
from data_gen.streams import Longs, Stream, block_sizes, scattered

TRUTH_FILE, REMOVALS_FILE, MIRRORS_FILE = "truth.tsv", "removals.txt", "mirrors.txt"
OWN_FILES = re.compile(r"truth\.tsv|removals\.txt|mirrors\.txt|visits-[0-9]{5}\.txt")
MAX_PAGES = 1 << 24
MAX_VISITS = 1 << 40
MAX_HOSTS = 1 << 20
MAX_FILES = 100_000

_WORDS = tuple(
    """
    about archive article author blog book career catalogue category city contact course data
    design detail event faq file forum gallery guide health help history home item job journal law
    library list map market media member museum music news note office page paper park photo post
    press product profile project public report research review school science search section
    service shop source sport story student support team topic travel
    """.split()  # noqa: SIM905 (a word is found more easily so)
)
_TOP_DOMAINS = ("org", "com", "net", "edu")
# no visit takes less
_LEAST_BYTES = 24


@dataclass(frozen=True)
class UrlParameters:
    """What to make; everything follows from it, byte for byte.

    - ``pages``: how many there are to visit; some may never be.
    - ``visits``: lines of URLs.
    - ``hosts``: over which pages are spread by Zipf's law too; half of them have a mirror.
    - ``zipf_exponent``: the r-th page is visited as 1 / r**s.
    - ``alias_share``: the share of visits spelled in another way, by the ``kinds`` in equal parts.
    - ``removals``: visited pages to be forgotten after all visits.
    - ``chunk_bytes``: the most that a file of visits holds; changes no line.

    Raises ValueError, naming the parameter and its value, where these do not fit.
    """

    pages: int
    visits: int
    seed: int
    hosts: int = 1000
    zipf_exponent: float = 0.8
    alias_share: float = 0.2
    kinds: tuple[str, ...] = ()
    removals: int = 0
    chunk_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        if not self.kinds:
            object.__setattr__(self, "kinds", KINDS)
        for name, least, most in (
            ("pages", 1, MAX_PAGES),
            ("visits", 0, MAX_VISITS),
            ("hosts", 1, MAX_HOSTS),
            ("zipf_exponent", 0, 1000),
            ("alias_share", 0, 1),
            ("removals", 0, MAX_PAGES),
            ("chunk_bytes", 1, MAX_VISITS),
        ):
            value = getattr(self, name)
            if not least <= value <= most:  # so written, it refuses NaN as well
                raise ValueError(f"{name} must be from {least:,} to {most:,}, not {value}")
        if not 0 <= self.seed < 1 << 64:
            raise ValueError(f"seed must be from 0 to 2**64 - 1, not {self.seed}")
        for kind in self.kinds:
            if kind not in KINDS:
                raise ValueError(f"kinds must be of {', '.join(KINDS)}, not {kind!r}")


@dataclass(frozen=True)
class Page:
    """The parts of a page's URL: its canonical spelling has them as they are."""

    scheme: str
    host: str
    path: str
    query: tuple[str, ...]
    has_mirror: bool

    def url(self) -> str:
        """Return the canonical spelling."""
        return _spelled(self.scheme, self.host, self.path, self.query)


def _spelled(scheme: str, host: str, path: str, query: tuple[str, ...], rest: str = "") -> str:
    return f"{scheme}://{host}{path}{'?' if query else ''}{'&'.join(query)}{rest}"


def _port(page: Page) -> str:
    number = {"http": 80, "https": 443}[page.scheme]
    return _spelled(page.scheme, f"{page.host}:{number}", page.path, page.query)


def _escape(page: Page) -> str:
    # the first letter of the path
    return _spelled(page.scheme, page.host, f"/%{ord(page.path[1]):02x}{page.path[2:]}", page.query)


def _index(page: Page) -> str:
    name = "index.html" if page.path.endswith("/") else ""
    return _spelled(page.scheme, page.host, page.path + name, page.query)


def _mirror(page: Page) -> str:
    host = f"www.{page.host}" if page.has_mirror else page.host
    return _spelled(page.scheme, host, page.path, page.query)


_SPELLINGS: dict[str, Callable[[Page], str]] = {
    "case": lambda page: _spelled(page.scheme.upper(), page.host.title(), page.path, page.query),
    "port": _port,
    "fragment": lambda page: f"{page.url()}#top",
    "dots": lambda page: _spelled(page.scheme, page.host, f"/./x/..{page.path}", page.query),
    "escape": _escape,
    "order": lambda page: _spelled(page.scheme, page.host, page.path, page.query[::-1]),
    "tracking": lambda page: _spelled(
        page.scheme, page.host, page.path, ("utm_source=feed", *page.query, "gclid=1a")
    ),
    "index": _index,
    "mirror": _mirror,
}
KINDS = tuple(_SPELLINGS)


@dataclass(frozen=True)
class Summary:
    """What was written: pages visited at least once, aliases among the visits, files, bytes."""

    visited: int
    aliases: int
    files: int
    bytes: int


class Web:
    """All pages of a set of parameters. Holds 24 bytes a page."""

    def __init__(self, parameters: UrlParameters) -> None:
        self._parameters = parameters
        self._limits = _zipf_limits(parameters.pages, parameters.zipf_exponent)
        hosts = _zipf_limits(parameters.hosts, 1.0)
        sizes = list(enumerate(block_sizes(parameters.pages)))
        seed = parameters.seed
        drawn = [Stream(seed, "hosts of pages", block).fractions(size) for block, size in sizes]
        self._hosts = np.searchsorted(hosts, np.concatenate(drawn), side="right")
        self._features = np.concatenate(
            [Stream(seed, "pages of urls", block).raw(size) for block, size in sizes]
        )

    def page(self, number: int) -> Page:
        """Return a page, 0 upwards."""
        host, bits = int(self._hosts[number]), int(self._features[number])
        words = [_WORDS[bits >> shift & 63] for shift in (0, 6, 12)]
        depth, folder, queries, secure = bits >> 18 & 3, bits >> 20 & 1, bits >> 21 & 3, bits >> 23
        path = "".join(f"/{word}" for word in words[:depth]) + f"/{words[2]}-{number}"
        query = (f"id={bits >> 32 & 0xFFFF}", f"view={words[1]}")
        return Page(
            "https" if secure & 3 else "http",
            self._host(host),
            path + "/" * folder,
            query if queries == 0 else (),
            host % 2 == 0,
        )

    def mirrors(self) -> Iterator[tuple[str, str]]:
        """Yield each host that has a mirror, and that."""
        for number in range(0, self._parameters.hosts, 2):
            host = self._host(number)
            yield host, f"www.{host}"

    def visits(self) -> Iterator[tuple[Longs, Longs]]:
        """Yield the numbers of visited pages, and how each is spelled: 0, or a kind from 1 on."""
        parameters = self._parameters
        limit = np.uint64(parameters.alias_share * 2**53)
        for block, size in enumerate(block_sizes(parameters.visits)):
            stream = Stream(parameters.seed, "visits", block)
            pages = np.searchsorted(self._limits, stream.fractions(size), side="right")
            kinds = stream.below(len(parameters.kinds), size) + np.uint64(1)
            kinds[stream.fractions(size) >= limit] = 0
            yield pages.astype(np.uint64), kinds

    def _host(self, number: int) -> str:
        word = _WORDS[number % len(_WORDS)]
        return f"{word}{number}.example.{_TOP_DOMAINS[number % len(_TOP_DOMAINS)]}"


def write(
    parameters: UrlParameters,
    folder: Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int], object] = lambda visits: None,
) -> Summary:
    """Write visits, truth.tsv, removals.txt and mirrors.txt to ``folder``, whole or not at all.

    ``folder`` is new or empty, or, with ``overwrite``, holds nothing but such files. Raises
    OutputError otherwise and where it cannot be written, ValueError if there are fewer visited
    pages than removals. Memory: 40 bytes a page. Time: 3 microseconds a visit.
    """
    web = Web(parameters)
    counts = np.zeros(parameters.pages, dtype=np.int64)
    aliases = 0
    with whole_folder(
        folder, OWN_FILES, overwrite=overwrite, least_bytes=parameters.visits * _LEAST_BYTES
    ) as new:
        files = _Chunks(new, parameters.chunk_bytes)
        for pages, kinds in web.visits():
            numbers = pages.astype(np.int64)
            counts += np.bincount(numbers, minlength=parameters.pages)
            aliases += int(np.count_nonzero(kinds))
            files.write(_lines(web, parameters.kinds, numbers.tolist(), kinds.tolist()))
            progress(len(numbers))
        files.close()
        visited = np.flatnonzero(counts)
        removed = _removed(parameters, visited)
        _write_truth(new, web, counts, visited, removed)
        pairs = (f"{host} {mirror}\n" for host, mirror in web.mirrors())
        _write_lines(new / MIRRORS_FILE, pairs)
        written = [entry.stat().st_size for entry in new.iterdir()]
    return Summary(len(visited), aliases, len(written), sum(written))


def _lines(
    web: Web, kinds: tuple[str, ...], pages: list[int], spellings: list[int]
) -> Iterator[bytes]:
    for number, spelling in zip(pages, spellings, strict=True):
        page = web.page(number)
        url = _SPELLINGS[kinds[spelling - 1]](page) if spelling else page.url()
        yield f"{url}\n".encode("ascii")


def _removed(parameters: UrlParameters, visited: NDArray[np.int64]) -> set[int]:
    if parameters.removals > len(visited):
        raise ValueError(
            f"removals must be at most {len(visited):,}, the pages visited, "
            f"not {parameters.removals}"
        )
    if not parameters.removals:
        return set()
    stream = Stream(parameters.seed, "removals of urls")
    places = scattered(stream, len(visited), parameters.removals)
    return set(visited[places.astype(np.int64)].tolist())


def _write_truth(
    folder: Path,
    web: Web,
    counts: NDArray[np.int64],
    visited: NDArray[np.int64],
    removed: set[int],
) -> None:
    """Write what was visited how often, and what is to be forgotten."""

    def rows() -> Iterator[str]:
        yield "url\tvisits\tremoved\n"
        for number in visited.tolist():
            yield f"{web.page(number).url()}\t{counts[number]}\t{int(number in removed)}\n"

    _write_lines(folder / TRUTH_FILE, rows())
    urls = (f"{web.page(number).url()}\n" for number in sorted(removed))
    _write_lines(folder / REMOVALS_FILE, urls)


def _write_lines(path: Path, lines: Iterator[str]) -> None:
    with path.open("w", encoding="ascii", newline="") as file:
        file.writelines(lines)


class _Chunks:
    """A series of files visits-00000.txt, … of lines, each of at most so many bytes or a line."""

    def __init__(self, folder: Path, chunk_bytes: int) -> None:
        self._folder, self._chunk_bytes = folder, chunk_bytes
        self._files = 0
        self._begin()

    def write(self, lines: Iterator[bytes]) -> None:
        for line in lines:
            if self._held and self._held + len(line) > self._chunk_bytes:
                self.close()
                self._begin()
            self._file.write(line)
            self._held += len(line)

    def close(self) -> None:
        self._file.close()

    def _begin(self) -> None:
        if self._files == MAX_FILES:
            raise ValueError(
                f"chunk_bytes must be large enough for at most {MAX_FILES:,} files, "
                f"not {self._chunk_bytes}"
            )
        path = self._folder / f"visits-{self._files:05}.txt"
        self._file = path.open("wb")  # closed by close
        self._files += 1
        self._held = 0


def _zipf_limits(size: int, exponent: float) -> Longs:
    """Return below which of 2**53 fractions each rank is drawn; as distributions.Zipf has it."""
    ranks = np.arange(1, size + 1, dtype=np.float64)
    heaped = np.cumsum(np.rint(2.0**32 * ranks**-exponent))
    limits: Longs = (heaped / heaped[-1] * 2.0**53).astype(np.uint64)
    return limits
