"""What is in a page of HTML, found before it is parsed: what the parser and its selectors need.

Patterns of Python's ``re``, one for each question, took half as long as the parser.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mr_dedup.formats.documents import html_scan_kernels as kernels
from mr_dedup.formats.documents.markup import FURNITURE_IDS, FURNITURE_NAMES, Markup
from mr_dedup.formats.documents.xhtml import VOID

_NOT_NESTED = (
    "area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta",
    "option", "p", "param", "source", "td", "th", "tr", "track", "wbr",
)  # fmt: skip
"""Elements that do not nest, or need no end tag."""

_FORMATTING = ("b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u")
"""Without a and nobr, which close one another."""

_SLOTS = 512


class _Names(NamedTuple):
    """A hash table of names, as ``scan_page`` has it; ``texts`` by slot, those of furniture."""

    keys: NDArray[np.uint64]
    meanings: NDArray[np.uint64]
    prefix_lengths: np.uint64
    texts: list[str]


@cache
def _names() -> _Names:
    meanings: dict[str, int] = {}

    def add(names: tuple[str, ...] | frozenset[str], meaning: int) -> None:
        meanings.update({name: meanings.get(name, 0) | meaning for name in names})

    add(_NOT_NESTED, kernels.NOT_NESTED)
    add(VOID, kernels.VOID)
    add(("option",), kernels.OPTION)
    add(("select",), kernels.SELECT)
    add((*FURNITURE_NAMES, *FURNITURE_IDS), kernels.FURNITURE)
    for number, name in enumerate(_FORMATTING, 1):
        add((name,), number << kernels.FORMATTING_SHIFT)
    table = _Names(
        np.zeros(_SLOTS, np.uint64),
        np.zeros(_SLOTS, np.uint64),
        np.uint64(sum(1 << length for length in set(map(len, FURNITURE_IDS)))),
        [""] * _SLOTS,
    )
    for name, meaning in meanings.items():
        key = kernels.name_key(name)
        slot = key % _SLOTS
        while table.keys[slot]:
            slot = (slot + 1) % _SLOTS
        table.keys[slot], table.meanings[slot] = key, meaning
        table.texts[slot] = name if meaning & kernels.FURNITURE else ""
    return table


def markup_of(page: bytes) -> Markup:
    """Return what is in a page of HTML, in an encoding of which ASCII is a part; linear time."""
    names = _names()
    padding = bytes(kernels.PADDING_BYTES)
    found = np.zeros(_SLOTS, np.uint8)
    tags, longest, options, reopened, depth, xml_depth, facts = kernels.scan_page(
        np.frombuffer(b"".join([padding, page, padding]), np.uint8),
        names.keys,
        names.meanings,
        names.prefix_lengths,
        found,
    )
    furniture = [names.texts[slot] for slot in np.flatnonzero(found) if names.texts[slot]]
    return Markup(
        tags,
        longest,
        options,
        reopened,
        depth,
        xml_depth,
        may_be_xml=bool(facts & kernels.MAY_BE_XML) or b"xmlns:" in page,
        has_role=bool(facts & kernels.HAS_ROLE),
        has_label=bool(facts & kernels.HAS_LABEL),
        has_advert_data=bool(facts & kernels.HAS_ADVERT_DATA),
        furniture=sorted(furniture),
    )
