"""From a file of documents to its fingerprints, against what a JSON library alone takes for it.

One thread, JSON lines of made-up English and Chinese pages. The rival opens the file, and calls
``orjson.loads`` on each of its lines, keeping nothing; ``mr-dedup fingerprint -r inline`` reads,
checks, hashes and writes Parquet, started inside this process.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.inputs import SEED
from bench.measure import Mismatch, Row, interleaved, peak_bytes
from data_gen.documents import Collection, DocumentParameters
from mr_dedup.cli.main import main

_NAME = "documents"
_JSON = "orjson, line by line"
_FULL_BYTES = 600_000_000
_QUICK_BYTES = 4_000_000


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield the table's rows."""
    try:
        import orjson
    except ImportError:
        yield Row(_NAME, _JSON, note="skipped: orjson is not installed")
        return
    size = _QUICK_BYTES if quick else _FULL_BYTES
    with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder:
        for language in ("english", "chinese"):
            path = Path(folder, f"{language}.jsonl")
            count = _write(path, language, size)
            yield from _rows(path, language, count, orjson.loads, rounds)


def _rows(
    path: Path, language: str, count: int, loads: Callable[[bytes], object], rounds: int
) -> Iterator[Row]:
    out = path.with_suffix(".parquet")
    arguments = ["fingerprint", str(path), "-o", str(out), "--overwrite", "-r", "inline"]

    def ours() -> None:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            code = main(arguments)
        if code or f"documents: {count:,}," not in said.getvalue():
            raise Mismatch(f"{language}: not all of {count:,} documents: {said.getvalue()}")

    def theirs() -> None:
        with path.open("rb") as file:
            for line in file:
                loads(line)

    cases = {"mr-dedup fingerprint": ours, _JSON: theirs}
    timings = interleaved(cases, rounds, f"{_NAME}, {language}")
    size = path.stat().st_size
    for case, function in cases.items():
        yield Row(
            _NAME,
            f"{case}, {language}",
            timings.median(case),
            timings.ratio(case, _JSON) if case != _JSON else None,
            _JSON,
            peak_bytes(function),
            f"{size / timings.median(case) / 1e6:,.0f} MB/s",
        )


def _write(path: Path, language: str, size: int) -> int:
    """Write about ``size`` bytes of JSON lines; return how many documents they are."""
    parameters = DocumentParameters(1000, 0, SEED, language=language)
    lines = [
        json.dumps(
            {
                "id": f"{language}-{number}",
                "url": f"https://example.org/{language}/{number}",
                "text": "\n".join(text for _, text in document.page.blocks()),
                "date": "2024-01-01",
            },
            ensure_ascii=False,
        ).encode()
        + b"\n"
        for number, document in enumerate(Collection(parameters).documents())
    ]
    written = count = 0
    with path.open("wb") as file:
        while written < size:
            written += file.write(lines[count % len(lines)])
            count += 1
    return count
