"""The options of functions, which are those of their commands; ``mr-dedup COMMAND --help`` explains
each."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Literal, TypeAlias, TypedDict

Name: TypeAlias = str | PathLike[str]
Names: TypeAlias = Name | Sequence[Name]
Texts: TypeAlias = str | Sequence[str]
Size: TypeAlias = int | str
"""Bytes, or text such as ``"4GB"``."""


class ReadingOptions(TypedDict, total=False):
    """How documents are read."""

    id_field: Texts
    text_field: str
    html_field: str
    html: Literal["main", "page"]
    format: str
    encoding: str
    max_record_size: Size
    max_page_seconds: float
    strict: bool
    max_rejected: str


class FeatureOptions(TypedDict, total=False):
    """What fingerprints are made from."""

    features: str
    weights: str
    stop_words: str
    stem: str
    segment: str
    normalize: str
    symbols: Literal["ignore", "auto", "keep"]
    idf: Name


class EngineOptions(TypedDict, total=False):
    """Where jobs run."""

    cores: int
    memory: Size
    master: str
    python_bin: str
    archive: Name
    conf_path: Name
    hadoop_bin: Name
    D: Texts
    task_memory: Size
    scratch: Size
    scratch_dir: Name


class DedupOptions(ReadingOptions, FeatureOptions, EngineOptions, total=False):
    """Options of ``dedup``."""

    reducers: int
    method: Texts
    k: int
    keep: Texts
    keep_per_cluster: int
    sample: str
    sample_seed: int
    verify: float | str
    shingles: str
    against: Names
    follow: bool
    documents: Literal["same", "jsonl", "parquet"]
    share_by: Texts
    seen: str
    add_counts: bool
    keyword_idf: Name
    resume: bool
    overwrite: bool


class CountsOptions(TypedDict, total=False):
    """Options of ``counts``."""

    follow: bool
    scratch: Size
    scratch_dir: Name


class DecontaminateOptions(ReadingOptions, EngineOptions, total=False):
    """Options of ``decontaminate``."""

    action: Literal["report", "drop", "cut"]
    documents: Literal["same", "jsonl", "parquet"]
    question_field: Texts
    answer_field: Texts
    passage_field: Texts
    choices_field: Texts
    item_id_field: Texts
    set_field: str
    min_coverage: float
    min_coverage_with_answer: float
    max_edits: float
    min_tokens: int
    answer_window: int
    passages: Literal["alone", "with-question", "ignore"]
    resume: bool
    overwrite: bool


class PassagesOptions(ReadingOptions, EngineOptions, total=False):
    """Options of ``find_passages``, of the command ``passages``."""

    reducers: int
    unit: str
    min_documents: int
    min_tokens: int
    per: str
    cut: Literal["none", "all", "all-but-first"]
    boundaries: Literal["words", "sentences"]
    normalize: str
    resume: bool
    overwrite: bool


class RestoreOptions(TypedDict, total=False):
    """Options of ``restore``."""

    overwrite: bool
    scratch: Size
    scratch_dir: Name


class PairsOptions(ReadingOptions, FeatureOptions, EngineOptions, total=False):
    """Options of ``pairs``."""

    reducers: int
    method: Texts
    k: int
    verify: float | Literal["off"]
    shingles: str
    keyword_idf: Name
    design: str
    table_memory: Size
    byte_order: Literal["big", "little"]
    corpus_format: str


class QueryOptions(ReadingOptions, FeatureOptions, EngineOptions, total=False):
    """Options of ``query``."""

    reducers: int
    k: int
    design: str
    index: str
    table_memory: Size
    byte_order: Literal["big", "little"]
    corpus_format: str
    queries_format: str


class FingerprintCommandOptions(ReadingOptions, FeatureOptions, EngineOptions, total=False):
    """Options of ``fingerprint``."""

    keep_field: Texts


class EvaluateOptions(ReadingOptions, total=False):
    """Options of ``evaluate``."""

    threshold: float
    bands: str | float | Sequence[float]
    scratch: Size
    scratch_dir: Name


class CompareOptions(ReadingOptions, total=False):
    """Options of ``compare``."""

    method: Texts
    simhash_features: Texts
    verify: float
    shingles: str
    threshold: float
    bands: str | float | Sequence[float]
    scratch: Size
    scratch_dir: Name
