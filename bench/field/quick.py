"""``python -m bench.field.quick FOLDER``: see that quality is not below its floors, on 20 MB.

The corpus and its truth are made in FOLDER unless they are there. Ours is run, and datasketch if it
is installed here, for comparison. The exit code is 1 if ours is below a floor; there are none of
time.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from bench.field.measure import Corpus, Measured, Setting, measure
from bench.field.page import table
from bench.field.running import DONE, Limits
from bench.field.tools import chosen

_GIGABYTES = "0.02"
_LIMITS = Limits(300, 4 << 30)


class Floor(NamedTuple):
    """The least quality at a similarity of 0.8.

    Attributes:
        recall: the share of pairs of which one document must be dropped.
        precision: the share of dropped documents that must be similar to their kept one.
    """

    recall: float
    precision: float


FLOORS = {
    "mr-dedup": Floor(0.998, 1.0),
    "mr-dedup local": Floor(0.998, 1.0),
    "mr-dedup simhash": Floor(0.99, 1.0),
    "mr-dedup exact": Floor(0.62, 1.0),
}


def below_floors(measured: Sequence[Measured]) -> list[str]:
    """Return a line for each tool that is below its floor, or was not done."""
    lines = []
    for each in measured:
        floor = FLOORS.get(each.tool)
        if floor is None:
            continue
        if each.state != DONE or not each.quality:
            lines.append(f"{each.tool}: {each.state}: {each.said}")
            continue
        quality = each.quality[0]
        for name, least in (("recall", floor.recall), ("precision_named", floor.precision)):
            found = getattr(quality, name)
            if found is None or found < least:
                lines.append(f"{each.tool}: {name} is {found}, less than {least}")
    return lines


def run(corpus: Corpus, work: Path) -> list[Measured]:
    """Return what was measured of the tools that are installed here."""
    names = [*FLOORS, *(["datasketch aligned"] if importlib.util.find_spec("datasketch") else [])]
    tools = [replace(tool, environment="") for tool in chosen(names)]
    return list(measure(tools, corpus, Setting(_LIMITS, 1, work, work)))


def _made(folder: Path) -> Corpus:
    """Return the corpus in a directory, with its truth; make both unless they are there."""
    corpus, truth = folder / _GIGABYTES, folder / f"truth-{_GIGABYTES}"
    cache = ["--cache", str(folder / "archives")]
    _run("bench.field.corpus", _GIGABYTES, str(corpus), *cache)
    if not truth.exists():
        _run("bench.field.truth", str(corpus), str(truth))
    return Corpus.read(corpus, truth)


def _run(module: str, *words: str) -> None:
    subprocess.run([sys.executable, "-m", module, *words], check=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if something is below its floor."""
    parser = argparse.ArgumentParser(prog="python -m bench.field.quick")
    parser.add_argument("folder", type=Path, help="for the corpus and its truth")
    folder = parser.parse_args(argv).folder.resolve()
    try:
        corpus = _made(folder)
        with tempfile.TemporaryDirectory() as work:
            measured = run(corpus, Path(work))
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        parser.error(str(error))
    print(table(measured, corpus.documents, corpus.text_bytes))
    lines = below_floors(measured)
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
