"""Patterns in URIs, as Hadoop has them: no wildcard but ``**`` matches a slash."""

from __future__ import annotations

import re

_GLOB = re.compile(r"[*?\[{\\]")
_TOKEN = re.compile(r"\*\*|\*|\?|\[!?\]?[^\]]*\]|\{|\}|,|\\?.", re.S)


def fixed_part(pattern: str) -> str:
    """Return the directories of a pattern before the first wildcard.

    >>> fixed_part("s3://crawl/2024/*/pages-*.jsonl"), fixed_part("s3://crawl/pages.jsonl")
    ('s3://crawl/2024', 's3://crawl/pages.jsonl')
    """
    found = _GLOB.search(pattern)
    return pattern if found is None else pattern[: found.start()].rpartition("/")[0]


def is_glob(text: str) -> bool:
    """Return whether ``text`` has wildcards or escaped characters."""
    return _GLOB.search(text) is not None


def as_regex(pattern: str) -> str:
    r"""Return the regular expression of a glob: ``*``, ``**``, ``?``, ``[a-c]``, ``{a,b}``, ``\*``.

    >>> bool(re.fullmatch(as_regex("crawl/{a,b}/*.jsonl"), "crawl/b/pages.jsonl"))
    True
    >>> bool(re.fullmatch(as_regex("crawl/*.jsonl"), "crawl/b/pages.jsonl"))
    False
    """
    parts, depth = [], 0
    for token in _TOKEN.findall(pattern):
        if token == "**":
            parts.append(".*")
        elif token == "*":
            parts.append("[^/]*")
        elif token == "?":
            parts.append("[^/]")
        elif token == "{":
            parts.append("(?:")
            depth += 1
        elif token == "}" and depth:
            parts.append(")")
            depth -= 1
        elif token == "," and depth:
            parts.append("|")
        elif token.startswith("[") and len(token) > 2:
            negated, members = token[1] == "!", token[1:-1].lstrip("!").replace("\\", r"\\")
            parts.append(f"[{'^' if negated else ''}{members}]")
        else:
            parts.append(re.escape(token.removeprefix("\\") or "\\"))
    return "".join(parts) + ")" * depth
