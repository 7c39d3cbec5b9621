"""Servers on this machine that stand for stores: real protocols, over real sockets."""

import base64
import contextlib
import hashlib
import http.client
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

PIECE_BYTES = 1 << 20
"""What one request reads in these tests."""


AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""Of the account that every Azurite has."""


class QuietServer(http.server.ThreadingHTTPServer):
    """An HTTP server that reports no broken connections: here they are broken on purpose."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # a response in two segments waits for 40 ms otherwise
    disable_nagle_algorithm = True

    def log_message(self, *words):
        pass

    def send(self, status, content=b"", headers=()):
        """Send a response; of HEAD requests the headers alone."""
        self.send_response(status)
        for name, value in {"Content-Length": len(content), **dict(headers)}.items():
            if value is not None:
                self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_chunked(self, status, content, headers=(), is_cut=False):
        """Send a response of unknown size, without its end if it ``is_cut``."""
        dropped = {"Content-Length": None, "Transfer-Encoding": "chunked"}
        command, self.command = self.command, "HEAD"
        self.send(status, b"", {**dict(headers), **dropped})
        self.command = command
        if self.command == "HEAD":
            return
        for start in range(0, len(content), 1 << 16):
            piece = content[start : start + (1 << 16)]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        if not is_cut:
            self.wfile.write(b"0\r\n\r\n")


@contextlib.contextmanager
def serving(handler, **attributes) -> Iterator[QuietServer]:
    """Yield a server with some attributes, for its handler; ``server.uri`` is its address."""
    server = QuietServer(("127.0.0.1", 0), handler)
    for name, value in attributes.items():
        setattr(server, name, value)
    server.uri = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def range_of(header, size):
    """The first and last byte that a Range header requests; None if there is none."""
    found = re.fullmatch(r"bytes=(\d+)-(\d*)", header or "")
    if found is None:
        return None
    return int(found[1]), min(size - 1, int(found[2] or size))


# a web server


@dataclass
class WebFile:
    """A file of a web server, and how it is sent."""

    content: bytes
    has_etag: bool = True
    has_ranges: bool = True
    has_length: bool = True
    has_head: bool = True
    headers: dict = field(default_factory=dict)

    @property
    def etag(self):
        return f'"{hashlib.md5(self.content).hexdigest()}"' if self.has_etag else None


class WebHandler(Handler):
    def do_GET(self):
        self.server.requests.append((self.command, self.path, self.headers.get("Range")))
        # a file of one query, or of all
        plain = unquote(urlsplit(self.path).path)
        file = self.server.files.get(self.path, self.server.files.get(plain))
        if isinstance(file, int):
            # these two have no body
            self.send(file, b"" if file in (204, 304) else b"no")
        elif file is None:
            self.send(404, b"nothing here")
        elif self.command == "HEAD" and not file.has_head:
            self.send(405)
        elif not file.has_length:
            self.send_chunked(200, file.content, {"ETag": file.etag, **file.headers})
        else:
            self.send_file(file)

    do_HEAD = do_GET

    def send_file(self, file):
        headers = {"ETag": file.etag, **file.headers}
        part = range_of(self.headers.get("Range"), len(file.content)) if file.has_ranges else None
        if part is None:
            self.send(200, file.content, headers)
        elif part[0] >= len(file.content):
            self.send(416, b"", {"Content-Range": f"bytes */{len(file.content)}"})
        else:
            headers["Content-Range"] = f"bytes {part[0]}-{part[1]}/{len(file.content)}"
            self.send(206, file.content[part[0] : part[1] + 1], headers)


def web_server():
    """Yield a web server; ``files`` has its files by path, or the status of an error.

    A path may have a query.
    """
    return serving(WebHandler, files={}, requests=[])


# the Hub of Hugging Face: as much as HfFileSystem needs

REPOSITORY = "datasets/farm/crawl"


class HubHandler(Handler):
    page = 1000

    def do_GET(self):
        path, query = unquote(urlsplit(self.path).path), parse_qs(urlsplit(self.path).query)
        self.server.requests.append((self.command, path))
        api = f"/api/{REPOSITORY}"
        if self.headers.get("Authorization") == "Bearer wrong":
            self.send(401, b'{"error":"Invalid credentials"}')
        elif path == api or path.startswith(f"{api}/revision/"):
            revision = path.rpartition("/revision/")[2] if "/revision/" in path else "main"
            if revision in ("main", "refs/pr/1"):
                self.send_json({"id": "farm/crawl", "sha": "0" * 40, "private": False})
            else:
                self.send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        elif found := re.fullmatch(rf"{api}/tree/(main|refs/pr/1)/?(.*)", path):
            self.send_tree(found[2], query)
        elif found := re.fullmatch(rf"{api}/paths-info/(main|refs/pr/1)", path):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            paths = parse_qs(body)["paths"] if "paths=" in body else json.loads(body)["paths"]
            self.send_json([each for p in paths for each in self.entries() if each["path"] == p])
        elif found := re.fullmatch(rf"/{REPOSITORY}/resolve/(main|refs/pr/1)/(.*)", path):
            self.send_content(found[2])
        else:
            self.send(404, b'{"error":"Repository not found"}', {"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_POST = do_GET

    def send_json(self, value, headers=()):
        content = json.dumps(value).encode()
        self.send(200, content, {"Content-Type": "application/json", **dict(headers)})

    def entries(self):
        """All files and directories, as the Hub describes them."""
        folders = {}
        for path, content in sorted(self.server.files.items()):
            for number, letter in enumerate(path):
                if letter == "/":
                    oid = hashlib.sha1(path[:number].encode()).hexdigest()
                    folders[path[:number]] = {
                        "type": "directory", "oid": oid, "size": 0, "path": path[:number],
                    }  # fmt: skip
            oid = hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()
            entry = {"type": "file", "oid": oid, "size": len(content), "path": path}
            if path.endswith((".parquet", ".bin")):
                sha = self.server.checksums.get(path) or hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"oid": sha, "size": len(content), "pointerSize": 130}
            yield entry
        yield from folders.values()

    def send_tree(self, folder, query):
        below = f"{folder}/" if folder else ""
        recursive = query.get("recursive", ["false"])[0].lower() in ("true", "1")
        found = [
            entry
            for entry in sorted(self.entries(), key=lambda entry: entry["path"])
            if entry["path"].startswith(below)
            and (recursive or "/" not in entry["path"][len(below) :])
        ]
        if folder and not found:
            self.send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
            return
        start = int(query.get("cursor", ["0"])[0])
        headers = {}
        if start + self.page < len(found):
            more = f"{self.server.uri}{urlsplit(self.path).path}?recursive={recursive}"
            headers["Link"] = f'<{more}&cursor={start + self.page}>; rel="next"'
        self.send_json(found[start : start + self.page], headers)

    def send_content(self, path):
        content = self.server.files.get(path)
        if content is None:
            self.send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
            return
        part = range_of(self.headers.get("Range"), len(content))
        headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": "0" * 40}
        if part is None:
            self.send(200, content, headers)
        else:
            headers["Content-Range"] = f"bytes {part[0]}-{part[1]}/{len(content)}"
            self.send(206, content[part[0] : part[1] + 1], headers)


def hub():
    """Yield a Hub with one repository; ``files`` has its files by path."""
    return serving(HubHandler, files={}, checksums={}, requests=[])


# a proxy that breaks responses


@dataclass
class Fault:
    """What the proxy does with the next ``times`` requests whose ``METHOD path`` matches.

    ``kind`` is a status, ``close`` for half a body, ``reset`` for nothing at all, ``hang`` for a
    response that never comes, ``slow`` for one that takes 20 s, or a function that returns
    (status, headers, body).
    """

    pattern: str
    kind: object
    times: int = 1 << 30
    met: int = 0


def lost(*_):
    """What a proxy does that has passed a request on, and loses the response."""
    raise ConnectionResetError


_ERRORS = {
    503: b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>",
    500: b"<Error><Code>InternalError</Code><Message>We failed.</Message></Error>",
    403: b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
}


class ProxyHandler(Handler):
    def do_GET(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = self.read_chunked()
        with self.server.lock:
            self.server.requests.append(self.described())
            fault = next((each for each in self.server.faults if self.fits(each)), None)
            if fault is not None:
                fault.met += 1
        kind = fault and fault.kind
        if kind == "hang":
            self.close_connection = True
            self.server.released.wait(60)
        elif kind == "reset":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif isinstance(kind, int):
            self.send(kind, _ERRORS.get(kind, b"no"), {"Content-Type": "application/xml"})
        else:
            self.forward(body, kind)

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_GET

    def send_slowly(self, status, content, headers):
        self.close_connection = True
        self.send(status, b"", {**headers, "Content-Length": len(content)})
        step = -(-len(content) // 40)
        for start in range(0, len(content), step):
            self.wfile.write(content[start : start + step])
            if self.server.released.wait(0.5):
                break

    def described(self):
        part = self.headers.get("Range") or self.headers.get("x-ms-range") or ""
        return f"{self.command} {unquote(self.path)} {part}"

    def fits(self, fault):
        return fault.met < fault.times and re.search(fault.pattern, self.described())

    def read_chunked(self):
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def forward(self, body, kind):
        upstream = http.client.HTTPConnection(*self.server.upstream, timeout=60)
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                upstream.putheader(name, value)
        upstream.putheader("Content-Length", str(len(body)))
        upstream.endheaders(body)
        response = upstream.getresponse()
        content = response.read()
        upstream.close()
        dropped = ("transfer-encoding", "connection", "content-length", "date", "server")
        headers = {k: v for k, v in response.getheaders() if k.lower() not in dropped}
        if self.command == "HEAD":
            headers["Content-Length"] = response.getheader("Content-Length")
        status = response.status
        if callable(kind):
            status, headers, content = kind(status, headers, content)
        elif kind == "close":
            headers["Content-Length"] = len(content)
            content = content[: len(content) // 2]
            self.close_connection = True
        if kind == "slow":
            self.send_slowly(status, content, headers)
        elif response.getheader("Transfer-Encoding") == "chunked":
            self.send_chunked(status, content, headers, kind == "close")
        else:
            self.send(status, content, headers)


@contextlib.contextmanager
def faulty(uri) -> Iterator[QuietServer]:
    """Yield a proxy in front of a server; ``faults`` has what it does, at first nothing."""
    upstream = (urlsplit(uri).hostname, urlsplit(uri).port)
    with serving(
        ProxyHandler,
        upstream=upstream,
        faults=[],
        requests=[],
        lock=threading.Lock(),
        released=threading.Event(),
    ) as server:
        try:
            yield server
        finally:
            server.released.set()


# emulators of others


@contextlib.contextmanager
def moto() -> Iterator[str]:
    """Yield the address of a server of S3; see ``moto_server``."""
    command = [sys.executable, "-m", "tests.storage.moto_server"]
    process = subprocess.Popen(
        command, cwd=Path(__file__).parents[2], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        port = int(process.stdout.readline())
        process.wait(timeout=30)
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def gcs() -> Iterator[str]:
    """Yield the address of a server of Google Cloud Storage."""
    from gcp_storage_emulator.server import create_server

    server = create_server("127.0.0.1", 0, in_memory=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{server._api._httpd.server_port}"
    finally:
        server.stop()


def azurite_program() -> Path:
    """The program of Microsoft's emulator of Azure, installed by npm at the first call."""
    found = shutil.which("azurite-blob")
    if found:
        return Path(found)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mr_dedup/azurite"
    program = cache / "node_modules/.bin/azurite-blob"
    if not program.exists():
        cache.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(cache), "azurite@3"]
        subprocess.run(install, check=True, capture_output=True, timeout=600)
    return program


@contextlib.contextmanager
def azurite() -> Iterator[str]:
    """Yield the address of a server of Azure Blob Storage."""
    port = free_port()
    command = [str(azurite_program()), "--blobPort", str(port), "--silent", "--disableTelemetry"]
    command += ["--skipApiVersionCheck", "--inMemoryPersistence"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            await_port(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def await_port(port: int, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on port {port}")


def request(method, uri, body=b"", headers=()):
    """Send a request past all of fsspec; return the response's body."""
    headers = {"Content-Type": "application/octet-stream", **dict(headers)}
    sent = urllib.request.Request(uri, body, headers, method=method)
    with urllib.request.urlopen(sent, timeout=30) as response:
        return response.read()


def md5_of(content):
    return base64.b64encode(hashlib.md5(content).digest()).decode()
