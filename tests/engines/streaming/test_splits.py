"""Which files a cluster splits among tasks, and what makes Hadoop do so."""

import pytest

from mr_dedup.engines.streaming.splits import SPLIT_BYTES, job_properties, split_bytes, to_be_split
from mr_dedup.errors import MrDedupError
from tests import text_input

LARGE = SPLIT_BYTES + 1


def test_what_is_larger_than_a_part_is_split():
    sizes = {"hdfs:///a.jsonl": LARGE, "hdfs:///b.gz": 0, "hdfs:///c.jsonl": SPLIT_BYTES}
    assert to_be_split(sizes, SPLIT_BYTES, 10) == ["hdfs:///a.jsonl"]
    assert to_be_split(sizes, LARGE, 10) == []


def test_an_address_that_could_mean_another_file_is_not_split():
    fine = ["hdfs:///a b.jsonl", "hdfs://host:9000/day=1/x~1%20+@.jsonl", "s3://bucket/part-00000"]
    odd = [
        "hdfs:///a*.jsonl", "hdfs:///a,b.jsonl", "hdfs:///{a}.jsonl", "hdfs:///[a].jsonl",
        "hdfs:///a?.jsonl", "hdfs:///a\\b.jsonl", "hdfs:///ü.jsonl", "hdfs:///${user}.jsonl",
        "hdfs:///x/_a.jsonl", "hdfs:///x/.a.jsonl", "hdfs:///a\nb.jsonl", "hdfs:///a\udce9.jsonl",
        f"hdfs:///{'a' * 200}.jsonl",
    ]  # fmt: skip
    assert to_be_split(dict.fromkeys([*odd, *fine], LARGE), SPLIT_BYTES, 10) == fine


def test_files_that_differ_in_their_host_alone_are_not_split():
    sizes = dict.fromkeys(["hdfs:///a", "hdfs://one/a", "hdfs://one/b", "hdfs://two/c"], LARGE)
    assert to_be_split(sizes, SPLIT_BYTES, 10) == ["hdfs://one/b", "hdfs://two/c"]


def test_of_very_many_the_largest_are_split():
    sizes = {f"hdfs:///{number}.jsonl": LARGE + number % 7 for number in range(50)}
    chosen = to_be_split(sizes, SPLIT_BYTES, 14)
    assert [sizes[address] - LARGE for address in chosen] == [5, 6] * 7
    assert chosen == [address for address in sizes if address in chosen]


@pytest.mark.parametrize("block_bytes", [1 << 20, 128 << 20, 1 << 30])
def test_parts_have_the_size_that_is_asked_for(block_bytes):
    sizes = [3 << 30, 128 << 20, 1 << 33]
    for wanted in (16 << 20, 128 << 20, 512 << 20):
        properties = job_properties(sum(sizes), wanted)
        least = int(properties["mapreduce.input.fileinputformat.split.minsize"])
        maps = int(properties["mapreduce.job.maps"])
        # manifests are inputs too
        files = text_input.splits([*sizes, 5000], maps, least, block_bytes)
        for size, parts in zip([*sizes, 5000], files, strict=True):
            assert sum(length for _, length in parts) == size
            assert {length for _, length in parts[:-1]} <= {wanted}
            assert parts[-1][1] <= text_input.SLOP * wanted


def test_the_size_of_parts_is_a_property_of_the_job():
    name = "mapreduce.input.fileinputformat.split.maxsize"
    assert split_bytes({}) == SPLIT_BYTES
    assert split_bytes({name: "1000"}) == split_bytes({name: 1000}) == 1000
    for value in ("1m", "0", "-1", "", "1.5"):
        with pytest.raises(MrDedupError, match=f"^{name}={value}: expected a number of bytes$"):
            split_bytes({name: value})
