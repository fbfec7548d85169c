"""Progress bars of long computations: text on stderr, or a widget in notebooks."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from typing import Any


def progress_bar(steps: Iterable | None = None, *, shown: bool, **settings: Any) -> Any:
    """Return tqdm's progress bar: a widget in notebooks that have ipywidgets, otherwise text on stderr.

    Parameters
    ----------
    steps : iterable, optional
        What to iterate over. Without it, call `update` of the bar.
    shown : bool
        Whether to show anything.
    **settings
        Passed to tqdm.

    Returns
    -------
    tqdm
        The bar; it is an iterable and a context manager.
    """
    return _bars()(steps, disable=not shown, **settings)


def in_notebook() -> bool:
    """Return whether progress bars are widgets of a notebook."""
    import tqdm

    return _bars() is not tqdm.std.tqdm


def is_watched() -> bool:
    """Return whether progress appears where it replaces what was shown before: on a terminal or in a notebook."""
    return sys.stderr.isatty() or in_notebook()


def _bars() -> Any:
    """Return the class of the bars."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm warns of its notebook mode, and of notebooks without ipywidgets
        from tqdm.autonotebook import tqdm
    return tqdm
