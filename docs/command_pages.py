"""A Sphinx extension that writes a page of reference for each command, from its parser."""

from __future__ import annotations

import argparse
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

from data_gen.cli import command as data_gen_command
from mr_dedup.cli import main as mr_dedup_command

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_PAGE = """# {title}

{description}

```{{argparse}}
:module: command_pages
:func: {function}
:prog: {title}
:nodescription:
:nodefault:
```
"""


def _parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command, by what one types: ``mr-dedup dedup``."""
    return {
        command.prog: command
        for parser in (mr_dedup_command.whole_parser(), data_gen_command.whole_parser())
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for command in action.choices.values()
    }


def _markdown(description: str) -> str:
    """Return the description of a command as Markdown: indented lines are shown as they are."""
    paragraphs = inspect.cleandoc(description).split("\n\n")
    return "\n\n".join(
        f"```text\n{paragraph}\n```"
        if paragraph.startswith(" ")
        else re.sub(r"(?<![\w`-])--?[a-z][\w-]*", "`\\g<0>`", paragraph)
        for paragraph in paragraphs
    )


def _escape_help(parser: argparse.ArgumentParser) -> None:
    """Escape what reStructuredText gives a meaning in the help of arguments."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                _escape_help(each)
        elif action.help:
            action.help = re.sub(r"[*`|_\\]", r"\\\g<0>", action.help)


_PARSERS = {title.replace(" ", "_").replace("-", "_"): each for title, each in _parsers().items()}
# the directive of sphinx-argparse finds them here
globals().update(_PARSERS)


def _write_pages(app: Sphinx) -> None:
    for parser in _PARSERS.values():
        _escape_help(parser)
    folder = Path(app.srcdir) / "reference" / "commands"
    folder.mkdir(exist_ok=True)
    for function, parser in _PARSERS.items():
        page = folder / f"{parser.prog.replace(' ', '-')}.md"
        description = _markdown(parser.description or "")
        text = _PAGE.format(title=parser.prog, function=function, description=description)
        # an unchanged page is not read again
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension, and sphinx-argparse, which makes the pages' content."""
    app.setup_extension("sphinxarg.ext")
    app.connect("builder-inited", _write_pages)
    return {"parallel_read_safe": True}
