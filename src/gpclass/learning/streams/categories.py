"""The order of the classes: given by the user, by an ordered categorical, or by sorting the labels."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np


def declared_order(y: Any) -> list[Any] | None:
    """Return the categories of an ordered pandas categorical, or of a Series of that type, in their order, or None."""
    dtype: Any = getattr(y, "dtype", None)
    return dtype.categories.tolist() if getattr(dtype, "ordered", False) else None


def in_order(labels: np.ndarray, categories: Sequence[Any] | None) -> np.ndarray:
    """Return the labels in the order of `categories`, sorted if that is None. Categories without a label are left out.

    Parameters
    ----------
    labels : ndarray of shape (C,)
        The distinct labels, sorted.
    categories : sequence, optional
        All labels in their order, possibly with others.

    Returns
    -------
    ndarray of shape (C,)

    Raises
    ------
    ValueError
        If a label is missing in `categories`, or one of these occurs twice.
    """
    if categories is None:
        return labels
    if isinstance(categories, (str, bytes)) or np.ndim(categories) != 1:
        raise ValueError(f"categories must be a list of labels in their order, but is {categories!r}")
    known = np.asarray(categories, dtype=object).tolist()
    place = {label: number for number, label in enumerate(known)}
    if len(place) < len(known):
        twice = sorted({str(label) for label in known if known.count(label) > 1})
        raise ValueError(f"categories must be different, but {', '.join(twice)} occurs more than once")
    strange = [label for label in labels.tolist() if label not in place]
    if strange:
        raise ValueError(f"y has labels {strange[:5]} that are not among the categories {known[:10]}")
    return labels[np.argsort([place[label] for label in labels.tolist()])]


def check_ordered(labels: np.ndarray, categories: Sequence[Any] | None) -> None:
    """Raise an error if labels have no order: they are not numbers, and no categories are given."""
    if categories is None and not all(isinstance(label, Real) for label in labels.tolist()):
        raise ValueError(
            f"the likelihood is for ordered categories, but the labels {labels[:5].tolist()} have no order. Pass "
            "categories=[...] with all labels in ascending order (--categories on the command line), or make y an ordered "
            "pandas categorical, or use numbers"
        )
