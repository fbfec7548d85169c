"""Training rows as observations: equal rows are merged, weights counted, and soft labels split.

Rows with equal inputs share a latent value. Rows with equal inputs and equal labels are merged into one observation, whose
weight is the sum of theirs. So repeated rows cost nothing, and give the same result as weights.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..engines.observations import Observed, places_of
from ..numerics.fingerprint import RowPrints

FEW_OBSERVATIONS = 0.1  # mean weight of the rows below which weights are probably meant to be relative
MOST_MERGED = 200_000  # rows up to which equal ones are merged; engines for more rows have a cost that is linear in them


@dataclass(frozen=True)
class RowMap:
    """The observations of each training row.

    Attributes
    ----------
    n_rows : int
        Number of training rows.
    row, observation : ndarray of shape (k,)
        Pairs of a row and an observation, sorted by row. A row has one, or one for each of its labels if they are soft.
    share : ndarray of shape (k,)
        Weight of the pair as a fraction of the weight of its row.
    unused : ndarray of shape (n_rows - used, D)
        Inputs of the rows that belong to no observation, since their weight is zero.
    """

    n_rows: int
    row: np.ndarray
    observation: np.ndarray
    share: np.ndarray
    unused: np.ndarray

    @property
    def used(self) -> np.ndarray:
        """Whether each row belongs to an observation, (n_rows,)."""
        used = np.zeros(self.n_rows, bool)
        used[self.row] = True
        return used

    def average(self, values: np.ndarray) -> np.ndarray:
        """Return averages (n_rows, …) of values (m, …) over the observations of each row; zero for unused rows."""
        out = np.zeros((self.n_rows, *values.shape[1:]))
        share = self.share.reshape(-1, *[1] * (values.ndim - 1))
        np.add.at(out, self.row, share * values[self.observation])
        return out

    @property
    def main(self) -> np.ndarray:
        """The observation with the largest share of each row, (n_rows,); -1 for unused rows."""
        out = np.full(self.n_rows, -1)
        order = np.lexsort((self.share, self.row))
        out[self.row[order]] = self.observation[order]
        return out

    def first_rows(self) -> np.ndarray:
        """Return the number of the first row of each observation, (m,)."""
        order = np.lexsort((self.row, self.observation))
        return self.row[order][np.diff(self.observation[order], prepend=-1) > 0]


@dataclass(frozen=True)
class TrainingRows:
    """Inputs and class numbers of the training data, in the form that an engine takes.

    Attributes
    ----------
    X : ndarray of shape (n, D)
        Inputs, one row for each latent value.
    codes : ndarray of shape (m,)
        Class number of each observation.
    weight : ndarray of shape (m,) or None
        Weights; None if all observations have weight one and their own latent value.
    place : ndarray of shape (m,) or None
        Row of X of each observation; None if they are the same.
    rows : RowMap or None
        The observations of each training row; None if they are the same.
    """

    X: Any
    codes: np.ndarray
    weight: np.ndarray | None = None
    place: np.ndarray | None = None
    rows: RowMap | None = None

    def targets(self, class_targets: np.ndarray) -> Any:
        """Return the argument y of an engine, given the target of each class."""
        y = class_targets[self.codes]
        return y if self.weight is None else Observed(y, self.weight, self.place)

    @cached_property
    def prints(self) -> RowPrints:
        """Fingerprints of X, for all objectives that are made of these rows."""
        return RowPrints(self.X)

    def separate(self) -> TrainingRows:
        """Return the same observations with a row of X for each."""
        if self.place is None:
            return self
        return TrainingRows(self.X[self.place], self.codes, self.weight, None, self.rows)


def inputs_of_rows(inputs: np.ndarray, y: Any, rows: RowMap | None) -> np.ndarray | None:
    """Return the inputs of all training rows with a weight, in order; None if `inputs` are not those of the targets y.

    Parameters
    ----------
    inputs : ndarray of shape (n, D)
        Inputs that represent a posterior.
    y : ndarray of shape (m,) or Observed
        Targets of the posterior.
    rows : RowMap or None
        The observations of each training row.

    Returns
    -------
    ndarray or None
    """
    places = places_of(y)
    if len(inputs) != places.n:
        return None
    return inputs if rows is None else places.spread(inputs)[rows.main[rows.used]]


def distinct(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number (n,) of each row's input among the different ones, and the first row of each.

    Their order depends on their values only. So the result of learning does not depend on the order of the rows, and weights
    give exactly the result of repeated rows, to the last bit.
    """
    X = np.ascontiguousarray(X) + 0.0  # -0.0 and 0.0 are equal
    keys = X.view(np.dtype((np.void, X.dtype.itemsize * X.shape[1])))[:, 0] if X.shape[1] else np.zeros(len(X))
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return inverse.ravel(), first


def observations(engine: Any, X: np.ndarray, votes: np.ndarray, weight: np.ndarray | None, able: Any) -> TrainingRows:
    """Return training rows as the observations that an engine takes; see `merged`.

    Raises a ValueError if there are weights and the engine does not support them; `able()` returns the engines that do.
    """
    if engine.weights == "none":
        if weight is not None or votes.ndim == 2:
            raise ValueError(
                f"{type(engine).__name__} does not support weights and soft labels; engines that do: {', '.join(able())}"
            )
        return TrainingRows(X, votes)
    data = merged(X, votes, weight)
    return data if engine.weights == "places" else data.separate()


def merged(X: np.ndarray, votes: np.ndarray, weight: np.ndarray | None) -> TrainingRows:
    """Return training rows as observations. Of very many rows (`MOST_MERGED`), equal ones are not searched for.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Inputs.
    votes : ndarray of shape (n,) or (n, C)
        Class numbers, or the weight of each class.
    weight : ndarray of shape (n,) or (n, C) or None
        Weight of each row, or of each of its classes. None means one each.

    Returns
    -------
    TrainingRows
    """
    n = len(X)
    place, first = distinct(X) if n <= MOST_MERGED else (np.arange(n), np.arange(n))
    if votes.ndim == 1 and weight is None and len(first) == n:
        return TrainingRows(X, votes)
    row, codes, each = _pairs(votes, weight)
    if not len(row):
        raise ValueError("all weights are zero: at least one row must have a positive weight")
    # observations are the pairs of place and label that occur, sorted by place
    n_classes = int(codes.max()) + 1
    key = place[row] * n_classes + codes
    kinds, observation = np.unique(key, return_inverse=True)
    total = np.bincount(observation.ravel(), each)
    if len(kinds) == len(row) == len(first) == n and np.all(total == 1):
        return TrainingRows(X, codes)
    used = np.unique(place[row])
    own = np.searchsorted(used, kinds // n_classes)
    share = each / np.bincount(row, each, minlength=n)[row]
    idle = np.setdiff1d(np.arange(n), row)
    rows = RowMap(n, row, observation.ravel(), share, np.array(X[idle], float))
    return TrainingRows(X[first[used]], kinds % n_classes, total, own, rows)


def _pairs(votes, weight):
    """Return the row, the class and the weight of all pairs of row and class with a positive weight, sorted by row."""
    if votes.ndim == 1:
        each = np.ones(len(votes)) if weight is None else weight
        row = np.flatnonzero(each > 0)
        return row, votes[row], each[row]
    each = votes if weight is None else votes * weight.reshape(len(votes), -1)
    row, codes = np.nonzero(each > 0)
    return row, codes, each[row, codes]


# what users pass --------------------------------------------------------------------------------------------------------


def is_soft(y: Any) -> bool:
    """Return whether y has a column for each class instead of labels."""
    shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
    return len(shape) == 2 and shape[1] > 1


def labelled_rows(y: np.ndarray, likelihood: Any) -> np.ndarray:
    """Return which rows (n,) have a label: all, unless the likelihood has a mark for rows without one.

    Raises a ValueError if no row has a label.
    """
    mark = getattr(likelihood, "unlabelled", None)  # a likelihood may be given by name
    if mark is None:
        return np.ones(len(y), bool)
    same = np.asarray(y == mark)  # a scalar if labels and mark are of different types
    labelled = ~same if same.shape == y.shape else np.ones(len(y), bool)
    if not np.any(labelled):
        raise ValueError(f"all labels of y are {mark!r}, which marks rows without a label; at least two classes need some")
    return labelled


def soft_labels(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return checked soft labels (n, C) and the class labels (C,).

    The labels are the names of the columns of a data frame, and 0, 1, … for an array. A class without votes is an error.
    """
    names = getattr(y, "columns", None)
    try:
        votes = np.asarray(y, float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"soft labels must be numbers, one column for each class: {error}") from error
    bad = ~(np.isfinite(votes) & (votes >= 0))
    if np.any(bad):
        row, column = (int(i[0]) for i in np.nonzero(bad))
        raise ValueError(
            f"soft labels must be probabilities or numbers of votes, not negative, but row {row + 1}, column {column + 1} "
            f"of y (counted from 1) is {votes[row, column]}"
        )
    empty = np.flatnonzero(votes.sum(1) == 0)
    if len(empty):
        raise ValueError(f"row {empty[0] + 1} of y (counted from 1) has no votes; leave such rows out")
    classes = np.arange(votes.shape[1]) if names is None else np.asarray(list(names))
    missing = np.flatnonzero(votes.sum(0) == 0)
    if len(missing):
        raise ValueError(f"class {classes.tolist()[missing[0]]!r} has no votes in any row; leave its column out")
    order = np.argsort(classes, kind="stable")
    return votes[:, order], classes[order]


def row_weights(votes: np.ndarray, sample_weight: Any, class_weight: Any, classes: np.ndarray) -> np.ndarray | None:
    """Return the weights of the rows, (n,), or (n, C) if they depend on the class of soft labels; None if all are one.

    Parameters
    ----------
    votes : ndarray of shape (n,) or (n, C)
        Class numbers, or the weight of each class.
    sample_weight : array-like of shape (n,), float or None
        Weights given by the user.
    class_weight : dict, "balanced" or None
        Factors by class.
    classes : ndarray of shape (C,)
        The class labels.

    Returns
    -------
    ndarray or None
    """
    weight = None if sample_weight is None else checked_weights(sample_weight, len(votes))
    if weight is not None and weight.sum() < FEW_OBSERVATIONS * len(weight):
        warnings.warn(
            f"the weights of {len(weight)} rows sum to {weight.sum():.3g}, and a weight is a multiplicity: they count as "
            f"{weight.sum():.3g} observations. If only their ratios matter, divide them by their mean.",
            UserWarning,
            stacklevel=5,
        )
    if class_weight is None:
        return weight
    each = np.ones(len(votes)) if weight is None else weight
    by_class = class_factors(class_totals(votes, each, len(classes)), class_weight, classes)
    return each * by_class[votes] if votes.ndim == 1 else each[:, None] * by_class


def class_totals(votes: np.ndarray, weight: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the total weight (C,) of each class."""
    return np.bincount(votes, weight, n_classes) if votes.ndim == 1 else weight @ votes


def class_factors(totals: np.ndarray, class_weight: Any, classes: np.ndarray) -> np.ndarray:
    """Return the factor (C,) of each class, from a dict by label or for equal total weights ("balanced")."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        if np.any(totals == 0):
            empty = classes.tolist()[int(np.argmin(totals))]
            raise ValueError(f"class {empty!r} has no weight: class_weight='balanced' is not defined")
        return totals.sum() / (len(totals) * totals)
    if not isinstance(class_weight, dict):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict from labels to weights, but is {class_weight!r}")
    known = {label: i for i, label in enumerate(classes.tolist())}
    if strange := [label for label in class_weight if label not in known]:
        raise ValueError(f"class_weight has {strange[0]!r}, which is not a label of y; the labels are {classes.tolist()}")
    factors = np.ones(len(classes))
    for label, value in class_weight.items():
        factors[known[label]] = value
    if not np.all(np.isfinite(factors) & (factors >= 0)):
        raise ValueError(f"class_weight must have finite weights that are not negative, but is {class_weight!r}")
    return factors


def checked_weights(sample_weight: Any, n: int) -> np.ndarray:
    """Return sample weights (n,) as floats, or raise a ValueError that says what is wrong."""
    try:
        weight = np.asarray(sample_weight, float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be numbers: {error}") from error
    if weight.ndim == 0:
        weight = np.full(n, float(weight))
    if weight.ndim != 1:
        raise ValueError("Sample weights must be 1D array or scalar")
    if len(weight) != n:
        raise ValueError(f"sample_weight.shape == {weight.shape}, expected {(n,)}!")
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        raise ValueError(
            f"sample_weight must be finite and not negative, but that of row {bad[0] + 1} (counted from 1) is "
            f"{weight[bad[0]]}"
        )
    if not np.any(weight > 0):
        raise ValueError("all weights are zero: at least one row must have a positive sample_weight")
    return weight
