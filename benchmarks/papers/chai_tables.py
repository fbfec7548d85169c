"""Tables of Chai 2012."""

from __future__ import annotations

import numpy as np

import chai
import chai_sparse

from .data import found
from .rows import Keeper, of_splits


def chai_3(keep: Keeper, full: bool) -> None:
    """Table 3: evidence, errors and log probabilities of the full model with a kernel of variance one."""
    splits = 50 if full else 3
    for name, values in chai.collect(chai.table_3, found(chai.DATA), splits, 2, 100_000 if full else 0).items():
        for measure, ours, theirs in zip(chai.ROWS_3, values.T, chai.TABLE_3[name], strict=True):
            if not np.isnan(ours).all():
                keep(name, measure, ours.mean(), theirs[0], of_splits(theirs[1], len(ours), 50), _direction(measure))


def chai_4(keep: Keeper, full: bool) -> None:
    """Table 4: errors of the full model, lengthscale and variance learned."""
    for name, values in chai.collect(chai.table_4, found(chai.DATA), 50 if full else 3, 2).items():
        theirs = chai.TABLE_4[name]
        keep(name, "errors", values[:, 0].mean(), theirs[0], of_splits(theirs[1], len(values), 50))


def chai_5(keep: Keeper, full: bool) -> None:
    """Table 5: errors with as many inducing variables as the paper had, chosen its way and ours."""
    splits = 50 if full else 2
    names = found(chai.DATA if full else ("iris", "wine"))
    for name, values in chai.collect(chai_sparse.table_5, names, splits, 2, splits).items():
        theirs = chai_sparse.TABLE_5[name][0]
        error = of_splits(theirs[1], len(values), 50)
        for column, way in ((0, "its way"), (2, "own way")):
            keep(f"{name}, {way}", "errors", values[:, column].mean(), theirs[0], error)


def _direction(measure: str) -> str:
    return "lower" if measure == "errors" else "higher"


TABLES = {"chai-3": chai_3, "chai-4": chai_4, "chai-5": chai_5}
