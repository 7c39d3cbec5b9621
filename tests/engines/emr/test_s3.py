"""Which files in S3 a name stands for."""

import pytest

from mr_dedup.engines import streaming
from mr_dedup.engines.streaming import ClusterSettings
from mr_dedup.engines.streaming.emr import fetch, list_files
from mr_dedup.engines.streaming.s3 import S3Files
from mr_dedup.errors import MrDedupError

KEYS = ["a/1.longs", "a/2.longs", "a/sub/3.longs", "a/_old/4.longs", "a/_SUCCESS", "a/.5.longs",
        "a/6.longs_$folder$", "a/7/", "ab/8.longs", "x*y/9.longs", "xzy/10.longs"]  # fmt: skip


@pytest.fixture
def settings(client):
    for key in KEYS:
        client.service.files.put(b"12345678", f"s3://{client.bucket}/{key}")
    return ClusterSettings(conf=client.conf())


PATTERNS = {
    "a/1.longs": [1],
    "a": [1, 2, 3],
    "a/": [1, 2, 3],
    "a/*.longs": [1, 2],
    "a/*": [1, 2, 3],
    "a/[12].longs": [1, 2],
    "a/[!2].longs": [1],
    "a/{1,sub/3}.longs": [1, 3],
    "a*/?.longs": [1, 2, 8],
    "a/_old": [4],
    "a/_o*": [4],
    r"x\*y": [9],
    "x*y": [9, 10],
    "": [1, 2, 3, 8, 9, 10],
}


def test_a_name_stands_for_files(client, settings):
    for pattern, numbers in PATTERNS.items():
        found = list_files([f"s3://{client.bucket}/{pattern}"], settings)
        names = [file.uri.rpartition("/")[2].removesuffix(".longs") for file in found]
        assert (pattern, sorted(map(int, names))) == (pattern, numbers)
        assert all(file.size_bytes == 8 for file in found)


def test_a_file_has_another_identity_once_its_content_is_another(client, settings):
    uri = f"s3://{client.bucket}/a/1.longs"
    [before] = list_files([uri], settings)
    client.service.files.put(b"12345678", uri)
    assert list_files([uri], settings) == [before]
    client.service.files.put(b"12345679", uri)
    [now] = list_files([uri], settings)
    assert (now.uri, now.size_bytes) == (before.uri, before.size_bytes)
    assert now.identity != before.identity


def test_a_file_is_fetched_or_named(client, settings, tmp_path):
    fetch(f"s3://{client.bucket}/a/1.longs", tmp_path / "one", settings)
    assert (tmp_path / "one").read_bytes() == b"12345678"
    with pytest.raises(MrDedupError, match="a/none: no such file in S3"):
        fetch(f"s3://{client.bucket}/a/none", tmp_path / "none", settings)
    assert list_files([], settings) == []


def test_what_begins_like_a_name_is_not_listed(client, settings, monkeypatch):
    for number in range(30):
        client.service.files.put(b"", f"s3://{client.bucket}/out-{number:02}/part")
    client.service.files.put(b"", f"s3://{client.bucket}/out/part")
    seen = []
    original = S3Files.get_bucket

    class Objects:
        def __init__(self, collection):
            self.collection = collection

        def filter(self, **options):
            return Objects(self.collection.filter(**options))

        def limit(self, count):
            return Objects(self.collection.limit(count))

        def __iter__(self):
            for entry in self.collection:
                seen.append(entry.key)
                yield entry

    class Bucket:
        def __init__(self, objects):
            self.objects = Objects(objects)

    monkeypatch.setattr(
        S3Files, "get_bucket", lambda self, name: Bucket(original(self, name).objects)
    )
    found = list_files([f"s3://{client.bucket}/out"], settings)
    assert [file.uri for file in found] == [f"s3://{client.bucket}/out/part"]
    assert streaming.exists(f"s3://{client.bucket}/out", "emr", settings)
    assert not streaming.exists(f"s3://{client.bucket}/ou", "emr", settings)
    assert len(seen) <= 6
