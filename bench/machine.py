"""The machine and the versions of packages, printed above the table."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from pathlib import Path


def describe() -> str:
    """Return two lines: the machine, and the versions of packages."""
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    packages = ("mr-dedup", "numpy", "numba", "faiss-cpu")
    versions = ", ".join(f"{name} {_version(name)}" for name in packages)
    return (
        f"Machine: {hardware()}, load {load}\n"
        f"Versions: Python {platform.python_version()}, {versions}"
    )


def hardware() -> str:
    """Return the processor, the number of its cores and the memory of this machine."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{_processor()}, {_cores()} cores, {memory_bytes / 2**30:.0f} GB of memory"


def _processor() -> str:
    """Return the name of the processor, and its vector instructions that searches use."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    model = re.search(r"model name\s*: (.*)", text)
    family = re.search(r"cpu family\s*: (.*)", text)
    flags = re.search(r"flags\s*: (.*)", text)
    known = flags[1].split() if flags else []
    vectors = [flag for flag in ("avx2", "avx512f", "avx512_vpopcntdq") if flag in known]
    name = model[1] if model else platform.machine()
    named = f"{name} (family {family[1]})" if family else name
    return " ".join([named, *vectors])


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
