"""Signatures as plain lists."""

import itertools

import pyarrow as pa


def array(texts):
    return pa.array(texts, pa.large_string())


def keys(signatures):
    """The keys of each text."""
    edges = signatures.offsets.tolist()
    return [signatures.keys[i:j].tolist() for i, j in itertools.pairwise(edges)]


def shared(signatures, first, second):
    of = keys(signatures)
    return len(set(of[first]) & set(of[second]))
