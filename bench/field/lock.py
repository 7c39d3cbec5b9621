"""``python -m bench.field.lock CORPUS…``: write to the manifest what corpora were made from.

Packages of a corpus get the SHA-256 of their archives; those that failed are removed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.field.packages import MANIFEST, Package, read_manifest, write_manifest
from bench.field.parts import Parts, Summary, total


def locked(packages: Iterable[Package], summary: Summary) -> list[Package]:
    """Return the packages with the SHA-256 that a corpus has, without those that failed."""
    found = {taken.package: taken.archive_sha256 for taken in summary.packages}
    return [
        package._replace(sha256=found.get(str(package), package.sha256))
        for package in packages
        if str(package) not in summary.errors
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Update the manifest, also while a corpus is being made."""
    parser = argparse.ArgumentParser(prog="python -m bench.field.lock")
    parser.add_argument("corpora", nargs="+", type=Path, metavar="CORPUS")
    parser.add_argument("--manifest", type=Path, default=MANIFEST)
    options = parser.parse_args(argv)
    summaries = [summary for folder in options.corpora for summary in Parts(folder).summaries]
    packages = locked(read_manifest(options.manifest), total(summaries))
    write_manifest(packages, options.manifest)
    known = sum(bool(package.sha256) for package in packages)
    print(f"{len(packages)} packages, {known} with SHA-256")


if __name__ == "__main__":
    main()
