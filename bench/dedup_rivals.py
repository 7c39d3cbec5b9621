"""``python -m bench.dedup_rivals RIVAL TOKENS OUT FILE…``: de-duplicate JSON lines by a rival.

Each is used as in its documentation: a document that is similar to one kept before, at a threshold
of 0.8, is dropped. OUT has a line for each document, with its id and that of the kept document it
duplicates: its own if it is kept, "" if the rival does not return it. Texts are compared by
shingles of TOKENS tokens, made in Python by a compiled expression and zip.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence

THRESHOLD = 0.8
_PERMUTATIONS = 128

_CJK = "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_words = re.compile(r"[^\W_]+").findall
_words_and_characters = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+").findall

Texts = Iterator[tuple[str, str]]
Decided = Iterator[tuple[str, str]]


def _texts(paths: Sequence[str]) -> Texts:
    """Yield id and text of each document."""
    import orjson

    for path in paths:
        with open(path, "rb") as file:  # noqa: PTH123 (the fastest way)
            for line in file:
                document = orjson.loads(line)
                yield document["id"], document["text"]


def _shingles(text: str, tokens: int) -> list[str]:
    """Return the shingles of a text; a single one if it has too few tokens."""
    lower = text.lower()
    # the pattern without single characters is faster, and enough for most languages
    found = _words(lower) if tokens <= 3 else _words_and_characters(lower)
    if len(found) < tokens:
        return [" ".join(found)]
    return list(map(" ".join, zip(*(found[start:] for start in range(tokens)), strict=False)))


def datasketch(texts: Texts, tokens: int) -> Decided:
    """Decide by MinHashLSH, which returns the kept documents that share a band."""
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(threshold=THRESHOLD, num_perm=_PERMUTATIONS)
    empty = MinHash(num_perm=_PERMUTATIONS)
    for name, text in texts:
        sketch = empty.copy()
        sketch.update_batch([shingle.encode() for shingle in _shingles(text, tokens)])
        originals = index.query(sketch)
        if not originals:
            index.insert(name, sketch)
        yield name, originals[0] if originals else name


def rensa(texts: Texts, tokens: int) -> Decided:
    """Decide by RMinHashDeduplicator, which looks up bands and compares estimates."""
    return _decided_by_rensa((name, _shingles(text, tokens)) for name, text in texts)


def rensa_words(texts: Texts, tokens: int) -> Decided:
    """Decide as in its README, by the sets of words between spaces: faster, less accurate."""
    return _decided_by_rensa((name, text.split()) for name, text in texts)


def _decided_by_rensa(sets: Iterator[tuple[str, list[str]]]) -> Decided:
    from rensa import RMinHashDeduplicator

    index = RMinHashDeduplicator(threshold=THRESHOLD, num_perm=_PERMUTATIONS, use_lsh=True)
    names: list[str] = []

    def noted() -> Iterator[tuple[str, list[str]]]:
        for name, tokens in sets:
            names.append(name)
            yield name, tokens

    kept = index.add_pairs(noted())
    yield from ((name, name if keep else "") for name, keep in zip(names, kept, strict=True))


def rensa_pairs(texts: Texts, tokens: int) -> Decided:
    """Decide by all pairs of 16 bands of 8 with an estimate of at least 0.8: its most accurate way.

    A document is dropped as a duplicate of the first kept one that it pairs with.
    """
    from rensa import RMinHash, RMinHashLSH

    names: list[str] = []
    sets: list[list[str]] = []
    for name, text in texts:
        names.append(name)
        sets.append(_shingles(text, tokens))
    sketches = RMinHash.from_token_sets(sets, _PERMUTATIONS, 42)
    index = RMinHashLSH(THRESHOLD, _PERMUTATIONS, 16)
    index.insert_many(sketches)
    kept: set[int] = set()
    for number, found in enumerate(index.query_all(sketches)):
        sketch = sketches[number]
        matches = (other for other in sorted(found) if other < number and other in kept)
        original = next((o for o in matches if sketch.jaccard(sketches[o]) >= THRESHOLD), number)
        if original == number:
            kept.add(number)
        yield names[number], names[original]


def gaoya(texts: Texts, tokens: int) -> Decided:
    """Decide by MinHashStringIndex, which looks up bands and compares estimates."""
    from gaoya.minhash import MinHashStringIndex

    index = MinHashStringIndex(
        hash_size=32, jaccard_threshold=THRESHOLD, num_hashes=_PERMUTATIONS,
        analyzer="word", lowercase=True, ngram_range=(tokens, tokens),
    )  # fmt: skip
    names: list[str] = []
    for number, (name, text) in enumerate(texts):
        originals = index.query(text)
        if not originals:
            index.insert_document(number, text)
        names.append(name)
        yield name, names[originals[0]] if originals else name


RIVALS = {
    "datasketch": datasketch,
    "rensa": rensa,
    "rensa-pairs": rensa_pairs,
    "rensa-words": rensa_words,
    "gaoya": gaoya,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rival that ``argv`` names; return the exit code."""
    rival, tokens, out, *paths = sys.argv[1:] if argv is None else argv
    with open(out, "w", encoding="utf-8") as file:  # noqa: PTH123
        for name, original in RIVALS[rival](_texts(paths), int(tokens)):
            file.write(f"{name}\t{original}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
