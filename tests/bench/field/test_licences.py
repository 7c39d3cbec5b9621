"""What packages declare as their licence."""

import json

import pytest

from bench.field.licences import declared, is_declaration, is_open_source


@pytest.mark.parametrize(
    ("registry", "path"),
    [
        ("npm", "package/package.json"),
        ("pypi", "nltk-3.9.dist-info/METADATA"),
        ("go", "example.org/a/b@v1.2.3/LICENSE"),
        ("go", "example.org/a/b@v1.2.3/Licence.txt"),
    ],
)
def test_declarations_are_at_the_root_of_packages(registry, path):
    assert is_declaration(registry, path)
    assert not is_declaration(registry, f"vendor/{path}/deeper/{path}")
    assert not is_declaration("debian", path)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"license": "MIT"}, "MIT"),
        ({"license": {"type": "BSD-3-Clause", "url": "…"}}, "BSD-3-Clause"),
        ({"licenses": [{"type": "MIT"}, {"type": "GPL"}]}, "MIT; GPL"),
        ({"license": None}, ""),
        ({"license": 7}, "7"),
        ([], ""),
        ({}, ""),
    ],
)
def test_licences_of_npm(value, expected):
    assert declared("npm", json.dumps(value).encode()) == expected


@pytest.mark.parametrize("content", [b"", b"\xff", b"{", b"[" * 100_000])
def test_damaged_json_declares_nothing(content):
    assert declared("npm", content) == ""


def test_licences_of_wheels_are_all_fields_of_the_header():
    metadata = (
        b"Name: a\r\nLicense: BSD\r\nClassifier: License :: OSI Approved :: MIT License\r\n"
        b"License-Expression: 0BSD\r\n\r\nLicense: of the description"
    )
    found = declared("pypi", metadata)
    assert found == "BSD; OSI Approved :: MIT License; 0BSD"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"   Apache License\n  Version 2.0", "Apache-2.0"),
        (b"Permission is hereby granted, free of charge, to any", "MIT"),
        (b"Business Source License 1.1", ""),
        (b"", ""),
    ],
)
def test_licences_of_go_modules_are_known_by_their_words(text, expected):
    assert declared("go", text) == expected


@pytest.mark.parametrize(
    "licence",
    [
        "MIT",
        "(MIT OR Apache-2.0)",
        "Apache 2.0",
        "BSD 3-Clause",
        "GPL-2.0-or-later",
        "GPLv3+",
        "ISC",
    ],
)
def test_open_licences(licence):
    assert is_open_source(licence)


@pytest.mark.parametrize(
    "licence",
    ["", "UNLICENSED", "BUSL-1.1", "SSPL-1.0", "SEE LICENSE IN LICENSE.md", "Proprietary", "MITRE"],
)
def test_other_licences(licence):
    assert not is_open_source(licence)
