"""A store of each kind."""

import asyncio
import time

import pytest

from mr_dedup.cli import dedup_jobs
from mr_dedup.storage.stores import STORES
from tests.storage import servers, stores


@pytest.fixture(scope="session")
def moto_server():
    with servers.moto() as uri:
        yield uri


@pytest.fixture(scope="session")
def gcs_server():
    with servers.gcs() as uri:
        yield uri


@pytest.fixture(scope="session")
def azure_server():
    with servers.azurite() as uri:
        yield uri


@pytest.fixture(scope="session")
def web_server():
    with servers.web_server() as server:
        yield server


@pytest.fixture(scope="session")
def hub_server():
    with servers.hub() as server:
        yield server


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Have each store read files in pieces of PIECE_BYTES."""
    for store in STORES.values():
        monkeypatch.setitem(vars(store), "piece_bytes", servers.PIECE_BYTES)


ALL = ["s3", "gs", "http", "hf", pytest.param("az", marks=pytest.mark.slow)]
ALL.append(pytest.param("hdfs", marks=pytest.mark.hadoop))

_SERVERS = {
    "s3": ("moto_server", stores.s3_place),
    "gs": ("gcs_server", stores.gcs_place),
    "http": ("web_server", stores.web_place),
    "hf": ("hub_server", stores.hub_place),
    "az": ("azure_server", stores.azure_place),
    "hdfs": ("cluster", stores.hdfs_place),
}


def _opened(request):
    server, opened = _SERVERS[request.param]
    return opened(request.getfixturevalue(server))


@pytest.fixture(params=ALL)
def place(request):
    """A directory of a store of each kind."""
    with _opened(request) as place:
        yield place


@pytest.fixture(params=ALL[:-1])
def proxied(request):
    """A directory of a store of each kind that a proxy can break: not of HDFS."""
    with _opened(request) as place:
        yield place


@pytest.fixture(params=ALL[:-1])
def forked(request):
    """A directory of a store of each kind that forked tasks read: those of HDFS are refused."""
    with _opened(request) as place:
        yield place


@pytest.fixture(params=[each for each in ALL if each != "http"])
def listing(request):
    """A directory of a store of each kind that lists files."""
    with _opened(request) as place:
        yield place


@pytest.fixture(params=[each for each in ALL if each not in ("http", "hf")])
def writable(request):
    """A directory of a store of each kind that is written to."""
    with _opened(request) as place:
        yield place


@pytest.fixture
def s3(moto_server):
    with stores.s3_place(moto_server) as place:
        yield place


@pytest.fixture
def gs(gcs_server):
    with stores.gcs_place(gcs_server) as place:
        yield place


@pytest.fixture
def web(web_server):
    with stores.web_place(web_server) as place:
        yield place


@pytest.fixture
def hf(hub_server):
    with stores.hub_place(hub_server) as place:
        yield place


@pytest.fixture
def quick(monkeypatch):
    """Have the stores' own packages wait for a short time only before they repeat a request."""
    slept = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds, *rest: slept(min(seconds, 0.02), *rest))
    monkeypatch.setattr(time, "sleep", lambda seconds, slept=time.sleep: slept(min(seconds, 0.02)))


@pytest.fixture
def there(monkeypatch):
    """Have tasks write to the store, as those of other machines."""
    monkeypatch.setattr(dedup_jobs, "is_here", lambda runner: False)


@pytest.fixture(params=["here", "there"])
def tasks(request):
    """Have tasks of this machine, or such that write to the store."""
    if request.param == "there":
        request.getfixturevalue("there")
    return request.param
