"""What a command needs later, loaded by a thread while the command does something else.

Imports gain nothing by it, since they have Python's lock; but a compiled kernel is linked, and
documents are signed, without it.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

_SECONDS_OF_A_TURN = 0.0005
"""How long a thread keeps Python's lock from others while one loads; usually ten times as long.

To load a kernel lets go of the lock 900 times, and beside an import each time waited for 5 ms. But
threads that work take a twentieth longer by it.
"""

# not what it is when a thread begins: another one may be loading
_USUAL_SECONDS = sys.getswitchinterval()


@contextlib.contextmanager
def preloading(
    load: Callable[[], object] | None, after: threading.Event | None = None
) -> Iterator[Callable[[], None]]:
    """Call ``load`` in a thread, if there is one, ``after`` an event; yield what waits for its end.

    What cannot be loaded is told of where it is needed. At the end it is waited for, or given up if
    the event has not come: a thread that has locks is not to be there when a process is forked.
    """
    if load is None:
        yield lambda: None
        return
    event, ended = after or threading.Event(), threading.Event()
    if after is None:
        event.set()

    def loading() -> None:
        event.wait()
        if ended.is_set():
            return
        sys.setswitchinterval(_SECONDS_OF_A_TURN)
        try:
            with contextlib.suppress(Exception):
                load()
        finally:
            sys.setswitchinterval(_USUAL_SECONDS)

    thread = threading.Thread(target=loading, daemon=True)
    thread.start()
    try:
        yield thread.join
    finally:
        if not event.is_set():
            ended.set()
            event.set()
        thread.join()
