"""Tables and figures of Riihimäki, Jylänki & Vehtari 2013."""

from __future__ import annotations

from argparse import Namespace

import riihimaki

from .data import found
from .rows import Keeper


def riihimaki_moments(keep: Keeper, full: bool) -> None:
    """Table 1: how far EP and IEP, nested and by quadrature, are from Gibbs sampling."""
    settings = Namespace(seed=0, full=full, jobs=2, gibbs=1000 if full else 150)
    for name in found(("glass", "usps") if full else ("glass",)):
        riihimaki.run_table(name, settings, keep)


def riihimaki_predictive(keep: Keeper, full: bool) -> None:
    """Section 5.5: differences from EP in log predictive density, of which the paper has pictures and words."""
    names = found(riihimaki.SETS if full else ("wine", "new_thyroid"))
    settings = Namespace(seed=0, full=full, jobs=2, folds=10 if full else 3, starts=3 if full else 1, mcmc=0)
    results = riihimaki.run_sets(names, settings)
    for claim, holds in riihimaki.predictive_claims(results).items():
        keep.claim(claim, holds)


TABLES = {"riihimaki-1": riihimaki_moments, "riihimaki-5.5": riihimaki_predictive}
