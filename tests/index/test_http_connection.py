"""Requests are sent with one write, over connections that are opened as urllib3 opens them."""

import contextlib
import socket
import threading

import pytest
import urllib3

from mr_dedup.index.http_connection import pool_manager

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_head_and_body_are_sent_with_one_write(scheme):
    connection = pool_manager().connection_from_url(f"{scheme}://localhost:1")._new_conn()
    # each write to such a socket is one message
    connection.sock, far = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with contextlib.closing(connection), far:
        for method, body in (("POST", b"one"), ("GET", None), ("PUT", b"\x00" * 1000)):
            connection.request(method, "/path", body=body)
            head, _, rest = far.recv(1 << 16).partition(b"\r\n\r\n")
            assert head.startswith(f"{method} /path HTTP/1.1\r\n".encode())
            assert rest == (body or b"")
            assert (f"\r\nContent-Length: {len(rest)}".encode() in head) == (body is not None)
            far.sendall(ANSWER)
            assert connection.getresponse().data == b"ok"


def test_a_connection_that_was_closed_is_opened_again():
    bodies = []
    with socket.create_server(("127.0.0.1", 0)) as sock, pool_manager(retries=1) as pool:

        def serve():
            for _ in range(2):
                with sock.accept()[0] as connection:
                    bodies.append(connection.recv(1 << 16).partition(b"\r\n\r\n")[2])
                    connection.sendall(ANSWER)

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{sock.getsockname()[1]}/"
        retries = urllib3.Retry(3, allowed_methods=None)
        for body in (b"one", b"two"):
            assert pool.request("POST", url, body=body, retries=retries).data == b"ok"
        thread.join()
    assert bodies == [b"one", b"two"]


def test_a_refused_connection_is_an_error_of_urllib3():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    with pool_manager(retries=False) as pool, pytest.raises(urllib3.exceptions.HTTPError):
        pool.request("POST", f"http://127.0.0.1:{port}/", body=b"one")
