"""What a cluster is sent of us: the inputs, this package, the scripts that tasks run in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mr_dedup.errors import MrDedupError
from mr_dedup.runners.model import HadoopSettings, Input, is_uri
from mr_dedup.runners.package import pack
from mr_dedup.runners.task_script import CODE, ENVIRONMENT, task_script

_HADOOP_COUNTERS = re.compile(r"Counters$|^Map-Reduce Framework$|^Shuffle Errors$")

_ARCHIVE_ENDINGS = (".tar.gz", ".tgz", ".tar", ".zip")


def stage_inputs(inputs: Sequence[Input], staging: Path) -> list[str]:
    """Return the inputs' URIs, and plain links to those that are local, in their order."""
    folder = staging / "inputs"
    folder.mkdir()
    places = []
    for number, item in enumerate(inputs):
        if "\n" in item.place:
            raise MrDedupError(f"{item.name!r}: a name with a line end cannot be used on a cluster")
        if item.is_remote:
            places.append(item.place)
        else:
            # only what tells the format is kept of the name
            endings = re.search(r"(\.[A-Za-z0-9]+){0,2}$", Path(item.place).name)
            link = folder / f"{number:06}{endings[0] if endings else ''}"
            link.symlink_to(Path(item.place).absolute())
            places.append(str(link))
    return places


def job_arguments(settings: HadoopSettings, staging: Path) -> list[str]:
    """Return what mrjob is to be told of the settings; raises MrDedupError for a missing file."""
    if settings.conf and not settings.conf.is_file():
        raise MrDedupError(f"{settings.conf}: no such file")
    arguments = ["--conf-path", str(settings.conf)] if settings.conf else ["--no-conf"]
    if settings.python_bin:
        arguments += ["--python-bin", settings.python_bin]
    for text in _properties(settings):
        arguments += ["-D", text]
    if settings.archive:
        arguments += ["--archive", f"{_plain_archive(settings.archive, staging)}#{ENVIRONMENT}"]
    return arguments


def _properties(settings: HadoopSettings) -> Iterator[str]:
    if settings.reducers is not None:
        yield f"mapreduce.job.reduces={settings.reducers}"
    if settings.task_memory_bytes is not None:
        memory_mb = -(-settings.task_memory_bytes // (1 << 20))
        yield f"mapreduce.map.memory.mb={memory_mb}"
        yield f"mapreduce.reduce.memory.mb={memory_mb}"
    # the last one counts: what is said in full beats what is said in short
    yield from settings.properties


def _plain_archive(archive: str, staging: Path) -> str:
    """Return the archive's URI, or a link to it whose name mrjob's syntax cannot misread."""
    ending = next((end for end in _ARCHIVE_ENDINGS if archive.lower().endswith(end)), None)
    if ending is None:
        raise MrDedupError(f"{archive}: expected an archive, {', '.join(_ARCHIVE_ENDINGS)}")
    if is_uri(archive):
        return archive
    if not Path(archive).is_file():
        raise MrDedupError(f"{archive}: no such file")
    link = staging / f"{ENVIRONMENT}{ending}"
    link.symlink_to(Path(archive).absolute())
    return str(link)


class ShippingRunner:
    """Mixed into mrjob's runners of clusters: ships this package, and names what is the user's."""

    names: Mapping[str, str]
    """What the user calls each staged input, by its address."""

    _digest = ""

    # of mrjob's runners
    _job_key: str
    _setup: list[Any]
    _upload_mgr: Any
    _working_dir_mgr: Any
    _input_manifest_path: str | None

    @property
    def _failures(self) -> str:
        """The folder of the cluster for the reports of tasks that failed."""
        raise NotImplementedError

    def _task_hadoop(self) -> list[str]:
        """Return the hadoop command on the nodes."""
        return ["hadoop"]

    def staged_uri(self, path: str) -> str:
        """Return where a local input will be on the cluster."""
        uri: str = self._upload_mgr.add(path)
        return uri

    def _create_input_manifest_if_needed(self) -> None:
        """Write the inputs' addresses; mrjob would list each of them again."""
        if self._input_manifest_path is not None or not self._uses_input_manifest():  # type: ignore[attr-defined]
            return
        path = Path(self._get_local_tmp_dir()) / "input-manifest.txt"  # type: ignore[attr-defined]
        addresses = [self._upload_mgr.uri(place) for place in self._get_input_paths()]  # type: ignore[attr-defined]
        content = "".join(f"{address}\n" for address in addresses)
        path.write_text(content, "utf-8", "surrogateescape")
        self._input_manifest_path = str(path)
        self._upload_mgr.add(str(path))

    def _create_setup_wrapper_scripts(self) -> None:
        package = Path(self._get_local_tmp_dir()) / f"{CODE}.zip"  # type: ignore[attr-defined]
        self._digest = pack(package)
        self._working_dir_mgr.add("archive", str(package), name=CODE)
        setup = self._py_files_setup() + self._setup  # type: ignore[attr-defined]
        write = self._write_setup_script  # type: ignore[attr-defined]
        self._setup_wrapper_script_path = write(setup, "task.sh", "task")
        self._manifest_setup_script_path = write(setup, "map-task.sh", "map task", manifest=True)

    def _setup_wrapper_script_content(
        self, setup: Any, manifest: bool = False, wrap_python: bool = False
    ) -> list[str]:
        return task_script(
            self._task_hadoop(),
            self._failures,
            self._digest,
            self._setup_cmd_content(setup) if setup else [],  # type: ignore[attr-defined]
            reads_manifest=manifest,
        )

    def _jobconf_for_step(self, step_num: int) -> dict[str, str]:
        return {"mapreduce.job.name": self._job_key, **super()._jobconf_for_step(step_num)}  # type: ignore[misc]

    def in_users_words(self, message: str) -> str:
        """Return a message with the user's names for what was staged for him."""
        for uri, name in self.names.items():
            message = message.replace(uri, name)
        return message


def own_counters(steps: Sequence[Mapping[str, Mapping[str, int]]]) -> dict[str, int]:
    """Return the job's own counters by name, without Hadoop's."""
    return {
        name: amount
        for step in steps
        for group, amounts in step.items()
        if not _HADOOP_COUNTERS.search(group)
        for name, amount in amounts.items()
    }
