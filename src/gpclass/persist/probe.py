"""Latent moments stored in a model file, with which a reader verifies the loaded model.

They are computed at a few of the inputs of the posterior. The file stores latent moments instead of probabilities, because
probabilities also depend on integrals, which later versions may compute more accurately. For the first steps of a pipeline,
the file stores their output for an example row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from ..engines.iterate import MAX_ROUNDING
from ..estimator import GPClassifier
from ..kernels.cross import covariances_with
from ..learning.calibration import UNCALIBRATED, Calibration
from ..numerics.separable import classes_of, inputs_of
from ..regressor import GPRegressor
from ..tables import TableEncoder

ROWS = 3
SMALL = 1e-6  # in prior standard deviations: variances have errors of about 1e3 eps, standard deviations the root of that


def check_fitted(model: Any) -> None:
    """Raise an error unless this is a fitted model that can be saved."""
    last = _last(model)
    if not isinstance(last, (GPClassifier, GPRegressor)):
        raise TypeError(
            f"model must be a GPClassifier, a GPRegressor or a Pipeline that ends in one, not {type(last).__name__}"
        )
    check_is_fitted(last, "posterior_")


def expected(model: Any) -> dict[str, Any]:
    """Return what to compare after reading: latent means and standard deviations, and the transformed example row."""
    example = example_of(model) if isinstance(model, Pipeline) else None
    front = None if example is None else np.asarray(model[:-1].transform(example), float)
    return {"latent": _moments(_last(model), own_rows(_last(model)))[0], "front": front}


def disagreement(model: Any, stored: Any) -> str:
    """Return how the model differs from the stored values; an empty text if it agrees.

    Means and standard deviations may differ by the effect of rounding on a converged posterior on another machine:
    MAX_ROUNDING posterior standard deviations, above which engines warn. They may also differ by `SMALL` prior standard
    deviations, because a variance is computed as a difference from the prior variance.
    """
    last = _last(model)
    if not _has_sound_parts(last):
        return "its calibration or its encoder is damaged"
    now, prior_sd = _moments(last, own_rows(last))
    before = np.asarray(stored["latent"], float)
    if before.shape != now.shape or not np.all(np.abs(before - now) <= MAX_ROUNDING * now[1] + SMALL * prior_sd):
        return "its latent values differ from the stored ones"
    front, front_before = expected(model)["front"], stored["front"]
    if front is None:
        return ""
    _moments(last, front)  # the last step must accept the output of the others
    same = front.shape == np.shape(front_before) and np.allclose(front, front_before, rtol=SMALL, atol=SMALL)
    return "" if same else "its first steps transform an example row differently than when it was stored"


def _has_sound_parts(last: Any) -> bool:
    """Return whether the calibrations and the encoder of the last step are what they should be."""
    mixture = getattr(last, "_mixture", None)
    members = () if mixture is None else mixture.members
    found = [getattr(last, "calibration_", UNCALIBRATED), *(one.calibration for one in members)]
    encoder = getattr(last, "encoder_", None)
    return all(map(_is_sound, found)) and (encoder is None or isinstance(encoder, TableEncoder))


def _is_sound(calibration: Any) -> bool:
    if not isinstance(calibration, Calibration):
        return False
    numbers = calibration.temperature, calibration.noise
    return all(isinstance(one, (int, float)) for one in numbers) and numbers[0] > 0 and 0 <= numbers[1] <= 1


def own_rows(model: Any) -> np.ndarray:
    """Return a few of the inputs used for predictions."""
    inputs = np.asarray(model.inputs_, float)
    inputs = inputs.reshape(-1, inputs.shape[-1])
    return inputs[np.unique(np.linspace(0, len(inputs) - 1, ROWS).astype(int))]


def _moments(model: Any, X: np.ndarray) -> tuple[np.ndarray, float]:
    """Return latent means and standard deviations, (2, m) or (2, m, C), and the largest prior standard deviation.

    If each draw has its own kernel, only the first draw is used, because each draw needs a factorisation.
    """
    kernel, posterior = model.posterior_.members(model.kernel_)[0]
    prior = kernel.diag(X)
    mean, var = posterior.predict(covariances_with(kernel, model.inputs_, X), prior)
    sd = np.sqrt(var if var.ndim == 1 or var.ndim == mean.ndim else np.einsum("mcc->mc", var))
    classes = classes_of(prior)
    largest = np.max(inputs_of(prior)) * (1.0 if classes is None else np.max(classes))
    return np.stack([mean, sd]), float(np.sqrt(largest))


def _last(model: Any) -> Any:
    return model.steps[-1][1] if isinstance(model, Pipeline) and model.steps else model


def example_of(pipeline: Pipeline) -> Any:
    """Return a row that the pipeline accepts, made from attributes of its first step; None if they are not sufficient."""
    first = pipeline.steps[0][1]
    if hasattr(first, "example"):
        return first.example()
    n = getattr(first, "n_features_in_", None)
    if n is None:
        return None
    values: list[Any] = [0.0] * n
    if isinstance(first, OneHotEncoder):
        values = [levels[0] for levels in first.categories_]
    elif isinstance(first, ColumnTransformer) and not _fill_categories(first, values):
        return None
    return _framed(values, getattr(first, "feature_names_in_", None))


def _fill_categories(transformer: ColumnTransformer, values: list[Any]) -> bool:
    """Set each categorical column to one of its levels. Return False if the column specification is not supported."""
    names = list(getattr(transformer, "feature_names_in_", []))
    for _, step, columns in transformer.transformers_:
        encoder = step.steps[-1][1] if isinstance(step, Pipeline) else step
        if not isinstance(encoder, OneHotEncoder):
            continue
        if not isinstance(columns, (list, np.ndarray)) or len(columns) != len(encoder.categories_):
            return False
        for column, levels in zip(columns, encoder.categories_, strict=True):
            values[names.index(column) if isinstance(column, str) else int(column)] = levels[0]
    return True


def _framed(values: list[Any], names: Any) -> Any:
    if names is None:
        return np.array([values], dtype=None if all(isinstance(v, float) for v in values) else object)
    import pandas as pd

    return pd.DataFrame([values], columns=list(names))
