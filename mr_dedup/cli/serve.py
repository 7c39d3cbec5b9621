"""Serve an index over HTTP: for crawlers in any language, and with a web page for people.

DIR is the directory of an index, as mr-dedup index create makes it. Requests and responses are
JSON, described at /openapi.json; the page at / shows the state of the index and finds the
near-duplicates of a document. The index is open for writing while it is served; other processes may
read it.

Without a token the server only answers requests from this machine. The token is read from
--token-file, or from the environment variable MR_DEDUP_TOKEN; every request must then have the
header Authorization: Bearer TOKEN. SIGTERM or Ctrl-C stops the server once it has responded to the
requests in progress.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mr_dedup.cli.arguments import byte_size, positive
from mr_dedup.cli.remote_files import local_path
from mr_dedup.cli.streams import print_message, printable
from mr_dedup.errors import MrDedupError
from mr_dedup.index.http_token import VARIABLE, read_token
from mr_dedup.interrupts import no_forced_end

DEFAULT_PORT = 8640


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    parser.add_argument("folder", type=local_path, metavar="DIR", help="the directory of the index")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS",
        help="the address to listen at; any but a loopback address needs a token "
        "(default 127.0.0.1)",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=_port, default=DEFAULT_PORT, metavar="N",
        help=f"the port; 0 for any free one (default {DEFAULT_PORT})",
    )  # fmt: skip
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="the file with the bearer token"
    )
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--max-body", type=byte_size, default="4MB", metavar="SIZE",
        help="the largest body of a request (default 4MB)",
    )  # fmt: skip
    limits.add_argument(
        "--max-batch", type=positive, default=4096, metavar="N",
        help="the most documents in a request (default 4096)",
    )  # fmt: skip
    limits.add_argument(
        "--max-seconds", type=positive, default=30, metavar="N",
        help="how long the body of a request may take to arrive, and a response to be computed and "
        "to be read (default 30)",
    )  # fmt: skip
    limits.add_argument(
        "--max-header-seconds", type=positive, default=10, metavar="N",
        help="how long the header of a request may take to arrive (default 10)",
    )  # fmt: skip
    limits.add_argument(
        "--max-connections", type=positive, default=1000, metavar="N",
        help="the most open connections, fewer where too few open files are allowed; beyond it the "
        "one that has been waiting longest for its client is closed (default 1000)",
    )  # fmt: skip
    limits.add_argument(
        "--max-calls", type=positive, default=256, metavar="N",
        help="the most requests in progress (default 256)",
    )  # fmt: skip
    limits.add_argument(
        "--max-matches", type=positive, default=100_000, metavar="N",
        help="the most matches in a response, over all its documents (default 100000)",
    )  # fmt: skip
    parser.add_argument(
        "--no-check", action="store_true",
        help="verify the checksum of a block when it is first read, not all at the start",
    )  # fmt: skip
    parser.add_argument(
        "--relaxed", action="store_true",
        help="sync changes to disk once a second: a power failure may lose the last ones",
    )  # fmt: skip


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) >= 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    # packages of an extra
    try:
        from mr_dedup.index.hamming_index import HammingIndex
        from mr_dedup.kernels.library import load_kernels
        from mr_dedup.server.service import Limits, Service
        from mr_dedup.server.serving import IndexServer, listening_socket
    except ModuleNotFoundError as error:
        raise MrDedupError(
            f"serve needs the package {error.name}: pip install 'mr-dedup[server]'"
        ) from error

    token = read_token(arguments.token_file)
    try:
        limits = Limits(
            max_body_bytes=arguments.max_body,
            max_batch=arguments.max_batch,
            timeout_seconds=arguments.max_seconds,
            max_calls=arguments.max_calls,
            max_matches=arguments.max_matches,
            max_connections=arguments.max_connections,
            header_timeout_seconds=arguments.max_header_seconds,
        )
    except ValueError as error:
        raise MrDedupError(str(error)) from error
    try:
        sock = listening_socket(arguments.host, arguments.port, token)
    except MrDedupError as error:
        hint = f"; give --token-file or {VARIABLE}" if "needs a token" in str(error) else ""
        raise MrDedupError(f"{error}{hint}") from error
    folder = printable(str(arguments.folder))
    with (
        # requests in progress are completed
        no_forced_end(),
        sock,
        HammingIndex.open(
            arguments.folder, relaxed=arguments.relaxed, check=not arguments.no_check
        ) as index,
    ):
        load_kernels()
        service = Service(index, limits)
        server = IndexServer(service, token, sock)
        print_message(f"serving {folder} at {_url(sock.getsockname())}")
        server.serve_until_stopped()
    print_message(f"stopped; {folder} is closed")
    return 0


def _url(address: tuple[str, int]) -> str:
    host, port = address[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
