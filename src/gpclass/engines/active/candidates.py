"""Candidates for an active set: their marginals and scores, and the choice of the next inclusion among them.

Ties go to the lowest row, so the same data give the same set. With several classes exact scores are expensive: rows are
screened by rough scores, which are updated only if the marginals have changed enough, and the best few are scored exactly.
Sites are always exact.

[SLH] Seeger, Lawrence & Herbrich, sections 3.2 and 4.2, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...gaussian import ActiveSites, Columns, Sites, Stubs
from ...gaussian.active import STUBS_PER_PIECE
from .scores import concave_sites, exact_moments, rough_moments, score, scoring_blocks

LARGE_PIECE = 64  # number of stubs allocated at a time if memory is not limited
EXACTLY_SCORED = 16  # rows that are scored exactly after rough screening
TIE_TOL = 1e-10  # relative difference below which scores are equal


@dataclass(frozen=True)
class Offers:
    """Candidates that can be the next inclusion, in the order of their numbers."""

    numbers: np.ndarray  # (k,)
    value: np.ndarray  # (k, C) scores; infinite if the inclusion is not possible
    open: np.ndarray  # (k, C) whether the pair of row and latent function can still be included
    mean: np.ndarray  # (k, C) marginals
    var: np.ndarray  # (k, C)
    y: np.ndarray  # (k,) targets
    stubs: list[np.ndarray]  # for each latent function (k, d_c)

    def some(self, which: np.ndarray) -> Offers:
        numbers, value, open_, mean, var, y = (x[which] for x in self._arrays())
        return Offers(numbers, value, open_, mean, var, y, [stub[which] for stub in self.stubs])

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.numbers, self.value, self.open, self.mean, self.var, self.y

    @staticmethod
    def joined(parts: Sequence[Offers]) -> Offers:
        """Return the offers of several sets of candidates, in the order of their numbers."""
        filled = [part for part in parts if len(part.numbers)] or list(parts[:1])
        if len(filled) == 1:
            return filled[0]
        numbers, value, open_, mean, var, y = map(np.concatenate, zip(*(part._arrays() for part in filled), strict=True))
        stubs = [np.concatenate(some) for some in zip(*(part.stubs for part in filled), strict=True)]
        return Offers(numbers, value, open_, mean, var, y, stubs).some(np.argsort(numbers))


@dataclass(frozen=True)
class Inclusion:
    """A new site, and what the marginals of candidates need to take it into account."""

    number: int  # of the row
    latent: int
    tau: float
    nu: float
    slope: float  # of log Z in the mean of the row
    curvature: float
    stub: np.ndarray  # (d_c,) row of M
    score: float = np.nan

    @property
    def site(self) -> tuple[int, int, float, float]:
        """Row, latent function, τ and ν."""
        return self.number, self.latent, self.tau, self.nu


@dataclass(frozen=True)
class Choice:
    """The next inclusion, if there is one, and the rows that were scored exactly to find it."""

    new: Inclusion | None
    numbers: np.ndarray  # (k,) rows scored exactly; none if all scores are exact
    value: np.ndarray  # (k, C) their scores


def choose(settings, likelihood, offers: Offers, rough: bool) -> Choice:
    """Choose the best of some offers. After rough screening the best few are scored exactly."""
    if rough:
        offers = offers.some(lowest_rows(offers.value.min(1), EXACTLY_SCORED))
    nothing = Choice(None, offers.numbers[:0], offers.value[:0])
    if not len(offers.numbers):
        return nothing
    value, moments = offers.value, None
    if rough:
        moments = exact_moments(likelihood, offers.y, offers.mean, offers.var)
        value = score(settings.score, offers.var, *moments, settings.threshold)
        value[~offers.open] = np.inf
    best, k, c = best_of(value)
    exact = (offers.numbers, value) if rough else (nothing.numbers, nothing.value)
    if best == np.inf:
        return Choice(None, *exact)
    return Choice(matched(likelihood, offers, k, c, moments, best), *exact)


def matched(likelihood, offers: Offers, k: int, c: int, moments: Any = None, best: float = np.nan) -> Inclusion:
    """Return the inclusion of offer k for latent function c, with a site matched to its current marginals."""
    if moments is None:
        one = slice(k, k + 1)
        moments = exact_moments(likelihood, offers.y[one], offers.mean[one], offers.var[one])
        slopes, curvatures = (part[0] for part in moments)
    else:
        slopes, curvatures = (part[k] for part in moments)
    slope, curvature = slopes[c], min(curvatures[c], 0.0)
    site = concave_sites(offers.mean[k, c], offers.var[k, c], slope, curvature)
    row = int(offers.numbers[k])
    return Inclusion(row, c, float(site.tau), float(site.nu), slope, curvature, offers.stubs[c][k], best)


class Candidates:
    """Rows that can still be included, with the marginals of C latent functions.

    `numbers`, ascending, are those of the rows, by default 0 … n-1. The rows of a selection may be divided among several
    such objects: then each gives its `offers`, one of all is chosen, and each adds it (`add`).
    """

    def __init__(
        self,
        settings,
        covariances: Sequence[Columns],
        y: np.ndarray,
        likelihood,
        rng: np.random.Generator | None = None,
        numbers: np.ndarray | None = None,
    ):
        piece = STUBS_PER_PIECE if settings.memory is not None or len(covariances) > 1 else LARGE_PIECE
        self.stubs = [Stubs(covariance, piece, numbers) for covariance in covariances]
        self.settings, self.y, self.likelihood, self.rng = settings, y, likelihood, rng
        shape = len(y), len(self.stubs)
        self.drift = drift_of(settings, len(self.stubs))
        self.taken = np.zeros(shape, bool)
        self.value = np.full(shape, np.inf)  # scores, also of pairs already included
        self.scored = np.zeros(shape), np.full(shape, -1.0)  # marginals at the time of scoring; used with `drift`
        self._places: np.ndarray | None = None  # positions of included pairs in the flat scores
        self.inclusions: list[tuple[int, int, float, float]] = []  # row, latent function, τ, ν

    @property
    def rows(self) -> np.ndarray:
        return self.stubs[0].rows

    def places(self, numbers: np.ndarray) -> Any:
        """Return which of some rows are candidates here, and their places."""
        if not len(self.rows) or not len(numbers):
            return np.zeros((2, 0), int)
        place = np.minimum(np.searchsorted(self.rows, numbers), len(self.rows) - 1)
        here = np.flatnonzero(self.rows[place] == numbers)
        return here, place[here]

    def marginals(self, some=slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Return the means and variances (m, C) of candidates."""
        mean, var = ([getattr(s, name)[some] for s in self.stubs] for name in ("mean", "var"))
        return (mean[0][:, None], var[0][:, None]) if len(mean) == 1 else (np.stack(mean, axis=1), np.stack(var, axis=1))

    def refresh(self) -> None:
        """Score all rows; with several classes roughly, and only rows whose marginals have changed enough."""
        stale: list = list(scoring_blocks(len(self.y)))
        if self.drift:
            (mean, var), (old_mean, old_var) = self.marginals(), self.scored
            moved = (np.abs(mean - old_mean) > self.drift * np.sqrt(var)) | (np.abs(var - old_var) > self.drift * var)
            which = np.flatnonzero(moved.any(1))
            stale = [which[some] for some in scoring_blocks(len(which))]
        for some in stale:
            mean, var = self.marginals(some)
            moments = rough_moments if self.drift else exact_moments
            found = moments(self.likelihood, self.y[some], mean, var)
            self.value[some] = score(self.settings.score, var, *found, self.settings.threshold)
            if self.drift:
                self.scored[0][some], self.scored[1][some] = mean, var

    def mask(self, closed: np.ndarray) -> None:
        """Set scores to infinity for included pairs and for latent functions that are `closed`."""
        if self._places is None:
            self._places = np.flatnonzero(self.taken)
        self.value.reshape(-1)[self._places] = np.inf
        if closed.any():
            self.value[:, closed] = np.inf

    def shrink(self, closed: np.ndarray, size: int) -> None:
        """Drop candidates if there are more than `size`: keep the best and a random part of the others."""
        if size < len(self.y):
            self.mask(closed)
            assert self.rng is not None, "candidates are dropped at random"
            self.keep(shrink(self.value.min(1), np.any(~self.taken, axis=1), size, self.settings.keep, self.rng))

    def offers(self, closed: np.ndarray) -> Offers:
        """Return the rows that contain the next inclusion, whichever candidates other processes have."""
        self.mask(closed)
        return self.offer(lowest_rows(self.value.min(1), EXACTLY_SCORED) if self.drift else first_rows(self.value), closed)

    def offer(self, which: np.ndarray, closed: np.ndarray) -> Offers:
        """Return the candidates at some places."""
        open_ = ~(self.taken[which] | closed)
        stubs = [s.stub_of(which) for s in self.stubs]
        return Offers(self.rows[which], self.value[which], open_, *self.marginals(which), self.y[which], stubs)

    def best(self, closed: np.ndarray, size: int | None = None) -> Inclusion | None:
        """Return the best inclusion of all candidates, after dropping all but `size`; None if none is informative."""
        self.refresh()
        self.shrink(closed, len(self.y) if size is None else size)
        choice = choose(self.settings, self.likelihood, self.offers(closed), bool(self.drift))
        self.note(choice)
        return choice.new

    def note(self, choice: Choice) -> None:
        """Keep the exact scores of a choice."""
        here, places = self.places(choice.numbers)
        self.value[places] = choice.value[here]

    def include(self, i: int, c: int) -> None:
        """Add the site of candidate i for latent function c, matched to its current marginals."""
        offer = self.offer(np.array([i]), np.zeros(len(self.stubs), bool))
        self.add(matched(self.likelihood, offer, 0, c))

    def add(self, new: Inclusion, column: np.ndarray | None = None) -> None:
        """Add the site of a row. It need not be a candidate here if its covariances (m,) with the candidates are given."""
        places = self.places(np.array([new.number]))[1].tolist()
        i = places[0] if places else None
        stubs = self.stubs[new.latent]
        if column is None:
            assert i is not None, "a row that is not a candidate needs its covariances"
            column = stubs.column(i)
        stubs.add(column, new.stub, new.slope, new.curvature, i)
        self.inclusions.append(new.site)
        if i is not None:
            self.taken[i, new.latent], self._places = True, None

    def restore(self, at: ActiveSites) -> None:
        """Add given sites."""
        for i, c, tau, nu in zip(at.rows, at.latents, at.sites.tau, at.sites.nu, strict=True):
            stubs = self.stubs[c]
            mean, var, own = stubs.mean[i], stubs.var[i], stubs.stub_of(int(i))
            slope, curvature = (nu - tau * mean) / (1 + tau * var), -tau / (1 + tau * var)
            self.add(Inclusion(int(self.rows[i]), int(c), tau, nu, slope, curvature, own))

    def keep(self, which: np.ndarray) -> None:
        for s in self.stubs:
            s.keep(which)
        self.y, self.taken, self.value = self.y[which], self.taken[which], self.value[which]
        self.scored = self.scored[0][which], self.scored[1][which]
        self._places = None

    def sites(self) -> ActiveSites:
        return sites_of(self.inclusions)


def drift_of(settings, n_latents: int) -> float:
    """Return `settings.drift` for several latent functions, and 0 for one, since all scores are then exact."""
    return settings.drift if n_latents > 1 else 0.0


def sites_of(inclusions: Sequence[tuple[int, int, float, float]]) -> ActiveSites:
    """Return the sites from rows, latent functions, τ and ν."""
    rows, latents, tau, nu = np.array(inclusions, float).reshape(-1, 4).T
    return ActiveSites(rows.astype(int), latents.astype(int), Sites(tau.copy(), nu.copy()))


def best_of(value: np.ndarray) -> tuple[float, int, int]:
    """Return the smallest score, its row and latent function; the first one of ties."""
    best = value.min(initial=np.inf)
    if best == np.inf:
        return np.inf, -1, -1
    i, c = np.unravel_index(np.flatnonzero(value.ravel() <= best + TIE_TOL * abs(best))[0], value.shape)
    return float(value[i, c]), int(i), int(c)


def first_rows(value: np.ndarray) -> np.ndarray:
    """Return the rows that `best_of` can choose, whichever rows are added: of ties, those below all scores before them."""
    best = value.min(initial=np.inf)
    if best == np.inf:
        return np.zeros(0, int)
    ties = np.flatnonzero(value.ravel() <= best + TIE_TOL * abs(best))
    if len(ties) == 1:
        return ties // value.shape[1]
    lowest = np.minimum.accumulate(value.ravel()[ties])
    return np.unique(ties[np.append(True, lowest[1:] < lowest[:-1])] // value.shape[1])


def lowest_rows(values: np.ndarray, count: int) -> np.ndarray:
    """Return the places of the `count` smallest finite values, in ascending order; the first ones of ties."""
    finite = np.flatnonzero(np.isfinite(values))
    if len(finite) <= count:
        return finite
    left = values[finite]
    last = np.partition(left, count - 1)[count - 1]
    slack = TIE_TOL * abs(last)
    below = finite[left < last - slack]
    ties = finite[np.abs(left - last) <= slack]
    return np.sort(np.concatenate([below, ties[: count - len(below)]]))


def shrink(scores: np.ndarray, open_: np.ndarray, size: int, part: float, rng: np.random.Generator) -> np.ndarray:
    """Choose `size` of the candidates in `open_`, in order: a fraction `part` are the best, the rest random."""
    ranked = rng.permutation(np.flatnonzero(open_))  # gives equal chances to equal scores, as all are at first
    ranked = ranked[np.argsort(scores[ranked], kind="stable")]
    if len(ranked) <= size:
        return np.sort(ranked)
    best, others = np.split(ranked, [int(np.ceil(part * size))])
    return np.sort(np.concatenate([best, rng.choice(others, size - len(best), replace=False)]))
