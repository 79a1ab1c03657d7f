"""How Sphinx makes a site of the pages of ``convc/docs``: ``make docs`` writes it to ``build/site``.

It lies here, and not beside the pages, because a module of the package imports neither Sphinx nor Pygments.
"""

from __future__ import annotations

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from convc._version import __version__

project = "convc"
release = __version__
root_doc = "index"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"convc {release}"
default_role = "code"  # `verify` in a docstring is code
myst_heading_anchors = 3
nb_execution_mode = "off"  # the notebooks show what is stored in them, which a test compares
autodoc_typehints = "none"  # the signature has them
autodoc_member_order = "bysource"

TABLES_OF_FORMS = ("forms", "accepted", "rejected")
"""Languages that only ``add_a_form.md`` has."""


def setup(app: Sphinx) -> None:
    """Show blocks in our own languages as they are."""
    for language in TABLES_OF_FORMS:
        app.add_lexer(language, TextLexer)
