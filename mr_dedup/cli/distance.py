"""Compare two documents: their fingerprints, the distance, and the features that they share.

A and B are files of one document each (.txt, .md, .html, .jsonl, …, also compressed: .gz, .zst), or
with --in the ids of two documents in files, globs and directories. Bit 0 of a fingerprint is the
least significant. Jaccard is the share of features that both have; by weight, the sum of the
smaller weights over the sum of the larger ones. The similarity is the one that mr-dedup dedup
compares with --verify: the Jaccard index of shingles of several words.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mr_dedup.cli.arguments import count
from mr_dedup.cli.copy_names import as_named
from mr_dedup.cli.document_arguments import (
    add_feature_arguments,
    add_reading_arguments,
    document_frequencies,
    feature_options,
    read_options,
)
from mr_dedup.cli.rejects import print_rejected
from mr_dedup.cli.remote_files import input_name, input_names
from mr_dedup.cli.streams import counted, printable
from mr_dedup.errors import MrDedupError
from mr_dedup.features.document_frequencies import DocumentFrequencies, feature_description
from mr_dedup.features.options import SHINGLES, FeatureOptions
from mr_dedup.features.shingle_sets import shingle_sets
from mr_dedup.features.shingles import features_of
from mr_dedup.fingerprints.simhash import simhash
from mr_dedup.formats.documents.batch import DocumentBatch
from mr_dedup.formats.documents.files import STANDARD_INPUT, find_documents
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.read import read_documents
from mr_dedup.formats.documents.rejects import Rejects
from mr_dedup.progress_bars import progress_bar

# small, because reading stops after the batch that completes the two documents
_BATCH_BYTES = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add("first", type=input_name, metavar="A", help="a file; with --in an id")
    add("second", type=input_name, metavar="B", help="another file or id")
    add("--in", dest="sources", type=input_names, nargs="+", metavar="DOCS",
        help="files, globs or directories of documents, read until both ids are found")  # fmt: skip
    add("--top", type=count, default=20, metavar="N",
        help="print the N heaviest features of each kind (default 20)")  # fmt: skip
    add("--json", action="store_true", help="print a JSON object")
    # rejected records do not matter if both documents are found
    add_reading_arguments(parser, judged=False)
    add_feature_arguments(parser)
    parser.set_defaults(symbols=None)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    options, features = read_options(arguments), feature_options(arguments)
    frequencies = document_frequencies(arguments)
    names = [arguments.first, arguments.second]
    if arguments.sources:
        documents = _documents_by_id(names, arguments, options)
    else:
        documents = _documents_of_files(names, arguments, options)
    compared = dataclasses.replace(
        SHINGLES, normalize=features.normalize, symbols=arguments.symbols or "auto"
    )
    report = _report(documents, features, frequencies, arguments.top, compared)
    print(json.dumps(report, indent=2) if arguments.json else "\n".join(_lines(report)))
    return 0


@dataclass(frozen=True)
class _Document:
    """A document with the argument that names it, its file, and its position in the file."""

    name: str
    file: str
    position: int
    text: str


def _documents_of_files(
    names: Sequence[str], arguments: argparse.Namespace, options: ReadOptions
) -> list[_Document]:
    """Return the documents of files; raise MrDedupError if one contains none or several."""
    if list(names) == [STANDARD_INPUT] * 2:
        raise MrDedupError("-: standard input can be read only once")
    strict = dataclasses.replace(options, strict=True)
    documents = []
    for name in names:
        files = find_documents([name], arguments.format, as_named).files
        contents: list[_Document] = []
        for batch in read_documents(files, Rejects(), strict):
            contents += [_document(name, batch, row) for row in range(min(2, len(batch)))]
            if len(contents) > 1:
                raise MrDedupError(f"{name}: contains several documents; give two ids and --in")
        if not contents:
            raise MrDedupError(f"{name}: contains no document")
        documents += contents
    return documents


def _documents_by_id(
    ids: Sequence[str], arguments: argparse.Namespace, options: ReadOptions
) -> list[_Document]:
    """Return the documents with these ids; raise MrDedupError if one is missing or repeated."""
    sources = find_documents(arguments.sources, arguments.format, as_named)
    options = dataclasses.replace(options, batch_bytes=_BATCH_BYTES)
    found: dict[str, list[_Document]] = {id: [] for id in ids}
    rejects = Rejects()
    read = 0
    with progress_bar(" documents") as bar:
        for batch in read_documents(sources.files, rejects, options):
            read += len(batch)
            bar.update(len(batch))
            for row, id in enumerate(batch.ids.to_pylist()):
                if id in found:
                    found[id].append(_document(id, batch, row))
            if all(found.values()):
                break
    rejects.counts.require_documents()
    print_rejected(rejects)
    for id, documents in found.items():
        if not documents:
            others = sources.skipped.total()
            more = f"; skipped: {counted(others, 'file')} of other kinds" if others else ""
            raise MrDedupError(f"no document has the id {id!r}, of {read:,} read{more}")
        if len(documents) > 1:
            first, second = (f"{document.file}:{document.position}" for document in documents[:2])
            raise MrDedupError(f"several documents have the id {id!r}: {first} and {second}")
    return [found[id][0] for id in ids]


def _document(name: str, batch: DocumentBatch, row: int) -> _Document:
    file, text = batch.files[row].as_py(), batch.texts[row].as_py()
    return _Document(name, file, int(batch.offsets[row]), text)


def _report(
    documents: Sequence[_Document],
    options: FeatureOptions,
    frequencies: DocumentFrequencies | None,
    top: int,
    compared: FeatureOptions,
) -> dict[str, Any]:
    texts = pa.array([document.text for document in documents], pa.large_string())
    values = simhash(texts, options, frequencies).values.tolist()
    weights = []
    for document in documents:
        features = features_of(document.text, options, frequencies)
        weights.append(dict(zip(features.shingles, features.weights.tolist(), strict=True)))
    return {
        "features": feature_description(options, frequencies),
        "documents": [
            {
                "name": document.name,
                "file": document.file,
                "position": document.position,
                "fingerprint": value - (value >> 63 << 64),
                "hex": f"{value:#018x}",
                "features": len(weights_of),
                "weight": sum(weights_of.values()),
            }
            for document, value, weights_of in zip(documents, values, weights, strict=True)
        ],
        **_distance(values[0], values[1]),
        "similarity": _similarity(texts, compared),
        **_comparison(weights[0], weights[1], top),
    }


def _similarity(texts: pa.LargeStringArray, shingles: FeatureOptions) -> float:
    """Return the similarity of two texts by which ``dedup`` drops one of them."""
    sets = shingle_sets(texts, shingles)
    return float(sets.jaccard(np.array([0]), np.array([1]))[0])


def _distance(first: int, second: int) -> dict[str, Any]:
    bits = [bit for bit in range(64) if (first ^ second) >> bit & 1]
    return {"distance": len(bits), "differing_bits": bits}


def _comparison(first: dict[str, float], second: dict[str, float], top: int) -> dict[str, Any]:
    """Return the similarity of two documents by their features, and the heaviest of each kind."""
    both = {
        feature: (first.get(feature, 0.0), second.get(feature, 0.0)) for feature in first | second
    }
    ranked = sorted(both.items(), key=lambda item: (-max(item[1]), item[0]))
    shared = [(feature, weights) for feature, weights in ranked if all(weights)]
    only_first = [(feature, weights) for feature, weights in ranked if not weights[1]]
    only_second = [(feature, weights) for feature, weights in ranked if not weights[0]]
    smaller, larger = (sum(map(choice, both.values())) for choice in (min, max))
    return {
        "jaccard": len(shared) / len(both),
        "weighted_jaccard": smaller / larger,
        **{
            name: {
                "count": len(features),
                "heaviest": [
                    {"feature": feature, "weights": list(weights)}
                    for feature, weights in features[:top]
                ],
            }
            for name, features in (
                ("shared", shared),
                ("only_in_a", only_first),
                ("only_in_b", only_second),
            )
        },
    }


def _lines(report: dict[str, Any]) -> Iterator[str]:
    """Yield the report as lines of text."""
    yield f"features  {report['features']}"
    for letter, document in zip("AB", report["documents"], strict=True):
        yield f"{letter}  {printable(document['name'])}"
        if document["name"] != document["file"]:
            yield f"   location     {printable(document['file'])}:{document['position']}"
        yield f"   fingerprint  {document['fingerprint']} ({document['hex']})"
        yield f"   features     {document['features']:,}, total weight {document['weight']:,.3f}"
    bits = ", ".join(map(str, report["differing_bits"]))
    yield f"distance  {counted(report['distance'], 'bit')}{': ' if bits else ''}{bits}"
    yield f"Jaccard   {report['jaccard']:.4f}, by weight {report['weighted_jaccard']:.4f}"
    yield f"similarity  {report['similarity']:.4f}, by shingles of several words, as dedup compares"
    shared = report["shared"]
    weights = ", with their weights in A and in B" if shared["heaviest"] else ""
    yield f"shared: {counted(shared['count'], 'feature')}{weights}"
    yield from _feature_lines(**shared)
    for letter in "AB":
        own = report[f"only_in_{letter.lower()}"]
        yield f"only in {letter}: {counted(own['count'], 'feature')}"
        yield from _feature_lines(**own)


def _feature_lines(count: int, heaviest: list[dict[str, Any]]) -> Iterator[str]:
    for entry in heaviest:
        weights = " ".join(f"{weight:9.3f}" if weight else " " * 9 for weight in entry["weights"])
        yield f"  {weights}  {printable(entry['feature'])}"
    if count > len(heaviest):
        yield f"  and {count - len(heaviest):,} more"
