"""The kinds of stores, each by the package that its users have; imported when it is needed."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from mr_dedup.errors import MrDedupError
from mr_dedup.storage.errors import ResponseError, storage_errors
from mr_dedup.storage.hdfs import hdfs_class
from mr_dedup.storage.uris import scheme_of, without_secrets

_CONNECT_SECONDS, _READ_SECONDS = 10, 30
"""A server that does not respond for so long is asked again, or given up."""

_ATTEMPTS = 5
"""Of a request that the store's own package repeats."""

_CONNECTIONS = 32

_STREAMED_BYTES = 64 << 20
"""What one request reads of a store whose responses are streamed: few requests a file."""

_BUCKET_TYPES = "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"
"""The variable with which a user has gcsfs look up the type of each bucket, or not."""

_QUOTED = re.compile(r"([!#$&-;=?-\[\]_a-z~]|%[0-9A-Fa-f]{2})*")
"""A web address without characters that have to be quoted."""


@dataclass(frozen=True, eq=False)
class Store:
    """A kind of store.

    Attributes:
        protocol: Its name in fsspec.
        module: The module that reads it.
        extra: The extra of this package that installs the module.
        is_writable: Whether results can be written there.
        lists: Whether it has directories.
        renames: Whether a directory is renamed at once, as a whole.
        tries: How often a request is tried by this package: the store's own repeats some too.
        piece_bytes: How much one request reads. A package that does not stream buffers all of it.
        info_options: Arguments for fsspec's ``info``: a file's status now, not a remembered one.
        put_options: Arguments for fsspec's ``put_file``, with which checksums are compared; S3's
            package sends them anyway.
        options: Arguments for fsspec, which the user's configuration of fsspec overrides.
    """

    protocol: str
    module: str
    extra: str
    is_writable: bool = True
    lists: bool = True
    renames: bool = False
    tries: int = 3
    piece_bytes: int = 8 << 20
    info_options: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    put_options: Mapping[str, Any] = field(default_factory=dict)


_S3 = Store(
    "s3", "s3fs", "s3", piece_bytes=_STREAMED_BYTES,
    options={
        "use_listings_cache": False,
        "config_kwargs": {
            "connect_timeout": _CONNECT_SECONDS,
            "read_timeout": _READ_SECONDS,
            "max_pool_connections": _CONNECTIONS,
            "retries": {"mode": "standard", "max_attempts": _ATTEMPTS},
        },
    },
)  # fmt: skip
_GCS = Store(
    "gs", "gcsfs", "gcs", options={"use_listings_cache": False},
    put_options={"consistency": "md5"},
)  # fmt: skip
_AZURE = Store(
    "abfs", "adlfs", "azure", put_options={"validate_content": True},
    options={
        "use_listings_cache": False,
        "connection_timeout": _CONNECT_SECONDS,
        "read_timeout": _READ_SECONDS,
    },
)  # fmt: skip
_HDFS = Store("hdfs", "hdfs_native", "hdfs", renames=True, piece_bytes=_STREAMED_BYTES)
_HTTP = Store(
    "http", "aiohttp", "http", is_writable=False, lists=False, tries=5, piece_bytes=_STREAMED_BYTES,
    options={
        "use_listings_cache": False,
        # compressed on the way, its size would be another one
        "headers": {"Accept-Encoding": "identity"},
    },
)  # fmt: skip
_HUB = Store(
    "hf", "huggingface_hub", "hf", is_writable=False,
    info_options={"refresh": True, "expand_info": True},
)  # fmt: skip

_kept: dict[int, Any] = {}
"""File systems that were opened. Forked processes inherit them, and must not end them.

fsspec empties its cache in a forked process. A file system that is freed there takes its sockets
out of the epoll instance that it shares with its parent, which then waits for them in vain (30 s);
that of HDFS waits for threads that only its parent has.
"""

STORES: dict[str, Store] = {
    "s3": _S3,
    "s3a": _S3,
    "s3n": _S3,
    "gs": _GCS,
    "gcs": _GCS,
    "az": _AZURE,
    "abfs": _AZURE,
    "abfss": _AZURE,
    "hdfs": _HDFS,
    "viewfs": _HDFS,
    "http": _HTTP,
    "https": _HTTP,
    "hf": _HUB,
}
"""The stores by the schemes of their URIs."""


def store_of(uri: str) -> Store:
    """Return the store of a URI; raises MrDedupError for an unknown scheme.

    >>> store_of("gs://crawl/pages.jsonl").extra
    'gcs'
    """
    store = STORES.get(scheme_of(uri))
    if store is None:
        raise MrDedupError(
            f"{without_secrets(uri)}: not a URI of a known store ({'://, '.join(STORES)}://)"
        )
    return store


def require_writable(uri: str) -> None:
    """Raise MrDedupError for a URI of a store that is only read."""
    if not store_of(uri).is_writable:
        raise MrDedupError(
            f"{without_secrets(uri)}: {scheme_of(uri)}:// is only read; write to another store"
        )


def open_store(uri: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URI, and the path in it.

    Credentials and endpoints are found by the store's package. File systems are cached by fsspec.
    Raises MrDedupError if its package is not installed, or refuses the URI.
    """
    store = store_of(uri)
    if importlib.util.find_spec(store.module) is None:
        raise MrDedupError(
            f"{without_secrets(uri)}: needs the package {store.module}: "
            f"pip install 'mr-dedup[{store.extra}]'"
        )
    _silence(store.module)
    try:
        with storage_errors(uri):
            kind = _class_of(store, scheme_of(uri))
            options = _options(store, kind)
            if store in (_HDFS, _AZURE):
                options |= kind._get_kwargs_from_urls(uri)
            if store is _HTTP and not urlsplit(uri).hostname:
                raise ValueError("not a web address")
            if store in (_S3, _GCS, _HUB) and "@" in uri.split("/")[2]:
                raise ValueError(
                    f"{scheme_of(uri)}:// takes no user and password: credentials are looked for "
                    "as the store's own tools do, in the environment and in the configuration of "
                    "this user"
                )
            if store is _HTTP:
                # one that is quoted is sent as it is: its signature would not fit another
                options["encoded"] = _QUOTED.fullmatch(uri) is not None
            scheme = scheme_of(uri) if store is _HTTP else store.protocol
            # not fsspec.core.url_to_fs, which splits a URI at "::"
            system = kind(**options)
            path = kind._strip_protocol(scheme + uri[uri.index("://") :])
            _kept[id(system)] = system
    except (ValueError, ImportError) as error:
        raise MrDedupError(f"{without_secrets(uri)}: {error}") from error
    if store is _S3:
        # this package repeats what was read in part; the store's, requests that were refused
        system.retries = 1
    if store is _HUB:
        # it remembers listings, whatever it is passed
        system.dircache.clear()
    return system, path


def _options(store: Store, kind: Any) -> dict[str, Any]:
    """Return the arguments for fsspec that the user's configuration of fsspec does not give."""
    import fsspec

    names = (kind.protocol,) if isinstance(kind.protocol, str) else kind.protocol
    configured = {option for name in names for option in fsspec.config.conf.get(name, {})}
    options = dict(store.options)
    if store in (_HTTP, _GCS):
        aiohttp = importlib.import_module("aiohttp")
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_SECONDS, sock_read=_READ_SECONDS
        )
        if store is _GCS:
            options["requests_timeout"] = timeout
        else:
            # proxies are found in the environment; bytes are wanted as the server stores them
            options["client_kwargs"] = {
                "timeout": timeout,
                "trust_env": True,
                "auto_decompress": False,
                "raise_for_status": _require_content,
            }
    return {name: value for name, value in options.items() if name not in configured}


async def _require_content(response: Any) -> None:
    """Raise ResponseError for a response that is neither a file nor an error, such as 304.

    Redirects have been followed.
    """
    if response.status < 400 and response.status not in (200, 203, 206):
        raise ResponseError(f"the server sends no file (HTTP status {response.status})")


@functools.cache
def _class_of(store: Store, scheme: str) -> Any:
    """Return fsspec's class of file systems for a store."""
    import fsspec

    if store is _HDFS:
        return hdfs_class(scheme)
    if store is _GCS and _BUCKET_TYPES not in os.environ:
        # gcsfs from 2026.3 on asks for the type of a bucket by gRPC, which has threads that do not
        # survive a fork, and without credentials before each request, for seconds
        return importlib.import_module("gcsfs.core").GCSFileSystem
    kind = fsspec.get_filesystem_class(store.protocol)
    if store is not _AZURE:
        return kind

    def stripped(cls: Any, path: Any) -> Any:
        if isinstance(path, list):
            return [stripped(cls, each) for each in path]
        path = re.sub(r"^[a-z]+://", "", path)
        # abfs://container@account.dfs.core.windows.net/path
        return re.sub(r"^([^/@]*)@[^/]*", r"\1", path).lstrip("/")

    # theirs parses paths as web addresses: it ends a name at its first # or ?
    return type(kind.__name__, (kind,), {"_strip_protocol": classmethod(stripped)})


def _silence(module: str) -> None:
    """Keep a store's package from reporting failures that are repeated, or raised anyway."""
    logger = logging.getLogger(module)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
