"""``python -m bench.field CORPUS --out FILE.json``: run tools on a corpus and measure them.

FILE.json is written after each run. If it exists, tools that are not run again stay in it. With
``--smaller``, the results on a smaller corpus, tools that would take too long are not run.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.field import environments, results
from bench.field.measure import Corpus, Measured, Setting, measure
from bench.field.running import Limits
from bench.field.tools import TOOLS, chosen


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tools that the command line names; return the exit code."""
    parser = _parser()
    options = parser.parse_args(argv)
    # else what a tool started would go on
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        tools = chosen(options.tools) if options.tools else list(TOOLS)
        earlier = results.read(options.out) if options.out.exists() else None
        corpus = Corpus.read(options.corpus.resolve(), options.truth)
        limits = Limits(options.limit, int(options.memory * 2**30))
        # whether the earlier results are of this corpus
        results.updated(earlier, results.result_of(corpus, limits))
        not_run = {}
        if options.smaller:
            smaller = results.read(options.smaller)
            not_run = results.not_to_be_run(smaller, corpus.text_bytes, limits)
        folder = options.environments.resolve()
        if options.install:
            for name in dict.fromkeys(tool.environment for tool in tools):
                environments.make_or_report(name, folder)
        if options.work:
            options.work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=options.work, prefix="field-") as work:
            setting = Setting(limits, options.rounds, folder, Path(work), not_run)
            for measured in measure(tools, corpus, setting):
                result = results.updated(earlier, results.result_of(corpus, limits, measured))
                results.write(options.out, result)
                print(_line(measured), file=sys.stderr, flush=True)
                earlier = result
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return 0


def _line(measured: Measured) -> str:
    """Return what happened last."""
    if not measured.rounds:
        return f"{measured.tool}: {measured.state}"
    seconds = measured.rounds[-1]["cpu_seconds"]
    return f"{measured.tool}: {measured.state}, {seconds:.1f} CPU seconds"


def _parser() -> argparse.ArgumentParser:
    known = "\n".join(f"  {tool.name:<28} {tool.settings}" for tool in TOOLS)
    parser = argparse.ArgumentParser(
        prog="python -m bench.field",
        description=__doc__.split("\n")[0],
        epilog=f"tools:\n{known}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("corpus", type=Path, help="a directory of Parquet files: id, text")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the results")
    parser.add_argument(
        "--tools", nargs="+", metavar="NAME", help="some tools; with wildcards, as in 'datatrove*'"
    )
    parser.add_argument(
        "--truth", type=Path, metavar="DIR", help="the output of bench.field.truth, for quality"
    )
    parser.add_argument(
        "--limit", type=float, default=900, metavar="SECONDS", help="of a run (default 900)"
    )
    parser.add_argument(
        "--memory", type=float, default=16, metavar="GIBIBYTES", help="of a run (default 16)"
    )
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="default 1")
    parser.add_argument(
        "--environments", type=Path, default=Path(".field/tools"), metavar="DIR",
        help="what bench.field.environments made (default .field/tools)",
    )  # fmt: skip
    parser.add_argument(
        "--install", action="store_true", help="make the environments that are missing"
    )
    parser.add_argument(
        "--smaller", type=Path, metavar="FILE", help="the results on a smaller corpus"
    )
    parser.add_argument("--work", type=Path, metavar="DIR", help="for temporary files")
    return parser


if __name__ == "__main__":
    sys.exit(main())
