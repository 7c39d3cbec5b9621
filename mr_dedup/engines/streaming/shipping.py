"""Shared by the runners of clusters: files they send, the course of a run, names in errors.

A cluster is sent the inputs that are local, this package, and the scripts that tasks run in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import yaml
from mrjob.conf import combine_opts, load_opts_from_mrjob_conf
from mrjob.job import MRJob
from mrjob.step import StepFailedException

from mr_dedup.engines.inputs import ClusterSettings, Input, JobResult
from mr_dedup.engines.package import pack
from mr_dedup.engines.reporting import Progress
from mr_dedup.engines.streaming.described import DescribedGroup, grouped, is_described
from mr_dedup.engines.streaming.failures import Explanation
from mr_dedup.engines.streaming.manifests import ManifestRunner
from mr_dedup.engines.streaming.task_script import ENVIRONMENT, PACKAGE, task_script
from mr_dedup.errors import MrDedupError, shortened
from mr_dedup.storage.uris import endings_of, is_uri

_REDUCERS = "mapreduce.job.reduces"

_ARCHIVE_ENDINGS = (".tar.gz", ".tgz", ".tar", ".zip")

# mrjob takes whatever it is given for its options
_NO_CONF = (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError)

Engine = TypeVar("Engine", bound="ShippingRunner")


def engine_for(
    engine_class: type[Engine],
    job_class: type[MRJob],
    options: Sequence[str],
    inputs: Sequence[Input],
    staging: Path,
    settings: ClusterSettings,
) -> Engine:
    """Return what runs a job over ``inputs``; raises MrDedupError for settings that are wrong."""
    groups = list(grouped(inputs))
    staged = _stage_inputs(inputs, groups, staging)
    arguments = ["-r", engine_class.alias, "--local-tmp-dir", str(staging)]
    conf = conf_options(engine_class.alias, settings.conf)
    arguments += [*_job_arguments(settings, staging), *_default_reducers(settings, conf), *options]
    job = job_class([*arguments, *(name for name, _ in staged)])
    try:
        engine = engine_class(**job._runner_kwargs())
    except _NO_CONF as error:
        if settings.conf is None:
            raise
        raise MrDedupError(f"{settings.conf}: {_of_setting(error)}") from error
    engine.output = settings.output_dir
    engine.numbers = [number for _, number in staged]
    engine.described = {group.uri: group for group in groups}
    names = {}
    for name, number in staged:
        uri, item = engine.staged_uri(name), inputs[number]
        # a file that is named twice is read twice, by a task each
        engine.lines_bytes[uri] = 0 if uri in engine.lines_bytes else item.lines_bytes
        if not item.is_remote:
            names[uri] = item.name
    engine.names = names
    return engine


def check_settings(alias: str, settings: ClusterSettings) -> None:
    """Raise MrDedupError for settings that name what cannot be used; nothing is written."""
    conf_options(alias, settings.conf)
    if settings.archive:
        _archive_ending(settings.archive)


def conf_options(alias: str, conf: Path | None) -> dict[str, Any]:
    """Return the options of a runner in an mrjob.conf; raises MrDedupError if it cannot be read."""
    if conf is None:
        return {}
    if not conf.is_file():
        raise MrDedupError(f"{conf}: no such file")
    try:
        loaded = [found or {} for _, found in load_opts_from_mrjob_conf(alias, str(conf))]
        if not all(isinstance(found, dict) for found in loaded):
            raise TypeError(f"its options of {alias} are not a mapping")
        return dict(combine_opts({}, *loaded))
    except _NO_CONF as error:
        raise MrDedupError(f"{conf}: not an mrjob.conf: {_one_line(error)}") from error


def _of_setting(error: Exception) -> str:
    """Return what is wrong with a value of an mrjob.conf, by what mrjob raised for it."""
    said = _one_line(error)
    return said if isinstance(error, ValueError) else f"mrjob cannot use a value of it: {said}"


def _one_line(error: BaseException) -> str:
    return shortened(" ".join(str(error).split()), 500)


def _stage_inputs(
    inputs: Sequence[Input], groups: Sequence[DescribedGroup], staging: Path
) -> list[tuple[str, int]]:
    """Return what mrjob takes for inputs, each with the number of the first input that it is.

    These are URIs, plain links to files that are local, and what stands for groups of descriptions.
    """
    folder = staging / "inputs"
    folder.mkdir()
    names = [(group.uri, group.inputs[0].number) for group in groups]
    for number, item in enumerate(inputs):
        if is_described(item):
            continue
        if "\n" in item.location or (item.is_remote and "\t" in item.location):
            raise MrDedupError(
                f"{item.name!r}: a name with a line end or a tab cannot be used on a cluster"
            )
        if item.is_remote:
            names.append((item.location, number))
        else:
            # of the name only the endings, which state the format, are kept
            link = folder / f"{number:06}{endings_of(Path(item.location).name)}"
            link.symlink_to(Path(item.location).absolute())
            names.append((str(link), number))
    return sorted(names, key=itemgetter(1))


def _job_arguments(settings: ClusterSettings, staging: Path) -> list[str]:
    """Return mrjob's arguments for the settings; MrDedupError for what is not an archive."""
    arguments = ["--conf-path", str(settings.conf)] if settings.conf else ["--no-conf"]
    if settings.python_bin:
        arguments += ["--python-bin", settings.python_bin]
    for text in _properties(settings):
        arguments += ["-D", text]
    if settings.archive:
        arguments += ["--archive", f"{_plain_archive(settings.archive, staging)}#{ENVIRONMENT}"]
    return arguments


def _default_reducers(settings: ClusterSettings, conf: Mapping[str, Any]) -> list[str]:
    """Return the arguments for a number of reducers that nobody has given."""
    given = [text.partition("=")[0] for text in _properties(settings)]
    if settings.default_reducers is None or _REDUCERS in [*given, *(conf.get("jobconf") or {})]:
        return []
    return ["-D", f"{_REDUCERS}={settings.default_reducers}"]


def _properties(settings: ClusterSettings) -> Iterator[str]:
    # the Java of a task has a small heap, as the memory is for its Python: by default seven tenths
    # of it, and a quarter for one output of a map task, are for what a reducer fetches
    yield "mapreduce.reduce.shuffle.input.buffer.percent=0.4"
    yield "mapreduce.reduce.shuffle.memory.limit.percent=0.1"
    if settings.reducers is not None:
        yield f"{_REDUCERS}={settings.reducers}"
    if settings.task_memory_bytes is not None:
        memory_mb = -(-settings.task_memory_bytes // (1 << 20))
        yield f"mapreduce.map.memory.mb={memory_mb}"
        yield f"mapreduce.reduce.memory.mb={memory_mb}"
    # the last one counts, so -D overrides the other options
    yield from settings.properties


def _plain_archive(archive: str, staging: Path) -> str:
    """Return the archive's URI, or a link to it whose name mrjob's syntax cannot misread."""
    ending = _archive_ending(archive)
    if is_uri(archive):
        return archive
    link = staging / f"{ENVIRONMENT}{ending}"
    link.symlink_to(Path(archive).absolute())
    return str(link)


def _archive_ending(archive: str) -> str:
    """Return what the name of an archive ends in; MrDedupError if it is none."""
    ending = next((end for end in _ARCHIVE_ENDINGS if archive.lower().endswith(end)), None)
    if ending is None:
        raise MrDedupError(f"{archive}: expected an archive, {', '.join(_ARCHIVE_ENDINGS)}")
    if not is_uri(archive) and not Path(archive).is_file():
        raise MrDedupError(f"{archive}: no such file")
    return ending


class ShippingRunner(ManifestRunner):
    """Mixed into mrjob's runners of clusters: ships this package, and names what is the user's."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.progress = Progress("%")
        self.output: str | None = None
        """The URI that the result is to have, if it is to stay on the cluster."""
        self._digest = ""

    # what a runner has of its own

    def check_output(self, overwrite: bool) -> None:
        """Raise MrDedupError if the output may not be written where it is to be."""
        raise NotImplementedError

    def deliver(self, folder: Path, overwrite: bool) -> tuple[Path, ...]:
        """Put the output where it is to be: at its URI, or into ``folder``; return its files."""
        raise NotImplementedError

    def totals(self) -> dict[str, int]:
        """Return the job's own counters by name."""
        raise NotImplementedError

    def explanation(self) -> Explanation:
        """Return why the job failed."""
        raise NotImplementedError

    @property
    def _failures(self) -> str:
        """The directory of the cluster for the reports of tasks that failed."""
        raise NotImplementedError

    def _task_hadoop(self) -> list[str]:
        """Return the hadoop command on the nodes."""
        return ["hadoop"]

    # how a run goes

    @contextlib.contextmanager
    def result(self, folder: Path, overwrite: bool) -> Iterator[JobResult]:
        """Run the job; yield what it left, fetched into ``folder`` unless it stays there.

        Raises MrDedupError if it failed, RuntimeError if that is a bug. Nothing is left behind.
        """
        try:
            with self.progress:
                self.check_output(overwrite)
                self.run()
                parts = self.deliver(folder, overwrite)
                counters = self.totals()
            yield JobResult(parts, counters)
        except StepFailedException as error:
            why = self.explanation()
            message = self.in_users_words(why.message)
            raise (RuntimeError if why.is_bug else MrDedupError)(message) from error
        finally:
            self.cleanup(mode=["ALL"])

    def in_users_words(self, message: str) -> str:
        """Return a message with the user's names for what was staged for him."""
        for uri, name in self.names.items():
            message = message.replace(uri, name)
        return message

    # what is sent

    def _default_sh_bin(self) -> list[str]:
        return ["/bin/sh"]

    def staged_uri(self, path: str) -> str:
        """Return where a local input will be on the cluster."""
        uri: str = self._upload_mgr.add(path)
        return uri

    def _create_setup_wrapper_scripts(self) -> None:
        package = Path(self._get_local_tmp_dir()) / PACKAGE
        self._digest = pack(package)
        self._working_dir_mgr.add("file", str(package), name=PACKAGE)
        setup = self._py_files_setup() + self._setup
        write = self._write_setup_script
        self._setup_wrapper_script_path = write(setup, "task.sh", "task")
        self._manifest_setup_script_path = write(setup, "map-task.sh", "map task", manifest=True)

    def _setup_wrapper_script_content(
        self, setup: Any, manifest: bool = False, wrap_python: bool = False
    ) -> list[str]:
        return task_script(
            self._task_hadoop(),
            self._task_python_bin(),
            self._failures,
            self._digest,
            self._setup_cmd_content(setup) if setup else [],
            reads_manifest=manifest,
        )

    def _jobconf_for_step(self, step_num: int) -> dict[str, str]:
        properties = {"mapreduce.job.name": self._job_key, **super()._jobconf_for_step(step_num)}
        if not self._get_step(step_num).get("reducer"):
            # the number for all jobs of a command would give this one reducers without input
            properties.pop(_REDUCERS, None)
        return properties
