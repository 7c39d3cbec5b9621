"""The inputs of map tasks on clusters: as lines of manifests, or as Hadoop's splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mrjob.bin import MRJobBinRunner

from mr_dedup.engines.streaming.described import DescribedGroup
from mr_dedup.engines.streaming.splits import INPUT_FORMAT, job_properties, split_bytes, to_be_split
from mr_dedup.engines.streaming.task_environment import quoted_name
from mr_dedup.engines.streaming.task_script import MANIFEST, SPLIT_INPUTS

_PREFIX = "inputs-"


class ManifestRunner(MRJobBinRunner):  # type: ignore[misc]
    """Mixed into mrjob's runners of clusters: inputs have numbers and names, and may be split.

    A manifest has a line for each input, and a task each line; descriptions are in the line itself,
    those of several inputs. If some inputs are split, each of the others has a manifest of its own,
    which Hadoop takes for a small file of lines.
    """

    max_split: int
    """How many inputs may be split."""

    _input_manifest_path: str | None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.names: Mapping[str, str] = {}
        """What the user calls each staged input, by its URI."""
        self.lines_bytes: dict[str, int] = {}
        """The size of each input that may be split, by its URI; 0 of others."""
        self.numbers: Sequence[int] = ()
        """The numbers of the inputs, of a group that of its first."""
        self.described: dict[str, DescribedGroup] = {}
        """The groups of descriptions, by their URIs."""
        self._split: list[str] = []

    def _create_input_manifest_if_needed(self) -> None:
        """Write the inputs' URIs, numbers and names; mrjob would list each of them again."""
        if self._input_manifest_path is not None or not self._uses_input_manifest():
            return
        uris = [self._upload_mgr.uri(path) for path in self._get_input_paths()]
        self._split = to_be_split(self.lines_bytes, self._split_bytes, self.max_split)
        split, whole = [], []
        for number, uri in zip(self.numbers, uris, strict=True):
            line = f"{uri}\t{number}\t{quoted_name(self.names.get(uri, uri))}"
            if uri in self._split:
                split.append(f"{line}\t{self.lines_bytes[uri]}\n")
            elif uri in self.described:
                whole.append(f"{line}\t\t{self.described[uri].encode()}\n")
            else:
                whole.append(f"{line}\n")
        if not split:
            self._input_manifest_path = self._upload_manifest("all", whole)
            return
        for number, line in enumerate(whole):
            self._upload_manifest(f"{number:06}", [line])
        path = Path(self._get_local_tmp_dir()) / SPLIT_INPUTS
        path.write_text("".join(split), "utf-8")
        self._working_dir_mgr.add("file", str(path), name=SPLIT_INPUTS)
        self._input_manifest_path = str(path)

    def _upload_manifest(self, name: str, lines: Sequence[str]) -> str:
        path = Path(self._get_local_tmp_dir()) / f"{_PREFIX}{name}{MANIFEST}"
        path.write_text("".join(lines), "utf-8", "surrogateescape")
        self._upload_mgr.add(str(path))
        return str(path)

    @property
    def _split_bytes(self) -> int:
        return split_bytes(self._opts["jobconf"])

    def _step_input_uris(self, step_num: int) -> list[str]:
        if step_num > 0 or not self._split:
            uris: list[str] = super()._step_input_uris(step_num)
            return uris
        manifests = f"{self._upload_mgr.prefix.rstrip('/')}/{_PREFIX}*{MANIFEST}"
        return [*([manifests] if len(self._split) < len(self.lines_bytes) else []), *self._split]

    def _hadoop_args_for_step(self, step_num: int) -> list[str]:
        arguments: list[str] = super()._hadoop_args_for_step(step_num)
        if step_num == 0 and self._split:
            # mrjob's is for a manifest
            arguments[arguments.index("-inputformat") + 1] = INPUT_FORMAT
        return arguments

    def _jobconf_for_step(self, step_num: int) -> dict[str, str]:
        properties: dict[str, str] = super()._jobconf_for_step(step_num)
        if step_num == 0 and self._split:
            total_bytes = sum(self.lines_bytes[uri] for uri in self._split)
            properties |= job_properties(total_bytes, self._split_bytes)
        return properties
