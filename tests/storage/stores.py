"""Stores to test with: each is filled and changed past the code under test."""

import contextlib
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import fsspec

from tests.storage.servers import AZURE_KEY, WebFile, faulty, request

_numbers = itertools.count(1)


class Place:
    """A directory of a store. ``uri`` is its URI, ``proxy`` what all requests to it go through."""

    scheme = ""
    lists = True
    is_writable = True
    has_markers = False

    def __init__(self, server, proxy):
        self.server, self.proxy = server, proxy
        self.name = f"bucket-{next(_numbers)}-{os.getpid()}"
        self.uri = f"{self.scheme}://{self.name}/data"
        self.no_bucket = f"{self.scheme}://no-{self.name}/data/a.jsonl"

    def of(self, name):
        return f"{self.uri}/{name}"

    def fill(self, *names):
        for name in names:
            self.write(name, name.encode())


class S3(Place):
    scheme = "s3"
    has_markers = True

    def __init__(self, server, proxy):
        super().__init__(server, proxy)
        request("PUT", f"{server}/{self.name}", headers=AUTHORIZED)

    def write(self, name, content, **headers):
        uri = f"{self.server}/{self.name}/data/{quote(name, safe='/')}"
        request("PUT", uri, content, {**AUTHORIZED, **headers})

    def read(self, name):
        uri = f"{self.server}/{self.name}/data/{quote(name, safe='/')}"
        return request("GET", uri, headers=AUTHORIZED)

    def fill_quickly(self, *names):
        body = json.dumps([f"data/{name}" for name in names]).encode()
        request("PUT", f"{self.server}/.fill/{self.name}", body)

    def uploads(self):
        return request("GET", f"{self.server}/{self.name}?uploads", headers=AUTHORIZED)


AUTHORIZED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=key/20300101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=0"
}
"""moto checks that there is a signature, not which."""


class Gcs(Place):
    scheme = "gs"
    has_markers = True

    def __init__(self, server, proxy):
        super().__init__(server, proxy)
        body = json.dumps({"name": self.name}).encode()
        request("POST", f"{server}/storage/v1/b?project=test", body, JSON)

    def write(self, name, content):
        uri = f"{self.server}/upload/storage/v1/b/{self.name}/o?uploadType=multipart"
        described = json.dumps({"name": f"data/{name}"}).encode()
        parts = (b"application/json", described), (b"application/octet-stream", content)
        body = b"".join(b"--=_b\r\nContent-Type: %b\r\n\r\n%b\r\n" % part for part in parts)
        request(
            "POST", uri, body + b"--=_b--\r\n", {"Content-Type": "multipart/related; boundary==_b"}
        )

    def read(self, name):
        key = quote(f"data/{name}", safe="")
        return request("GET", f"{self.server}/storage/v1/b/{self.name}/o/{key}?alt=media")


JSON = {"Content-Type": "application/json"}


class Azure(Place):
    scheme = "az"

    def __init__(self, server, proxy):
        super().__init__(server, proxy)
        self.service().create_container(self.name)

    def service(self):
        from azure.storage.blob import BlobServiceClient

        return BlobServiceClient.from_connection_string(azure_connection(self.server))

    def write(self, name, content):
        with self.service() as service, service.get_blob_client(self.name, f"data/{name}") as blob:
            blob.upload_blob(content, overwrite=True)

    def read(self, name):
        with self.service() as service, service.get_blob_client(self.name, f"data/{name}") as blob:
            return blob.download_blob().readall()


class Web(Place):
    scheme = "http"
    lists = False
    is_writable = False

    def __init__(self, server, proxy):
        super().__init__(server, proxy)
        self.uri = f"{proxy.uri}/{self.name}"
        self.no_bucket = f"{proxy.uri}/no/a.jsonl"

    def of(self, name):
        return f"{self.uri}/{quote(name)}"

    def write(self, name, content, **how):
        self.server.files[f"/{self.name}/{name}"] = WebFile(content, **how)


class Hub(Place):
    scheme = "hf"
    is_writable = False

    def __init__(self, server, proxy):
        super().__init__(server, proxy)
        self.uri = f"hf://datasets/farm/crawl/{self.name}"
        self.no_bucket = "hf://datasets/farm/none/a.jsonl"

    def write(self, name, content):
        self.server.files[f"{self.name}/{name}"] = content


class Hdfs(Place):
    scheme = "hdfs"

    def __init__(self, cluster, proxy):
        super().__init__(cluster, proxy)
        self.uri = f"hdfs:///tests/{self.name}"
        self.no_bucket = f"hdfs:///tests/no-{self.name}/a.jsonl"

    def path(self, name):
        return f"{self.uri.removeprefix('hdfs://')}/{name}"

    def client(self):
        import hdfs_native

        return hdfs_native.Client()

    def write(self, name, content):
        from hdfs_native import WriteOptions

        options = WriteOptions(overwrite=True)
        with self.client().create(self.path(name), write_options=options) as file:
            file.write(content)

    def read(self, name):
        with self.client().read(self.path(name)) as file:
            return file.read()


def azure_connection(server):
    return (
        "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;"
        f"AccountKey={AZURE_KEY};BlobEndpoint={server}/devstoreaccount1;"
    )


@contextlib.contextmanager
def environment(**variables) -> Iterator[None]:
    """Set environment variables, or unset those that are None, and forget open file systems."""
    before = {name: os.environ.get(name) for name in variables}
    _set(variables)
    try:
        yield
    finally:
        _set(before)


def _set(variables):
    for name, value in variables.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    forget()


def forget():
    """Have file systems opened anew, with the environment as it is now."""
    for protocol in ("s3", "http", "abfs", "hf"):
        fsspec.get_filesystem_class(protocol).clear_instance_cache()
    from mr_dedup.storage.stores import STORES, _class_of, _kept

    for scheme in ("gs", "az", "hdfs"):
        _class_of(STORES[scheme], scheme).clear_instance_cache()
    _kept.clear()


@contextlib.contextmanager
def configured(**options) -> Iterator[None]:
    """Set options of the user's configuration of fsspec, by protocol."""
    before = dict(fsspec.config.conf)
    fsspec.config.conf.update(options)
    forget()
    try:
        yield
    finally:
        fsspec.config.conf.clear()
        fsspec.config.conf.update(before)
        forget()


@contextlib.contextmanager
def s3_place(server) -> Iterator[S3]:
    with (
        faulty(server) as proxy,
        environment(**settings_of_s3(proxy.uri)),
    ):
        yield S3(server, proxy)


def settings_of_s3(uri):
    """The variables with which a client finds a server."""
    return {
        "AWS_ENDPOINT_URL": uri,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextlib.contextmanager
def gcs_place(server) -> Iterator[Gcs]:
    with (
        faulty(server) as proxy,
        # a server that tells machines of Google their role is not looked for
        environment(STORAGE_EMULATOR_HOST=proxy.uri, NO_GCE_CHECK="true"),
    ):
        yield Gcs(server, proxy)


@contextlib.contextmanager
def azure_place(server) -> Iterator[Azure]:
    with (
        faulty(server) as proxy,
        environment(AZURE_STORAGE_CONNECTION_STRING=azure_connection(proxy.uri)),
    ):
        yield Azure(server, proxy)


@contextlib.contextmanager
def web_place(server) -> Iterator[Web]:
    with faulty(server.uri) as proxy:
        forget()
        yield Web(server, proxy)


@contextlib.contextmanager
def hub_place(server) -> Iterator[Hub]:
    with faulty(server.uri) as proxy, configured(hf={"endpoint": proxy.uri, "token": False}):
        yield Hub(server, proxy)


@contextlib.contextmanager
def hdfs_place(cluster) -> Iterator[Hdfs]:
    with environment(**cluster.environment):
        place = Hdfs(cluster, None)
        try:
            yield place
        finally:
            place.client().delete(place.uri.removeprefix("hdfs://"), True)


def scratch_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
