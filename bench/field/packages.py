"""Releases of packages, and the manifest that lists them with their checksums."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

MANIFEST = Path(__file__).parent / "manifest.tsv"

REGISTRIES = ("debian", "go", "npm", "pypi")


class Package(NamedTuple):
    """One release of a package.

    Attributes:
        registry: one of REGISTRIES.
        name: as the client of the registry takes it.
        version: the same.
        sha256: of the archive, hexadecimal; empty if it is not known yet.
    """

    registry: str
    name: str
    version: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.registry}:{self.name}@{self.version}"


class PackageError(Exception):
    """A package that cannot be used: not served, not as the manifest says, damaged, not free."""


def read_manifest(path: Path = MANIFEST) -> list[Package]:
    """Return the packages of a manifest, in its order.

    Each line has four columns, separated by tabs: those of ``Package``.

    Raises:
        ValueError: for another line, or a package that an earlier line has.
    """
    packages: dict[tuple[str, ...], Package] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.reader(file, delimiter="\t"), 1):
            if len(row) != len(Package._fields) or row[0] not in REGISTRIES:
                raise ValueError(f"{path}:{number}: not a registry, name, version and SHA-256")
            package = Package(*row)
            if packages.setdefault(package[:3], package) is not package:
                raise ValueError(f"{path}:{number}: {package} is listed twice")
    return list(packages.values())


def write_manifest(packages: Iterable[Package], path: Path = MANIFEST) -> None:
    """Write the manifest that ``read_manifest`` reads, whole or not at all."""
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t", lineterminator="\n").writerows(packages)
    partial.replace(path)
