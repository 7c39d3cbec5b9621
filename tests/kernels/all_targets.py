"""``python -m tests.kernels.all_targets DIRECTORY``: the library of each target against the others.

Compiles the libraries of all targets, and runs commands of all packages that have kernels with
each: by this Python those that this processor runs, of aarch64 by a Python of Debian's arm64 under
QEMU. What they write must be the same. Needs Debian on x86-64, as root: it installs
qemu-user-static, a linker for aarch64, and Python and libraries into DIRECTORY. Takes 3 minutes;
``make targets-test`` runs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import mr_dedup
from data_gen.cli import main as generate
from mr_dedup.kernels.compiler import compile_library
from mr_dedup.kernels.library import targets_here
from mr_dedup.kernels.targets import TARGETS

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"

DEBIAN = [
    f"python{VERSION}-minimal", f"libpython{VERSION}-minimal", f"libpython{VERSION}-stdlib",
    "libbz2-1.0", "libc6", "libcrypt1", "libexpat1", "libffi8", "libgcc-s1", "liblzma5",
    "libssl3", "libstdc++6", "libuuid1", "zlib1g",
]  # fmt: skip

PACKAGES = {
    "brotli", "click", "fastwarc", "fsspec", "jinja2", "leather", "markupsafe", "mrjob", "msgspec",
    "numpy", "pyarrow", "pyyaml", "rapidfuzz", "resiliparse", "tqdm", "typing-extensions",
    "typing_extensions", "xxhash", "zlib-ng", "zlib_ng", "zstandard",
}  # fmt: skip

METHODS = (
    "minhash", "simhash:k=6", "super-shingles", "segments", "text-profile", "keywords", "abstract",
    "winnowing",
)  # fmt: skip

PROGRAM = """
import contextlib, sys
from mr_dedup.cli.main import main
from mr_dedup.kernels.library import load_kernels

target, pages, corpus, queries, out, *methods = sys.argv[1:]
assert load_kernels().path.stem == target, load_kernels().path
def run(*words):
    if main(list(words)) != 0:
        raise SystemExit(f"{' '.join(words)}: failed")

for method in methods:
    run("pairs", pages, "--method", method, "-o", f"{out}/pairs-{method}.tsv")
run("idf", pages, "-o", f"{out}/idf.parquet", "--features", "words:1")
run("fingerprint", pages, "-o", f"{out}/words.txt", "--features", "words:1")
run("query", corpus, "--queries", queries, "-o", f"{out}/found.tsv")
run("pairs", corpus, "-k", "6", "-o", f"{out}/joined.tsv")
run("convert", corpus, "-o", f"{out}/corpus.fpz")
run("convert", f"{out}/corpus.fpz", "-o", f"{out}/decoded.txt")
run("index", "create", f"{out}/index", pages)
with open(f"{out}/indexed.tsv", "w") as file, contextlib.redirect_stdout(file):
    run("index", "query", f"{out}/index", pages)
run("dedup", pages, "-o", f"{out}/kept", "-r", "memory")
run("evaluate", f"{out}/pairs-minhash.tsv", "--truth", f"{out}/pairs-minhash.tsv")
"""


def run(*command: object, **environment: str) -> None:
    """Run a command, which must succeed, where no package is."""
    subprocess.run(list(map(str, command)), check=True, cwd="/", env={**os.environ, **environment})


def set_up(folder: Path) -> None:
    """Install Python of arm64 with the packages that are installed here."""
    run("apt-get", "install", "-y", "-qq", "qemu-user-static", "gcc-aarch64-linux-gnu")
    run("dpkg", "--add-architecture", "arm64")
    run("apt-get", "update", "-qq")
    try:
        (folder / "debs").mkdir(parents=True)
        names = " ".join(f"{name}:arm64" for name in DEBIAN)
        run("sh", "-c", f"cd '{folder}/debs' && apt-get download -qq {names}")
    finally:
        run("dpkg", "--remove-architecture", "arm64")
    for package in (folder / "debs").iterdir():
        run("dpkg", "-x", package, folder / "root")
    needed = [
        f"{each.name}=={each.version}"
        for each in metadata.distributions()
        if each.name.lower() in PACKAGES
    ]
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    platforms = [f"--platform=manylinux_{glibc}_aarch64" for glibc in ("2_28", "2_17")]
    run(*install, folder / "packages", "--only-binary=:all:", "--python-version", VERSION,
        *platforms, "--platform=manylinux2014_aarch64", *needed)  # fmt: skip


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files that commands wrote, but for those with times."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("report.html", "summary.json")
        and "index" not in path.parts
    }  # fmt: skip


def with_library(package: Path, target: str) -> Path:
    """Return the directory of a copy of the package that has the library of one target only."""
    folder = package.parent.parent / target
    run("cp", "-r", package, _made(folder))
    for library in (folder / package.name / "kernels" / "libraries").glob("*.so"):
        if library.stem != target:
            library.unlink()
    return folder


def main(folder: Path) -> None:
    """Compare; raises SystemExit with the names of files that differ."""
    set_up(folder)
    package = folder / "sources" / "mr_dedup"
    run("cp", "-r", f"{Path(mr_dedup.__file__).parent}/.", "-t", _made(package))
    compile_library(package / "kernels" / "libraries", list(TARGETS))
    generate(["documents", "--documents", "80", "--duplicates-per-document", "3", "--seed", "5",
              "--out", f"{folder}/pages"])  # fmt: skip
    generate(["fingerprints", "--queries", "50", "--corpus", "3000", "--duplicates-per-query", "2",
              "-k", "3", "--seed", "1", "--out", f"{folder}/fingerprints"])  # fmt: skip
    arguments = [
        folder / "pages" / "documents-00000.jsonl",
        folder / "fingerprints" / "corpus-00000.longs",
        folder / "fingerprints" / "queries.longs",
    ]
    root = folder / "root"
    found = {}
    for target in [*targets_here(), "aarch64"]:
        python, variables = [sys.executable], {"PYTHONPATH": str(with_library(package, target))}
        if target == "aarch64":
            python = ["qemu-aarch64-static", "-cpu", "max", "-L", str(root),
                      str(root / f"usr/bin/python{VERSION}")]  # fmt: skip
            variables["PYTHONPATH"] += f":{folder / 'packages'}"
            variables["PYTHONHOME"] = f"{root}/usr"
        out = _made(folder / "results" / target)
        run(*python, "-c", PROGRAM, target, *arguments, out, *METHODS, **variables)
        found[target] = contents(out)
    fastest, *others = found
    for target in others:
        names = found[fastest] | found[target]
        different = sorted(
            name for name in names if found[fastest].get(name) != found[target].get(name)
        )
        if different:
            raise SystemExit(f"{target} differs from {fastest}: {', '.join(different)}")
    size = sum(map(len, found[fastest].values()))
    print(f"{', '.join(found)}: {len(found[fastest])} files are the same, {size:,} bytes")


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


if __name__ == "__main__":
    main(Path(sys.argv[1]))
