#!/usr/bin/env python3
"""What nodes have of ``hadoop fs`` and ``aws s3``, as far as jobs use it: one S3, by HTTP.

Called as hadoop or as aws; MR_DEDUP_TEST_S3 says where S3 is, MR_DEDUP_TEST_READ_ONLY, if set, that
nothing may be written.
"""

import os
import re
import shutil
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

_HEADERS = {
    # a node has the rights of its role; moto requires some to be given
    "Authorization": "AWS4-HMAC-SHA256 Credential=node/20260101/eu-central-1/s3/aws4_request",
    # else it expects a form
    "Content-Type": "application/octet-stream",
}


def open_uri(uri, **request):
    bucket, _, key = uri.partition("://")[2].partition("/")
    url = f"{os.environ['MR_DEDUP_TEST_S3']}/{bucket}/{urllib.parse.quote(key)}"
    return urllib.request.urlopen(urllib.request.Request(url, headers=_HEADERS, **request))


def download(uri, path):
    if path.exists():
        sys.exit(f"copyToLocal: `{path}': File exists")
    try:
        with open_uri(uri) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            sys.exit(f"copyToLocal: `{uri}': No such file or directory")
        sys.exit(f"copyToLocal: {uri}: {error}")


def main(command, words):
    if command == "hadoop" and words[:2] == ["fs", "-copyToLocal"]:
        glob, path = words[2:]
        literal = re.sub(r"\\(.)", r"\1", glob)
        if re.search(r"(?<!\\)[*?\[{]", glob):
            sys.exit(f"copyToLocal: `{glob}': a glob, which no task uses")
        download(literal, Path(path))
    elif command == "hadoop" and words[:4] == ["fs", "-put", "-f", "-"]:
        if "MR_DEDUP_TEST_READ_ONLY" in os.environ:
            sys.exit(f"put: {words[4]}: Access Denied")
        open_uri(words[4], method="PUT", data=sys.stdin.buffer.read()).close()
    elif command == "aws" and words[:2] == ["s3", "cp"]:
        uri, path = words[2:]
        target = Path(path)
        download(uri, target / uri.rpartition("/")[2] if target.is_dir() else target)
    else:
        sys.exit(f"{command}: no node has {words}")


main(Path(sys.argv[0]).name, sys.argv[1:])
