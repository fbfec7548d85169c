"""Sphinx: pages in Markdown, tutorials run while the pages are made, the reference from docstrings."""

from gpclass import __version__

project = "gpclass"
author = "the gpclass developers"
copyright = author
release = version = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]

html_theme = "pydata_sphinx_theme"
html_title = "gpclass"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False, "show_prev_next": False}
html_static_path: list[str] = []

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_default_options = {"members": True, "show-inheritance": False, "member-order": "bysource"}
autodoc_typehints = "none"  # signatures have them
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_ivar = True  # attributes that are listed and documented as members would be described twice
suppress_warnings = ["ref.python"]  # words of a docstring's types that several classes have as attributes


def escape_bars(app, what, name, obj, options, lines):
    """|x| is a length in our docstrings, not a substitution."""
    lines[:] = [line.replace("|", r"\|") for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars)
