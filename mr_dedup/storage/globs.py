"""Patterns in URIs, as Hadoop has them: no wildcard but ``**`` matches a slash."""

from __future__ import annotations

import re

_GLOB = re.compile(r"[*?\[{\\]")
_TOKEN = re.compile(r"(?:^|(?<=/))\*\*/|\*\*|\*|\?|\[[!^]?\]?[^\]]*\]|\{|\}|,|\\?.", re.S)


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


def levels_of(pattern: str) -> list[str]:
    """Return the patterns of the names in a path: split at slashes, but for those in braces.

    >>> levels_of("2024/{a,b/c}/*.jsonl")
    ['2024', '{a,b/c}', '*.jsonl']
    """
    levels, depth = [""], 0
    # a wildcard of directories and its slash are one token
    for token in _TOKEN.findall(pattern):
        depth += (token == "{") - (token == "}" and depth > 0)
        if depth or "/" not in token:
            levels[-1] += token
        elif token in ("/", "**/"):
            levels[-1] += token[:-1]
            levels.append("")
        else:
            levels[-1] += token
    return levels


def as_regex(pattern: str) -> str:
    r"""Return the regular expression of a glob: ``*``, ``**``, ``?``, ``[a-c]``, ``{a,b}``, ``\*``.

    ``**`` as a name stands for any number of directories, also none.

    >>> bool(re.fullmatch(as_regex("crawl/{a,b}/*.jsonl"), "crawl/b/pages.jsonl"))
    True
    >>> bool(re.fullmatch(as_regex("crawl/*.jsonl"), "crawl/b/pages.jsonl"))
    False
    """
    parts, depth = [], 0
    for token in _TOKEN.findall(pattern):
        if token == "**/":
            parts.append("(?:.*/)?")
        elif token == "**":
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
            parts.append(_class_of(token))
        else:
            parts.append(re.escape(token[1:] if len(token) > 1 and token[0] == "\\" else token))
    return "".join(parts) + ")" * depth


def _class_of(token: str) -> str:
    """Return the regular expression of a class of characters such as ``[a-c]`` or ``[!a-c]``."""
    negated = token[1] in "!^"
    members = token[2 if negated else 1 : -1]
    # ranges are kept; what else means something in a class of a regular expression is escaped
    members = re.sub(r"([\\\[\]^&~|])", r"\\\1", members)
    return f"(?!/)[{'^' if negated else ''}{members}]"
