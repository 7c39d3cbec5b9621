"""``python -m bench.field.environments FOLDER [NAME…]``: make the environments of tools, pinned.

``environments/NAME.txt`` has the packages of a tool for Python 3.11 with their versions, the tool
itself in the first line, as a comment; ``NAME.cargo`` the repository, the commit and the program of
one that cargo builds. An environment is made in ``FOLDER/NAME``, with ``bin``. That of mr-dedup
gets the wheel that ``make wheel`` built, and is made again when there is another.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

PINS = Path(__file__).parent / "environments"
WHEELS = Path(__file__).parents[2] / "dist"
OURS = "mr-dedup"
_MADE = "made"


class Built(NamedTuple):
    """A program that cargo builds.

    Attributes:
        repository: its URL.
        commit: what is built.
        program: the name of the program.
    """

    repository: str
    commit: str
    program: str


def names() -> list[str]:
    """Return the names of all environments."""
    return sorted(path.stem for path in PINS.iterdir() if path.suffix in (".txt", ".cargo"))


def version_of(name: str, folder: Path) -> str:
    """Return the version of a tool whose environment is made, "" if it is not.

    Args:
        name: of the environment; empty for mr-dedup in this process's.
        folder: the directory of environments.
    """
    if not name:
        return f"mr-dedup {importlib.metadata.version('mr-dedup')}"
    made = folder / name / _MADE
    return made.read_text().strip() if made.exists() else ""


def make(name: str, folder: Path) -> None:
    """Make an environment, unless it is there.

    Raises:
        ValueError: if no environment has that name, or there is no wheel of mr-dedup.
        subprocess.CalledProcessError: uv, git or cargo failed.
    """
    out = folder / name
    wheel = _wheel() if name == OURS else None
    made = version_of(name, folder)
    if made and (wheel is None or made == _version_of_wheel(wheel)):
        return
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    if wheel:
        _install(PINS / f"{name}.txt", out)
        _install_packages(out, str(wheel))
        version = _version_of_wheel(wheel)
    elif (PINS / f"{name}.txt").exists():
        version = _install(PINS / f"{name}.txt", out)
    elif (PINS / f"{name}.cargo").exists():
        built = Built(*(PINS / f"{name}.cargo").read_text().split())
        _build(built, out)
        version = f"{name} {built.commit[:12]}"
    else:
        raise ValueError(f"{name}: no such environment; there are {', '.join(names())}")
    (out / _MADE).write_text(f"{version}\n")


def _install(pins: Path, out: Path) -> str:
    """Install packages by uv; return the one of the first line, with its version."""
    tool = pins.read_text().splitlines()[0].removeprefix("#").strip()
    subprocess.run(
        ["uv", "venv", "--quiet", "--python", "3.11", "--allow-existing", str(out)], check=True
    )
    _install_packages(out, "-r", str(pins))
    return tool


def _install_packages(out: Path, *packages: str) -> None:
    words = ["uv", "pip", "install", "--quiet", "--no-deps", "--compile-bytecode"]
    subprocess.run([*words, "--python", str(out / "bin" / "python"), *packages], check=True)


def _wheel() -> Path:
    """Return the newest wheel of mr-dedup.

    Raises:
        ValueError: there is none.
    """
    wheels = sorted(WHEELS.glob("mr_dedup-*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        raise ValueError(f"{WHEELS}: contains no wheel of {OURS}; make wheel builds it")
    return wheels[-1]


def _version_of_wheel(wheel: Path) -> str:
    """Return the version in its name, and the beginning of its SHA-256."""
    version = wheel.name.split("-")[1]
    return f"{OURS} {version} ({hashlib.sha256(wheel.read_bytes()).hexdigest()[:12]})"


def _build(built: Built, out: Path) -> None:
    with tempfile.TemporaryDirectory(dir=out) as name:
        source = Path(name)
        subprocess.run(["git", "clone", "--quiet", built.repository, name], check=True)
        subprocess.run(["git", "checkout", "--quiet", built.commit], check=True, cwd=source)
        subprocess.run(["cargo", "build", "--release", "--quiet"], check=True, cwd=source)
        (out / "bin").mkdir()
        shutil.copy2(source / "target" / "release" / built.program, out / "bin" / built.program)


def main(argv: Sequence[str] | None = None) -> int:
    """Make the environments that the command line names; return 1 if one could not be made."""
    parser = argparse.ArgumentParser(prog="python -m bench.field.environments")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    options = parser.parse_args(argv)
    failed = False
    for name in options.names or names():
        try:
            make(name, options.folder)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
