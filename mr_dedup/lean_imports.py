"""Keep out of a process of ours what the packages we import would import for nothing.

Only for commands: who uses mr_dedup as a library may need what is kept out.
"""

from __future__ import annotations

import sys


def lean_imports() -> None:
    """Have mrjob find Python's own distutils, and numba no scipy, if there is any.

    Setuptools puts itself in the place of distutils, of which mrjob takes one function: 0.2 s.
    Numba looks through scipy for linear algebra, which no kernel here has: 0.15 s.
    """
    if "numba" not in sys.modules:
        sys.modules.setdefault("scipy", None)  # type: ignore[arg-type]
    if sys.version_info >= (3, 12) or "distutils" in sys.modules:
        return
    hack = sys.modules.get("_distutils_hack")
    if hack is not None:
        hack.remove_shim()
