"""HDFS by hdfs-native: a client in Rust, which needs no Java."""

from __future__ import annotations

import functools
import importlib
import re
import threading
from typing import Any

from mr_dedup.storage.hadoop_configuration import configuration_directory

_RESPONSE_SECONDS = 30
"""A name node that does not respond for so long at first is given up: hdfs-native waits forever."""

_OPTIONS = {
    # a name node that refuses connections is given up after some 15 s, not 180
    "dfs.client.failover.max.attempts": "4",
}

_QUOTED = re.compile(r'\w+\((?:"[\w.$]+", )?"(?P<message>.*)"\)', re.S)


@functools.cache
def hdfs_class(scheme: str) -> Any:
    """Return fsspec's class of the file systems of a scheme, ``hdfs`` or ``viewfs``.

    Its option ``config_dir`` is the directory of the configuration of Hadoop, by default
    ``configuration_directory()``; others are properties of Hadoop.
    """
    native = importlib.import_module("hdfs_native")
    # fsspec's own class of this name is pyarrow's, which needs Hadoop's libraries
    module = importlib.import_module("hdfs_native.fsspec")
    base = module.ViewfsFileSystem if scheme == "viewfs" else module.HdfsFileSystem

    class FileSystem(base):  # type: ignore[misc, valid-type]
        def __init__(
            self, authority: str = "", config_dir: str | None = None, **options: Any
        ) -> None:
            # not that of the base class, which takes no directory
            super(module.BaseFileSystem, self).__init__(authority, config_dir, **options)
            self.host, self.port = authority, None
            found = config_dir or configuration_directory()
            directory = None if found is None else str(found)
            try:
                self.client = native.Client(
                    f"{scheme}://{authority}", {**_OPTIONS, **options}, directory
                )
            except RuntimeError as error:
                raise _no_configuration(error, directory) from error
            _require_response(self.client)

        @staticmethod
        def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
            # theirs has the host in lower case, which a name service may not have
            return {"authority": path.partition("://")[2].partition("/")[0]}

        @classmethod
        def _strip_protocol(cls, path: Any) -> Any:
            if isinstance(path, list):
                return [cls._strip_protocol(each) for each in path]
            # theirs parses paths as web addresses: it ends a name at its first # or ?
            return re.sub(r"^[a-z]+://[^/]*", "", path) or "/"

    return FileSystem


def hadoop_reason(error: RuntimeError) -> str:
    r"""Return why Hadoop refused a request, by hdfs-native's error, which quotes a Java exception.

    >>> hadoop_reason(RuntimeError(r'RPCError("a.b.E", "Denied: inode=\"/a\"\n\tat b.c")'))
    'Denied: inode="/a"'
    """
    said = _QUOTED.fullmatch(str(error))
    if said is None:
        return str(error)
    first_line = said["message"].partition("\\n")[0]
    return re.sub(r"\\(.)", r"\1", first_line)


def _no_configuration(error: RuntimeError, directory: str | None) -> ValueError:
    where = f"see {directory}" if directory else "set HADOOP_CONF_DIR, or HADOOP_HOME"
    return ValueError(f"not in a configuration of Hadoop: {hadoop_reason(error)}; {where}")


def _require_response(client: Any) -> None:
    """Raise OSError if the name node cannot be reached, TimeoutError if it does not respond."""
    errors: list[Exception] = []

    def request() -> None:
        try:
            client.get_file_info("/")
        except Exception as error:
            # others are responses, of which later requests have their own
            if type(error) is OSError:
                errors.append(error)

    thread = threading.Thread(target=request, daemon=True)
    thread.start()
    thread.join(_RESPONSE_SECONDS)
    if thread.is_alive():
        raise TimeoutError("the name node did not respond")
    if errors:
        raise errors[0]
