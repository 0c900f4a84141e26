"""How the pages are built: ``pip install '.[docs]' && sphinx-build -W -b html docs docs/_build``."""

from __future__ import annotations

import importlib.util
import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

import cunpool

project = "cunpool"
copyright = "2026, the cunpool authors"
version = release = cunpool.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_title = f"cunpool {release}"
html_copy_source = html_show_sourcelink = False

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
default_role = "py:obj"  # in docstrings; other names stay plain text
autodoc_typehints = "none"  # numpydoc has the parameters
autodoc_default_options = {"members": True, "member-order": "bysource"}
numpydoc_show_class_members = autosummary_generate = False

# Pages made of docstrings, and the package that their module needs.
NEEDS = {"api-torch": "torch", "api-dask": "dask"}


def without_extra(app: Sphinx, page: str, source: list[str]) -> None:
    """Replace a page whose module is missing by a notice, and warn. With -W the warning is an error."""
    if page in NEEDS and importlib.util.find_spec(NEEDS[page]) is None:
        title = source[0].splitlines()[0]
        source[0] = f"{title}\n\nBuilt without {NEEDS[page]}: `help(cunpool.{NEEDS[page]})` has it.\n"
        logging.getLogger(__name__).warning("%s needs %s: pip install '.[docs]'", page, NEEDS[page])


def cards(app: Sphinx, document: nodes.document, page: str) -> None:
    """Mark the lists of pages on the home page as cards, which site.css lays out."""
    if page == "index":
        for items in document.findall(nodes.bullet_list):
            items["classes"].append("cards")


def numbered(app: Sphinx, document: nodes.document, page: str) -> None:
    """Show a docstring's reference as [1] again: numpydoc has made its name unique."""
    for text in [*document.findall(nodes.Text)]:
        if found := re.fullmatch(r"\[R[0-9a-f]+-(\d+)\]", text.astext()):
            text.parent.replace(text, nodes.Text(f"[{found[1]}]"))


def setup(app: Sphinx) -> None:
    app.connect("doctree-resolved", numbered)
    app.connect("doctree-resolved", cards)
    app.connect("source-read", without_extra)
