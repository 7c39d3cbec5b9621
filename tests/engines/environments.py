"""Environments as users pack them for nodes, made of what is installed here."""

import sys
import sysconfig
import tarfile
from collections.abc import Collection
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

import mr_dedup

_LEFT_OUT = {"__pycache__", "site-packages", "test", "idlelib", "tkinter", "ensurepip"}


def pack_needs(path: Path) -> Path:
    """Pack what ``pip install --target env mr-dedup`` brings, but mr_dedup itself."""
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        _add_distributions(archive, "", ())
    return path


def pack_python(path: Path, *, seen: Path, extras: Collection[str] = ()) -> Path:
    """Pack a Python with mr-dedup, laid out as conda-pack does it.

    Each process of it leaves an empty file in ``seen``, named by its number.
    """
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        base = Path(sys.base_prefix)
        archive.add(base / "bin" / version, f"bin/{version}")
        link = tarfile.TarInfo("bin/python")
        link.type, link.linkname = tarfile.SYMTYPE, version
        archive.addfile(link)
        library = base / "lib" / sysconfig.get_config_var("INSTSONAME")
        if library.exists():
            archive.add(library, f"lib/{library.name}")
        archive.add(base / "lib" / version, f"lib/{version}", filter=_without_tests)
        site = f"lib/{version}/site-packages"
        _add_distributions(archive, f"{site}/", extras)
        archive.add(Path(mr_dedup.__file__).parent, f"{site}/mr_dedup", filter=_without_tests)
        hook = path.with_name("sitecustomize.py")
        hook.write_text(f"import os\nopen(f'{seen}/{{os.getpid()}}', 'w').close()\n")
        archive.add(hook, f"{site}/sitecustomize.py")
    return path


def _without_tests(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(entry.name).name in _LEFT_OUT else entry


def _add_distributions(archive: tarfile.TarFile, folder: str, extras: Collection[str]) -> None:
    for name in needed_by("mr-dedup", extras) - {"mr-dedup"}:
        distribution = metadata.distribution(name)
        for file in distribution.files or []:
            if ".." not in file.parts and file.suffix != ".pyc":
                archive.add(distribution.locate_file(file), f"{folder}{file}", recursive=False)


def needed_by(name: str, extras: Collection[str]) -> set[str]:
    """Return the distributions that one with these extras needs, itself too."""
    needed, waiting = set(), [(name, frozenset({"", *extras}))]
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in needed:
            continue
        needed.add((name, extras))
        for wanted in map(Requirement, metadata.requires(name) or []):
            if wanted.marker is None or any(
                wanted.marker.evaluate({"extra": extra}) for extra in extras
            ):
                waiting.append((wanted.name, frozenset({"", *wanted.extras})))
    return {name for name, _ in needed}
