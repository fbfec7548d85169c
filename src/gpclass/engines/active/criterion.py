"""The evidence of an active set: that of EP, with the likelihoods of all rows, with or without a site. (11)

    log Z = Σ_i log Z_i - Σ_{i in I} log Z̃_i + log ∫ N(f | 0, K) ∏_{i in I} exp(-½ τ_i f_i² + ν_i f_i) df

Z_i is the mass of the likelihood under the cavity of row i, which is the marginal if the row has no site, and Z̃_i that of
the site. This is -φ. With several latent functions the mass of a row is under the cavities of all of them. The derivatives
are those with fixed active set and sites. They are exact if EP has converged on the sites and every row has one; see
`learning`.

Rows are processed in blocks, so no array is larger than an active set times a block.

[SLH] Seeger, Lawrence & Herbrich, section 3.3, appendix C.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...gaussian import ActivePosterior, ActiveSites, Columns, EvidenceGradient, Sites, log_partition_1d
from ...gaussian.active import Block, block
from ...numerics import MEMORY, blocks
from .scores import of_targets, row_targets, tilted


class Sink(Protocol):
    """Receives derivatives in the covariances of one latent function."""

    def gram(self, active: np.ndarray, G: np.ndarray) -> None:
        """Receive the derivative in the covariances among active rows, G (d, d) symmetric."""

    def cross(self, active: np.ndarray, rows: np.ndarray, G: np.ndarray, value: np.ndarray) -> None:
        """Receive the derivative G (d, m) in the covariances of active rows with other rows, whose values are `value`."""

    def diag(self, rows: np.ndarray, g: np.ndarray) -> None:
        """Receive the derivative in the variances of rows."""


@dataclass(frozen=True)
class RowMarginals:
    """Marginals of some rows; cavities for rows with sites."""

    rows: np.ndarray  # (m,)
    mean: np.ndarray  # (m, C)
    var: np.ndarray  # (m, C)
    blocks: list[tuple[np.ndarray, Block]]  # for each function, which of these rows have no site of it, and their block


@dataclass(frozen=True)
class ActiveEvidence:
    """The evidence of an active set and its derivatives, except those in the covariances."""

    value: float
    in_theta: np.ndarray  # (p,) in the likelihood's parameters, with fixed sites. (12)
    in_sites: Sites  # (d,) each: in τ and ν of the sites; zero if EP has converged and every row has a site


def log_evidence(
    covariances: Sequence[Columns],
    at: ActiveSites,
    y: Any,
    likelihood,
    rows: np.ndarray | None = None,
    sinks: Sequence[Sink] | None = None,
) -> ActiveEvidence:
    """Return -φ over `rows` (default all; rows with sites are always included), with fixed sites, and its derivatives.

    (12), (14) of [SLH].

    Parameters
    ----------
    covariances : sequence of Columns
        Prior covariances of the rows, one for each latent function.
    at : ActiveSites
        The active rows and their sites.
    y : ndarray of shape (n,) or Observed
        Targets of all rows.
    likelihood : Likelihood
        A likelihood with `tilted_moments`.
    rows : ndarray of int, optional
        Numbers of the rows in the sum. By default all rows.
    sinks : sequence of Sink, optional
        Receive the derivatives in the covariances, one for each latent function. By default there are no derivatives.

    Returns
    -------
    ActiveEvidence
        The value, and the derivatives in the likelihood's parameters and in the sites.
    """
    y = row_targets(y)
    q = ActivePosterior(covariances, at)
    prior_var = np.stack([k.diag for k in covariances], axis=1)
    total = ActiveEvidenceSum(q, likelihood, sinks is not None)
    for number, seen in enumerate(walk(q, covariances, prior_var, rows)):  # the first rows are those with sites
        total.add(seen, y[seen.rows], sinks, with_sites=number == 0)
    return total.result(sinks)


class ActiveEvidenceSum:
    """The sum of `log_evidence` over rows, which are added some at a time. Sums of different rows can be added.

    The rows with sites, as returned by the function `with_sites`, must be in one of the sums, and be the first there.
    """

    def __init__(self, q: ActivePosterior, likelihood, derivatives: bool):
        self._q, self._likelihood, self._derivatives = q, likelihood, derivatives
        self._total, self._slopes, self._in_sites = 0.0, np.zeros(len(likelihood.theta)), Sites.zeros(len(q.at))
        self._gradients = [EvidenceGradient(part) for part in q.parts] if derivatives else []

    def add(self, seen: RowMarginals, y: np.ndarray, sinks: Sequence[Sink] | None, with_sites: bool = False) -> None:
        """Add some rows with targets y. The derivatives in their covariances go to `sinks`."""
        q = self._q
        value, slope, curvature = tilted(self._likelihood, y, seen.mean, seen.var)
        if with_sites:
            self._total += q.log_partition
        self._total += float(np.sum(value))
        if with_sites:
            for part in q.parts:
                mean, var = part.cavity()
                self._total -= float(np.sum(log_partition_1d(mean, var, part.sites)))
        if not self._derivatives:
            return
        assert sinks is not None, "derivatives need sinks"
        self._slopes += theta_slopes(self._likelihood, y, seen)
        if with_sites:
            moments = [(slope[:, c], curvature[:, c]) for c in range(q.n_latents)]
            self._gradients = [_at_sites(q, c, *moments[c], self._in_sites) for c in range(q.n_latents)]
        for c, (bare, part) in enumerate(seen.blocks):
            if not len(part.mean):
                continue
            d1, d2 = slope[bare, c], curvature[bare, c]
            G, g = self._gradients[c].add(part, d1, 0.5 * (d1**2 + d2))
            sinks[c].cross(q.active[c], seen.rows[bare], G, part.K)
            sinks[c].diag(seen.rows[bare], g)

    def result(self, sinks: Sequence[Sink] | None) -> ActiveEvidence:
        """Return the sum. The derivatives in the covariances among active rows go to `sinks`."""
        for c, gradient in enumerate(self._gradients):
            sinks[c].gram(self._q.active[c], gradient.gram)  # type: ignore[index]
            mine = self._q.at.latents == c
            self._in_sites.tau[mine] += gradient.in_tau
            self._in_sites.nu[mine] += gradient.in_nu
        return ActiveEvidence(self._total, self._slopes, self._in_sites)


def theta_slopes(likelihood, y: np.ndarray, seen: RowMarginals) -> np.ndarray:
    """Return the (p,) derivatives of Σ log Z_i in the likelihood's parameters. (12)"""
    if not len(likelihood.theta):
        return np.zeros(0)
    mean, var = (seen.mean, seen.var) if likelihood.n_latents > 1 else (seen.mean[:, 0], seen.var[:, 0])
    return of_targets(likelihood, y).tilted_theta(y, mean, var).sum(1)


def walk(
    q: ActivePosterior,
    covariances: Sequence[Columns],
    prior_var: np.ndarray,
    rows: np.ndarray | None = None,
    numbers: int = MEMORY,
) -> Iterator[RowMarginals]:
    """Yield the rows with sites, then those of `rows` (default all) without, block by block."""
    yield with_sites(q, covariances, prior_var)
    rest = np.setdiff1d(np.arange(len(prior_var)) if rows is None else rows, q.rows)
    yield from without_sites(q, covariances, prior_var, rest, numbers)


def without_sites(
    q: ActivePosterior, covariances: Sequence[Columns], prior_var: np.ndarray, rest: np.ndarray, numbers: int = MEMORY
) -> Iterator[RowMarginals]:
    """Yield the rows `rest`, which have no sites, block by block."""
    for part in blocks(len(rest), max(1, *(len(active) for active in q.active)), numbers, least=16):
        some = rest[part]
        parts = [block(q.parts[c], k, q.active[c], some, prior_var[some, c]) for c, k in enumerate(covariances)]
        bare = np.arange(len(some))
        mean, var = (np.stack([getattr(p, name) for p in parts], axis=1) for name in ("mean", "var"))
        yield RowMarginals(some, mean, var, [(bare, p) for p in parts])


def with_sites(q: ActivePosterior, covariances: Sequence[Columns], prior_var: np.ndarray) -> RowMarginals:
    """Return the rows with sites: cavities for the functions with a site there, marginals for the others."""
    mean, var = np.empty((2, len(q.rows), q.n_latents))
    bare_blocks = []
    for c, part in enumerate(q.parts):
        bare = np.setdiff1d(np.arange(len(q.rows)), q.positions[c])
        others = block(part, covariances[c], q.active[c], q.rows[bare], prior_var[q.rows[bare], c])
        mean[q.positions[c], c], var[q.positions[c], c] = part.cavity()
        mean[bare, c], var[bare, c] = others.mean, others.var
        bare_blocks.append((bare, others))
    return RowMarginals(q.rows, mean, var, bare_blocks)


def _at_sites(
    q: ActivePosterior, c: int, slope: np.ndarray, curvature: np.ndarray, in_sites: Sites
) -> EvidenceGradient:
    """C.2: with kept = 1 - τ var, ρ = (slope - α)/kept and -Δ/l² = (curvature + τ kept)/kept²; both 0 if EP has converged.

    The direct effect of a site on its row, at fixed marginals, goes to `in_sites`: the derivative of log Z_i - log Z̃_i
    through the cavity, whose mean changes by -var dν + var mean dτ and whose variance by var² dτ.
    """
    part, d1, d2 = q.parts[c], slope[q.positions[c]], curvature[q.positions[c]]
    mean, var = part.cavity()
    kept = part.var / var
    lead, bend = d1 - part.alpha, d2 + part.sites.tau * kept
    mine = q.at.latents == c
    in_sites.nu[mine] = -lead * var
    in_sites.tau[mine] = lead * var * mean + 0.5 * (d1**2 - part.alpha**2 + bend) * var**2
    rho = lead / kept
    return EvidenceGradient(part, rho, 0.5 * (rho**2 + bend / kept**2))
