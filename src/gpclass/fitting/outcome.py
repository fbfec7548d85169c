"""The fitted attributes of a classifier, and the calibration of its class probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..learning import Calibration, Learned, LeftOut, Mixture
from ..progress import phase, stops_here


def conclude(model: Any, learned: Learned, engine: Any, mixture: Mixture | None = None) -> None:
    """Set the fitted attributes. With a mixture they describe its heaviest member, except `members_`."""
    model._set_learned(learned, engine, model.row_map_)
    model._mixture, model._members, model._trainer = mixture, [], learned.trainer
    if mixture is not None:
        best = mixture.best
        model.posterior_, model.kernel_, model.likelihood_ = best.posterior, best.kernel, best.posterior.likelihood
    model.fitted_with_ = {"kernel": model.kernel, "likelihood": model.likelihood}
    for name in ("rows_", "log_evidence_"):  # of an earlier fit; samplers have no evidence
        model.__dict__.pop(name, None)
    if not engine.draws:
        model.log_evidence_ = model.posterior_.log_evidence


def calibrate(model: Any, left_out: Callable[[], LeftOut | None]) -> None:
    """Fit the calibration to rows that were predicted without themselves, if `left_out` returns any.

    After Ctrl-C there is no calibration, if the caller keeps the best result (`progress.keeping_best`).
    """
    model.calibration_ = Calibration()
    if model.calibrate is None:
        return
    try:
        with phase("leave-one-out probabilities, for calibration"), warnings.catch_warnings():
            # warnings of `loo` with draws do not matter for a calibration with two parameters
            warnings.filterwarnings("ignore", "leave-one-out probabilities of", UserWarning)
            rows = left_out()
    except KeyboardInterrupt:
        if not stops_here("the search, before the calibration"):
            raise
        return
    if rows is not None:
        model.calibration_ = Calibration.fitted(rows)
