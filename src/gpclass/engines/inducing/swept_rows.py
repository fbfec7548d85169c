"""The rows of one process during sweeps over all rows: their sites, and the sites and steps of past sweeps.

All that depends on single rows is here. A process that decides about all rows (`sweep.settle`) needs only the results of
the methods of `SweptRows`, which do not grow with the number of rows and add up over the rows of several processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...gaussian.low_rank import LowRankMoments, LowRankPrior, mirror_all
from ...gaussian.products import times
from ...numerics import NormalEquations, blocks, mixed_point, within_reach
from ..climb import LINEAR_REGIME
from ..observations import Data
from .messages import Messages, RowBlocks, messages
from .mixer import ALL, LAST, MIXED_SWEEPS, SweepStep, Swept
from .step import RowSites, of_all_copies

MIXING_SLACK = 1e-2  # `slack` of `within_reach`


@dataclass(frozen=True)
class SiteSums:
    """Natural parameters of the sites of some rows, as `LowRankPosterior` takes them."""

    S: np.ndarray  # (C, M, M), or (1, C M, C M) if classes are coupled
    pull: np.ndarray  # (C, M) or (1, C M)

    def __add__(self, other: SiteSums) -> SiteSums:
        return SiteSums(self.S + other.S, self.pull + other.pull)


@dataclass(frozen=True)
class Extent:
    """Sizes of some rows, for messages about runs that fail."""

    rows: int
    tau: float  # largest precision of a site
    variance: float  # largest prior variance

    def __add__(self, other: Extent) -> Extent:
        return Extent(self.rows + other.rows, max(self.tau, other.tau), max(self.variance, other.variance))


class SweptRows:
    """Rows, their sites and past sweeps.

    Parameters
    ----------
    engine : LowRankEngine
        The engine.
    prior : LowRankPrior
        Prior of the inducing variables.
    likelihood : Likelihood
        The likelihood.
    rows : RowBlocks
        Features of the rows.
    data : Data
        Their targets.
    sites : RowSites, optional
        Initial sites. By default the engine's, which contain no information.
    memory : int
        Number of past sweeps that are mixed. With the last one, 2 (memory + 1) vectors of all sites are stored.
    """

    def __init__(
        self,
        engine: Any,
        prior: LowRankPrior,
        likelihood: Any,
        rows: RowBlocks,
        data: Data,
        sites: RowSites | None = None,
        memory: int = MIXED_SWEEPS,
    ):
        self.engine, self.prior, self.likelihood, self.rows, self.data = engine, prior, likelihood, rows, data
        self.memory = memory
        sites = engine.row_sites(len(data.y), likelihood) if sites is None else sites
        self.point = _joined(sites)  # the sites as one vector
        self.sites = _split(self.point, sites)
        self.points: list[np.ndarray] = []  # of past sweeps and the last one
        self.residuals: list[np.ndarray] = []  # their steps
        self.scale = np.ones(0)  # `units` of the last sweep, if it may be mixed
        self.tau, self.nu = np.zeros((2, len(data.y), likelihood.n_latents))  # sites on g of all copies

    def sums(self) -> SiteSums:
        """Return the natural parameters of the current sites."""
        S, pull = self.prior.no_sites(self.likelihood.n_latents, self.prior.M)
        for some, rows in self.rows.blocks(self.likelihood.n_latents):
            data, own = self.data.some(some), {name: site[some] for name, site in self.sites.items()}
            tau, nu = (of_all_copies(x, data) for x in self.engine.totals(own, data.y, rows.residual))
            self.prior.add_sites(S, pull, rows.phi, tau, nu)
            self.tau[some], self.nu[some] = tau, nu
        mirror_all(S)
        return SiteSums(S, pull)

    def sweep(self, mu: np.ndarray, root: np.ndarray, n_total: float, may_mix: bool) -> Swept:
        """Compute new sites of all rows from the posterior of v, whose mean and root they are. The current sites stay.

        `n_total` is the weight of the rows of all processes. If the step may be mixed, return the equations for it.
        """
        goal = np.empty_like(self.point)
        new, wide, value, change = _split(goal, self.sites), np.empty(len(self.data.y)), 0.0, 0.0
        for some, at, data, each in self._messages(self.prior.moments(mu, root), n_total):
            message = each.times(data.weight)
            for name, sites in new.items():
                sites[some] = message.sites[name]
            wide[some] = np.mean(np.ascontiguousarray(at.var), axis=1)
            value += float(np.sum(message.value))
            move = at.move((self.tau[some], self.nu[some]), (message.tau, message.nu))
            change = float(np.maximum(change, move))  # keeps NaN
        goal -= self.point
        self.points = [*self.points[-self.memory :], self.point]
        self.residuals = [*self.residuals[-self.memory :], goal]
        if not (may_mix and change < LINEAR_REGIME):
            return Swept(value, change)
        self.scale = units(self.sites, wide, self.data.weight)
        return Swept(value, change, float(np.max(self.scale * np.abs(goal), initial=0.0)), self._equations())

    def _messages(self, source: LowRankMoments, n_total: float) -> Messages:
        return messages(self.engine, source, self.rows, self.data, self.likelihood, self.sites, n_total)

    def _equations(self) -> NormalEquations:
        k = len(self.residuals) - 1
        total = NormalEquations(np.zeros(k), np.zeros((k, k)), np.zeros(k))
        for some in self._coordinates():
            measured = np.stack([residual[some] for residual in self.residuals]) * self.scale[some]
            total += NormalEquations.of_residuals(measured)
        return total

    def _coordinates(self) -> Iterator[slice]:
        """Return blocks of coordinates: temporary arrays as large as all past sweeps would double the memory."""
        return blocks(len(self.point), len(self.points))

    def step(self, step: SweepStep) -> SiteSums:
        """Take a step and return the sums of the new sites."""
        if step.kept != ALL:
            one = slice(-1, None) if step.kept == LAST else slice(-2, -1)
            self.points, self.residuals = self.points[one], self.residuals[one]
        x, residual = self.points[-1], self.residuals[-1]
        self.point = x + step.part * residual if step.mix is None else self._mixed(step)
        self.sites = _split(self.point, self.sites)
        return self.sums()

    def recentre(self, common: np.ndarray) -> int:
        """Move all sites by -φᵀ`common`; see `LowRankPosterior.recentred`."""
        for some, rows in self.rows.blocks(self.prior.M):
            moved = times(rows.phi[0], common[:, None])
            for name, nu in self.sites.items():
                if name.endswith("nu"):
                    nu[some] -= self.sites[f"{name[:-2]}tau"][some] * moved
            self.nu[some] -= self.tau[some] * moved
        return 0

    def _mixed(self, step: SweepStep) -> np.ndarray:
        out = np.empty_like(self.points[-1])
        for some in self._coordinates():
            points, residuals = (np.stack([x[some] for x in past]) for past in (self.points, self.residuals))
            mixed = mixed_point(points, residuals, step.part, np.asarray(step.mix))
            reach: dict[str, Any] = {"slack": MIXING_SLACK, "largest": step.largest}
            out[some] = within_reach(mixed, points[-1], residuals[-1], self.scale[some], **reach)
        return out

    def forget(self) -> None:
        """Forget past sweeps."""
        self.points, self.residuals, self.scale = [], [], np.ones(0)

    def extent(self) -> Extent:
        variance = 0.0
        for _, rows in self.rows.blocks(self.prior.M):
            known = np.einsum("cij,cij->ic", rows.phi, rows.phi)
            variance = max(variance, float(np.max(known + rows.residual)) - self.engine.noise(self.likelihood))
        return Extent(len(self.data.y), float(np.max(np.abs(self.tau), initial=0.0)), variance)


def units(sites: RowSites, wide: np.ndarray, weight: np.ndarray | float = 1.0) -> np.ndarray:
    """Return scales that make moves of sites comparable: weights times variances for τ, or standard deviations for ν.

    `wide` (n,) are the variances, averaged over latent functions.
    """
    wide = np.maximum(wide, 1e-300)
    parts = (weight * (wide if name.endswith("tau") else np.sqrt(wide)) for name in sites)
    return np.concatenate([np.repeat(part, sites[name].shape[1]) for name, part in zip(sites, parts, strict=True)])


def _joined(sites: RowSites) -> np.ndarray:
    return np.concatenate([part.ravel() for part in sites.values()])


def _split(x: np.ndarray, like: RowSites) -> RowSites:
    """Return the parts of a vector as arrays of the same shapes as `like`, without a copy."""
    edges = np.cumsum([part.size for part in like.values()])[:-1]
    return {name: part.reshape(like[name].shape) for name, part in zip(like, np.split(x, edges), strict=True)}
