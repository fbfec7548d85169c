"""Targets with weights, and the form in which engines use them.

A weight is a multiplicity: weight 2 means two equal rows. Observations that share an input share a latent value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..gaussian import FullPosterior, Places, SharedPosterior
from ..likelihoods.tempered import Product, Tempered, split_targets, tempered_targets


@dataclass(frozen=True, eq=False)
class Observed:
    """Targets of m weighted observations of n latent values, for the argument y of `Engine.fit`.

    Parameters
    ----------
    y : ndarray of shape (m,)
        Targets.
    weight : ndarray of shape (m,), optional
        Weights, positive. The default is one each.
    place : ndarray of shape (m,), optional
        Index of the latent value of each observation: ascending integers from 0 without gaps. By default each observation
        has its own latent value.
    """

    y: np.ndarray
    weight: np.ndarray = field(default=None)  # type: ignore[arg-type]
    place: np.ndarray | None = None

    def __post_init__(self):
        weight = np.ones(len(self.y)) if self.weight is None else np.asarray(self.weight, float)
        if weight.shape != (len(self.y),) or not np.all(np.isfinite(weight) & (weight > 0)):
            raise ValueError("weights must be positive finite numbers, one for each observation")
        object.__setattr__(self, "weight", weight)
        if self.place is not None and len(self.place) != len(self.y):
            raise ValueError(f"there are {len(self.place)} places for {len(self.y)} observations")

    @cached_property
    def places(self) -> Places:
        return Places(len(self.y)) if self.place is None else Places(int(self.place[-1]) + 1, np.asarray(self.place))

    @property
    def n(self) -> int:
        """Number of latent values."""
        return self.places.n

    def __len__(self) -> int:
        return len(self.y)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.asarray(self.y, dtype)

    def at(self, places: np.ndarray) -> Observed:
        """Return the observations of some latent values, given in ascending order."""
        if self.place is None:
            return Observed(self.y[places], self.weight[places])
        number = np.full(self.n, -1)
        number[places] = np.arange(len(places))
        kept = number[self.place] >= 0
        return Observed(self.y[kept], self.weight[kept], number[self.place[kept]])


def places_of(y: Any) -> Places:
    """Return the latent values that targets belong to."""
    return y.places if isinstance(y, Observed) else Places(len(y))


def weights_of(y: Any) -> np.ndarray:
    """Return the weights (m,) of targets."""
    return y.weight if isinstance(y, Observed) else np.ones(len(y))


def targets_at(y: Any, places: np.ndarray) -> Any:
    """Return the targets of some latent values, given in ascending order."""
    return y.at(places) if isinstance(y, Observed) else y[places]


def main_targets(y: Any) -> np.ndarray:
    """Return for each latent value (n,) its target, or that of its heaviest observation."""
    if not isinstance(y, Observed) or y.place is None:
        return np.asarray(y)
    order = np.lexsort((y.weight, y.place))
    out = np.empty(y.n, y.y.dtype)
    out[y.place[order]] = y.y[order]
    return out


def same_targets(a: Any, b: Any) -> bool:
    """Return whether targets, weights and places are equal."""

    def parts(y):
        places = places_of(y)
        return np.asarray(y), weights_of(y), places.spread(np.arange(places.n))

    return all(np.array_equal(x, z) for x, z in zip(parts(a), parts(b), strict=True))


def whole_copies(y: Any) -> np.ndarray | None:
    """Return the observation number of each copy if all weights are whole numbers, otherwise None."""
    weight = weights_of(y)
    return np.repeat(np.arange(len(weight)), weight.astype(int)) if np.all(weight == np.round(weight)) else None


def rows_of(y: Any, rows: np.ndarray) -> Any:
    """Return the targets of some rows, in any order and perhaps repeated; each row has one observation."""
    return Observed(y.y[rows], y.weight[rows]) if isinstance(y, Observed) else y[rows]


def at_least_one(y: Any) -> Any:
    """Return targets with weights raised to one: for a starting point that need not support powers of the likelihood."""
    return Observed(y.y, np.maximum(y.weight, 1.0)) if isinstance(y, Observed) else y


def concatenated(first: Any, second: Any) -> Any:
    """Return the targets of the rows of both, each with one observation."""
    if not isinstance(first, Observed) and not isinstance(second, Observed):
        return np.concatenate([first, second])
    return Observed(*(np.concatenate([of(first), of(second)]) for of in (np.asarray, weights_of)))


def with_label(y: Any, label: Any) -> Any:
    """Return targets with one more, of weight one and with its own latent value."""
    if not isinstance(y, Observed):
        return np.append(y, label)
    place = None if y.place is None else np.append(y.place, y.n)
    return Observed(np.append(y.y, label), np.append(y.weight, 1.0), place)


@dataclass(frozen=True)
class Data:
    """Targets in the form that engines use: targets and likelihood of one copy, and the number of copies."""

    given: Any  # ndarray or Observed, as given to `fit`
    y: np.ndarray  # (m,) targets of `likelihood`
    likelihood: Any
    places: Places
    weight: np.ndarray | float = 1.0  # (m,) factors of slopes and curvatures: the number of copies

    @property
    def n(self) -> int:
        """Number of latent values."""
        return self.places.n

    @property
    def plain(self) -> bool:
        """Whether each latent value has one observation of weight one."""
        return np.ndim(self.weight) == 0

    def total(self, values: np.ndarray) -> Any:
        """Return Σ over observations of weight × values (…, m): a float, or an array (p,) for values (p, m)."""
        summed = np.sum(self.weight * values, axis=-1)
        return float(summed) if np.ndim(summed) == 0 else summed

    def at_places(self, values: np.ndarray) -> np.ndarray:
        """Return the sums (n, …) of weight × values (m, …) over the observations of each latent value."""
        weight = np.reshape(self.weight, np.shape(self.weight) + (1,) * (values.ndim - 1)) if not self.plain else 1.0
        return self.places.sum(weight * values)

    def some(self, rows: Any) -> Data:
        """Return the data of some rows, each with its own latent value."""
        y = self.y[rows]
        return Data(None, y, self.likelihood, Places(len(y)), self.weight if self.plain else np.asarray(self.weight)[rows])

    @property
    def copies(self) -> float:
        """Sum of the weights: the number of copies of all observations."""
        return float(len(self.y)) if self.plain else float(np.sum(self.weight))

    def joint(self) -> Data:
        """Return the same data with one factor for each latent value: the product of its observations."""
        if self.plain:
            return self
        factor = Product(self.likelihood, self.y, np.asarray(self.weight), self.places)
        return Data(self.given, np.zeros(self.n), factor, Places(self.n))

    def others(self) -> Product:
        """Return for each observation the product of all observations of its latent value but one copy of itself."""
        place = self.places.spread(np.arange(self.n))
        first, counts = np.searchsorted(place, place), np.bincount(place)[place]
        scenario = np.repeat(np.arange(len(place)), counts)
        other = first[scenario] + np.arange(len(scenario)) - np.repeat(np.cumsum(counts) - counts, counts)
        weight = np.asarray(self.weight)[other]
        weight = weight - np.where(other == scenario, np.minimum(weight, 1.0), 0.0)
        return Product(self.likelihood, self.y[other], weight, Places(len(place), scenario))

    def prior(self, K: np.ndarray) -> Any:
        """Return the posterior without sites."""
        if self.plain:
            return FullPosterior.without_sites(K)
        return SharedPosterior.without_sites(K, self.places, np.asarray(self.weight))

    def restored(self, K: np.ndarray, state: Any) -> Any:
        """Return the posterior from its state."""
        if self.plain:
            return FullPosterior.restored(K, state)
        return SharedPosterior.restored(K, self.places, np.asarray(self.weight), state)


def powers_of(data: Data) -> np.ndarray | None:
    """Return the powers (m,) of the likelihood of one copy, or None if all are one."""
    return split_targets(data.y)[1]


def data_of(engine: Any, given: Any, likelihood: Any, tempered: bool | None = None) -> Data:
    """Return checked targets in the form that an engine uses.

    Engines whose rules are linear in log p(y | f) multiply slopes and curvatures by the weight. Those that match moments
    (`Engine.tempers`) leave one copy out, and so need a weight of at least one: for a smaller weight w the copy is p^w.
    `tempered` is whether such engines get targets with powers; by default, if a weight is below one. An engine with a `part`
    below one (power EP) gets each copy as 1/part copies of its power.
    """
    if not isinstance(given, Observed):
        y = likelihood.check_targets(given)
        if engine.part < 1:
            return _in_parts(engine.part, y, y, np.ones(len(y)), likelihood, Places(len(y)))
        return Data(y, y, likelihood, Places(len(y)))
    y, weight, places = likelihood.check_targets(given.y), given.weight, given.places
    given = Observed(y, weight, given.place)
    if engine.part < 1 or (engine.tempers and (np.any(weight < 1) if tempered is None else tempered)):
        return _in_parts(engine.part, given, y, weight, likelihood, places)
    return Data(given, y, likelihood, places, weight)


def _in_parts(part: float, given: Any, y: np.ndarray, weight: np.ndarray, likelihood: Any, places: Places) -> Data:
    """Return targets with powers: each copy, of weight one at most, is 1/part copies of its power."""
    powers = part * np.minimum(weight, 1.0)
    return Data(given, tempered_targets(y, powers), Tempered(likelihood), places, np.maximum(weight, 1.0) / part)
