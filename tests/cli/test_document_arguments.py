"""The arguments of commands that read documents: what they make, and which mistakes they name."""

import argparse

import pytest

from mr_dedup.cli.document_arguments import (
    add_feature_arguments,
    add_reading_arguments,
    feature_options,
    read_options,
)
from mr_dedup.errors import MrDedupError
from mr_dedup.features.options import WEIGHTINGS, FeatureOptions
from mr_dedup.formats.documents.options import ReadOptions


@pytest.fixture
def parser():
    parser = argparse.ArgumentParser()
    add_reading_arguments(parser)
    add_feature_arguments(parser)
    return parser


def test_the_defaults_are_those_of_the_library(parser):
    arguments = parser.parse_args([])
    assert read_options(arguments) == ReadOptions()
    assert feature_options(arguments) == FeatureOptions()
    assert arguments.format is None


def test_every_argument_has_its_effect(parser):
    reading = "--id-field key --id-field name --text-field body --html-field page --html page"
    limits = "--max-record-size 3KB --strict --format warc"
    features = "--features characters:5 --weights tf --stop-words de --stem german --segment zh"
    arguments = parser.parse_args(f"{reading} {limits} {features}".split())
    assert read_options(arguments, ["date"], keep_records=True) == ReadOptions(
        id_names=("key", "name"), text_name="body", html_name="page", html="page",
        fields=("date",), keep_records=True, max_record_bytes=3 << 10, strict=True,
    )  # fmt: skip
    expected = FeatureOptions("characters", 5, "tf", "de", "german", "zh")
    assert feature_options(arguments) == expected
    assert arguments.format == "warc"


def test_the_help_names_every_weighting(parser):
    printed = parser.format_help()
    assert [name for name in WEIGHTINGS if name not in printed] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--features", "lines"], "--features must be one of words, characters, auto, not 'lines'"),
        (["--features", "words:x"], "--features are words:N, characters:N or auto, not 'words:x'"),
        (["--features", "words:65"], "--features must be from 1 to 64, not 65"),
        (["--weights", "idf"], "--weights must be one of binary, "),
        (["--stop-words", "xx"], "--stop-words must be one of af, "),
        (["--stem", "en"], "--stem must be one of arabic, "),
        (["--segment", "ja"], "--segment must be one of zh, not 'ja'"),
        (["--id-field", "text"], "--id-field, --text-field, --html-field: expected distinct names"),
        (["--text-field", ""], "--id-field, --text-field, --html-field: expected a printable name"),
        (["--max-record-size", "2GB"], "--max-record-size: expected 1 to 1073741824, got "),
    ],
)
def test_mistakes_are_named_by_their_option(parser, arguments, said):
    parsed = parser.parse_args(arguments)
    with pytest.raises(MrDedupError) as caught:
        read_options(parsed), feature_options(parsed)
    assert str(caught.value).startswith(said)
