"""Fingerprints of a file of documents, beside a JSON parser alone.

One thread, JSON lines of made-up English and Chinese pages. The rival calls ``orjson.loads`` on
each line of the file; ``mr-dedup fingerprint -r inline``, called inside this process, reads,
validates, hashes and writes Parquet.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.inputs import page_texts
from bench.measure import Mismatch, Row, case_row, interleaved, peak_bytes
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
        with contextlib.redirect_stderr(io.StringIO()) as messages:
            code = main(arguments)
        if code or f"documents: {count:,}," not in messages.getvalue():
            raise Mismatch(f"{language}: not all of {count:,} documents: {messages.getvalue()}")

    def theirs() -> None:
        with path.open("rb") as file:
            for line in file:
                loads(line)

    cases = {"mr-dedup fingerprint": ours, _JSON: theirs}
    timings = interleaved(cases, rounds, f"{_NAME}, {language}")
    size = path.stat().st_size
    for case, function in cases.items():
        yield case_row(
            _NAME, case, timings, _JSON,
            name=f"{case}, {language}",
            memory_bytes=peak_bytes(function),
            note=f"{size / timings.median(case) / 1e6:,.0f} MB/s",
        )  # fmt: skip


def _write(path: Path, language: str, size: int) -> int:
    """Write about ``size`` bytes of JSON lines; return the number of documents."""
    lines = [
        json.dumps(
            {
                "id": f"{language}-{number}",
                "url": f"https://example.org/{language}/{number}",
                "text": text,
                "date": "2024-01-01",
            },
            ensure_ascii=False,
        ).encode()
        + b"\n"
        for number, text in enumerate(page_texts(1000, language))
    ]
    written = count = 0
    with path.open("wb") as file:
        while written < size:
            written += file.write(lines[count % len(lines)])
            count += 1
    return count
