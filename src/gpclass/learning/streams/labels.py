"""Labels of rows: how often each one is found, how evenly, the order of the classes, and class numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy
from scipy.special import rel_entr

LABEL_KINDS = {"b": "booleans", "i": "numbers", "u": "numbers", "f": "numbers", "U": "texts", "S": "bytes"}  # of labels
CHANCE = 1e-6  # probability that rows in random order count as uneven


def label_counts(y: np.ndarray, weight: np.ndarray | None = None) -> dict[Any, Any]:
    """Return the number of rows of each label, or the sum of their weights."""
    names, which = np.unique(y, return_inverse=True)
    return dict(zip(names.tolist(), np.bincount(which.ravel(), weight, len(names)).tolist(), strict=True))


def of_one_type(y: np.ndarray, start: int = 0, of: str = "") -> np.ndarray:
    """Return labels (n,) as an array whose type is not object, if there is one for them.

    Raises a ValueError if a label is missing or types differ. Messages count rows from `start`; `of` names the data, such as
    " of the stream".
    """
    import pandas as pd  # imported here, since most fits do not need it

    if np.any(missing := pd.isna(y)):
        row = start + int(np.argmax(missing)) + 1
        raise ValueError(f"the label of row {row}{of} (counted from 1) is missing; leave the row out")
    if y.dtype != object or not len(y):
        return y
    labels = [label.item() if isinstance(label, np.generic) else label for label in y]
    other = next((i for i, label in enumerate(labels) if type(label) is not type(labels[0])), None)
    if other is not None:
        raise ValueError(
            f"labels{of} are of different types: {labels[0]!r} in row {start + 1}, but {labels[other]!r} in row "
            f"{start + other + 1} (counted from 1)"
        )
    return np.array(labels)


@dataclass(frozen=True)
class LabelCounts:
    """Numbers of rows of each label in some parts of a data set; those of different parts are added."""

    counts: Counter
    kinds: dict[str, str]  # kind of label: a part that has it

    @staticmethod
    def of(labels: np.ndarray, counts: np.ndarray, name: str) -> LabelCounts:
        """Return the counts of the different labels of a part; `name` is for messages."""
        kinds = {LABEL_KINDS.get(labels.dtype.kind, "objects"): name} if len(labels) else {}
        return LabelCounts(Counter(dict(zip(labels.tolist(), counts.tolist(), strict=True))), kinds)

    def __add__(self, other: LabelCounts) -> LabelCounts:
        return LabelCounts(self.counts + other.counts, other.kinds | self.kinds)

    def checked(self) -> dict[Any, int]:
        """Return the counts in the order of the labels; raise a ValueError if parts have labels of different kinds."""
        if len(self.kinds) > 1:
            found = ", but ".join(f"{kind} in {name}" for kind, name in sorted(self.kinds.items()))
            raise ValueError(f"labels are {found}; use one type")
        return {label: self.counts[label] for label in sorted(self.counts)}


def unevenness(counts: np.ndarray) -> float:
    """Return the difference of label frequencies between windows of a pass beyond chance, in nats per row.

    `counts` (W, C) are the rows of each class in each window. The mean over rows of the divergence KL(window ‖ all) is the
    loss of predictions if a model remembers only the last window. Twice its sum is chi-squared for random orders.
    The result is 0 if chance explains the differences.
    """
    total, n = counts.sum(0), counts.sum()
    expected = counts.sum(1, keepdims=True) * (total / n)
    divergence = float(rel_entr(counts, expected).sum())
    freedom = (len(counts) - 1) * (len(total) - 1)
    if freedom == 0 or 2 * divergence < scipy.stats.chi2.isf(CHANCE, freedom):
        return 0.0
    return (divergence - freedom / 2) / n


def codes(y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the class number of each row, 0 … C-1: the place of its label in `labels`, which may be in any order."""
    order = np.argsort(labels, kind="stable")
    place = order[np.minimum(np.searchsorted(labels, y, sorter=order), len(labels) - 1)]
    if not np.all(labels[place] == y):
        strange = np.unique(np.asarray(y)[labels[place] != y])[:5]
        raise ValueError(f"labels {strange.tolist()} are unknown; the known labels are {labels[:10].tolist()}")
    return place


# the order of the classes: given by the user, by an ordered categorical, or by sorting -----------------------------------


def declared_order(y: Any) -> list[Any] | None:
    """Return the categories of an ordered pandas categorical, or of a Series of that type, in their order, or None."""
    dtype: Any = getattr(y, "dtype", None)
    return dtype.categories.tolist() if getattr(dtype, "ordered", False) else None


def in_order(labels: np.ndarray, categories: Sequence[Any]) -> np.ndarray:
    """Return the labels in the order of `categories`. Categories without a label are left out.

    Parameters
    ----------
    labels : ndarray of shape (C,)
        The distinct labels, sorted.
    categories : sequence
        All labels in their order, possibly with others.

    Returns
    -------
    ndarray of shape (C,)

    Raises
    ------
    ValueError
        If a label is missing in `categories`, or one of these occurs twice.
    """
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
