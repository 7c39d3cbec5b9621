"""What a path leads to: only regular files are read more than once, cut into parts, replaced."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Literal

Kind = Literal["file", "folder", "pipe", "socket", "device"]


def kind_of(path: str | os.PathLike[str]) -> Kind:
    """Return what ``path`` leads to, links followed; OSError if to nothing, or it is forbidden."""
    mode = Path(path).stat().st_mode
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISFIFO(mode):
        return "pipe"
    return "socket" if stat.S_ISSOCK(mode) else "device"
