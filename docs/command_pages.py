"""A Sphinx extension that writes a page of reference for each command, from its parser."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
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
```
"""


def _command_parser(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    """Return the parser of the command ``name`` of ``parser``."""
    (commands,) = (
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    found = commands.choices[name]
    assert isinstance(found, argparse.ArgumentParser)
    return found


def _parsers() -> dict[str, Callable[[], argparse.ArgumentParser]]:
    """Return a function that makes the parser of each command, by its title."""
    return {
        f"mr-dedup {name}": lambda name=name: _command_parser(
            mr_dedup_command.build_parser([name]), name
        )
        for name in mr_dedup_command.COMMANDS
    } | {
        f"data-gen {name}": lambda name=name: _command_parser(data_gen_command.build_parser(), name)
        for name in data_gen_command.COMMANDS
    }


def _markdown(description: str) -> str:
    """Return the description of a command as Markdown: indented lines are shown as they are."""
    paragraphs = inspect.cleandoc(description).split("\n\n")
    return "\n\n".join(
        f"```text\n{paragraph}\n```" if paragraph.startswith(" ") else paragraph
        for paragraph in paragraphs
    )


# the directive of sphinx-argparse finds them here
globals().update({title.replace(" ", "_").replace("-", "_"): f for title, f in _parsers().items()})


def _write_pages(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference" / "commands"
    folder.mkdir(exist_ok=True)
    for title, parser in _parsers().items():
        name = title.replace(" ", "_").replace("-", "_")
        page = folder / f"{title.replace(' ', '-')}.md"
        text = _PAGE.format(
            title=title, function=name, description=_markdown(parser().description or "")
        )
        # an unchanged page is not read again
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension, and sphinx-argparse, which makes the pages' content."""
    app.setup_extension("sphinxarg.ext")
    app.connect("builder-inited", _write_pages)
    return {"parallel_read_safe": True}
