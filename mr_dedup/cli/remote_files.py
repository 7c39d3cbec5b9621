"""Files of arguments that are URIs: fetched before a command runs, or written after it has.

Commands read and write local files. Documents are an exception: they are read part by part, see
``mr_dedup.cli.document_inputs``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mr_dedup.cli.arguments import byte_size
from mr_dedup.cli.copy_names import name_copies
from mr_dedup.cli.on_cluster import refuse_other_clusters, stores_of_runner
from mr_dedup.cli.rejects import REJECTS_ENDING
from mr_dedup.errors import MrDedupError
from mr_dedup.files.io_errors import reading
from mr_dedup.storage.scratch import ScratchSettings, Wanted
from mr_dedup.storage.uris import file_name, is_uri, joined, name_below, without_secrets

if TYPE_CHECKING:
    from mr_dedup.storage.listing import RemoteFile

CLUSTER_RUNNERS = ("hadoop", "emr")


class InputUri(str):
    """The URI of files that a command reads as local ones."""


class InputFileUri(InputUri):
    """The URI of one such file, which becomes a Path."""


class CorpusUri(InputUri):
    """The same; tasks read documents, and those of a cluster all, where they are."""


class NameList(str):
    """``@FILE``: a file of names, a line each; ``of_name`` makes an argument of each."""

    of_name: Callable[[str], str]


class OutputUri(str):
    """The URI of a file that a command writes."""


def input_file(text: str) -> Path | InputFileUri:
    """Return the argument for a file that is read."""
    return InputFileUri(text) if is_uri(text) else Path(text)


def input_name(text: str) -> str:
    """Return the argument for files that are read, by a name that may be more than a path."""
    return InputUri(text) if is_uri(text) else text


def input_names(text: str) -> str:
    """Return the argument for files that are read, one of several, or ``@FILE``."""
    return _list_of(text, input_name) or input_name(text)


def corpus_name(text: str) -> str:
    """Return the argument for files that are read by tasks, one of several, or ``@FILE``."""
    return _list_of(text, corpus_name) or (CorpusUri(text) if is_uri(text) else text)


def document_name(text: str) -> str:
    """Return the argument for documents, one of several, or ``@FILE``."""
    return _list_of(text, document_name) or text


def _list_of(text: str, of_name: Callable[[str], str]) -> NameList | None:
    if len(text) < 2 or not text.startswith("@") or Path(text).exists():
        return None
    names = NameList(text[1:])
    names.of_name = of_name
    return names


def local_name(text: str) -> str:
    """Return the argument for a file or directory that must be on this machine."""
    if is_uri(text):
        raise argparse.ArgumentTypeError(f"{text}: expected a path of this machine")
    return text


def local_path(text: str) -> Path:
    """Return the argument for a file or directory that must be on this machine, as a path."""
    return Path(local_name(text))


def output_file(text: str) -> Path | OutputUri:
    """Return the argument for a file that is written."""
    if not is_uri(text):
        return Path(text)
    if re.search(r"[*?\[\]{}\\\t\n]", text) or not text.rpartition("/")[2]:
        raise argparse.ArgumentTypeError(f"{text}: not a plain name of a file")
    return OutputUri(text)


def result_name(text: str) -> Path | str:
    """Return the argument for the directory of a result."""
    if not is_uri(text):
        return Path(text)
    return str(output_file(text.rstrip("/")))


def add_storage_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of remote files, as a group."""
    group = parser.add_argument_group(
        "remote files",
        "inputs and outputs may be URIs: s3://, gs://, az://, abfs://, hdfs://; inputs also "
        "https:// and hf://; @FILE stands for the names that a file lists, one a line",
    )
    group.add_argument(
        "--scratch", type=byte_size, metavar="SIZE",
        help="disk space for copies of remote files (default: half of what is free, at most 16GB)",
    )  # fmt: skip
    group.add_argument(
        "--scratch-dir", type=Path, metavar="DIR", help="where these copies go (default: TMPDIR)"
    )


@contextlib.contextmanager
def local_files(arguments: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """Yield arguments with local paths in place of URIs; what is written there is copied after.

    A directory becomes a directory with the same files. Outputs appear at their URIs when the block
    has ended without an error. Messages name the URIs. Raises MrDedupError.
    """
    parent, size = getattr(arguments, "scratch_dir", None), getattr(arguments, "scratch", None)
    arguments.scratch_settings = ScratchSettings(parent and str(parent), size)
    with (
        stores_of_runner(arguments),
        arguments.scratch_settings.opened() as arguments.open_scratch,
    ):
        _read_lists(arguments)
        on_cluster = getattr(arguments, "runner", None) in CLUSTER_RUNNERS
        reads: dict[str, Any] = {}
        writes: dict[str, OutputUri] = {}
        if isinstance(getattr(arguments, "out", None), OutputUri) and hasattr(arguments, "rejects"):
            arguments.rejects = arguments.rejects or OutputUri(f"{arguments.out}{REJECTS_ENDING}")
        for name, value in vars(arguments).items():
            values = value if isinstance(value, list) else [value]
            uris = [each for each in values if isinstance(each, InputUri)]
            is_read_by_tasks = all(isinstance(each, CorpusUri) for each in uris)
            if is_read_by_tasks and on_cluster:
                refuse_other_clusters(uris, arguments.runner)
            if uris and not (is_read_by_tasks and (on_cluster or "method" in arguments)):
                reads[name] = value
            elif isinstance(value, OutputUri):
                writes[name] = value
        if not reads and not writes:
            yield arguments
            return
        folder = arguments.open_scratch().folder
        names: dict[str, str] = {}
        _refuse_existing(writes, arguments)
        for name, value in reads.items():
            replaced = _fetched(value, folder / f"input-{name}", arguments, names)
            setattr(arguments, name, replaced)
        outputs = {}
        for name, uri in writes.items():
            path = folder / f"output-{name}" / file_name(uri)
            path.parent.mkdir()
            outputs[uri] = path
            names[str(path)] = uri
            setattr(arguments, name, path)
        name_copies(names)
        yield arguments
        _put(outputs, bool(getattr(arguments, "overwrite", False)))


def _read_lists(arguments: argparse.Namespace) -> None:
    """Put the names that files list in place of ``@FILE``."""
    for attribute, value in vars(arguments).items():
        if isinstance(value, list) and any(isinstance(each, NameList) for each in value):
            names = [_names_in(each) if isinstance(each, NameList) else [each] for each in value]
            setattr(arguments, attribute, [name for part in names for name in part])


def _names_in(listed: NameList) -> list[str]:
    """Return the names in a file of this machine or a store; MrDedupError if there are none."""
    from mr_dedup.storage.writing import read_small

    if is_uri(listed):
        content = read_small(listed)
    else:
        with reading(listed):
            content = Path(listed).read_bytes()
    lines = os.fsdecode(content).splitlines()
    names = [listed.of_name(line) for line in lines if line]
    if not names:
        raise MrDedupError(f"{without_secrets(str(listed))}: lists no files")
    for name in names:
        if isinstance(name, NameList):
            raise MrDedupError(f"{listed}: lists another list, @{name}")
    return names


def _refuse_existing(writes: dict[str, OutputUri], arguments: argparse.Namespace) -> None:
    from mr_dedup.storage.writing import refuse_existing

    for uri in writes.values():
        refuse_existing(uri, bool(getattr(arguments, "overwrite", False)))


def _put(outputs: dict[OutputUri, Path], overwrite: bool) -> None:
    from mr_dedup.engines.reporting import transferring
    from mr_dedup.storage.writing import put, remove_files

    files = []
    for uri, path in outputs.items():
        if path.is_dir():
            made = sorted(file for file in path.rglob("*") if file.is_file())
            files += [(file, joined(uri, str(file.relative_to(path)))) for file in made]
        elif path.exists():
            files.append((path, str(uri)))
        elif overwrite:
            # rejects, of which there are none now
            remove_files([uri])
    with transferring("copying", sum(path.stat().st_size for path, _ in files)):
        for path, uri_of_file in files:
            put(path, uri_of_file, overwrite)


def _fetched(value: Any, folder: Path, arguments: argparse.Namespace, names: dict[str, str]) -> Any:
    """Return local paths in place of URIs in the value of an argument."""
    values: Sequence[Any] = value if isinstance(value, list) else [value]
    found: list[Any] = []
    for number, each in enumerate(values):
        if not isinstance(each, InputUri):
            found.append(each)
            continue
        paths = _fetch(each, folder / f"{number:04}", arguments, names)
        if not isinstance(value, list) and len(paths) != 1:
            raise MrDedupError(f"{each}: stands for {len(paths):,} files, expected one")
        found += map(str, paths)
    if isinstance(value, list):
        return found
    return Path(found[0]) if isinstance(value, InputFileUri) else found[0]


def _fetch(
    uri: InputUri, folder: Path, arguments: argparse.Namespace, names: dict[str, str]
) -> list[Path]:
    """Fetch the files of a URI; return their paths, of a directory its own."""
    from mr_dedup.storage.listing import list_files

    files = list_files([uri])
    directory = uri.rstrip("/") + "/"
    if all(file.uri.startswith(directory) for file in files):
        root = folder / (file_name(uri) or "files")
        copies = {root / name_below(file.uri, directory): file for file in files}
        names[str(root)] = without_secrets(uri).rstrip("/")
        paths = [root]
    else:
        # two files of a pattern may have one name
        copies = {
            folder / f"{number:06}" / file_name(file.uri): file for number, file in enumerate(files)
        }
        names |= {str(path): without_secrets(file.uri) for path, file in copies.items()}
        paths = list(copies)
    _fetch_all(copies, arguments)
    return paths


def _fetch_all(copies: dict[Path, RemoteFile], arguments: argparse.Namespace) -> None:
    from mr_dedup.engines.reporting import transferring
    from mr_dedup.storage.fetching import fetch

    scratch = arguments.open_scratch()
    total = sum(file.size_bytes or 0 for file in copies.values())
    if scratch.fetched_bytes + total > scratch.max_bytes:
        raise MrDedupError(
            f"{without_secrets(next(iter(copies.values())).uri)}: {total:,} bytes are copied here, "
            f"more than the {scratch.max_bytes:,} that --scratch allows"
        )
    for path in copies:
        path.parent.mkdir(parents=True, exist_ok=True)
    with transferring("copying", total), ThreadPoolExecutor(16) as pool:
        large = {p: file for p, file in copies.items() if Wanted(file).has_pieces}
        small = [pool.submit(fetch, file, p) for p, file in copies.items() if p not in large]
        try:
            for path, file in large.items():
                fetch(file, path, pool)
            for task in small:
                task.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    scratch.fetched_bytes += total
