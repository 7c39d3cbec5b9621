"""The licence that the archive of a package declares, and whether it is an open-source one."""

from __future__ import annotations

import json
import re

_PATHS = {
    "npm": re.compile(r"[^/]+/package\.json"),
    "pypi": re.compile(r"[^/]+\.dist-info/METADATA"),
    # module@version/LICENSE, where a module has slashes
    "go": re.compile(r"[^@]+@[^/]+/(?:LICEN[CS]E|COPYING)(?:\.\w+)?", re.IGNORECASE),
}

_OPEN = re.compile(
    r"\b(?:0BSD|AFL|AGPL|Apache|Artistic|BSD|BSL-1\.0|GPL|HPND|ISC|LGPL|MIT|MPL|OFL|PSF|Python"
    r"|UPL|Unlicense|ZPL|Zlib|GNU (?:Affero|Lesser|General|Library)|Mozilla Public)(?![A-Za-z])"
    r"|\b[AL]?GPLv?\d|OSI Approved"
)

_TEXTS = {
    "Apache-2.0": "Apache License",
    "MIT": "Permission is hereby granted, free of charge",
    "BSD": "Redistribution and use in source and binary forms",
    "MPL-2.0": "Mozilla Public License",
    "AGPL-3.0": "GNU AFFERO GENERAL PUBLIC LICENSE",
    "LGPL": "GNU LESSER GENERAL PUBLIC LICENSE",
    "GPL": "GNU GENERAL PUBLIC LICENSE",
    "UPL-1.0": "Universal Permissive License",
    "ISC": "Permission to use, copy, modify, and/or distribute this software",
}


def is_declaration(registry: str, path: str) -> bool:
    """Return whether the file at this path of an archive declares the licence of the package."""
    return registry in _PATHS and _PATHS[registry].fullmatch(path) is not None


def declared(registry: str, content: bytes) -> str:
    """Return the licence that a declaration names, in its words; empty if it names none.

    >>> declared("npm", b'{"license": "MIT"}')
    'MIT'
    """
    text = content.decode("utf-8", "replace")
    if registry == "npm":
        return _of_npm(text)
    if registry == "pypi":
        head = text.replace("\r\n", "\n").partition("\n\n")[0]
        fields = re.findall(
            r"^(?:License-Expression|Classifier: License ::|License):? (.+)$", head, re.MULTILINE
        )
        return "; ".join(fields)
    return next((name for name, words in _TEXTS.items() if words in text), "")


def is_open_source(licence: str) -> bool:
    """Return whether a licence is one of those of open source that packages use most.

    Of several licences one is enough.

    >>> is_open_source("(MIT OR CC0-1.0)"), is_open_source("Business Source License 1.1")
    (True, False)
    """
    return _OPEN.search(licence) is not None


def _of_npm(text: str) -> str:
    try:
        package = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(package, dict):
        return ""
    listed = package.get("license") or package.get("licenses") or ""
    several = listed if isinstance(listed, list) else [listed]
    names = (each.get("type", "") if isinstance(each, dict) else each for each in several)
    return "; ".join(map(str, names))
