"""Serve an index by HTTP: for crawlers in any language, and for people at the page it shows.

DIR is the folder of an index, as mr-dedup index create makes it. Calls and answers are JSON, and
described at /openapi.json; the page at / shows how two texts are compared and found. The index is
open for writing as long as it is served; other processes may read it.

Without a token only this machine is served. A token is the content of --token-file, or of the
environment variable MR_DEDUP_TOKEN; then every call has to tell it, as Authorization: Bearer.
SIGTERM or Ctrl-C ends it, when the calls that have begun are answered.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mr_dedup.cli.arguments import byte_size, positive
from mr_dedup.cli.streams import printable

HELP = "serve an index by HTTP, with a page that shows how it works"

DEFAULT_PORT = 8640


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of the index")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS",
        help="the address to serve at; any but this machine's own needs a token "
        "(default 127.0.0.1)",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=_port, default=DEFAULT_PORT, metavar="N",
        help=f"the port; 0 is any that is free (default {DEFAULT_PORT})",
    )  # fmt: skip
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="the file with the token of callers"
    )
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--max-body", type=byte_size, default="4MB", metavar="SIZE",
        help="the largest body of a call (default 4MB)",
    )  # fmt: skip
    limits.add_argument(
        "--max-batch", type=positive, default=4096, metavar="N",
        help="the most documents of a call (default 4096)",
    )  # fmt: skip
    limits.add_argument(
        "--max-seconds", type=positive, default=30, metavar="N",
        help="the longest that a body may take to come, and an answer to be made and to be taken "
        "(default 30)",
    )  # fmt: skip
    limits.add_argument(
        "--max-header-seconds", type=positive, default=10, metavar="N",
        help="the longest that the header of a call may take to come (default 10)",
    )  # fmt: skip
    limits.add_argument(
        "--max-connections", type=positive, default=1000, metavar="N",
        help="the most connections at a time, fewer where too few open files are allowed; beyond "
        "it the one is closed that waits longest for its other side (default 1000)",
    )  # fmt: skip
    limits.add_argument(
        "--max-calls", type=positive, default=256, metavar="N",
        help="the most calls at a time (default 256)",
    )  # fmt: skip
    limits.add_argument(
        "--max-matches", type=positive, default=100_000, metavar="N",
        help="the most matches of an answer, of all its documents together (default 100000)",
    )  # fmt: skip
    parser.add_argument(
        "--no-check", action="store_true",
        help="hold blocks against their checksums when they are needed, not all at first",
    )  # fmt: skip
    parser.add_argument(
        "--relaxed", action="store_true",
        help="force changes to the disk once a second: a loss of power may cost the last",
    )  # fmt: skip


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) >= 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is no port from 0 to 65535")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from mr_dedup.errors import MrDedupError

    try:
        import prometheus_client  # noqa: F401 (to be missed before an index is opened)
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MrDedupError(
            f"serve needs the package {error.name}: pip install 'mr-dedup[server]'"
        ) from error
    from mr_dedup.index.hamming_index import HammingIndex
    from mr_dedup.index.http_token import VARIABLE, read_token
    from mr_dedup.interrupts import no_forced_end
    from mr_dedup.server.service import Limits, NotWarmError, Service
    from mr_dedup.server.serving import IndexServer, bound

    token = read_token(arguments.token_file)
    try:
        limits = Limits(
            arguments.max_body, arguments.max_batch, arguments.max_seconds, arguments.max_calls,
            arguments.max_matches, arguments.max_connections, arguments.max_header_seconds,
        )  # fmt: skip
    except ValueError as error:
        raise MrDedupError(str(error)) from error
    try:
        sock = bound(arguments.host, arguments.port, token)
    except MrDedupError as error:
        hint = f"; give --token-file or {VARIABLE}" if "needs a token" in str(error) else ""
        raise MrDedupError(f"{error}{hint}") from error
    with (
        # calls that have begun are answered
        no_forced_end(),
        sock,
        HammingIndex.open(
            arguments.folder, relaxed=arguments.relaxed, check=not arguments.no_check
        ) as index,
    ):
        service = Service(index, limits)
        try:
            service.warm()
        except NotWarmError as error:
            _say(printable(str(error)))
        server = IndexServer(service, token, sock)
        _say(f"serving {printable(str(arguments.folder))} at {_url(sock.getsockname())}")
        server.serve_until_stopped()
    _say(f"stopped; {printable(str(arguments.folder))} is closed")
    return 0


def _url(address: tuple[str, int]) -> str:
    host, port = address[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _say(message: str) -> None:
    print(f"mr-dedup: {message}", file=sys.stderr, flush=True)
