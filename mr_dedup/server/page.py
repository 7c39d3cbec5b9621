"""The page at /: one HTML document that asks for nothing but answers of its own server."""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib import resources


@functools.cache
def page() -> tuple[bytes, str]:
    """Return the page in UTF-8, and the policy that lets its own script and style alone act."""
    folder = resources.files("mr_dedup.server") / "static"
    style, script = (
        (folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js")
    )
    html = (folder / "page.html").read_text(encoding="utf-8")
    html = html.replace("{{ style }}", style).replace("{{ script }}", script)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return html.encode(), policy


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
