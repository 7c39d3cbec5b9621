"""Mixed into mrjob's runners of this machine: a bar over the tasks, and the names of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mr_dedup.engines.reporting import Progress
from mr_dedup.engines.streaming.shuffle import shuffle


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
        """Do nothing, as ``_split_reducer_input`` sorts."""
        self._map_outputs = [
            Path(self._task_output_path("mapper", step_num, number))  # type: ignore[attr-defined]
            for number in range(num_map_tasks)
        ]

    def _split_reducer_input(self, step_num: int) -> int:
        """Write the input of each reduce task; return how many there are."""
        size_bytes = sum(path.stat().st_size for path in self._map_outputs)
        files = 2 * self._num_reducers(step_num)  # type: ignore[attr-defined]

        def path_of(number: int) -> Path:
            path = Path(self._task_input_path("reducer", step_num, number))  # type: ignore[attr-defined]
            path.parent.mkdir(parents=True, exist_ok=True)
            return path

        return shuffle(self._map_outputs, path_of, size_bytes // files)

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
