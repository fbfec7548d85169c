"""Adds new rows to an active set without its old data: assumed-density filtering, batch by batch.

New rows are included as in a selection, starting from the posterior of the current sites. Then sites are removed until the
set has its size again. Each time the site with the smallest KL(q ‖ q without it) is removed. This is the divergence between
its row's marginal and cavity, as for an inclusion.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...gaussian import ActivePosterior, ActiveSites, Columns, Sites
from .candidates import Candidates
from .selection import sizes


def updated(settings, covariances: Sequence[Columns], y, likelihood, at: ActiveSites, n_old: int) -> ActiveSites:
    """Return the sites after adding the rows from `n_old` on, at most `settings.active` of them."""
    pool = Candidates(settings, covariances, y, likelihood)
    pool.restore(at)
    pool.taken[:n_old] = True  # old rows are not candidates
    total, most = sizes(settings.active, len(covariances))
    closed = np.zeros(len(covariances), bool)
    for _ in range(min((len(y) - n_old) * len(covariances), total)):
        new = pool.best(closed)
        if new is None:
            break
        pool.add(new)
    return pruned(covariances, pool.sites(), total, most)


def pruned(covariances: Sequence[Columns], at: ActiveSites, total: int, most: Sequence[int]) -> ActiveSites:
    """Remove the least informative sites: keep `total` sites, and at most `most[c]` of latent function c."""
    q = ActivePosterior(covariances, at)
    parts = [_Shrinking(p.mean, p.covariance() if len(p.mean) else np.zeros((0, 0)), p.sites) for p in q.parts]
    while True:
        crowded = [c for c, part in enumerate(parts) if part.count > most[c]]
        if not crowded and sum(part.count for part in parts) <= total:
            break
        losses = {c: part.losses() for c, part in enumerate(parts) if part.count and (not crowded or c in crowded)}
        c = min(losses, key=lambda c: losses[c].min())
        parts[c].remove(int(np.argmin(losses[c])))
    kept = np.zeros(len(at), bool)
    for c, part in enumerate(parts):
        kept[np.flatnonzero(at.latents == c)[part.inside]] = True
    return ActiveSites(at.rows[kept], at.latents[kept], Sites(at.sites.tau[kept], at.sites.nu[kept]))


class _Shrinking:
    """Marginals of the active rows while sites are removed; V (d, d) is their covariance."""

    def __init__(self, mean: np.ndarray, V: np.ndarray, sites: Sites):
        self.mean, self.V, self.sites = mean.copy(), V, sites
        self.inside = np.ones(len(mean), bool)

    @property
    def count(self) -> int:
        return int(np.sum(self.inside))

    def losses(self) -> np.ndarray:
        """Return KL(q ‖ q without a site) for each site: from N(mean, var) to its cavity."""
        var = np.diagonal(self.V)
        kept = np.maximum(1 - self.sites.tau * var, 1e-12)  # variance divided by the cavity variance
        lead = (self.sites.tau * self.mean - self.sites.nu) * np.sqrt(var / kept)  # offset of the cavity mean, in widths
        return np.where(self.inside, 0.5 * (kept - 1 - np.log(kept) + lead**2), np.inf)

    def remove(self, i: int) -> None:
        column = self.V[:, i].copy()
        kept = max(1 - self.sites.tau[i] * column[i], 1e-12)
        self.mean += (self.sites.tau[i] * self.mean[i] - self.sites.nu[i]) / kept * column
        self.V += (self.sites.tau[i] / kept) * np.multiply.outer(column, column)
        self.inside[i] = False
