"""New rows for an active set whose other rows are gone: assumed-density filtering, batch by batch.

New rows are included as in a selection, from the posterior that the sites so far have made. Then sites are taken out until
the set has its size again, each time the one whose absence the posterior would notice least: KL(q ‖ q without it), which is
that of its own row's marginal from its cavity, as for an inclusion.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...gaussian import ActivePosterior, ActiveSites, Columns, Sites
from .selection import Candidates, sizes


def updated(settings, covariances: Sequence[Columns], y, likelihood, at: ActiveSites, n_old: int) -> ActiveSites:
    """Sites after the rows from `n_old` on have come, at most `settings.active` of them."""
    pool = Candidates(settings, covariances, y, likelihood)
    pool.restore(at)
    pool.taken[:n_old] = True  # old rows had their chance
    total, most = sizes(settings.active, len(covariances))
    closed = np.zeros(len(covariances), bool)
    for _ in range(min((len(y) - n_old) * len(covariances), total)):
        pool.refresh()
        best, i, c = pool.best(closed)
        if best == np.inf:
            break
        pool.include(i, c)
    return pruned(covariances, pool.sites(), total, most)


def pruned(covariances: Sequence[Columns], at: ActiveSites, total: int, most: Sequence[int]) -> ActiveSites:
    """The sites without the least informative ones, `total` of them, and for each latent function no more than its most."""
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
    """Marginals of active rows while sites are taken out; V (d, d) is their covariance."""

    def __init__(self, mean: np.ndarray, V: np.ndarray, sites: Sites):
        self.mean, self.V, self.sites = mean.copy(), V, sites
        self.inside = np.ones(len(mean), bool)

    @property
    def count(self) -> int:
        return int(np.sum(self.inside))

    def losses(self) -> np.ndarray:
        """KL(q ‖ q without a site) for each of them: of N(mean, var) from its cavity."""
        var = np.diagonal(self.V)
        kept = np.maximum(1 - self.sites.tau * var, 1e-12)  # var over the cavity's
        lead = (self.sites.tau * self.mean - self.sites.nu) * np.sqrt(var / kept)  # of the cavity's mean, in its widths
        return np.where(self.inside, 0.5 * (kept - 1 - np.log(kept) + lead**2), np.inf)

    def remove(self, i: int) -> None:
        column = self.V[:, i].copy()
        kept = max(1 - self.sites.tau[i] * column[i], 1e-12)
        self.mean += (self.sites.tau[i] * self.mean[i] - self.sites.nu[i]) / kept * column
        self.V += (self.sites.tau[i] / kept) * np.multiply.outer(column, column)
        self.inside[i] = False
