"""Choosing inducing variables by what they would add to log Z̃_h.

A new variable z* with posterior mean and variance of its own, and all else as it is, changes the posterior of the data by

    m_f → m_f + μ κ,    V_i → V_i - (κ0 - ν) κ_i κ_iᵀ        κ0 its variance given the set, κ what it says of the data

and log Z̃_h by a sum of a concave function of μ and one of ν. Their maximum, d2 ≥ 0, is a lower bound of what the variable
adds; d3 is d2 with the data's part estimated from a few of them. d2 chooses among a shortlist of candidates, which d3 makes
or chance: d3 favours neighbours of the few data that it looks at, and chance has served better.

[C] Chai 2012, section 6.1 and appendix D; its κ_*, V_* in D.1 are those of the old set, and D.2.2's model ends in -bν/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..gaussian import Columns, MatrixColumns
from ..gaussian.inducing_coupled import InducingCovariance
from ..numerics.separable import Separable

SELECTIONS = ("active", "random", "k-means")
NUMBERS = 1 << 21  # in an array of data × candidates
SHORTLIST = 8  # candidates scored for each that is chosen
KNOWN = 1e-6  # a candidate's variance given the set, relative to its own, below which it has nothing to tell
ROUNDS = 60  # of each one-dimensional search
STILL = 1e-8  # relative step at which they end


@dataclass(frozen=True)
class InducingSet:
    """Some (row, class) pairs, in the order in which they were chosen."""

    rows: np.ndarray  # (t,) the rows at which there are any
    inputs: np.ndarray  # (s,) which of these a variable is at
    classes: np.ndarray  # (s,)

    @classmethod
    def empty(cls) -> InducingSet:
        return cls(*(np.zeros(0, int) for _ in range(3)))

    @classmethod
    def of_pairs(cls, rows: np.ndarray, classes: np.ndarray) -> InducingSet:
        return cls.empty().with_pairs(rows, classes)

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def pairs(self) -> np.ndarray:
        """(s, 2) row and class of each variable."""
        return np.column_stack([self.rows[self.inputs], self.classes])

    def with_pairs(self, rows: np.ndarray, classes: np.ndarray) -> InducingSet:
        place = {row: i for i, row in enumerate(self.rows.tolist())}
        inputs = [place.setdefault(row, len(place)) for row in np.asarray(rows, int).tolist()]
        return InducingSet(
            np.array(list(place), int),
            np.concatenate([self.inputs, np.array(inputs, int)]),
            np.concatenate([self.classes, np.asarray(classes, int)]),
        )


class RowCovariance:
    """Prior covariances of all latent values of n rows, of which columns are computed when asked for."""

    def __init__(self, columns: Sequence[Columns], n_classes: int, between: np.ndarray | None = None):
        self.columns = columns  # one for all classes, or one for each
        self.n_classes = n_classes
        self.between = between  # (C, C) covariances of the classes, None if they are independent

    @classmethod
    def of(cls, K: Any, n_classes: int) -> RowCovariance:
        """From a matrix (n, n) or (C, n, n), columns or a list of them, or Separable with one of the former in it."""
        if isinstance(K, RowCovariance):
            return K
        if isinstance(K, Separable):
            return cls(cls.of(K.inputs, n_classes).columns, n_classes, np.asarray(K.classes, float))
        if hasattr(K, "columns"):
            return cls([K], n_classes)
        if isinstance(K, Sequence) and len(K) and hasattr(K[0], "columns"):
            same = all(part is K[0] for part in K)
            return cls(list(K[:1]) if same else list(K), n_classes)
        K = np.asarray(K, float)
        if K.ndim not in (2, 3) or K.shape[-1] != K.shape[-2] or (K.ndim == 3 and len(K) != n_classes):
            raise ValueError(f"K must be a square matrix, or ({n_classes}, n, n), but has shape {K.shape}")
        return cls([MatrixColumns(k) for k in (K if K.ndim == 3 else K[None])], n_classes)

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def diag(self) -> Any:
        return self._joined([part.diag for part in self.columns])

    def cross(self, rows: np.ndarray, data: np.ndarray | None = None) -> Any:
        """(n, t) covariances of all rows, or of those in `data`, with `rows`; (C, n, t) where each class has its own."""
        return self._joined([part.columns(rows, rows=data) for part in self.columns])

    def of_class(self, c: int) -> Columns:
        return self.columns[c if len(self.columns) > 1 else 0]

    def inducing(self, chosen: InducingSet, before: Any = None) -> InducingCovariance:
        """What an engine takes; columns that an earlier fit has are not computed again."""
        fu = self._columns(chosen, before)
        uu = np.take(_inputs(fu), chosen.rows, axis=-2)
        uu = self._wrapped(0.5 * (uu + np.swapaxes(uu, -1, -2)))
        return InducingCovariance(uu, fu, self.diag, chosen.inputs, chosen.classes).checked(len(self), self.n_classes)

    def _columns(self, chosen, before):
        if before is None or before.chosen is None:
            return self.cross(chosen.rows)
        t = len(before.chosen.rows)
        known = _inputs(before.posterior.prior.K.fu)
        if t == len(chosen.rows):
            return self._wrapped(known)
        new = _inputs(self.cross(chosen.rows[t:]))
        return self._wrapped(np.concatenate([known, new], axis=-1))

    def _joined(self, parts):
        return self._wrapped(parts[0] if len(parts) == 1 else np.stack(parts))

    def _wrapped(self, inputs):
        return inputs if self.between is None else Separable(inputs, self.between)


def _inputs(part):
    return part.inputs if isinstance(part, Separable) else part


# scores -------------------------------------------------------------------------------------------------------------------


def scores(
    fit: Any, covariance: RowCovariance, rows: np.ndarray, classes: np.ndarray, data: np.ndarray | None = None
) -> np.ndarray:
    """(m,) d2 of the candidates (rows, classes); with `data`, some rows, d3 by these. [C] (42), (43)"""
    rows, classes = np.asarray(rows, int), np.asarray(classes, int)
    view = _View(fit, np.arange(len(fit.y)) if data is None else np.asarray(data, int))
    out = np.empty(len(rows))
    size = max(1, NUMBERS // (len(view.data) * fit.likelihood.n_classes))
    for c in np.unique(classes):
        mine = np.flatnonzero(classes == c)
        for some in (mine[i : i + size] for i in range(0, len(mine), size)):
            out[some] = view.score(covariance.of_class(c), rows[some], int(c))
    return out


class _View:
    """What scores look at, for some of the data."""

    def __init__(self, fit, data: np.ndarray):
        self.data = data
        self.q, self.prior = fit.posterior, fit.posterior.prior
        self.weight = len(fit.y) / len(data)
        self.b = fit.bound.b[data]
        self.slope = np.eye(self.b.shape[1])[fit.y[data]] - self.b
        self.W = fit.bound.precision[data]
        self.inverse = _inverse(self.q.cov[data])

    def score(self, covariance: Columns, rows: np.ndarray, c: int) -> np.ndarray:
        """(m,) of class c's values at some rows."""
        prior, group = self.prior, self.prior.group_of[c]
        noise = prior.jitter * prior.prior_cov[rows, c, c]
        left = prior.residual[rows, c, c] + noise  # κ0
        telling = left > KNOWN * prior.prior_cov[rows, c, c]
        out = np.zeros(len(rows))
        rows, left = rows[telling], left[telling]
        if not len(rows):
            return out
        own = prior.features[c][rows]
        inputs = covariance.columns(rows, rows=self.data)
        told = [inputs * prior.between[d, c] - prior.features[d][self.data] @ own.T for d in group.classes]
        kappa = np.stack(told, axis=1) / left  # (data, classes of the group, candidates)
        at = np.ix_(np.arange(len(self.data)), group.classes, group.classes)
        gain = best_mean(left, kappa, self.slope[:, group.classes], self.b[:, group.classes], self.weight)
        tightness = left * np.einsum("icm,icd,idm->im", kappa, self.inverse[at], kappa, optimize=True)
        cost = left * np.einsum("icm,icd,idm->im", kappa, self.W[at], kappa, optimize=True)
        out[telling] = gain + best_variance(tightness, cost, self.weight)
        return out


def _inverse(cov):
    """Of covariances that may be singular, on their range."""
    value, vector = np.linalg.eigh(cov)
    floor = np.maximum(1e-13 * value[:, -1:], 1e-300)
    inverse = np.where(value > floor, 1 / np.maximum(value, floor), 0.0)
    return (vector * inverse[:, None, :]) @ np.swapaxes(vector, 1, 2)


def best_mean(left: np.ndarray, kappa: np.ndarray, slope: np.ndarray, b: np.ndarray, weight: float) -> np.ndarray:
    """(m,) the largest -μ²/2κ0 + weight Σ_i [μ κ_iᵀ y_i - log Σ_c b_ic exp(μ κ_ic)] over μ. [C] D.2.1

    κ (data, classes, m) are zero for classes that are not given; the slope is y - b. Newton's method, shortened.
    """
    rest = np.maximum(1 - b.sum(1), 0.0)[:, None]
    linear = weight * np.einsum("icm,ic->m", kappa, slope)
    mean = np.einsum("icm,ic->im", kappa, b)

    def parts(mu, some):
        """Value, slope and curvature; the slope at zero is taken out of the sum for the sake of its digits."""
        move = mu * kappa[:, :, some]
        top = np.maximum(move.max(1), 0.0)
        g = b[:, :, None] * np.exp(move - top[:, None])
        total = g.sum(1) + rest * np.exp(-top)
        g /= total[:, None]
        first = np.einsum("icm,icm->im", g, kappa[:, :, some])
        second = np.einsum("icm,icm,icm->m", g, kappa[:, :, some], kappa[:, :, some]) - np.sum(first**2, axis=0)
        excess = np.log(total) + top - mu * mean[:, some]
        value = mu * linear[some] - 0.5 * mu**2 / left[some] - weight * excess.sum(0)
        d1 = linear[some] - mu / left[some] - weight * (first - mean[:, some]).sum(0)
        return value, d1, 1 / left[some] + weight * second

    mu = np.zeros(len(left))
    active = np.arange(len(left))
    value, d1, stiffness = parts(mu, active)
    for _ in range(ROUNDS):
        step = d1[active] / stiffness[active]
        share = np.ones(len(active))
        for _ in range(30):
            new, new_d1, new_stiffness = parts(mu[active] + share * step, active)
            short = ~(new >= value[active] + 1e-4 * share * step * d1[active] - 1e-13 * (1 + value[active]))
            if not short.any():
                break
            share[short] *= 0.25
        moved = share * step
        mu[active] += moved
        value[active], d1[active], stiffness[active] = new, new_d1, new_stiffness
        # what is left to gain is about ½ d1²/stiffness
        active = active[d1[active] ** 2 > STILL * stiffness[active] * (STILL + value[active])]
        if not len(active):
            break
    return np.maximum(value, 0.0)


def best_variance(tightness: np.ndarray, cost: np.ndarray, weight: float) -> np.ndarray:
    """(m,) the largest ½(1 + log x - x) + ½ weight Σ_i [log(1 - (1-x) e_i) + (1-x)(e_i + w_i)] over x = ν/κ0 in (0, 1].

    e = κ0 κ_iᵀV_i⁻¹κ_i, in [0, 1), and w = κ0 κ_iᵀW_iκ_i are (data, m). [C] D.2.2: a non-quadratic model, its (74) in x.
    """
    n = weight * len(tightness)
    e = np.clip(tightness, 0.0, 1 - 1e-12)
    pull = 1 + weight * (e + cost).sum(0)
    x = 1 / pull
    for _ in range(ROUNDS):
        tau = e / (1 - (1 - x) * e)
        squares = weight * np.sum(tau**2, axis=0)
        root = np.sqrt(n * squares)
        slope = root + pull - weight * tau.sum(0)  # b of (74)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            a = np.sqrt(n / squares) - x
            middle = a * slope - n - 1
            wide = np.sqrt(middle**2 + 4 * a * slope)
            new = np.where(middle > 0, 2 * a / (middle + wide), (wide - middle) / (2 * slope))
        new = np.where(np.isfinite(new), new, 1 / pull)  # no datum is told anything that it knows: log x - pull x is left
        new = np.clip(new, 1e-300, 1.0)
        moved = np.max(np.abs(new - x) / x, initial=0.0)
        x = new
        if moved < STILL:
            break
    value = 0.5 * (1 + np.log(x) - x) + 0.5 * weight * np.sum(np.log1p(-(1 - x) * e) + (1 - x) * (e + cost), axis=0)
    return np.maximum(value, 0.0)


# choosing -----------------------------------------------------------------------------------------------------------------


def choose(
    engine: Any, fit: Any, covariance: RowCovariance, chosen: InducingSet, count: int, rng: np.random.Generator
) -> InducingSet:
    """`chosen` enlarged to `count` variables; by scores if there is a fit and the engine wants that, at random else."""
    more = count - len(chosen)
    rows, classes = _candidates(engine, covariance, chosen)
    if fit is None or engine.selection == "random":
        order = rng.permutation(len(rows))
    else:
        order = _by_score(engine, fit, covariance, rows, classes, more, rng)
    unit = covariance.n_classes if engine.whole else 1
    best = order[: more // unit]
    rows = np.repeat(rows[best], unit)
    return chosen.with_pairs(rows, np.tile(np.arange(unit), len(best)) if engine.whole else classes[best])


def _candidates(engine, covariance, chosen):
    """(row, class) pairs that are not in the set; of whole rows those of class 0."""
    C = covariance.n_classes
    free = np.ones((len(covariance), C), dtype=bool)
    free[tuple(chosen.pairs.T)] = False
    if engine.whole:
        rows = np.flatnonzero(free.all(1))
        return rows, np.zeros(len(rows), int)
    return np.nonzero(free)


def _by_score(engine, fit, covariance, rows, classes, more, rng):
    """Places of candidates, the best first."""

    def score(some, data):
        if not engine.whole:
            return scores(fit, covariance, rows[some], classes[some], data)
        return sum(scores(fit, covariance, rows[some], np.full(len(some), c), data) for c in range(covariance.n_classes))

    def best(some, value, count):
        if not engine.apart:
            return some[np.argsort(-value, kind="stable")[:count]]
        return some[apart(fit, covariance, rows[some], classes[some], value, count)]

    wanted = more // covariance.n_classes if engine.whole else more
    listed = SHORTLIST * wanted if engine.shortlist is None else max(engine.shortlist, wanted)
    some = np.arange(len(rows))
    if len(some) > listed and engine.subsample:
        data = rng.choice(len(fit.y), min(engine.subsample, len(fit.y)), replace=False)
        some = best(some, score(some, data), listed)
    elif len(some) > listed:
        some = np.sort(rng.choice(len(some), listed, replace=False))
    return best(some, score(some, None), wanted)


def apart(
    fit: Any, covariance: RowCovariance, rows: np.ndarray, classes: np.ndarray, value: np.ndarray, count: int
) -> np.ndarray:
    """Places of `count` candidates, taken one by one by value times the part of their variance that is not known by then.

    Scores are those of single variables: without this a batch is made of near twins.
    """
    prior = fit.posterior.prior
    before = prior.residual[rows, classes, classes] + prior.jitter * prior.prior_cov[rows, classes, classes]
    left, free = before.copy(), np.ones(len(rows), dtype=bool)
    told: list[np.ndarray] = []  # by each chosen one of all candidates, in units of its own standard deviation
    out: list[int] = []
    while len(out) < min(count, len(rows)):
        share = np.maximum(left, 0.0) / np.maximum(before, 1e-300)
        j = int(np.argmax(np.where(free, value * share, -1.0)))
        out.append(j)
        free[j] = False
        if len(out) == count or share[j] < KNOWN:
            continue
        column = _given_the_set(prior, covariance, rows, classes, j)
        column -= sum((half * half[j] for half in told), np.zeros(len(rows)))
        told.append(column / np.sqrt(left[j]))
        left = left - told[-1] ** 2
    return np.array(out, int)


def _given_the_set(prior, covariance, rows, classes, j):
    """(m,) prior covariances of all candidates with the j-th, given the inducing variables at hand."""
    c = int(classes[j])
    inputs = covariance.of_class(c).columns(rows[[j]], rows=rows)[:, 0]
    own = prior.features[c][rows[j]]
    out = np.zeros(len(rows))
    for d in prior.group_of[c].classes:
        mine = np.flatnonzero(classes == d)
        out[mine] = inputs[mine] * prior.between[c, d] - prior.features[d][rows[mine]] @ own
    return out
