"""Documents and objects in a store on this machine, beside the same files on disk.

The store is moto's server of S3, a process that shares the cores with the programs that read from
it. Made-up pages are JSON lines in 20 objects of about 100 MB; some of them are also 2,000 small
objects in 20 directories. Each program is a process of its own, in wall time from start to end.
Results from the store must equal those of the local files. Copies are compared with their MD5, as
the store reports it for objects that one request uploaded.

moto reads a whole object for each range that is requested of it: a program that reads ranges of
some size cannot be faster than GETs of such ranges.

The full size needs 10 GB of disk in TMPDIR. A round takes minutes, so there are at most 3.
"""

from __future__ import annotations

import filecmp
import importlib.util
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from bench import processes
from bench.inputs import SEED
from bench.measure import Mismatch, Row, Timings, case_row, interleaved, wall_clock
from bench.s3_server import BUCKET, PACKAGES, Server, serving
from bench.store_readers import checksum
from mr_dedup.storage.fetching import piece_bytes

_NAME = "stores"
_MAX_ROUNDS = 3
_TEXT = b'"text": "'
_LETTERS = b"ghijklmopqsvwxyz"
"""Those that no escape sequence of JSON has."""


@dataclass(frozen=True)
class Sizes:
    """How much is stored.

    Args:
        originals: generated pages, with one near-duplicate each.
        file_size: the size of generated files, in binary units.
        variations: how many files are made of each of these.
        folders: directories of small objects.
        folder_objects: small objects in each.
        documents: documents in each small object.
    """

    originals: int
    file_size: str
    variations: int
    folders: int
    folder_objects: int
    documents: int = 5


FULL = Sizes(66_000, "95MB", 5, folders=20, folder_objects=100)
QUICK = Sizes(680, "2MB", 2, folders=4, folder_objects=25)


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield the rows of the table; raise Mismatch if results from the store are others."""
    missing = [name for name in (*PACKAGES, "s3fs") if importlib.util.find_spec(name) is None]
    if missing:
        yield Row(_NAME, "all", note=f"skipped: {', '.join(missing)}: not installed")
        return
    sizes, rounds = QUICK if quick else FULL, min(rounds, _MAX_ROUNDS)
    with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder, serving() as server:
        pages = write_pages(Path(folder, "pages"), sizes)
        yield from _page_rows(pages, server, rounds)
        small = write_small(Path(folder, "small"), pages, sizes)
        yield from _small_rows(small, server, rounds)


def write_pages(folder: Path, sizes: Sizes) -> Path:
    """Write made-up pages to files of JSON lines in a new directory, and return this.

    Generated files are written ``variations`` times, with letters of the texts permuted: nearly all
    words differ.
    """
    folder.mkdir()
    with tempfile.TemporaryDirectory(dir=folder.parent) as generated:
        command = [sys.executable, "-m", "data_gen", "documents", "--out", generated]
        command += ["--documents", str(sizes.originals), "--duplicates-per-document", "1"]
        processes.run([*command, "--seed", str(SEED), "--chunk-size", sizes.file_size])
        for path in sorted(Path(generated).glob("*.jsonl")):
            for number in range(sizes.variations):
                with (
                    path.open("rb") as lines,
                    (folder / f"{number}-{path.name}").open("wb") as file,
                ):
                    file.writelines(_varied(line, number) for line in lines)
    return folder


def _varied(line: bytes, number: int) -> bytes:
    """Return a document as JSON with another id and other words."""
    fields, mark, text = line.partition(_TEXT)
    letters = bytes.maketrans(_LETTERS, _LETTERS[number:] + _LETTERS[:number])
    return fields.replace(b'"id": "', b'"id": "%d-' % number) + mark + text.translate(letters)


def write_small(folder: Path, pages: Path, sizes: Sizes) -> Path:
    """Write the first documents of ``pages`` to small files in directories of ``folder``."""
    with min(pages.iterdir()).open("rb") as lines:
        for number in range(sizes.folders):
            below = folder / f"{number:03}"
            below.mkdir(parents=True)
            for part in range(sizes.folder_objects):
                documents = list(islice(lines, sizes.documents))
                (below / f"{part:03}.jsonl").write_bytes(b"".join(documents))
    return folder


@dataclass
class _Program:
    """A program that reads from the server, or that is compared with one.

    Args:
        command: the program and its arguments.
        server: the server.
        size_bytes: how much it reads; 0 if it only lists.
        of: the case that it is compared with; itself for the base of a ratio.
    """

    command: Sequence[str]
    server: Server
    size_bytes: int
    of: str
    usages: list[processes.Usage] = field(default_factory=list)
    server_seconds: list[float] = field(default_factory=list)

    def run(self) -> float:
        """Run it; return the seconds of wall time."""
        before = self.server.cpu_seconds
        self.usages.append(processes.measure(self.command, variables=self.server.variables))
        self.server_seconds.append(self.server.cpu_seconds - before)
        return self.usages[-1].seconds

    def row(self, case: str, timings: Timings, objects: str, note: str = "") -> Row:
        """Return its row: medians of the rounds after the one that warms up."""
        speed = self.size_bytes / timings.median(case) / 1e6
        cpu_seconds = statistics.median(usage.cpu_seconds for usage in self.usages[1:])
        server_seconds = statistics.median(self.server_seconds[1:])
        notes = [f"{speed:,.0f} MB/s"] if self.size_bytes else []
        notes += [f"{cpu_seconds:.3g} s of CPU time"]
        notes += [f"{server_seconds:.2f} s of the server"] if server_seconds else []
        notes += [note] if note else []
        return case_row(
            _NAME, case, timings, self.of,
            name=f"{case}, {objects}",
            memory_bytes=max(usage.peak_bytes for usage in self.usages),
            note="; ".join(notes),
        )  # fmt: skip


def _page_rows(pages: Path, server: Server, rounds: int) -> Iterator[Row]:
    urls, uri = server.upload(pages), f"s3://{BUCKET}/{pages.name}"
    size = sum(path.stat().st_size for path in pages.iterdir())
    piece = piece_bytes(uri)
    whole, ranges, copies = "GETs", f"GETs of {piece >> 20} MB", "copies"
    programs = {
        whole: _Program(_reader("get", "0", *urls), server, size, whole),
        ranges: _Program(_reader("get", str(piece), *urls), server, size, whole),
        copies: _Program(_reader("copies", uri), server, size, whole),
    }
    outputs = dict[str, list[Path]]()
    for command in ("fingerprint", "dedup"):
        pair, outputs[command] = _beside_local(command, pages, uri, server, size)
        programs |= pair
    _require_equal_copies(uri, pages, server)
    timings = _timed(programs, rounds, f"{_NAME}, pages")
    require_equal_files(*outputs["fingerprint"])
    require_equal_results(*outputs["dedup"])
    objects = f"{len(urls)} x {size / len(urls) / 1e6:.0f} MB"
    for case, program in programs.items():
        yield program.row(case, timings, objects)


def _require_equal_copies(uri: str, folder: Path, server: Server) -> None:
    """Raise Mismatch unless copies of the files below a URI equal those of a directory."""
    out = folder.with_name("checksums.json")
    processes.measure(_reader("copies", uri, str(out)), variables=server.variables)
    if json.loads(out.read_text()) != {path.name: checksum(path) for path in folder.iterdir()}:
        raise Mismatch(f"copies of {uri} differ from the files that were uploaded")


def _small_rows(small: Path, server: Server, rounds: int) -> Iterator[Row]:
    server.upload(small)
    uri = f"s3://{BUCKET}/{small.name}"
    sizes = {
        path.relative_to(small).as_posix(): path.stat().st_size for path in small.rglob("*.jsonl")
    }
    paginator, ours = "boto3's paginator", "list_files"
    lists = {paginator: small.with_name("paginator.json"), ours: small.with_name("ours.json")}
    programs = {
        case: _Program(_reader(reader, uri, str(lists[case])), server, 0, paginator)
        for case, reader in ((paginator, "paginator"), (ours, "list_files"))
    }
    pair, outputs = _beside_local("fingerprint", small, uri, server, sum(sizes.values()))
    programs |= pair
    timings = _timed(programs, rounds, f"{_NAME}, small objects")
    require_equal_files(*outputs)
    for case, program in programs.items():
        note = ""
        if case in lists:
            found = json.loads(lists[case].read_text())
            if found["files"] != sizes:
                raise Mismatch(f"{case}: {len(found['files'])} files, not those that are stored")
            note = f"{found['seconds']:.2f} s in the call of the last round"
        yield program.row(case, timings, f"{len(sizes):,} small objects", note)


def _timed(programs: Mapping[str, _Program], rounds: int, name: str) -> Timings:
    cases = {case: program.run for case, program in programs.items()}
    return interleaved(cases, rounds, name, wall_clock)


def _reader(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bench.store_readers", *arguments]


def _beside_local(
    command: str, folder: Path, uri: str, server: Server, size_bytes: int
) -> tuple[dict[str, _Program], list[Path]]:
    """Return a command of mr-dedup on a directory and on its copy in the store, and the outputs."""
    local = f"{command} of local files"
    ending = ".parquet" if command == "fingerprint" else ""
    programs, outputs = dict[str, _Program](), list[Path]()
    for case, source in ((local, str(folder)), (f"{command} of s3://", uri)):
        out = folder.with_name(f"{folder.name}-{command}-{len(outputs)}{ending}")
        words = [sys.executable, "-m", "mr_dedup", command, source, "-o", str(out), "--overwrite"]
        programs[case] = _Program(words, server, size_bytes, local)
        outputs.append(out)
    return programs, outputs


def require_equal_files(one: Path, other: Path) -> None:
    """Raise Mismatch unless two files have the same bytes."""
    if not filecmp.cmp(one, other, shallow=False):
        raise Mismatch(f"{other.name} differs from {one.name}")


def require_equal_results(one: Path, other: Path) -> None:
    """Raise Mismatch unless two results of dedup have the same files but for times and names."""
    described = ("summary.json", "report.html")
    names = [
        sorted(path.relative_to(out) for path in out.rglob("*") if path.is_file())
        for out in (one, other)
    ]
    if names[0] != names[1]:
        raise Mismatch(f"{other.name} has other files than {one.name}")
    for name in names[0]:
        if name.name not in described:
            require_equal_files(one / name, other / name)
