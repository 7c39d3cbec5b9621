"""Errors of stores: which of them may pass, and each as one line that names the URI."""

from __future__ import annotations

import contextlib
import errno
import re
import ssl
import sys
from collections.abc import Iterator

from mr_dedup.errors import MrDedupError, UnreadableError, shortened
from mr_dedup.redaction import redacted
from mr_dedup.storage.hdfs import hadoop_reason
from mr_dedup.storage.uris import scheme_of, without_secrets

_PACKAGES = {
    "adlfs",
    "aiobotocore",
    "aiohttp",
    "azure",
    "botocore",
    "fsspec",
    "gcsfs",
    "google",
    "hdfs_native",
    "hf_xet",
    "httpcore",
    "httpcore2",
    "httpx",
    "httpx2",
    "huggingface_hub",
    "requests",
    "s3fs",
    "urllib3",
}
"""Packages whose exceptions are failures of a store, not bugs."""

_TIMEOUTS: tuple[type[BaseException], ...] = (TimeoutError,)
if sys.version_info < (3, 11):
    # from then on it is the same, and its import takes 20 ms
    import asyncio

    _TIMEOUTS = (TimeoutError, asyncio.TimeoutError)

_CREDENTIALS = {
    "CredentialRetrievalError",
    "DefaultCredentialsError",
    "NoAuthTokenError",
    "NoCredentialsError",
    "PartialCredentialsError",
    "ProfileNotFound",
    "RefreshError",
    "SSOError",
    "TokenRetrievalError",
}
"""Exceptions by name that mean: there are no credentials, or they cannot be used."""

_TRANSIENT_NUMBERS = {
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.EPIPE,
    errno.ETIMEDOUT,
    errno.EBUSY,
    errno.EIO,
}
_TRANSIENT_STATUSES = {408, 425, 429}
_TRANSIENT_NAMES = (
    "Checksum",
    "ChunkedEncoding",
    "Connection",
    "Disconnected",
    "IncompleteRead",
    "NetworkError",
    "Payload",
    "ProtocolError",
    "ProxyError",
    "ServiceRequest",
    "ServiceResponse",
    "Timeout",
)
"""Parts of the names of exceptions of a connection that failed, or ended too early."""

_FINAL = (
    FileNotFoundError,
    PermissionError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
    ssl.SSLCertVerificationError,
)
_MISSING_STATUSES = {404, 410}
_DENIED_STATUSES = {401, 403}
_DENIED = "access denied"
_WEB_ADDRESS = re.compile(r"https?://[^\s'\"<>)\],]+")


class ChangedError(MrDedupError):
    """A file is not the one that was listed."""

    def __init__(self, uri: str) -> None:
        super().__init__(f"{without_secrets(uri)}: was changed while it was read")


class ShortReadError(OSError):
    """A response with fewer bytes than were requested."""


class ResponseError(OSError):
    """A response of a web server with something else than the file."""


class ChecksumError(ShortReadError):
    """A response with other bytes than were sent, by its checksum."""


def is_damage(error: BaseException) -> bool:
    """Return whether an exception reports that bytes were changed on the way, by a checksum."""
    return any("Checksum" in kind.__name__ for kind in type(error).__mro__)


@contextlib.contextmanager
def storage_errors(uri: str) -> Iterator[None]:
    """Raise what a store or its package refuses in the block as MrDedupError, naming ``uri``.

    As UnreadableError for a file that is not there, or is forbidden.

    Other exceptions are raised as they are: they are bugs.

    >>> with storage_errors("s3://crawl/a.jsonl"):
    ...     raise FileNotFoundError("crawl/a.jsonl")
    Traceback (most recent call last):
    mr_dedup.errors.UnreadableError: s3://crawl/a.jsonl: no such file
    """
    try:
        yield
    except MrDedupError:
        raise
    except Exception as error:
        # hdfs-native has no class of its own for what Hadoop refuses
        if type(error) is RuntimeError and scheme_of(uri) in ("hdfs", "viewfs"):
            raise MrDedupError(f"{uri}: {hadoop_reason(error)}") from error
        if not is_of_a_store(error):
            raise
        reason = reason_of(error)
        if is_missing(error) or reason.startswith(_DENIED):
            raise UnreadableError(without_secrets(uri), reason) from error
        raise MrDedupError(f"{without_secrets(uri)}: {reason}") from error


def is_of_a_store(error: BaseException) -> bool:
    """Return whether an exception reports a failure of a store or of the network."""
    if isinstance(error, (OSError, *_TIMEOUTS)):
        return True
    return any(kind.__module__.partition(".")[0] in _PACKAGES for kind in type(error).__mro__)


def is_missing(error: BaseException) -> bool:
    """Return whether an exception reports that there is no such file.

    fsspec reports any failure of a web server as FileNotFoundError: what caused it counts.
    """
    error = _origin(error)
    return isinstance(error, FileNotFoundError) or _status(error) in _MISSING_STATUSES


def is_transient(error: BaseException) -> bool:
    """Return whether the same request may succeed if it is repeated.

    >>> is_transient(ConnectionResetError()), is_transient(PermissionError())
    (True, False)
    """
    error = _origin(error)
    if not is_of_a_store(error) or any(isinstance(each, _FINAL) for each in _chain(error)):
        return False
    kinds: tuple[type[BaseException], ...] = (ConnectionError, *_TIMEOUTS, ShortReadError)
    if isinstance(error, kinds):
        return True
    status = _status(error)
    if status is not None:
        return status >= 500 or status in _TRANSIENT_STATUSES
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _TRANSIENT_NUMBERS
    names = [kind.__name__ for kind in type(error).__mro__]
    return any(part in name for name in names for part in _TRANSIENT_NAMES)


def reason_of(error: BaseException) -> str:
    """Return why a store failed, in a few words, without credentials."""
    error = _origin(error)
    chain = list(_chain(error))
    names = {kind.__name__ for each in chain for kind in type(each).__mro__}
    status = _status(error)
    if names & _CREDENTIALS:
        return (
            f"no credentials: {_message(error)}; they are looked for as the store's own tools do, "
            "in the environment and in the configuration of this user"
        )
    if any(word in _message(error).lower() for word in ("bucket does not", "no such container")):
        return "no such bucket"
    if is_missing(error):
        return "no such file"
    if isinstance(error, PermissionError) or status in _DENIED_STATUSES or _is_forbidden(error):
        return f"{_DENIED}: {_message(error)}"
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        return "the store did not respond in time"
    return _message(error) + (f" (HTTP status {status})" if status else "")


def _is_forbidden(error: BaseException) -> bool:
    """Return whether it is gcsfs's error for the status 403, which has its words alone."""
    return type(error) is OSError and str(error).startswith("Forbidden")


def _origin(error: BaseException) -> BaseException:
    """Return the failure of a web server that fsspec reports as FileNotFoundError."""
    cause = error.__cause__
    if isinstance(error, FileNotFoundError) and cause is not None and _is_of_the_web(cause):
        return cause
    return error


def _is_of_the_web(error: BaseException) -> bool:
    of_the_web = isinstance(error, (TimeoutError, ResponseError))
    return of_the_web or type(error).__module__.startswith("aiohttp")


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__


def _status(error: BaseException) -> int | None:
    """Return the HTTP status that an exception, or what caused it, reports."""
    for each in _chain(error):
        if type(each).__module__ == "aiohttp.http_exceptions":
            # of a response that is cut off: its status is not the server's
            continue
        response = getattr(each, "response", None)
        # aiohttp has "status", azure "status_code", gcsfs "code"
        names = (name for name in ("status", "status_code", "code") if name in dir(each))
        found = [getattr(each, next(names, ""), None)]
        if isinstance(response, dict):
            found.append(response.get("ResponseMetadata", {}).get("HTTPStatusCode"))
        elif response is not None:
            found += [getattr(response, "status_code", None), getattr(response, "status", None)]
        for value in found:
            if isinstance(value, int) and 400 <= value < 600:
                return value
    return None


def _message(error: BaseException) -> str:
    """Return what an exception says, in one line, without what may be a credential."""
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    said = " ".join(str(said).split()).rstrip(".")
    said = _WEB_ADDRESS.sub(lambda found: without_secrets(found[0]), redacted(said))
    return shortened(said, 300) or type(error).__name__
