"""Run a job on a Hadoop cluster: mrjob's hadoop runner, made quicker to start and plain to read.

The client stages what is local in one go, ships this package, follows the job, fetches its output
and takes away all it left on the cluster. What a task cannot do it tells by a file on the cluster,
which works whether or not the client may read the nodes' logs.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from mrjob.fs.composite import CompositeFilesystem
from mrjob.fs.local import LocalFilesystem
from mrjob.hadoop import HadoopJobRunner
from mrjob.job import MRJob
from mrjob.logs.step import _interpret_hadoop_jar_command_stderr
from mrjob.step import StepFailedException

from mr_dedup.errors import MrDedupError
from mr_dedup.runners.client_log import ClientLog
from mr_dedup.runners.failures import explain, read_failures
from mr_dedup.runners.hdfs import ClusterFilesystem, HadoopCommandError, no_command
from mr_dedup.runners.model import HadoopSettings, Input, JobResult, is_uri
from mr_dedup.runners.package import pack
from mr_dedup.runners.reporting import Progress
from mr_dedup.runners.task_script import CODE, ENVIRONMENT, task_script

_HADOOP_COUNTERS = re.compile(r"Counters$|^Map-Reduce Framework$|^Shuffle Errors$")

_ARCHIVE_ENDINGS = (".tar.gz", ".tgz", ".tar", ".zip")


@contextlib.contextmanager
def run_on_hadoop(
    job_class: type[MRJob],
    options: Sequence[str],
    inputs: Sequence[Input],
    staging: Path,
    settings: HadoopSettings,
) -> Iterator[JobResult]:
    """Run a one-step job on a cluster; see mr_dedup.runners.run."""
    staged = _staged(inputs, staging)
    arguments = ["-r", "hadoop", "--local-tmp-dir", str(staging)]
    arguments += [*_job_arguments(settings, staging), *options]
    try:
        job = job_class([*arguments, *staged])
        engine = HadoopRunner(**job._runner_kwargs())
    except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError) as error:
        if settings.conf is None:
            raise
        # mrjob takes whatever it is given for its options
        raise MrDedupError(f"{settings.conf}: is no mrjob.conf: {_shortened(error)}") from error
    engine.output = settings.output_dir
    try:
        engine.names = {
            engine.staged_uri(place): item.name
            for place, item in zip(staged, inputs, strict=True)
            if not item.is_remote
        }
        with engine.progress:
            engine.check_output(settings.overwrite)
            engine.run()
            parts = engine.deliver(staging / "output", settings.overwrite)
        yield JobResult(parts, engine.totals())
    except StepFailedException as error:
        raise engine.explained() from error
    except HadoopCommandError as error:
        raise MrDedupError(engine.in_users_words(str(error))) from error
    finally:
        engine.cleanup(mode=["ALL"])


def list_files(names: Sequence[str], hadoop_bin: str | None = None) -> list[tuple[str, int]]:
    """Return URI and size in bytes of the files that URIs of files, folders and globs stand for.

    Raises MrDedupError for a name that stands for none, and for a cluster out of reach.
    """
    found = _filesystem(hadoop_bin).files(names) if names else []
    return [(file.uri, file.size_bytes) for file in found]


def fetch(uri: str, path: Path, hadoop_bin: str | None = None) -> None:
    """Copy a file of a cluster to ``path``; raises MrDedupError."""
    try:
        _filesystem(hadoop_bin).get(uri, path)
    except HadoopCommandError as error:
        raise MrDedupError(f"{uri}: {error.reason}") from error


def _shortened(error: BaseException) -> str:
    return " ".join(str(error).split())[:500]


def _filesystem(hadoop_bin: str | None) -> ClusterFilesystem:
    return ClusterFilesystem([hadoop_bin] if hadoop_bin else None)


def _staged(inputs: Sequence[Input], staging: Path) -> list[str]:
    """Return the inputs' URIs, and plain links to those that are local, in their order."""
    folder = staging / "inputs"
    folder.mkdir()
    places = []
    for number, item in enumerate(inputs):
        if "\n" in item.place:
            raise MrDedupError(f"{item.name!r}: a name with a line end cannot be used on Hadoop")
        if item.is_remote:
            places.append(item.place)
        else:
            # only what tells the format is kept of the name
            endings = re.search(r"(\.[A-Za-z0-9]+){0,2}$", Path(item.place).name)
            link = folder / f"{number:06}{endings[0] if endings else ''}"
            link.symlink_to(Path(item.place).absolute())
            places.append(str(link))
    return places


def _job_arguments(settings: HadoopSettings, staging: Path) -> list[str]:
    """Return what mrjob is to be told of the settings."""
    arguments = ["--conf-path", str(settings.conf)] if settings.conf else ["--no-conf"]
    if settings.conf and not settings.conf.is_file():
        raise MrDedupError(f"{settings.conf}: no such file")
    for option, value in (
        ("--python-bin", settings.python_bin),
        ("--hadoop-bin", settings.hadoop_bin),
    ):
        arguments += [option, value] if value else []
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


class HadoopRunner(HadoopJobRunner):  # type: ignore[misc]
    """mrjob's runner, with few calls of the hadoop command, our scripts, bar and errors."""

    _input_manifest_path: str | None

    def __init__(self, **options: Any) -> None:
        self._both: CompositeFilesystem = None
        super().__init__(**options)
        self.progress = Progress("%")
        self.output: str | None = None
        self.names: Mapping[str, str] = {}
        self._digest = ""
        self.log = ClientLog(self.progress)

    @classmethod
    def _default_opts(cls) -> dict[str, Any]:
        # inputs were listed already; mrjob is part of what nodes need
        return {
            **super()._default_opts(),
            "bootstrap_mrjob": False,
            "check_input_paths": False,
            "read_logs": False,
        }

    def _default_sh_bin(self) -> list[str]:
        return ["/bin/sh"]

    @property
    def fs(self) -> CompositeFilesystem:
        """The cluster's files and this machine's."""
        if self._both is None:
            self._both = CompositeFilesystem()
            self._both.add_fs("hadoop", ClusterFilesystem(self._opts["hadoop_bin"] or None))
            self._both.add_fs("local", LocalFilesystem())
        return self._both

    @property
    def _cluster(self) -> ClusterFilesystem:
        files: ClusterFilesystem = self.fs.hadoop
        return files

    # what goes to the cluster

    def staged_uri(self, path: str) -> str:
        """Return where a local input will be on the cluster."""
        uri: str = self._upload_mgr.add(path)
        return uri

    @property
    def _failures(self) -> str:
        return f"{self._hadoop_tmp_dir}/files/failures"

    def _create_input_manifest_if_needed(self) -> None:
        """Write the inputs' addresses; mrjob would list each of them again."""
        if not self._input_manifest_path:
            path = str(Path(self._get_local_tmp_dir()) / "input-manifest.txt")
            addresses = [self._upload_mgr.uri(place) for place in self._get_input_paths()]
            content = "".join(f"{address}\n" for address in addresses)
            Path(path).write_text(content, "utf-8", "surrogateescape")
            self._input_manifest_path = path
            self._upload_mgr.add(path)

    def _create_setup_wrapper_scripts(self) -> None:
        package = Path(self._get_local_tmp_dir()) / f"{CODE}.zip"
        self._digest = pack(package)
        self._working_dir_mgr.add("archive", str(package), name=CODE)
        setup = self._py_files_setup() + self._setup
        self._setup_wrapper_script_path = self._write_setup_script(setup, "task.sh", "task")
        self._manifest_setup_script_path = self._write_setup_script(
            setup, "map-task.sh", "map task", manifest=True
        )

    def _setup_wrapper_script_content(
        self, setup: Any, manifest: bool = False, wrap_python: bool = False
    ) -> list[str]:
        return task_script(
            self.get_hadoop_bin(),
            self._failures,
            self._digest,
            self._setup_cmd_content(setup) if setup else [],
            reads_manifest=manifest,
        )

    def _jobconf_for_step(self, step_num: int) -> dict[str, str]:
        return {"mapreduce.job.name": self._job_key, **super()._jobconf_for_step(step_num)}

    def _upload_local_files(self) -> None:
        """Copy everything at once: mrjob starts a Java for each file."""
        folder = Path(self._get_local_tmp_dir()) / "files"
        (folder / "wd").mkdir(parents=True)
        (folder / "failures").mkdir()
        for kind in ("file", "archive_file"):
            for name, path in self._working_dir_mgr.name_to_path(kind).items():
                if not is_uri(path):
                    (folder / "wd" / name).symlink_to(Path(path).absolute())
        for path, uri in self._upload_mgr.path_to_uri().items():
            (folder / uri.rpartition("/")[2]).symlink_to(Path(path).absolute())
        self.progress.start("staging", 100)
        self._cluster.mkdir(self._hadoop_tmp_dir)
        self._cluster.put(folder, f"{self._hadoop_tmp_dir}/files")

    # the job

    def _run_hadoop(
        self, hadoop_args: Sequence[str], env: Mapping[str, str], record_callback: object
    ) -> tuple[int, dict[str, Any]]:
        """Run the streaming command and follow it; return its exit code and what it said.

        A job goes on without its client: whatever ends us ends it first.
        """
        try:
            # a session of its own: a Ctrl-C at the terminal is for us to pass on, in order
            client = subprocess.Popen(
                hadoop_args,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(env),
                start_new_session=True,
            )
        except OSError as error:
            raise no_command(hadoop_args[0], error) from error
        self.log = ClientLog(self.progress)
        assert client.stdout is not None
        try:
            said: dict[str, Any] = _interpret_hadoop_jar_command_stderr(
                client.stdout, record_callback=self.log.see
            )
            return client.wait(), said
        finally:
            if client.poll() is None:
                os.killpg(client.pid, signal.SIGKILL)
                client.wait()
                self._end_job()
            client.stdout.close()

    def _end_job(self) -> None:
        """End the job on the cluster, as far as it is known of."""
        if self.log.job_id:
            with contextlib.suppress(MrDedupError):
                self._cluster.invoke_hadoop(["job", "-kill", self.log.job_id])

    def totals(self) -> dict[str, int]:
        """Return the job's own counters by name, without Hadoop's."""
        return {
            name: amount
            for step in self.counters()
            for group, amounts in step.items()
            if not _HADOOP_COUNTERS.search(group)
            for name, amount in amounts.items()
        }

    def explained(self) -> MrDedupError | RuntimeError:
        """Return why the job failed, as an error for the user; a bug as RuntimeError."""
        reports = ""
        with contextlib.suppress(HadoopCommandError):
            reports = self._cluster.read_all(f"{self._failures}/*")
        why = explain(self.log, read_failures(reports))
        message = self.in_users_words(why.message)
        return RuntimeError(message) if why.is_bug else MrDedupError(message)

    def in_users_words(self, message: str) -> str:
        """Return a message with the user's names for what was staged for him."""
        for uri, name in self.names.items():
            message = message.replace(uri, name)
        return message

    # its output

    def check_output(self, overwrite: bool) -> None:
        """Raise MrDedupError if the output may not be written where it is to be."""
        if self.output is None:
            return
        self.output = self.output.rstrip("/")
        if not overwrite and self._cluster.exists(self.output):
            raise MrDedupError(f"{self.output}: exists; give --overwrite to replace it")
        # beside it, hidden from Hadoop: renamed when it is whole
        folder, _, name = self.output.rpartition("/")
        self._output_dir = f"{folder}/_{name}.{self._job_key}"

    def deliver(self, folder: Path, overwrite: bool) -> tuple[Path, ...]:
        """Put the output where it is to be: at its URI, or into ``folder``; return its files."""
        self.progress.start("fetching" if self.output is None else "finishing", 100)
        if self.output is None:
            self._cluster.get(self._output_dir, folder)
            return tuple(sorted(folder.glob("part-*")))
        if overwrite:
            self._cluster.rm(self.output)
        elif self._cluster.exists(self.output):
            raise MrDedupError(f"{self.output}: came into being while the job ran; nothing written")
        self._cluster.rename(self._output_dir, self.output)
        return ()

    def _cleanup_hadoop_tmp(self) -> None:
        """Take away what is left on the cluster."""
        left = [self._hadoop_tmp_dir]
        if self.output is not None and not self._output_dir.startswith(self._hadoop_tmp_dir):
            left.append(self._output_dir)
        with contextlib.suppress(MrDedupError):
            self._cluster.remove(left)
