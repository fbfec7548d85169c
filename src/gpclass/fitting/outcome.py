"""What was learned, as attributes of a classifier, and the calibration of its class probabilities."""

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
    """Fit the calibration to rows that were predicted without themselves, if `left_out` returns any."""
    rows = None if model.calibrate is None else _left_out(left_out)
    model.calibration_ = Calibration() if rows is None else Calibration.fitted(rows)


def _left_out(left_out: Callable[[], LeftOut | None]) -> LeftOut | None:
    """Return `left_out()`; None if Ctrl-C ends it and the caller wants what was learned."""
    try:
        with phase("leave-one-out probabilities, for calibration"), warnings.catch_warnings():
            # of `loo` with draws: the calibration has two parameters only
            warnings.filterwarnings("ignore", "leave-one-out probabilities of", UserWarning)
            return left_out()
    except KeyboardInterrupt:
        if not stops_here("the search, before the calibration"):
            raise
        return None
