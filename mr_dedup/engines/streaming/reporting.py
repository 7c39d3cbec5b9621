"""What runners share: a bar over the work, and errors that name a task's input."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mr_dedup.engines.streaming.shuffle import shuffle
from mr_dedup.errors import MrDedupError, shortened

if TYPE_CHECKING:
    from tqdm import tqdm


class Progress:
    """A bar over the work of a job, on a terminal only."""

    def __init__(self, unit: str = " tasks") -> None:
        self._bar: tqdm[NoReturn] | None = None
        if sys.stderr is not None and sys.stderr.isatty():
            from tqdm import tqdm

            # its monitor thread would be there when tasks are forked, and Python 3.12 warns of that
            tqdm.monitor_interval = 0
            # drawn at every task, however quick
            self._bar = tqdm(unit=unit, leave=False, mininterval=0)

    def start(self, phase: str, total: int) -> None:
        """Begin a phase of ``total`` units."""
        if self._bar is not None:
            self._bar.set_description(phase, refresh=False)
            self._bar.reset(total=total)

    def step(self) -> None:
        """One unit more is done."""
        if self._bar is not None:
            self._bar.update()

    def reach(self, done: int) -> None:
        """``done`` units of the phase are done."""
        if self._bar is not None:
            self._bar.update(done - self._bar.n)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()


class ReportingRunner:
    """Mixed into mrjob's runners of this machine: a bar over the tasks, and their inputs' names."""

    progress: Progress
    names: dict[str, str]
    _phase = "map"
    _map_outputs: Sequence[Path] = ()

    def _run_mappers_and_combiners(self, step_num: int, map_splits: Any) -> None:
        self._phase = "map"
        super()._run_mappers_and_combiners(step_num, map_splits)  # type: ignore[misc]

    def _run_reducers(self, step_num: int, num_reducer_tasks: int) -> None:
        self._phase = "reduce"
        super()._run_reducers(step_num, num_reducer_tasks)  # type: ignore[misc]

    def _sort_reducer_input(self, step_num: int, num_map_tasks: int) -> None:
        """Leave it to what splits it."""
        self._map_outputs = [
            Path(self._task_output_path("mapper", step_num, number))  # type: ignore[attr-defined]
            for number in range(num_map_tasks)
        ]

    def _split_reducer_input(self, step_num: int) -> int:
        """Write the input of each reduce task; return how many there are."""
        size_bytes = sum(path.stat().st_size for path in self._map_outputs)
        files = 2 * self._num_reducers(step_num)  # type: ignore[attr-defined]

        def place(number: int) -> Path:
            path = Path(self._task_input_path("reducer", step_num, number))  # type: ignore[attr-defined]
            path.parent.mkdir(parents=True, exist_ok=True)
            return path

        return shuffle(self._map_outputs, place, size_bytes // files)

    def _task_name(self, number: int) -> str:
        """Return what an error calls a task of the running phase: with the file it reads."""
        if self._phase == "reduce":
            return f"reduce task {number}"
        manifest_line = Path(self._task_input_path("mapper", 0, number)).read_text()  # type: ignore[attr-defined]
        path = input_path(manifest_line)
        return f"map task {number} on {self.names.get(path, path)}"


def input_path(manifest_line: str) -> str:
    """Return the path in a line of mrjob's input manifest, ``offset TAB path``."""
    return manifest_line.rstrip("\n").partition("\t")[2]


def expected_reason(error: BaseException) -> str:
    """Return the error of a task as a line or two, of at most ``MAX_MESSAGE`` characters."""
    if isinstance(error, MemoryError):
        return "memory was short; try fewer --cores or a smaller --table-memory"
    return shortened(os_reason(error) if isinstance(error, OSError) else _one_line(error))


def os_reason(error: OSError) -> str:
    """Return what the system said, and of which file."""
    named = f"{error.filename}: " if error.filename else ""
    return f"{named}{error.strerror or error}"


def _one_line(error: BaseException) -> str:
    """Return an error as one line; of a bug, where it happened too."""
    if isinstance(error, MrDedupError):
        return str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"{type(error).__name__}: {error} ({place})"
