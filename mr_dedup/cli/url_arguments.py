"""Arguments of the form that URLs are brought to."""

from __future__ import annotations

import argparse
from pathlib import Path

from mr_dedup.cli.remote_files import input_name
from mr_dedup.errors import MrDedupError
from mr_dedup.urls.canonical import UrlForm, read_mirrors

_FLAGS = ("keep_fragments", "drop_index", "drop_tracking")
"""Options that are called as the parameters of UrlForm that they set."""


def add_form_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments on the form of URLs, as a group."""
    group = parser.add_argument_group(
        "the form of URLs", "of a new store; an existing one has its own, and refuses another"
    )
    add = group.add_argument
    add("--no-canonical", action="store_true", help="take URLs as they are, byte for byte")
    add("--keep-fragments", action="store_true", help="keep what follows #")
    add("--drop-index", action="store_true", help="drop index.html and the like at the end")
    add("--drop-tracking", action="store_true", help="drop utm_source, gclid and the like")
    add("--mirrors", type=input_name, metavar="FILE",
        help="hosts that mirror one another, a line for each group; the first is kept")  # fmt: skip


def url_form(arguments: argparse.Namespace) -> UrlForm | None:
    """Return the form that the arguments ask for; None if they ask for none.

    Raises MrDedupError for arguments that contradict each other, and FormatError as read_mirrors.
    """
    given = {name: getattr(arguments, name) for name in (*_FLAGS, "mirrors")}
    if arguments.no_canonical:
        others = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
        if others:
            raise MrDedupError(f"--no-canonical leaves nothing to {', '.join(others)}")
        return UrlForm(canonical=False)
    if not any(given.values()):
        return None
    given["mirrors"] = read_mirrors(Path(arguments.mirrors)) if arguments.mirrors else ()
    return UrlForm(**given)
