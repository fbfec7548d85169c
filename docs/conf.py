"""Sphinx: pages in Markdown whose code is run while the pages are made, the reference from docstrings. All work offline."""

import hashlib
import sys
from importlib import metadata
from pathlib import Path

import gpclass

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

project = "gpclass"
author = "the gpclass developers"
copyright = author
release = version = gpclass.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "docstrings",
    "forked_kernels",
    "offline_math",
    "results",
]
exclude_patterns = ["_build"]

html_theme = "pydata_sphinx_theme"
html_title = "gpclass"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "logo": {"text": "gpclass"},
    "pygments_light_style": "default",
}
html_sidebars = {"index": []}
html_static_path = ["static"]
html_css_files = ["gpclass.css"]
html_search_scorer = str(HERE / "static" / "scorer.js")
html_show_sourcelink = False
html_copy_source = False
toc_object_entries_show_parents = "hide"

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence", "attrs_block", "attrs_inline"]
myst_heading_anchors = 3


def state_of_the_code() -> str:
    """Return a hash of the package and of the versions that it runs on: executed pages are reused while it is the same."""
    sources = sorted(Path(gpclass.__file__).parent.rglob("*.py"))
    versions = [metadata.version(name) for name in ("numpy", "scipy", "scikit-learn", "pandas", "matplotlib")]
    parts = [file.read_bytes() for file in sources] + [text.encode() for text in (sys.version, *versions)]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "executed" / state_of_the_code())
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # no page has widgets, and these files would come from a server

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "description"  # of parameters whose type the docstring does not say
autodoc_typehints_format = "short"
autodoc_type_aliases = {"ArrayLike": "ArrayLike", "Classes": "Classes"}
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_ivar = True  # attributes that are listed and documented as members would be described twice
suppress_warnings = ["ref.python"]  # words of a docstring's types that several classes have as attributes
