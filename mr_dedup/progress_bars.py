"""Progress bars of tqdm on standard error, if it is a terminal and nobody wants it quiet."""

from __future__ import annotations

import contextlib
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
    return not _hidden.is_set() and sys.stderr is not None and sys.stderr.isatty()


def progress_bar(
    unit: str, total: int | None = None, *, unit_scale: bool = True, min_seconds: float = 0.1
) -> tqdm[NoReturn]:
    """Return a bar that disappears at its end; one that does nothing if it would not be seen.

    Args:
        unit: What is counted, after a space, such as `` documents``.
        total: How many there are; None if that is not known.
        unit_scale: Whether large numbers are shown as 1.5k, 1.5M.
        min_seconds: The shortest time between two updates on the screen.
    """
    from tqdm import tqdm

    if not bars_are_shown():
        return tqdm(disable=True)
    # its monitor thread would be there when tasks are forked, and Python 3.12 warns of that
    tqdm.monitor_interval = 0
    return tqdm(total=total, unit=unit, unit_scale=unit_scale, mininterval=min_seconds, leave=False)
