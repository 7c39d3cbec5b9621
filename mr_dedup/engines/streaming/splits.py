"""Large files of lines, which Hadoop splits among map tasks itself.

TextInputFormat passes the lines of a part to a task, near the blocks of the part. For an
input that is not split there is a file with one line, its URI: one job takes both kinds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from mr_dedup.engines.streaming.task_environment import LONGEST_LINE_BYTES
from mr_dedup.errors import MrDedupError

SPLIT_BYTES = 128 << 20
"""The default size of a part: the default block size of HDFS."""

INPUT_FORMAT = "org.apache.hadoop.mapred.TextInputFormat"

_SIZE = "mapreduce.input.fileinputformat.split.maxsize"

_PLAIN = re.compile(r"[\w./:@%+=~ -]{1,200}", re.ASCII)
"""URIs that are the same as arguments, in the job's configuration and in its environment.

Other URIs contain globs or commas there, or characters that a node may not have; together they must
not be too long.
"""


def split_bytes(properties: Mapping[str, str]) -> int:
    """Return the size of parts that a job's properties ask for; MrDedupError if it is none."""
    size = str(properties.get(_SIZE, SPLIT_BYTES))
    if not re.fullmatch(r"[1-9][0-9]*", size, re.ASCII):
        raise MrDedupError(f"{_SIZE}={size}: expected a number of bytes")
    return int(size)


def to_be_split(sizes: Mapping[str, int], size_bytes: int, max_files: int) -> list[str]:
    """Return the URIs of the files that have more than ``size_bytes``, in their order.

    ``sizes`` has all inputs, with 0 for what cannot be split. Excluded are files whose URIs
    Hadoop may take for others, and all but the ``max_files`` largest.
    """
    paths = Counter(map(_path, sizes))
    large = [
        uri
        for uri, size in sizes.items()
        if size > size_bytes and _is_plain(uri) and paths[_path(uri)] == 1
    ]
    chosen = set(sorted(large, key=sizes.__getitem__, reverse=True)[:max_files])
    return [uri for uri in large if uri in chosen]


def job_properties(total_bytes: int, size_bytes: int) -> dict[str, str]:
    """Return what makes Hadoop cut files of ``total_bytes`` together into parts of ``size_bytes``.

    Tasks get their lines, each after its offset; a CR does not end one.
    """
    return {
        # more than there will be: by less Hadoop would be free to make larger parts
        "mapreduce.job.maps": str(total_bytes // size_bytes + 2),
        "mapreduce.input.fileinputformat.split.minsize": str(size_bytes),
        "mapreduce.input.linerecordreader.line.maxlength": str(LONGEST_LINE_BYTES),
        "stream.map.input.ignoreKey": "false",
        "textinputformat.record.delimiter": "\n",
    }


def _is_plain(uri: str) -> bool:
    # Hadoop skips files whose names begin so, even if they are listed
    hidden = uri.rpartition("/")[2].startswith((".", "_"))
    return not hidden and _PLAIN.fullmatch(uri) is not None


def _path(uri: str) -> str:
    """Return the URI without file system and host."""
    return uri.partition("://")[2].partition("/")[2]
