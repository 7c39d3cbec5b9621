"""Streams of URLs as of a crawler: few pages occur often, many once, some under aliases.

A page has a number and a canonical URL. Visits draw pages by Zipf's law, and use the canonical URL
or an alias. The truth counts visits of pages under all their URLs.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from data_gen.distributions import check_range, zipf_limits
from data_gen.outputs import NumberedFiles, whole_folder
from data_gen.streams import Longs, Stream, block_sizes, scattered

TRUTH_FILE, REMOVALS_FILE, MIRRORS_FILE = "truth.tsv", "removals.txt", "mirrors.txt"
OWN_FILES = re.compile(r"truth\.tsv|removals\.txt|mirrors\.txt|visits-[0-9]{5}\.txt")
MAX_PAGES = 1 << 24
MAX_VISITS = 1 << 40
MAX_HOSTS = 1 << 20

_WORDS = tuple(
    """
    about archive article author blog book career catalogue category city contact course data
    design detail event faq file forum gallery guide health help history home item job journal law
    library list map market media member museum music news note office page paper park photo post
    press product profile project public report research review school science search section
    service shop source sport story student support team topic travel
    """.split()  # noqa: SIM905 (easier to read)
)
_TOP_DOMAINS = ("org", "com", "net", "edu")
# the size of the shortest URL
_MIN_URL_BYTES = 24


@dataclass(frozen=True)
class UrlParameters:
    """The parameters of a data set, which determine every byte of it.

    Args:
        pages: how many pages there are; some may never be visited.
        visits: how many lines of URLs.
        seed: of the random numbers, from 0 to 2**64 - 1.
        hosts: how many hosts; the number of pages of a host follows Zipf's law, and half of the
            hosts have a mirror.
        zipf_exponent: the r-th page is visited with a frequency like 1 / r**s.
        alias_share: the share of visits by an alias.
        kinds: the kinds of aliases, equally likely.
        removals: how many visited pages are to be removed after all visits.
        chunk_bytes: the size of a file of visits; it changes no line.

    Raises:
        ValueError: for a parameter out of range, naming it and its value.
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
        for name, minimum, maximum in (
            ("pages", 1, MAX_PAGES),
            ("visits", 0, MAX_VISITS),
            ("hosts", 1, MAX_HOSTS),
            ("zipf_exponent", 0, 1000),
            ("alias_share", 0, 1),
            ("removals", 0, MAX_PAGES),
            ("chunk_bytes", 1, MAX_VISITS),
        ):
            check_range(name, getattr(self, name), minimum, maximum)
        if not 0 <= self.seed < 1 << 64:
            raise ValueError(f"seed must be from 0 to 2**64 - 1, not {self.seed}")
        for kind in self.kinds:
            if kind not in KINDS:
                raise ValueError(f"kinds must be of {', '.join(KINDS)}, not {kind!r}")


@dataclass(frozen=True)
class Page:
    """The parts of the URL of a page, in canonical form."""

    scheme: str
    host: str
    path: str
    query: tuple[str, ...]
    has_mirror: bool

    def url(self) -> str:
        """Return the canonical URL."""
        return _joined(self.scheme, self.host, self.path, self.query)


def _joined(scheme: str, host: str, path: str, query: tuple[str, ...], rest: str = "") -> str:
    return f"{scheme}://{host}{path}{'?' if query else ''}{'&'.join(query)}{rest}"


def _port(page: Page) -> str:
    number = {"http": 80, "https": 443}[page.scheme]
    return _joined(page.scheme, f"{page.host}:{number}", page.path, page.query)


def _escape(page: Page) -> str:
    # the first letter of the path
    return _joined(page.scheme, page.host, f"/%{ord(page.path[1]):02x}{page.path[2:]}", page.query)


def _index(page: Page) -> str:
    name = "index.html" if page.path.endswith("/") else ""
    return _joined(page.scheme, page.host, page.path + name, page.query)


def _mirror(page: Page) -> str:
    host = f"www.{page.host}" if page.has_mirror else page.host
    return _joined(page.scheme, host, page.path, page.query)


_ALIASES: dict[str, Callable[[Page], str]] = {
    "case": lambda page: _joined(page.scheme.upper(), page.host.title(), page.path, page.query),
    "port": _port,
    "fragment": lambda page: f"{page.url()}#top",
    "dots": lambda page: _joined(page.scheme, page.host, f"/./x/..{page.path}", page.query),
    "escape": _escape,
    "order": lambda page: _joined(page.scheme, page.host, page.path, page.query[::-1]),
    "tracking": lambda page: _joined(
        page.scheme, page.host, page.path, ("utm_source=feed", *page.query, "gclid=1a")
    ),
    "index": _index,
    "mirror": _mirror,
}
KINDS = tuple(_ALIASES)


@dataclass(frozen=True)
class Summary:
    """Pages visited at least once, visits by aliases, files and bytes written."""

    visited: int
    aliases: int
    files: int
    bytes: int


class Web:
    """The pages of a data set. Takes 24 bytes a page in memory."""

    def __init__(self, parameters: UrlParameters) -> None:
        self._parameters = parameters
        self._limits = zipf_limits(parameters.pages, parameters.zipf_exponent)
        hosts = zipf_limits(parameters.hosts, 1.0)
        sizes = list(enumerate(block_sizes(parameters.pages)))
        seed = parameters.seed
        drawn = [Stream(seed, "hosts of pages", block).fractions(size) for block, size in sizes]
        self._hosts = np.searchsorted(hosts, np.concatenate(drawn), side="right")
        self._features = np.concatenate(
            [Stream(seed, "pages of urls", block).raw(size) for block, size in sizes]
        )

    def page(self, number: int) -> Page:
        """Return the page with a number from 0 on."""
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
        """Yield each host that has a mirror, with the mirror."""
        for number in range(0, self._parameters.hosts, 2):
            host = self._host(number)
            yield host, f"www.{host}"

    def visits(self) -> Iterator[tuple[Longs, Longs]]:
        """Yield the numbers of visited pages, and the kinds of aliases from 1 on, 0 for none."""
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
    """Write visits, truth.tsv, removals.txt and mirrors.txt to a directory, completely or not at
    all.

    Takes 40 bytes of memory a page, and 3 microseconds a visit.

    Args:
        parameters: of the data set.
        folder: new or empty; with ``overwrite`` it may contain only such files.
        overwrite: replace the files of ``folder``.
        progress: is called with numbers of visits as they are written.

    Raises:
        OutputError: if the directory cannot be written.
        ValueError: if fewer pages are visited than are to be removed.
    """
    web = Web(parameters)
    counts = np.zeros(parameters.pages, dtype=np.int64)
    aliases = 0
    with whole_folder(
        folder, OWN_FILES, overwrite=overwrite, min_bytes=parameters.visits * _MIN_URL_BYTES
    ) as new:

        def open_file(number: str, stack: contextlib.ExitStack) -> IO[bytes]:
            return stack.enter_context((new / f"visits-{number}.txt").open("wb"))

        with NumberedFiles(open_file, parameters.chunk_bytes) as files:
            for pages, kinds in web.visits():
                numbers = pages.astype(np.int64)
                counts += np.bincount(numbers, minlength=parameters.pages)
                aliases += int(np.count_nonzero(kinds))
                for line in _lines(web, parameters.kinds, numbers.tolist(), kinds.tolist()):
                    files.write(line)
                progress(len(numbers))
        visited = np.flatnonzero(counts)
        removed = _removed(parameters, visited)
        _write_truth(new, web, counts, visited, removed)
        pairs = (f"{host} {mirror}\n" for host, mirror in web.mirrors())
        _write_lines(new / MIRRORS_FILE, pairs)
        written = [entry.stat().st_size for entry in new.iterdir()]
    return Summary(len(visited), aliases, len(written), sum(written))


def _lines(
    web: Web, kinds: tuple[str, ...], pages: list[int], aliases: list[int]
) -> Iterator[bytes]:
    for number, alias in zip(pages, aliases, strict=True):
        page = web.page(number)
        url = _ALIASES[kinds[alias - 1]](page) if alias else page.url()
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
    rows = scattered(stream, len(visited), parameters.removals)
    return set(visited[rows.astype(np.int64)].tolist())


def _write_truth(
    folder: Path,
    web: Web,
    counts: NDArray[np.int64],
    visited: NDArray[np.int64],
    removed: set[int],
) -> None:
    """Write truth.tsv and removals.txt."""

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
