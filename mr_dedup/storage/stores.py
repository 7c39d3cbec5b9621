"""The kinds of stores, each by the package that its users have; imported when it is needed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mr_dedup.errors import MrDedupError
from mr_dedup.storage.errors import storage_errors
from mr_dedup.storage.uris import scheme_of, without_secrets

_CONNECT_SECONDS, _READ_SECONDS = 10, 30
"""A server that does not respond for so long is asked again, or given up."""

_ATTEMPTS = 5
"""Of a request that the store's own package repeats."""

_CONNECTIONS = 32


@dataclass(frozen=True)
class Store:
    """A kind of store.

    Attributes:
        protocol: Its name in fsspec.
        module: The module that reads it.
        extra: The extra of this package that installs the module.
        is_writable: Whether results can be written there.
        lists: Whether it has directories.
        renames: Whether a directory is renamed at once, as a whole.
        options: Arguments for fsspec, which the user's configuration of fsspec overrides.
    """

    protocol: str
    module: str
    extra: str
    is_writable: bool = True
    lists: bool = True
    renames: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


_S3 = Store(
    "s3", "s3fs", "s3",
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
_GCS = Store("gs", "gcsfs", "gcs", options={"use_listings_cache": False})
_AZURE = Store("abfs", "adlfs", "azure", options={"use_listings_cache": False})
_HDFS = Store("hdfs", "hdfs_native", "hdfs", renames=True)
_HTTP = Store(
    "http", "aiohttp", "http", is_writable=False, lists=False,
    options={
        "use_listings_cache": False,
        # compressed on the way, its size would be another one
        "headers": {"Accept-Encoding": "identity"},
    },
)  # fmt: skip
_HUB = Store("hf", "huggingface_hub", "hf", is_writable=False)

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
    import fsspec

    configured = fsspec.config.conf.get(store.protocol, {})
    options = {name: value for name, value in store.options.items() if name not in configured}
    if store is _HTTP:
        aiohttp = importlib.import_module("aiohttp")
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_SECONDS, sock_read=_READ_SECONDS
        )
        options.setdefault("client_kwargs", {"timeout": timeout})
    with storage_errors(uri):
        system, path = fsspec.core.url_to_fs(uri, **options)
    if store is _S3:
        # this package repeats what was read in part; the store's, requests that were refused
        system.retries = 1
    return system, path
