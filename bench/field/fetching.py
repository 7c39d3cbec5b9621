"""Archives of packages, fetched by the clients of their registries into a cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote, unquote

from bench.field.packages import Package, PackageError

_FETCH_SECONDS = 900

# as root; apt would change to a user who cannot write to the directory
_APT = ("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download")

# a wheel for one platform and version of Python, whichever runs this; a source archive would run
# code to be fetched
_PIP_TARGET = ("--only-binary", ":all:", "--python-version", "3.11", "--implementation", "cp")
_PIP_PLATFORMS = tuple(
    option
    for glibc in ("_2_28", "_2_27", "2014", "2010", "1")
    for option in ("--platform", f"manylinux{glibc}_x86_64")
)


def fetch(package: Package, cache: Path) -> Path:
    """Return the archive of a package, from ``cache`` or fetched into it.

    What is in the cache with another SHA-256 than that of the package is fetched again.

    Raises:
        PackageError: the client does not bring it, or its SHA-256 is another one.
    """
    archive = archive_path(package, cache)
    if archive.exists() and package.sha256 not in ("", sha256_of(archive)):
        archive.unlink()
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent) as space:
            fetched = _CLIENTS[package.registry](package, Path(space))
            found = sha256_of(fetched)
            if package.sha256 not in ("", found):
                raise PackageError(f"{package}: its SHA-256 is {found}, not {package.sha256}")
            fetched.rename(archive)
    return archive


def fetch_together(packages: Sequence[Package], cache: Path) -> None:
    """Fetch those packages of Debian that are not in ``cache`` by one call of its client.

    A call takes about a second, whatever it fetches. What it does not bring is left to ``fetch``,
    which reports why.
    """
    missing = {
        (package.name, package.version): archive
        for package in packages
        if package.registry == "debian" and not (archive := archive_path(package, cache)).exists()
    }
    if not missing:
        return
    folder = cache / "debian"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as space:
        wanted = [f"{name}={version}" for name, version in missing]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [*_APT, *wanted],
                cwd=space,
                capture_output=True,
                check=False,
                timeout=_FETCH_SECONDS,
            )
        for fetched in Path(space).glob("*.deb"):
            name, version, _ = fetched.name.split("_")
            if (name, unquote(version)) in missing:
                fetched.rename(missing[name, unquote(version)])


def archive_path(package: Package, cache: Path) -> Path:
    """Return where in ``cache`` the archive of a package is, or will be."""
    return cache / package.registry / quote(f"{package.name}@{package.version}", safe="@+")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _run(package: Package, space: Path, command: Sequence[str], **environment: str) -> None:
    """Run a client in ``space``."""
    try:
        done = subprocess.run(
            command,
            cwd=space,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_FETCH_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise PackageError(f"{package}: not fetched within {_FETCH_SECONDS} s") from None
    except FileNotFoundError:
        raise PackageError(f"{package}: {command[0]} is not installed") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise PackageError(f"{package}: {Path(command[0]).name}: {said[-1]}")


def _only_file(package: Package, space: Path, pattern: str) -> Path:
    found = list(space.glob(pattern))
    if len(found) != 1:
        raise PackageError(f"{package}: {len(found)} files {pattern}, not one")
    return found[0]


def _from_debian(package: Package, space: Path) -> Path:
    _run(package, space, [*_APT, f"{package.name}={package.version}"])
    return _only_file(package, space, "*.deb")


def _from_npm(package: Package, space: Path) -> Path:
    _run(package, space, ["npm", "pack", "--silent", f"{package.name}@{package.version}"])
    return _only_file(package, space, "*.tgz")


def _from_pypi(package: Package, space: Path) -> Path:
    pip = shutil.which("pip3") or "pip"
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", *_PIP_TARGET, *_PIP_PLATFORMS]
    wanted = f"{package.name}=={package.version}"
    _run(package, space, [pip, "download", *options, "--dest", str(space), wanted])
    return _only_file(package, space, "*.whl")


def _from_go(package: Package, space: Path) -> Path:
    modules = {"GOMODCACHE": str(space / "modules"), "GOFLAGS": "-modcacherw -mod=mod"}
    wanted = f"{package.name}@{package.version}"
    _run(package, space, ["go", "mod", "download", wanted], **modules)
    return _only_file(package, space, "modules/cache/download/**/*.zip")


_CLIENTS: dict[str, Callable[[Package, Path], Path]] = {
    "debian": _from_debian,
    "go": _from_go,
    "npm": _from_npm,
    "pypi": _from_pypi,
}
