"""``python -m tests.storage.moto_server``: a server of S3, in a process of its own.

Its memory, threads and late requests are so not those of the tests that use it. It prints its port
and goes on as nobody's child, until standard input ends. ``PUT /.fill/BUCKET`` with a list of names
adds objects at once.
"""

import json
import os
import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from moto.server import MotoRequestHandler
from werkzeug.serving import make_server

ACCOUNT = "123456789012"


def application():
    moto = DomainDispatcherApplication(create_backend_app)

    def answer(environ, start_response):
        _, _, bucket = environ["PATH_INFO"].partition("/.fill/")
        if not bucket:
            return moto(environ, start_response)
        names = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        for name in names:
            s3_backends[ACCOUNT]["aws"].put_object(bucket, name, b"{}")
        start_response("200 OK", [("Content-Length", "0")])
        return [b""]

    return answer


if __name__ == "__main__":
    server = make_server(
        "127.0.0.1", 0, application(), threaded=True, request_handler=MotoRequestHandler
    )
    if os.fork():
        print(server.server_port, flush=True)
        os._exit(0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
