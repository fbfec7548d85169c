"""Sphinx extension: formulas by MathJax, from files of the built pages instead of a server.

The package sphinx-mathjax-offline contains MathJax 3. Only what the pages need is copied: the program for TeX input and its
fonts, not the other input formats and the texts of the screen reader in twelve languages (1.5 MB of 24 MB).
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

PARTS = ("tex-chtml.js", "output/chtml/fonts/woff-v2", "input/tex/extensions")


def setup(app):
    """Connect to Sphinx."""
    app.setup_extension("sphinx.ext.mathjax")
    app.connect("config-inited", use_copy)
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def use_copy(app, config) -> None:
    """Let the pages load MathJax from the copy."""
    config.mathjax_path = f"mathjax/{PARTS[0]}"


def copy(app, error) -> None:
    """Copy MathJax to the static files of the built pages."""
    if error is not None or app.builder.format != "html":
        return
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError('formulas need sphinx-mathjax-offline: pip install -e ".[docs]"')
    source = Path(spec.submodule_search_locations[0]) / "static" / "mathjax"
    for part in PARTS:
        to = app.outdir / "_static" / "mathjax" / part
        to.parent.mkdir(parents=True, exist_ok=True)
        if (source / part).is_dir():
            shutil.copytree(source / part, to, dirs_exist_ok=True)
        else:
            shutil.copy(source / part, to)
