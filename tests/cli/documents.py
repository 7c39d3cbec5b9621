"""Documents made up for commands that read them, in files of JSON lines, and their results."""

import functools
import json
import random
from pathlib import Path

import zstandard

from tests.features import text_oracle


def made_up_documents(seed, count=60):
    """Documents of which many are near-duplicates of others, in chains too; some are equal."""
    rng = random.Random(seed)
    words = [f"w{number}" for number in range(400)]
    documents = []
    for number in range(count):
        if documents and rng.random() < 0.6:
            text = rng.choice(documents)["text"].split()
            for _ in range(rng.choice([0, 1, 2, 5])):
                if text:
                    text[rng.randrange(len(text))] = rng.choice(words)
        else:
            text = rng.choices(words, k=rng.choice([0, 3, 20, 60]))
        documents.append(
            {"id": f"d{number % 50}", "text": " ".join(text), "score": str(rng.randrange(4))}
        )
    return documents


KEPT = {"unclustered", "first_of_cluster", "dissimilar"}
"""The reasons for which documents are kept."""


def write_jsonl(path, documents):
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return path


def read_jsonl(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def rejects_in(out):
    """The lines of the rejects of a result, all parts."""
    parts = sorted((out / "rejects").glob("*"))
    assert [part.name for part in parts] == [f"part-{n:05}.jsonl.zst" for n in range(len(parts))]
    content = [
        zstandard.ZstdDecompressor().decompressobj().decompress(p.read_bytes()) for p in parts
    ]
    return b"".join(content).decode().splitlines()


def record_at(file, position):
    """The record of a file of JSON lines that begins at a byte."""
    with Path(file).open("rb") as lines:
        lines.seek(position)
        return json.loads(lines.readline())


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def similarity(one, other):
    sets = [_shingles(text) for text in (one, other)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


@functools.lru_cache(maxsize=10_000)
def _shingles(text):
    return frozenset(text_oracle.shingles(text, "words", 3))
