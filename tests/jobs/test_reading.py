"""What a task counts of the documents it reads."""

from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.jobs.contract import Counters, TaskInput
from mr_dedup.jobs.reading import DocumentReading


def test_bytes_of_texts_are_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "1", "text": "abc"}\n{"id": "2", "text": "é"}\n')
    counters = Counters()
    with DocumentReading(TaskInput(path, "a.jsonl", 0), None, ReadOptions(), counters) as reading:
        assert sum(map(len, reading.batches())) == 2
    assert (counters["documents_read"], counters["text_bytes"]) == (2, 5)
