"""The kernel that learning starts from: text and None in units of the data, kernel objects as they are.

A kernel object is used literally. A warning says so if its lengthscales and the columns differ much in scale.
"""

from __future__ import annotations

import warnings
from functools import partial
from math import inf
from typing import Any, NamedTuple

import numpy as np

from .callers import outside
from .expressions import MOST_COLUMNS, VARIANCE, parse_kernel
from .kernels import RBF, Kernel, Matern32, Standardized, as_kernel
from .numerics.columns import Units, column_spread, column_units, common_units, compressed, typical_distance

COMPRESSED_FROM = 3.0  # values further from the centre than this many spreads are compressed (benchmarks/results/tails.md)
# Nats by which the evidence of another choice must exceed that of a Matern kernel in units of each column's spread
COMMON_MARGIN, SMOOTH_MARGIN = 1.0, 5.0  # one unit for all columns; an RBF kernel (benchmarks/results/units.md)
SUSPECT_RATIO = 50.0  # ratio of scales above which a kernel object is suspected to be in other units than the columns


class UnitsWarning(UserWarning):
    """The lengthscale of a kernel and the columns of the inputs differ much in scale."""


class Start(NamedTuple):
    """A kernel that learning may start from."""

    kernel: Kernel
    distance: float  # median distance between rows, in the units of the kernel
    margin: float = 0.0  # nats by which its evidence must exceed that of the first choice


def start_kernel(given: Any, X: np.ndarray, rng: np.random.Generator, variance: float = VARIANCE) -> tuple[Kernel, float]:
    """Return the first of `start_kernels`, and the typical distance between rows in its units."""
    return start_kernels(given, X, rng, variance, choices=False)[0][:2]


def start_kernels(
    given: Any,
    X: np.ndarray,
    rng: np.random.Generator,
    variance: float = VARIANCE,
    choices: bool = True,
    smooth: bool = False,
) -> list[Start]:
    """Return the kernels that learning may start from. The labels decide between them (`learning.scan.best_objective`).

    There is more than one only if many columns share a lengthscale. Then their spreads may mean something, as those of
    pixels do: the second kernel has one unit for all columns.

    Parameters
    ----------
    given : str, Kernel, scikit-learn kernel or None
        Text and None (the default expression) become a `Standardized` kernel, in units of the columns of X. A kernel
        object is used as it is; `ard=True` becomes one lengthscale per column.
    X : ndarray of shape (n, D)
        Training inputs.
    rng : numpy.random.Generator
        Used to select rows if there are many.
    variance : float, default=4.0
        Starting value of the prior variance of kernels given as text.
    choices : bool, default=True
        Whether to return other choices than the first.
    smooth : bool, default=False
        Whether an RBF kernel is another choice for the default kernel. Few inducing points represent it better.

    Returns
    -------
    list of Start
        The first has each column in units of its own spread.

    Warns
    -----
    UnitsWarning
        If lengthscales of a kernel object and the columns differ by more than a factor of 50.
    """
    if given is None or isinstance(given, str):
        make = default_start if given is None else partial(parse_kernel, given)
        units = column_units(X)
        first = _start(make, X, rng, units, variance)
        if not (choices and X.shape[1] > MOST_COLUMNS and _shares_lengthscales(first.kernel)):
            return [first]
        common = common_units(units, X)
        starts = [first, _start(make, X, rng, common, variance, COMMON_MARGIN)]
        if smooth and given is None:
            starts.append(_start(_smooth_start, X, rng, units, variance, SMOOTH_MARGIN))
            starts.append(_start(_smooth_start, X, rng, common, variance, COMMON_MARGIN + SMOOTH_MARGIN))
        return starts
    kernel = as_kernel(given).for_columns(X.shape[1])
    kernel(np.asarray(X[:1], float))  # raises if the kernel is for another number of columns
    if not kernel.own_units:
        warn_of_units(kernel, column_spread(X))
    return [Start(kernel, typical_distance(X, rng, kernel.seen))]


def _start(make, X, rng, units: Units, variance: float, margin: float = 0.0) -> Start:
    """Return the kernel that `make` returns for a number of columns, a distance and a variance, in these units."""
    distance = typical_distance(X, rng, lambda rows: compressed((rows - units.centre) / units.spread, COMPRESSED_FROM))
    return Start(_standardized(make(X.shape[1], distance, variance), units), distance, margin)


def _shares_lengthscales(kernel: Kernel) -> bool:
    """Return whether all terms are in units of the columns, and none has a lengthscale for each of them."""
    return kernel.own_units and all(np.ndim(leaf.lengthscale) == 0 for leaf in kernel.leaves if leaf.lengthscale is not None)


def default_start(n_columns: int, distance: float, variance: float) -> Kernel:
    """Return the kernel that `default_kernel` describes, without parsing."""
    return Matern32([distance] * n_columns if n_columns <= MOST_COLUMNS else distance, variance)


def _smooth_start(n_columns: int, distance: float, variance: float) -> Kernel:
    """Return an RBF kernel with one lengthscale for all columns."""
    return RBF(distance, variance)


def _standardized(kernel: Kernel, units: Units) -> Kernel:
    """Return the kernel in units of the columns; only the leaves that allow it, if some do not."""
    tail = COMPRESSED_FROM if all(leaf.compressible for leaf in kernel.leaves) else inf
    if all(leaf.standardizable for leaf in kernel.leaves):
        return Standardized(kernel, *units, tail)
    each = (Standardized(leaf, *units, tail) if leaf.standardizable else leaf for leaf in kernel.leaves)
    return kernel._with_leaves(each)


def warn_of_units(kernel: Kernel, spread: np.ndarray) -> None:
    """Warn if lengthscales and the spreads (D,) of the columns differ by a factor above 50."""
    spread = np.asarray(spread)
    for leaf in kernel.leaves:
        if leaf.lengthscale is None or not leaf.lengthscale_has_units or not np.any(spread > 0):
            continue
        problem = _problem(np.asarray(leaf.lengthscale), spread)
        if problem:
            warnings.warn(
                f"{problem}. Scale the columns (StandardScaler), or give the kernel as text, such as kernel='rbf': it is "
                "then measured in units of each column's spread. A kernel object is used as it is.",
                UnitsWarning,
                stacklevel=outside(),
            )
            return


def _problem(lengthscale: np.ndarray, spread: np.ndarray) -> str:
    """Return what differs too much, or an empty text. Constant columns, of spread 0, do not count."""
    used = spread > 0
    low, high = spread[used].min(), spread[used].max()
    if lengthscale.ndim == 0 and high / low > SUSPECT_RATIO:
        return (
            f"the kernel has one lengthscale for all columns, but their spreads differ by a factor of {high / low:.3g} "
            f"({low:.3g} to {high:.3g}): columns with small spreads have hardly any effect"
        )
    ratio = np.broadcast_to(lengthscale, spread.shape)[used] / (high if lengthscale.ndim == 0 else spread[used])
    # one long lengthscale among several leaves a column out; if all are long, nothing is left
    if ratio.min() > SUSPECT_RATIO:
        return f"the lengthscale of the kernel is {ratio.min():.3g} times the spread of the columns, so the kernel is flat"
    if ratio.min() < 1 / SUSPECT_RATIO:
        return f"the spread of a column is {1 / ratio.min():.3g} times its lengthscale, so rows are hardly related"
    return ""
