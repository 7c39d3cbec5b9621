"""Jobs that hand on objects in one process: the same as by way of lines, and errors as there."""

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from mrjob.step import MRStep

from mr_dedup.engines import streaming
from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.jobs.batches import BatchProtocol, Kind, encode_bytes, read_batches
from mr_dedup.jobs.document_tables import DocumentTable, decode_documents
from mr_dedup.jobs.job import Job

CORES = pytest.mark.parametrize("cores", [1, 3])


class Letters(Job):
    """Hands on each letter of its input under its number; reduced, or not."""

    INTERNAL_PROTOCOL = BatchProtocol
    OUTPUT_PROTOCOL = BatchProtocol

    def configure_args(self):
        super().configure_args()
        self.add_passthru_arg("--reduced", action="store_true")

    def steps(self):
        if self.options.reduced:
            return [MRStep(mapper_raw=self.read, reducer=self.join)]
        return [MRStep(mapper_raw=self.read)]

    def read(self, path, uri):
        text = Path(path).read_text()
        if text == "damaged":
            raise FormatError("the user's file", "byte 8", "is damaged")
        if text == "disk full":
            raise OSError(28, "No space left on device")
        if text == "memory":
            raise MemoryError
        if text == "bug":
            raise ZeroDivisionError("a bug")
        for place, letter in enumerate(text):
            table = pa.table({"from": [Path(path).name], "place": [place]})
            yield ord(letter), DocumentTable(table)
        self.increment_counter("letters", "read", len(text))

    def join(self, key, batches):
        tables = [decode_documents(batch) for batch in batches]
        yield key, DocumentTable(pa.concat_tables(tables))
        self.increment_counter("letters", "joined", len(tables))


def inputs(folder, *texts):
    found = []
    for number, text in enumerate(texts):
        path = folder / f"input-{number}"
        path.write_text(text)
        found.append(streaming.Input(str(path), f"the input {number}"))
    return found


def left(parts):
    return [(key, decode_documents(batch).to_pydict()) for key, batch in read_batches(parts)]


@CORES
@pytest.mark.parametrize("reduced", [True, False])
def test_what_is_left_is_what_lines_would_leave(tmp_path, cores, reduced):
    options = ["--reduced"] if reduced else []
    # each letter once in an input, ascending: a part of the other runner has one key
    texts = ["a", "abz", "z", "", "bcz"] if reduced else ["a", "b", "", "c"]
    given = inputs(tmp_path, *texts)
    with (
        streaming.staging_folder() as staging,
        streaming.run(Letters, options, given, staging, runner="inline") as result,
    ):
        expected = [pair for part in result.parts for pair in left([part])]
        counters = result.counters
    with streaming.run_directly(Letters, options, given, cores) as held:
        assert [pair for part in held.parts for pair in left([part])] == sorted(expected, key=_key)
        assert held.counters == counters


def _key(pair):
    return pair[0]


@CORES
def test_errors_name_the_input(tmp_path, cores):
    for text, said in [
        ("damaged", "the user's file, byte 8: is damaged"),
        ("disk full", "map task 1 on the input 1: No space left on device"),
        ("memory", "map task 1 on the input 1: memory was short"),
    ]:
        given = inputs(tmp_path, "a", text, "b")
        with (
            pytest.raises(MrDedupError, match=said),
            streaming.run_directly(Letters, [], given, cores) as held,
        ):
            list(held.parts)
    with (
        pytest.raises(ZeroDivisionError),
        streaming.run_directly(Letters, [], inputs(tmp_path, "bug"), cores) as held,
    ):
        list(held.parts)


def test_no_thread_is_left_when_a_task_fails_or_nobody_takes_the_rest(tmp_path):
    before = threading.active_count()
    given = inputs(tmp_path, "a", "bug", *"bcdefghij")
    with (
        pytest.raises(ZeroDivisionError),
        streaming.run_directly(Letters, [], given, 3) as held,
    ):
        list(held.parts)
    with streaming.run_directly(Letters, [], given, 3) as held:
        next(iter(held.parts))
    assert threading.active_count() == before


def test_what_is_no_table_is_handed_on_as_bytes():
    batch = encode_bytes(Kind.REJECTS, 1, b"{}")
    assert BatchProtocol().read(BatchProtocol().write(7, batch)) == (7, batch)
    held = DocumentTable(pa.table({"a": [1]}))
    key, line = BatchProtocol().read(BatchProtocol().write(8, held))
    assert (key, decode_documents(line)) == (8, held.table)
