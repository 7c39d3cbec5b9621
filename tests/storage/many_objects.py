"""A server of S3 with many small objects, which it makes as they are read; run as a process.

It sorts nothing and stores nothing, unlike moto, so that what is measured is the client.
"""

import hashlib
import http.server
import json
import re
import sys
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 1000
FOLDERS = 200


def content(number):
    words = " ".join(f"w{(number * 31 + n * n) % 9973}" for n in range(40))
    return json.dumps({"id": str(number), "text": words}).encode() + b"\n"


class ManyObjects(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    count = 0

    def log_message(self, *words):
        pass

    def send(self, status, body=b"", **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self):
        parts = urlsplit(self.path)
        _, _, name = unquote(parts.path).strip("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if "list-type" in query:
            self.send(200, self.page(query).encode(), Content_Type="application/xml")
            return
        found = re.fullmatch(r"(?:flat|deep/[0-9]{3})/([0-9]{6})\.jsonl", name)
        if found is None:
            self.send(404)
            return
        body = content(int(found[1]))
        etag = f'"{hashlib.md5(body).hexdigest()}"'
        wanted = self.headers.get("Range")
        if wanted is None or self.command == "HEAD":
            self.send(200, body, ETag=etag)
            return
        start, stop = map(int, wanted.removeprefix("bytes=").split("-"))
        described = f"bytes {start}-{stop}/{len(body)}"
        self.send(206, body[start : stop + 1], ETag=etag, Content_Range=described)

    do_HEAD = do_GET

    def page(self, query):
        """Return a page of ListObjectsV2: ``flat/`` has all objects, ``deep/`` directories."""
        prefix = query.get("prefix", "")
        per_folder = self.count // FOLDERS
        if prefix == "deep/" and "delimiter" in query:
            found = "".join(
                f"<CommonPrefixes><Prefix>deep/{n:03}/</Prefix></CommonPrefixes>"
                for n in range(FOLDERS)
            )
            return _LISTING.format(found, "false", "")
        numbers = range(self.count if prefix in ("flat/", "deep/") else 0)
        folder = prefix.strip("/").rpartition("/")[2]
        if folder.isdecimal():
            numbers = range(int(folder) * per_folder, (int(folder) + 1) * per_folder)
        start = int(query.get("continuation-token", 0))
        limit = min(PAGE, int(query.get("max-keys", PAGE)))
        deep = prefix.startswith("deep")
        items = [
            _OBJECT.format(
                escape(f"deep/{n // per_folder:03}/{n:06}.jsonl" if deep else f"flat/{n:06}.jsonl"),
                len(body := content(n)),
                hashlib.md5(body).hexdigest(),
            )
            for n in numbers[start : start + limit]
        ]
        if start + limit < len(numbers):
            token = f"<NextContinuationToken>{start + limit}</NextContinuationToken>"
            return _LISTING.format("".join(items), "true", token)
        return _LISTING.format("".join(items), "false", "")


_LISTING = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    "{0}<IsTruncated>{1}</IsTruncated>{2}</ListBucketResult>"
)
_OBJECT = (
    "<Contents><Key>{0}</Key><LastModified>2026-11-24T10:00:00.000Z</LastModified>"
    "<ETag>&quot;{2}&quot;</ETag><Size>{1}</Size><StorageClass>STANDARD</StorageClass></Contents>"
)


if __name__ == "__main__":
    ManyObjects.count = int(sys.argv[1])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ManyObjects)
    server.request_queue_size = 128
    print(server.server_port, flush=True)
    server.serve_forever()
