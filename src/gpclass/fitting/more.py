"""Further rows for a fitted classifier: candidates for its active set, or minibatches."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..engines.observations import Observed
from ..inputs import more_data
from ..learning import left_out, trained, update_active
from ..learning.rows import row_weights
from ..learning.streams import codes
from ..learning.validate import TRAINING
from ..numerics.fingerprint import single_precision_fingerprints
from .search import calibrate, conclude


def fit_more(model: Any, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> None:
    """Update a fitted classifier with more rows; see `GPClassifier.partial_fit`."""
    X, y = more_data(model, X, y, dtype=TRAINING)
    _check(model, classes)
    place = codes(y, model.classes_)
    weight = row_weights(place, sample_weight, model.class_weight, model.classes_)
    used = np.arange(len(X)) if weight is None else np.flatnonzero(weight)
    rows = X[used], place[used], None if weight is None else weight[used]
    if model.inference_.design == "active rows":
        _more_candidates(model, *rows, model.n_samples_seen_ + used)
        model.n_samples_seen_ += len(X)
    else:
        _more_minibatches(model, *rows)
    if model.row_fingerprints_ is not None:
        model.row_fingerprints_ = np.concatenate([model.row_fingerprints_, single_precision_fingerprints(X)])


def _check(model: Any, classes: Any) -> None:
    """Raise a ValueError if the classifier cannot take more rows, or if `classes` are not those of the first call."""
    if isinstance(model.class_weight, str):
        raise ValueError(
            "partial_fit sees some of the rows, but class_weight='balanced' needs the class frequencies of all: pass a "
            "dict, or sample_weight"
        )
    if classes is not None and not np.array_equal(np.unique(classes), np.sort(model.classes_)):
        raise ValueError(f"classes are {np.unique(classes).tolist()}, but the first call had {model.classes_.tolist()}")
    if model._mixture is not None:
        raise ValueError("a model with kernel='auto' cannot continue training; pass a kernel, or fit again")


def _more_candidates(
    model: Any, X: np.ndarray, place: np.ndarray, weight: np.ndarray | None, numbers: np.ndarray
) -> None:
    """Update an active set by assumed-density updates; `numbers` are those of the rows among all training rows."""
    y = model.likelihood_.class_targets[place]
    y = y if weight is None else Observed(y, weight)
    numbers = np.concatenate([model.active_indices_, numbers])
    model.posterior_, model.inputs_ = update_active(
        model.inference_, model.kernel_, model.likelihood_, model.posterior_, model.inputs_, np.asarray(X, np.float64), y
    )
    model.row_map_ = None  # `posterior_` has the rows of `rows_`
    model.rows_, model.active_indices_ = numbers, numbers[model.posterior_.rows]
    model.log_evidence_ = model.posterior_.log_evidence
    calibrate(model, partial(left_out, model.posterior_))


def _more_minibatches(model: Any, X: np.ndarray, place: np.ndarray, weight: np.ndarray | None) -> None:
    """Continue the training run."""
    run = model._trainer
    if run is None:
        raise ValueError("this model cannot continue training: model files do not keep the training state; fit again")
    run.extend(X, run.labels[place], weight)
    conclude(model, trained(run), model.inference_)
