"""``python -m bench.field.environments FOLDER [NAME…]``: make the environments of tools, pinned.

``environments/NAME.txt`` has the packages of a tool with their versions; in its first line is the
tool itself, as a comment, in the next ``# python VERSION`` if it is not 3.11. ``NAME.cargo`` has
the repository, the commit and the program of one that cargo builds. An environment is made in
``FOLDER/NAME``, with ``bin``, and again when another version is pinned; that of mr-dedup gets the
wheel that ``make wheel`` built, and is made again when there is another.
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
_PYTHON = "# python "


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
    version = _pinned_version(name)
    if version_of(name, folder) == version:
        return
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    if (PINS / f"{name}.cargo").exists():
        _build(_built(name), out)
    else:
        _install(PINS / f"{name}.txt", out)
    if name == OURS:
        _install_packages(out, str(_wheel()))
    (out / _MADE).write_text(f"{version}\n")


def _pinned_version(name: str) -> str:
    """Return the version of a tool that its environment has to have.

    Raises:
        ValueError: the name is of no environment, or mr-dedup has no wheel.
    """
    if name not in names():
        raise ValueError(f"{name}: no such environment; there are {', '.join(names())}")
    if name == OURS:
        return _version_of_wheel(_wheel())
    if (PINS / f"{name}.cargo").exists():
        return f"{name} {_built(name).commit[:12]}"
    return (PINS / f"{name}.txt").read_text().splitlines()[0].removeprefix("#").strip()


def _built(name: str) -> Built:
    return Built(*(PINS / f"{name}.cargo").read_text().split())


def _install(pins: Path, out: Path) -> None:
    """Install packages by uv."""
    second = pins.read_text().splitlines()[1]
    python = second.removeprefix(_PYTHON) if second.startswith(_PYTHON) else "3.11"
    subprocess.run(
        ["uv", "venv", "--quiet", "--python", python, "--allow-existing", str(out)], check=True
    )
    _install_packages(out, "-r", str(pins))


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
    made = [make_or_report(name, options.folder) for name in options.names or names()]
    return int(not all(made))


def make_or_report(name: str, folder: Path) -> bool:
    """Make an environment; if that fails, print why and return False."""
    try:
        make(name, folder)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
