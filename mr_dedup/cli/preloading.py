"""What a command needs later, loaded by a thread while the command does something else.

Imports gain nothing by it, since they have Python's lock; but a compiled kernel is linked, and
documents are signed, without it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def preloading(load: Callable[[], object] | None) -> Iterator[Callable[[], None]]:
    """Call ``load`` in a thread, if there is one; yield what waits until it has ended.

    What cannot be loaded is told of where it is needed. At the end it is waited for: a thread that
    has locks is not to be there when a process is forked.
    """
    if load is None:
        yield lambda: None
        return
    thread = threading.Thread(target=_quietly, args=(load,), daemon=True)
    thread.start()
    try:
        yield thread.join
    finally:
        thread.join()


def _quietly(load: Callable[[], object]) -> None:
    with contextlib.suppress(Exception):
        load()
