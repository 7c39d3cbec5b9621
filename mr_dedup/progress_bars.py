"""Progress bars of tqdm: on standard error if it is a terminal, and in notebooks."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from tqdm import tqdm

_hidden = threading.Event()


@contextlib.contextmanager
def hidden_bars() -> Iterator[None]:
    """Show no bars until the block ends."""
    _hidden.set()
    try:
        yield
    finally:
        _hidden.clear()


def bars_are_shown() -> bool:
    """Whether a bar would be seen."""
    return not _hidden.is_set() and (_is_terminal() or _is_notebook())


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _is_notebook() -> bool:
    """Whether this process is the kernel of a notebook, as tqdm.auto finds out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config


def progress_bar(
    unit: str, total: int | None = None, *, unit_scale: bool = True, min_seconds: float = 0.1
) -> tqdm[NoReturn]:
    """Return a bar that disappears at its end; one that does nothing if it would not be seen.

    Args:
        unit: What is counted, after a space, such as `` documents``.
        total: How many there are; None if that is not known.
        unit_scale: Whether large numbers are shown as 1.5k, 1.5M.
        min_seconds: The shortest time between two updates on a terminal.
    """
    # without widgets tqdm.auto warns, and takes the bar of terminals, which notebooks show too
    if not _is_terminal() and _is_notebook() and importlib.util.find_spec("ipywidgets"):
        from tqdm.auto import tqdm
    else:
        from tqdm import tqdm

    if not bars_are_shown():
        return tqdm(disable=True)
    if not _is_terminal():
        # each update is a message to the browser
        min_seconds = max(min_seconds, 0.1)
    # its monitor thread would be there when tasks are forked, and Python 3.12 warns of that
    tqdm.monitor_interval = 0
    return tqdm(total=total, unit=unit, unit_scale=unit_scale, mininterval=min_seconds, leave=False)
