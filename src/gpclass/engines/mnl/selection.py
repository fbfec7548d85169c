"""Choice of inducing variables by their increase of log Z̃_h.

A new variable z* with its own posterior mean and variance, and everything else fixed, changes the posterior of the data by

    m_f → m_f + μ κ,    V_i → V_i - (κ0 - ν) κ_i κ_iᵀ       κ0 its variance given the set, κ the regression of the data on it

and log Z̃_h by a sum of a concave function of μ and one of ν. Their maximum, d2 ≥ 0, is a lower bound of the increase; d3 is
d2 with the sum over data estimated from a few of them. d3 makes a shortlist of all candidates, d2 chooses from it.

[C] Chai 2012, section 6.1 and appendix D; its κ_*, V_* in D.1 are those of the old set, and D.2.2's model ends in -bν/2.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ...numerics import blocks
from ..observations import weights_of
from .inducing_set import InducingSet, RowCovariance

SELECTIONS = ("active", "random", "k-means")
SHORTLIST_FACTOR = 4  # candidates scored on all data for each chosen one
MIN_NEW_VARIANCE = 1e-6  # candidates with a smaller variance given the set, relative to their own, are not informative
MAX_SEARCH_STEPS = 60  # iterations of each one-dimensional search
SEARCH_TOL = 1e-8  # relative step at which these searches end


# scores -------------------------------------------------------------------------------------------------------------------


def scores(
    fit: Any, covariance: RowCovariance, rows: np.ndarray, classes: np.ndarray, data: np.ndarray | None = None
) -> np.ndarray:
    """Return the scores of candidates for inducing variables: lower bounds of the increase of log Z̃_h. [C] (42), (43)

    Parameters
    ----------
    fit : SparseFit
        A fit with the current inducing variables.
    covariance : RowCovariance
        Prior covariances of all rows.
    rows, classes : ndarray of int of shape (m,)
        Row and class of each candidate.
    data : ndarray of int, optional
        Rows from which the sum over all data is estimated (score d3). By default all rows are used (score d2).

    Returns
    -------
    ndarray of shape (m,)
        The scores, in nats.
    """
    rows, classes = np.asarray(rows, int), np.asarray(classes, int)
    data = np.arange(len(fit.y)) if data is None else np.asarray(data, int)
    view, out = _View(fit), np.empty(len(rows))
    for some, c in _batches(classes, len(data) * fit.likelihood.n_classes):
        inputs = covariance.of_class(c).columns(rows[some], rows=data)
        out[some] = view.score(inputs, rows[some], c, data[:, None])
    return out


def group_scores(
    fit: Any, covariance: RowCovariance, rows: np.ndarray, classes: np.ndarray, size: int, rng: np.random.Generator
) -> np.ndarray:
    """Return d3 (m,) of the candidates, each on the data of its own group; groups are random and of `size` rows.

    With the same few data for all, candidates would be ranked by their distance to these data. With groups, each candidate's
    own row is among its data. [C] section 6.1.1 ("by partitioning the observed data appropriately")
    """
    n = len(fit.y)
    groups = np.resize(rng.permutation(n), (-(-n // size), size))  # the last group is filled up from the first
    members = np.empty((n, size), int)
    near = [np.empty((n, size)) for _ in covariance.columns]
    for group in groups[::-1]:
        members[group] = group
        for part, inputs in zip(covariance.columns, near, strict=True):
            inputs[group] = part.columns(group, rows=group).T
    view, out = _View(fit), np.empty(len(rows))
    for some, c in _batches(classes, size * max(fit.likelihood.n_classes, *(len(p) for p in view.prior.columns))):
        inputs = near[c if len(near) > 1 else 0][rows[some]].T
        out[some] = view.score(inputs, rows[some], c, members[rows[some]].T)
    return out


def _batches(classes, numbers):
    """Yield batches of candidates of one class, which fit into memory if each needs `numbers` entries; and the class."""
    for c in np.unique(classes):
        mine = np.flatnonzero(classes == c)
        yield from ((mine[some], int(c)) for some in blocks(len(mine), numbers))


class _View:
    """The quantities of a fit that scores need."""

    def __init__(self, fit):
        self.q, self.prior = fit.posterior, fit.posterior.prior
        self.n, C = fit.bound.b.shape
        self.b = fit.bound.b
        self.slope = np.eye(C)[np.asarray(fit.y)] - self.b
        self.weight = weights_of(fit.y)
        self.W = fit.bound.precision
        self.inverse = _inverse(self.q.cov)

    def score(self, inputs: np.ndarray, rows: np.ndarray, c: int, data: np.ndarray) -> np.ndarray:
        """Return scores (m,) of class c at `rows`, on data (d, 1), or (d, m) if separate; `inputs` (d, m): covariances."""
        prior, group = self.prior, self.prior.group_of[c].classes
        own = prior.prior_cov[rows, c, c]
        left = prior.residual[rows, c, c] + prior.jitter * own  # κ0
        informative = np.flatnonzero(left > MIN_NEW_VARIANCE * own)
        out = np.zeros(len(rows))
        if not len(informative):
            return out
        data = data if data.shape[1] == 1 else data[:, informative]
        rows, left, inputs = rows[informative], left[informative], inputs[:, informative]
        cross = [inputs * prior.between[d, c] - self._known(c, d, rows, data) for d in group]
        kappa = np.stack(cross, axis=1) / left  # (data, classes of the group, candidates)
        weight = self.n / len(data) * self.weight[data]
        b, slope = (np.moveaxis(part[data][:, :, group], 2, 1) for part in (self.b, self.slope))
        gain = best_mean(left, kappa, slope, b, weight)
        tightness, cost = (left * self._quadratic(kappa, part, group, data) for part in (self.inverse, self.W))
        out[informative] = gain + best_variance(tightness, cost, weight)
        return out

    def _known(self, c, d, rows, data):
        """Return the covariance (d, m) between class d at data and class c at candidates that the set explains."""
        one, other = self.prior.features[c][rows], self.prior.features[d]
        if data.shape[1] == 1:
            return other[data[:, 0]] @ one.T
        return np.einsum("imk,mk->im", other[data], one)

    @staticmethod
    def _quadratic(kappa, matrices, group, data):
        """Return κ_iᵀ A_i κ_i (d, m)."""
        A = matrices[np.ix_(np.arange(len(matrices)), group, group)][data]  # (d, m or 1, G, G)
        pairs = product(range(len(group)), repeat=2)
        return sum(A[:, :, j, k] * kappa[:, j] * kappa[:, k] for j, k in pairs)


def _inverse(cov):
    """Return the pseudo-inverses of covariances that may be singular."""
    value, vector = np.linalg.eigh(cov)
    floor = np.maximum(1e-13 * value[:, -1:], 1e-300)
    inverse = np.where(value > floor, 1 / np.maximum(value, floor), 0.0)
    return (vector * inverse[:, None, :]) @ np.swapaxes(vector, 1, 2)


def best_mean(left: np.ndarray, kappa: np.ndarray, slope: np.ndarray, b: np.ndarray, weight: Any) -> np.ndarray:
    """Return the maximum (m,) over μ of -μ²/2κ0 + Σ_i weight_i [μ κ_iᵀ y_i - log Σ_c b_ic exp(μ κ_ic)]. [C] D.2.1

    κ (data, classes, m) is zero for classes that are not given; the slope is y - b, both (data, classes, m or 1). Weights
    are (data, m or 1) or one number. Uses Newton's method with a line search.
    """
    b = np.broadcast_to(b, kappa.shape)
    weights = np.broadcast_to(weight, (len(kappa), len(left)))
    rest = np.maximum(1 - b.sum(1), 0.0)
    linear = np.einsum("im,icm,icm->m", weights, kappa, np.broadcast_to(slope, kappa.shape))
    mean = np.sum(kappa * b, axis=1)

    def parts(mu, some):
        """Return value, slope and curvature; the slope at zero is kept outside the sum to avoid cancellation."""
        move = mu * kappa[:, :, some]
        top = np.maximum(move.max(1), 0.0)
        g = b[:, :, some] * np.exp(move - top[:, None])
        total = g.sum(1) + rest[:, some] * np.exp(-top)
        g /= total[:, None]
        w = weights[:, some]
        first = np.einsum("icm,icm->im", g, kappa[:, :, some])
        second = np.einsum("icm,icm,icm->im", g, kappa[:, :, some], kappa[:, :, some]) - first**2
        excess = np.log(total) + top - mu * mean[:, some]
        value = mu * linear[some] - 0.5 * mu**2 / left[some] - np.sum(w * excess, axis=0)
        d1 = linear[some] - mu / left[some] - np.sum(w * (first - mean[:, some]), axis=0)
        return value, d1, 1 / left[some] + np.sum(w * second, axis=0)

    mu, share, active = np.zeros(len(left)), np.ones(len(left)), np.arange(len(left))
    value, d1, stiffness = parts(mu, active)
    for _ in range(MAX_SEARCH_STEPS):
        # the remaining gain is about ½ d1²/stiffness
        left_to_gain = d1[active] ** 2 > SEARCH_TOL * stiffness[active] * (SEARCH_TOL + value[active])
        active = active[left_to_gain & (share[active] > SEARCH_TOL)]
        if not len(active):
            break
        step = share[active] * d1[active] / stiffness[active]
        new = parts(mu[active] + step, active)
        good = new[0] >= value[active] + 1e-4 * step * d1[active] - 1e-13 * (1 + value[active])
        taken = active[good]
        mu[taken] += step[good]
        value[taken], d1[taken], stiffness[taken] = (part[good] for part in new)
        share[taken] = 1.0
        share[active[~good]] *= 0.25
    return np.maximum(value, 0.0)


def best_variance(tightness: np.ndarray, cost: np.ndarray, weight: Any) -> np.ndarray:
    """Return the maximum (m,) over x = ν/κ0 in (0, 1] of the gain from the variance ν of a new variable. [C] D.2.2

    The gain is ½(1 + log x - x) + ½ Σ_i weight_i [log(1 - (1-x) e_i) + (1-x)(e_i + w_i)]. Here e = κ0 κ_iᵀV_i⁻¹κ_i, in
    [0, 1), and w = κ0 κ_iᵀW_iκ_i are (data, m). Weights are (data, m or 1) or one number. Each step maximises a
    non-quadratic model, (74) of [C] in x.
    """
    weights = np.broadcast_to(weight, tightness.shape)
    n = weights.sum(0)
    e = np.clip(tightness, 0.0, 1 - 1e-12)
    pull = 1 + np.sum(weights * (e + cost), axis=0)
    x = 1 / pull
    for _ in range(MAX_SEARCH_STEPS):
        tau = e / (1 - (1 - x) * e)
        squares = np.sum(weights * tau**2, axis=0)
        root = np.sqrt(n * squares)
        slope = root + pull - np.sum(weights * tau, axis=0)  # b of (74)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            a = np.sqrt(n / squares) - x
            middle = a * slope - n - 1
            wide = np.sqrt(middle**2 + 4 * a * slope)
            new = np.where(middle > 0, 2 * a / (middle + wide), (wide - middle) / (2 * slope))
        new = np.where(np.isfinite(new), new, 1 / pull)  # if e = 0 for all data, the objective is log x - pull x
        new = np.clip(new, 1e-300, 1.0)
        moved = np.max(np.abs(new - x) / x, initial=0.0)
        x = new
        if moved < SEARCH_TOL:
            break
    per_datum = np.log1p(-(1 - x) * e) + (1 - x) * (e + cost)
    value = 0.5 * (1 + np.log(x) - x) + 0.5 * np.sum(weights * per_datum, axis=0)
    return np.maximum(value, 0.0)


# choosing -----------------------------------------------------------------------------------------------------------------


def choose(
    engine: Any, fit: Any, covariance: RowCovariance, chosen: InducingSet, count: int, rng: np.random.Generator
) -> InducingSet:
    """Return `chosen`, enlarged to `count` variables: by scores, or at random without a fit or if the engine asks for it."""
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
    """Return the pairs (row, class) that are not in the set; with whole rows those of class 0."""
    C = covariance.n_classes
    free = np.ones((len(covariance), C), dtype=bool)
    free[tuple(chosen.pairs.T)] = False
    if engine.whole:
        rows = np.flatnonzero(free.all(1))
        return rows, np.zeros(len(rows), int)
    return np.nonzero(free)


def _by_score(engine, fit, covariance, rows, classes, more, rng):
    """Return the positions of candidates, the best first."""

    def score(some):
        return total(lambda c: scores(fit, covariance, rows[some], c), classes[some])

    def total(one, own):
        """Return the score of a candidate; with whole rows the sum over its classes."""
        return sum(one(np.full(len(own), c)) for c in range(covariance.n_classes)) if engine.whole else one(own)

    def best(some, value, count):
        if not engine.apart:
            return some[np.argsort(-value, kind="stable")[:count]]
        return some[apart(fit, covariance, rows[some], classes[some], value, count)]

    wanted = more // covariance.n_classes if engine.whole else more
    listed = SHORTLIST_FACTOR * wanted if engine.shortlist is None else max(engine.shortlist, wanted)
    some = np.arange(len(rows))
    if len(some) > listed and engine.subsample:
        size, seed = min(engine.subsample, len(fit.y)), rng.integers(2**32)
        d3 = total(lambda c: group_scores(fit, covariance, rows, c, size, np.random.default_rng(seed)), classes)
        some = best(some, d3, listed)
    elif len(some) > listed:
        some = np.sort(rng.choice(len(some), listed, replace=False))
    return best(some, score(some), wanted)


def apart(
    fit: Any, covariance: RowCovariance, rows: np.ndarray, classes: np.ndarray, value: np.ndarray, count: int
) -> np.ndarray:
    """Return positions of `count` candidates, chosen one by one by value times the fraction of variance not yet explained.

    Scores are those of single variables: without this, a batch would consist of similar variables.
    """
    prior = fit.posterior.prior
    before = prior.residual[rows, classes, classes] + prior.jitter * prior.prior_cov[rows, classes, classes]
    left, free = before.copy(), np.ones(len(rows), dtype=bool)
    cross: list[np.ndarray] = []  # covariances of each chosen one with all candidates, divided by its standard deviation
    out: list[int] = []
    while len(out) < min(count, len(rows)):
        share = np.maximum(left, 0.0) / np.maximum(before, 1e-300)
        j = int(np.argmax(np.where(free, value * share, -1.0)))
        out.append(j)
        free[j] = False
        if len(out) == count or share[j] < MIN_NEW_VARIANCE:
            continue
        column = _given_the_set(prior, covariance, rows, classes, j)
        column -= sum((half * half[j] for half in cross), np.zeros(len(rows)))
        cross.append(column / np.sqrt(left[j]))
        left = left - cross[-1] ** 2
    return np.array(out, int)


def _given_the_set(prior, covariance, rows, classes, j):
    """Return the (m,) prior covariances of all candidates with the j-th, given the current inducing variables."""
    c = int(classes[j])
    inputs = covariance.of_class(c).columns(rows[[j]], rows=rows)[:, 0]
    own = prior.features[c][rows[j]]
    out = np.zeros(len(rows))
    for d in prior.group_of[c].classes:
        mine = np.flatnonzero(classes == d)
        out[mine] = inputs[mine] * prior.between[c, d] - prior.features[d][rows[mine]] @ own
    return out
