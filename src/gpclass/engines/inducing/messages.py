"""Rules applied to some rows, block by block: messages, the derivatives of the evidence, and cavities.

[VC] Villacampa-Calvo 2017, chapter 5 and appendix B.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from ...gaussian.low_rank import LowRankMoments, LowRankPosterior, LowRankPrior, Marginals, Rows, widened
from ...gaussian.low_rank_matrices import GradientSum
from ..fit import squeezed
from ..observations import Data
from .step import RowSites

MIN_PRECISION_LEFT = 1e-2  # smallest fraction of a marginal's precision that is left without the row's own sites


class RowBlocks(Protocol):
    """Features of rows, which are stored (`Rows`) or computed when they are needed."""

    def blocks(self, width: int) -> Iterator[tuple[slice, Rows]]:
        """Yield the rows block by block, with their range. `width` is the number of temporary numbers for each row."""


Messages = Iterator[tuple[slice, Marginals, Data, Any]]


def messages(
    engine: Any,
    source: LowRankMoments,
    rows: RowBlocks,
    data: Data,
    likelihood: Any,
    sites: RowSites,
    n_total: float,
    slopes: bool = False,
) -> Messages:
    """Yield, block by block, the range of some rows, their marginals under `source`, their targets and the rule's result.

    The result is that for one copy of each row; `n_total` is the weight of all rows. `slopes` is whether derivatives
    (`RowDerivatives`) will be computed.
    """
    rule = engine.rule(likelihood, n_total)
    for some, block in rows.blocks(source.mu.size):
        at, part = source.marginals(block, slopes), data.some(some)
        yield some, at, part, rule(at, part.y, {name: site[some] for name, site in sites.items()})


def cavities(
    engine: Any, q: LowRankPosterior, rows: Rows, data: Data, likelihood: Any, sites: RowSites, n_total: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and (co)variances of f at training rows without a copy of their own sites: (m,), (m, C) or (m, C, C).

    A row of weight below one is left out entirely. With power EP a copy consists of 1/part parts.
    """
    found, source = [], engine.source(q, n_total, likelihood)
    for _, at, part, each in messages(engine, source, rows, data, likelihood, sites, n_total):
        g, message = at if source is q else q.marginals(at.rows), each.times(np.minimum(part.weight, 1 / engine.part))
        mean, spread = g.without(message.tau, message.nu, MIN_PRECISION_LEFT)
        found.append((mean, widened(spread, engine.rest(g, likelihood))))
    means, spreads = zip(*found, strict=True)
    return squeezed(np.concatenate(means)), squeezed(np.concatenate(spreads))


class RowDerivatives:
    """Derivatives of the evidence in what rows contribute to it, with fixed sites.

    `inner` is the sum of the rows in the derivative in K_uu (see `GradientSum`), and `theta` the derivative in the
    parameters of the likelihood. Both add up over parts of the rows.
    """

    def __init__(self, prior: LowRankPrior, likelihood: Any):
        self._sum = GradientSum(prior)
        self.theta = np.zeros(len(likelihood.theta))

    @property
    def inner(self) -> np.ndarray:
        return self._sum.inner

    def add(self, found: Messages) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Add rows, and yield their range and their derivatives in K_fu (1 or C, m, M) and k_diag (1 or C, m)."""
        for some, at, data, each in found:
            message = each.times(data.weight)
            self.theta += message.theta.sum(1)
            yield some, *self._sum.add(at, message.slope, message.spread, message.excess)
