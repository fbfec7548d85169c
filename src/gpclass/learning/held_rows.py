"""Class probabilities of held-out rows, or of training rows without their own sites, to calibrate a minibatch run."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engines.inducing.step import RowSites
from ..engines.inducing.sweep import cavities
from ..engines.observations import Observed, data_of
from .calibration import LeftOut
from .inducing import InducingKernel
from .streams import Source, codes
from .streams.order import HELD_OUT_SEED
from .trainer import Trainer

CALIBRATION_ROWS = 2000  # largest number of rows: the calibration has only two parameters


def left_out_of_run(run: Trainer, source: Source) -> LeftOut:
    """Return log class probabilities of the held-out rows of a run, or of some training rows without their own sites.

    Without held-out rows, `source` must have the training rows in the order of the run. Sites that the engine does not keep
    are computed again.
    """
    model = run.model()
    if run.held is not None:
        (X, place), weight = run.held, run.held_weight
        log_p = model.log_class_probabilities(X)
    else:
        some = next(iter(source.batches(min(CALIBRATION_ROWS, source.n_rows), (run.seed, HELD_OUT_SEED))))
        (X, labels, _, weight), sites = run.rows_of(some)
        place = codes(labels, run.labels)
        y = model.likelihood.check_targets(model.likelihood.class_targets[place])
        targets = y if weight is None else Observed(y, weight)
        log_p = model.likelihood.log_class_probabilities(*_without_own_sites(run, model, X, targets, sites))
    return LeftOut(log_p, place, weight, held_out=run.held is not None)


def _without_own_sites(run: Trainer, model: Any, X: np.ndarray, y: Any, kept: RowSites):
    engine, likelihood, q = run.engine, model.likelihood, model.posterior
    K_fu, k_diag = InducingKernel(model.kernel, model.Z).cross(X)
    rows = q.prior.rows(K_fu, k_diag + engine.noise(likelihood))
    sites = kept or engine.row_sites(len(y), likelihood)
    total = run.n_rows if run.weight is None else run.weight
    return cavities(engine, q, rows, data_of(engine, y, likelihood), likelihood, sites, total)
