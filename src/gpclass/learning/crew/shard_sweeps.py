"""Sweeps over the rows of a shard: what shards are sent, their sites, and sums over their rows.

A shard computes the covariances of its rows itself. It keeps their features between sweeps if they are small
(`KEPT_FEATURES`), and otherwise computes them block by block, twice in each sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ...engines.inducing.messages import RowDerivatives, cavities, messages
from ...engines.inducing.step import RowSites
from ...engines.inducing.swept_rows import SweptRows
from ...engines.observations import Data, Observed, at_least_one, data_of
from ...gaussian.low_rank import LowRankPrior, Rows
from ..inducing import InducingKernel
from ..streams import codes
from .crews import RowsLost
from .shard import Piece, Shard

KEPT_FEATURES = 1 << 24  # numbers of a shard's features that are kept between sweeps: 128 MB
SITES_KEY = "settled sites"  # key of `Shard.memory`


@dataclass(frozen=True)
class Survey:
    """Sizes of some rows. Those of different rows add up."""

    rows: int
    weight: float  # sum of the weights
    raised: float  # sum of the weights, raised to one
    least: float  # smallest weight
    weighted: bool

    def __add__(self, other: Survey) -> Survey:
        sums = self.rows + other.rows, self.weight + other.weight, self.raised + other.raised
        return Survey(*sums, min(self.least, other.least), self.weighted or other.weighted)


@dataclass(frozen=True)
class Covariances:
    """A kernel with inducing inputs, and the covariances among these."""

    kernel: InducingKernel
    K_uu: np.ndarray  # (1 or C, M, M)


@dataclass(frozen=True)
class Problem:
    """A fit at fixed hyperparameters, as it is sent to all shards."""

    engine: Any
    likelihood: Any
    kernel: InducingKernel
    prior: LowRankPrior
    labels: np.ndarray  # (C,) class labels, in the order of the class numbers
    weighted: bool  # whether any row has a weight
    tempered: bool  # whether targets have powers, see `data_of`
    raised: bool  # whether weights below one count as one
    n_total: float  # weight of all rows
    memory: int  # past sweeps that are mixed

    def data(self, place: np.ndarray, weight: np.ndarray) -> Data:
        """Return the targets of rows with these class numbers."""
        y: Any = self.likelihood.class_targets[place]
        if self.weighted:
            y = at_least_one(Observed(y, weight)) if self.raised else Observed(y, weight)
        return data_of(self.engine, y, self.likelihood, self.tempered)


class ShardRows:
    """Features of the rows of a shard: kept if they are small, else computed block by block."""

    def __init__(self, shard: Shard, problem: Problem, keep: bool = True):
        self.shard, self.problem = shard, problem
        self.kept: Rows | None = None
        G, n, M, C = len(problem.prior.L), shard.n_rows, problem.prior.M, problem.likelihood.n_latents
        if keep and G * n * M <= KEPT_FEATURES:
            made = Rows(np.empty((G, n, M)), np.empty((n, C)))
            for some, block in self.blocks(M):
                made.phi[:, some], made.residual[some] = block.phi, block.residual
            self.kept = made

    def blocks(self, width: int) -> Iterator[tuple[slice, Rows]]:
        if self.kept is not None:
            return self.kept.blocks(width)
        return ((piece.at, rows) for piece, _, rows in self.pieces(width))

    def pieces(self, width: int) -> Iterator[tuple[Piece, np.ndarray, Rows]]:
        """Yield some rows, their K_fu (1 or C, m, M) and their features."""
        M, D = self.problem.kernel.Z.shape[1:]
        for piece in self.shard.pieces(self.problem.labels, max(width, M, D)):
            K_fu, k_diag = self.problem.kernel.cross(piece.X)
            kept = None if self.kept is None else self.kept.some(piece.at)
            yield piece, K_fu, _features(self.problem, K_fu, k_diag) if kept is None else kept


def _features(problem: Problem, K_fu: np.ndarray, k_diag: np.ndarray) -> Rows:
    if not (np.isfinite(K_fu.sum()) and np.isfinite(k_diag.sum())):
        raise ValueError("the kernel's covariances contain NaN or infinite entries (or their sum overflows)")
    if np.any(k_diag < 0):
        raise ValueError("the kernel has negative variances")
    return problem.prior.rows(K_fu, k_diag + problem.engine.noise(problem.likelihood))


def targets_on(shard: Shard, problem: Problem) -> Data:
    """Return the targets of all rows of a shard."""
    place, weight = [np.zeros(0, int)], [np.zeros(0)]
    for part in shard.parts:
        place.append(codes(part.labels, problem.labels)[part.place])
        weight.append(np.ones(len(part)) if part.weight is None else part.weight)
    return problem.data(np.concatenate(place), np.concatenate(weight))


@dataclass(frozen=True)
class Begin:
    """The beginning of a fit."""

    problem: Problem
    start: Any  # number of the fit whose sites are the start, or None
    live: frozenset  # numbers of the fits whose sites are kept


class ShardSites:
    """Sites of fits on a shard: those of the last fit, and of earlier ones that can still be a start."""

    def __init__(self) -> None:
        self.number: Any = None  # of the last fit
        self.now: SweptRows | None = None
        self.kept: dict[Any, RowSites] = {}

    def begin(self, shard: Shard, number: Any, begin: Begin) -> None:
        """Begin the fit with this number."""
        self.rest()
        start = None if begin.start is None else self.of(begin.start)
        self.kept = {number: sites for number, sites in self.kept.items() if number in begin.live}
        problem = begin.problem
        parts = problem.engine, problem.prior, problem.likelihood, ShardRows(shard, problem), targets_on(shard, problem)
        self.now, self.number = SweptRows(*parts, start, problem.memory), number

    def rest(self) -> None:
        """Keep only the sites of the last fit."""
        if self.now is not None:
            self.kept[self.number] = self.now.sites
        self.now, self.number = None, None

    def running(self, number: Any) -> SweptRows:
        """Return the rows of the fit with this number, which must be the last one."""
        if self.now is None or self.number != number:
            raise RowsLost("a shard has no sites of this fit")
        return self.now

    def of(self, number: Any) -> RowSites:
        """Return the sites of a fit."""
        if self.now is not None and self.number == number:
            return self.now.sites
        if number not in self.kept:
            raise RowsLost("a shard has no sites of this fit")
        return self.kept[number]


def sites_on(shard: Shard) -> ShardSites:
    """Return the sites of settled fits that a shard keeps; `sites_on(shard).of(number)` are those of one fit."""
    return shard.memory.setdefault(SITES_KEY, ShardSites())


def survey_of(shard: Shard) -> Survey:
    """Return the sizes of a shard's rows."""
    weights = [np.ones(len(part)) if part.weight is None else part.weight for part in shard.parts]
    weight = np.concatenate([np.zeros(0), *weights])
    sums = float(np.sum(weight)), float(np.sum(np.maximum(weight, 1.0)))
    return Survey(shard.n_rows, *sums, float(np.min(weight, initial=np.inf)), shard.weighted)


def call_on(shard: Shard, number: Any, begin: Begin | None, method: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a method of the shard's `SweptRows`."""
    here = sites_on(shard)
    if begin is not None:
        here.begin(shard, number, begin)
    return method(here.running(number), *arguments)


def rest_on(shard: Shard) -> int:
    """Keep only the sites of the last fit."""
    sites_on(shard).rest()
    return 0


def clear_on(shard: Shard) -> int:
    """Remove the sites of all fits."""
    shard.memory.pop(SITES_KEY, None)
    return 0


@dataclass(frozen=True)
class Slopes:
    """Derivatives of the log evidence with fixed sites; those of different rows add up."""

    theta: np.ndarray  # (p,) in the parameters of the kernel
    dZ: np.ndarray  # (1 or C, M, D) in the inducing inputs
    likelihood: np.ndarray  # (q,) in the parameters of the likelihood
    inner: np.ndarray  # (1 or C, M, M) contribution of the rows to the derivative in K_uu; see `GradientSum`

    def __add__(self, other: Slopes) -> Slopes:
        return Slopes(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Slopes)))


def slopes_on(shard: Shard, number: Any, problem: Problem, mu: np.ndarray, root: np.ndarray) -> Slopes:
    """Return the derivatives of a fit's evidence through the covariances of a shard's rows."""
    here, kernel = sites_on(shard), problem.kernel
    sites, now = here.of(number), here.now if here.number == number else None
    rows: Any = ShardRows(shard, problem, keep=False) if now is None else now.rows
    data = targets_on(shard, problem) if now is None else now.data
    total, source = RowDerivatives(problem.prior, problem.likelihood), problem.prior.moments(mu, root)
    theta, dZ = np.zeros(len(kernel.kernel.theta)), np.zeros_like(kernel.Z)
    for piece, K_fu, block in rows.pieces(mu.size):
        own = {name: part[piece.at] for name, part in sites.items()}
        given = problem.engine, source, block, data.some(piece.at), problem.likelihood, own, problem.n_total
        for some, fu, diag in total.add(messages(*given, slopes=True)):
            more, moved = kernel.pullback_rows(piece.X[some], K_fu[:, some], fu, diag)
            theta, dZ = theta + more, dZ + moved
    return Slopes(theta, dZ, total.theta, total.inner)


def left_out_on(shard: Shard, number: Any, problem: Problem, S: np.ndarray, pull: np.ndarray, chosen: np.ndarray) -> list:
    """Return numbers, log class probabilities without their own sites, class numbers and weights of the chosen rows."""
    rows = shard.places(chosen)
    if not len(rows):
        return []
    batch, likelihood = shard.take(rows), problem.likelihood
    place = codes(batch.y, problem.labels)
    weight = np.ones(len(rows)) if batch.weight is None else batch.weight
    features = _features(problem, *problem.kernel.cross(batch.X))
    own = {name: part[rows] for name, part in sites_on(shard).of(number).items()}
    q = problem.prior.posterior(S, pull)
    given = problem.engine, q, features, problem.data(place, weight), likelihood, own, problem.n_total
    return [(batch.rows, likelihood.log_class_probabilities(*cavities(*given)), place, weight)]
