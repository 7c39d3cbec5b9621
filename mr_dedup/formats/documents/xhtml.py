"""XHTML for a parser of HTML, which ignores the slash of ``<title/>`` and reads on for its end.

Elements that are empty in XML get an end tag, CDATA sections become text, and names lose the prefix
of XHTML's namespace. So one parser, and one extraction of main content, serve both; nothing is
loaded, and no entity expanded. A parser of XML finds out what is XML, whatever is declared: most
pages that declare XHTML are not well-formed, and are HTML.
"""

from __future__ import annotations

import html
import re
from xml.parsers import expat

VOID = frozenset(
    ["area", "base", "br", "col", "embed", "frame", "hr", "img", "input", "link", "meta", "param",
     "source", "track", "wbr"]
)  # fmt: skip
_OPAQUE = frozenset(
    ["audio", "button", "canvas", "iframe", "label", "noembed", "noframes", "noscript", "object",
     "option", "script", "select", "style", "template", "textarea", "title", "video", "xmp"]
)  # fmt: skip
"""Elements whose content is no text of a page, or has no elements."""

_NOT_EMPTY = {"frameset", "plaintext"}
"""Elements that hide all that follows even where they have an end tag."""

_MAX_NAME = 9
"""Characters in which the names of these elements end."""

_NAME_END = re.compile(r"[\s/>]")
# not those in comments of a script; at the end, so that its beginning is looked for
_CDATA = re.compile(r"<!\[CDATA\[(?<!/[*/]<!\[CDATA\[)")
_NAMESPACE = re.compile(r"""xmlns:([\w.-]+)\s*=\s*["']http://www\.w3\.org/1999/xhtml["']""")
# what is open at the end of the page ends there, so that each character is read once
_XML = re.compile(
    r"""<!--.*?(?:-->|\Z)|<!\[CDATA\[(?P<text>.*?)(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)"""
    r"""|<(?P<name>/?[^\s<>/!?"']+)(?P<attributes>(?:[^<>"']|"[^"]*"|'[^']*')*?)(?P<empty>/?)>""",
    re.DOTALL,
)
_OPAQUE_TAG = re.compile(
    rf"""<!--(?:-?>|.*?(?:--!?>|\Z))|<(?P<end>/?)(?P<name>{"|".join(sorted(_OPAQUE))})(?=[\s/>])"""
    r"""(?:[^<>"']|"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))*>""",
    re.IGNORECASE | re.DOTALL,
)

_MAX_ENTITY = 100
"""Longest replacement of an entity that a page declares itself."""


def as_html(page: str) -> str:
    """Return ``page`` so that a parser of HTML finds in it what is there by the rules of XML.

    In a page that is not well-formed, only elements such as ``<title/>``, which would hide what
    follows, get an end tag, unless one follows.
    """
    prefix = _NAMESPACE.search(page) if "xmlns:" in page else None
    # by str's methods ten times as fast as by a pattern
    ends = {piece[piece.rfind("<") + 1 :][:_MAX_NAME] for piece in page.split("/>")[:-1]}
    empty = {_NAME_END.split(end, 1)[0].lower() for end in ends} - VOID
    if prefix or empty or ("<![CDATA[" in page and _CDATA.search(page)):
        root = _root(page)
        if root is not None:
            return _from_xml(root, prefix.group(1) if prefix else None)
    return page if empty.isdisjoint(_OPAQUE) else _with_end_tags(page)


def _root(page: str) -> str | None:
    """Return a page from its first element on; None if it is not XML, as far as it goes."""
    data = page.strip().encode("utf-8", "replace")
    starts: list[int] = []

    def start(name: str, attributes: object) -> None:
        starts.append(parser.CurrentByteIndex)
        parser.StartElementHandler = None

    def declared(name: str, is_parameter: bool, value: str | None, *others: object) -> None:
        if value is not None and (is_parameter or "&" in value or len(value) > _MAX_ENTITY):
            raise expat.ExpatError("entities that may grow")

    parser = expat.ParserCreate("utf-8")
    # those of the DTD, which is not loaded, are no errors
    parser.UseForeignDTD(True)
    parser.StartElementHandler = start
    parser.EntityDeclHandler = declared
    try:
        # as if more followed: crawlers truncate pages
        parser.Parse(data, False)
    except expat.ExpatError:
        return None
    return data[starts[0] :].decode() if starts else None


def _from_xml(page: str, prefix: str | None) -> str:
    def replacement(found: re.Match[str]) -> str:
        name, attributes = found["name"], found["attributes"]
        if name is None:
            return "" if found["text"] is None else html.escape(found["text"])
        if prefix:
            name = re.sub(rf"^(/?){re.escape(prefix)}:", r"\1", name)
        if not found["empty"] or name in VOID:
            return f"<{name}{attributes}>"
        if name.lower() in _NOT_EMPTY:
            return ""
        return f"<{name}{attributes}></{name}>"

    return "<!DOCTYPE html>" + _XML.sub(replacement, page)


def _with_end_tags(page: str) -> str:
    """Return ``page`` with an end tag after each empty element that would hide what follows."""
    tags = [tag for tag in _OPAQUE_TAG.finditer(page) if tag["name"]]
    next_is_end: dict[str, bool] = {}
    pieces: list[str] = []
    end = len(page)
    for tag in reversed(tags):
        name = tag["name"].lower()
        if tag[0].endswith("/>") and not tag["end"] and not next_is_end.get(name):
            pieces += [page[tag.end() : end], f"</{name}>"]
            end = tag.end()
        next_is_end[name] = bool(tag["end"])
    return page[:end] + "".join(reversed(pieces))
