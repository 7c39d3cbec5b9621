"""Settings of Sphinx: how `make docs` builds the site from these pages."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import mr_dedup

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # command_pages.py

project = "mr_dedup"
author = "mr_dedup's maintainers"
release = version = mr_dedup.__version__
language = "en"
# it would show the -- of options as a dash
smartquotes = False

extensions = [
    "myst_nb",
    "command_pages",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_llms_txt",
]
exclude_patterns = ["_build"]
suppress_warnings = [
    # sphinx-argparse resolves references to commands itself
    "myst.domains",
    # in cells, lines of the shell, and the language where notebooks are not run
    "misc.highlighting_failure",
    "myst-nb.lexer",
]

# Pages are Markdown that GitHub shows too; those with code cells are notebooks, which run here.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_show_tb = True
nb_merge_streams = True
nb_render_markdown_format = "myst"
# cells find the commands of this Python, and what several pages draw figures with
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
# bars of progress are for those who wait
os.environ["TQDM_DISABLE"] = "1"
os.environ["PYTHONPATH"] = f"{HERE / 'methods'}:{HERE.parent}"

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
napoleon_numpy_docstring = False
napoleon_use_rtype = False

copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"
copybutton_exclude = ".linenos, .go"

html_theme = "pydata_sphinx_theme"
html_title = "mr_dedup"
html_static_path = ["_static"]
html_favicon = "_static/logo.svg"
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {
        "text": "mr_dedup",
        "alt_text": "mr_dedup: start page",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
html_sidebars = {"index": [], "start": []}
copyright = "mr_dedup's maintainers, Apache-2.0"

llms_txt_title = "mr_dedup"
llms_txt_summary = (
    "Near-duplicate detection for web crawls and text corpora, in Python: commands and functions, "
    "on one machine, Apache Spark or Hadoop, with the same result on each."
)
llms_txt_full_file = True
