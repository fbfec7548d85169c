"""Latent moments that go into a model file beside the model, so that a reader can tell whether it reads it rightly.

They are taken at a few of the rows that the model rests on. Latent moments and not probabilities: these also depend on
integrals, which later versions may compute better. Of a pipeline's first steps the file holds what they make of an example.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from ..engines.iterate import COARSE
from ..estimator import GPClassifier
from ..kernels.per_class import covariances_with
from ..numerics.separable import classes_of, inputs_of
from ..regressor import GPRegressor

ROWS = 3
SMALL = 1e-6  # of the prior's standard deviation: variances are known to some 1e3 eps of it, deviations to the root of that


def check_fitted(model: Any) -> None:
    """Raise unless this is a model that can be saved."""
    last = _last(model)
    if not isinstance(last, (GPClassifier, GPRegressor)):
        raise TypeError(
            f"a model is a GPClassifier, a GPRegressor or a Pipeline that ends in one, not {type(last).__name__}"
        )
    check_is_fitted(last, "posterior_")


def expected(model: Any) -> dict[str, Any]:
    """What to compare with after reading: latent means and standard deviations, and an example after the first steps."""
    example = example_of(model) if isinstance(model, Pipeline) else None
    front = None if example is None else np.asarray(model[:-1].transform(example), float)
    return {"latent": _moments(_last(model), own_rows(_last(model)))[0], "front": front}


def disagreement(model: Any, stored: Any) -> str:
    """Empty if the model answers as the file says, else what is wrong.

    Means and standard deviations may differ by what rounding may do to a converged posterior on another machine: COARSE
    standard deviations, above which engines warn. And by `SMALL` of the prior's: a variance is what is left of the prior's.
    """
    last = _last(model)
    now, prior_sd = _moments(last, own_rows(last))
    before = np.asarray(stored["latent"], float)
    if before.shape != now.shape or not np.all(np.abs(before - now) <= COARSE * now[1] + SMALL * prior_sd):
        return "its latent values are not those that were stored with it"
    front, front_before = expected(model)["front"], stored["front"]
    if front is None:
        return ""
    _moments(last, front)  # the last step must take what the others make
    same = front.shape == np.shape(front_before) and np.allclose(front, front_before, rtol=SMALL, atol=SMALL)
    return "" if same else "its first steps do not make of an example what they made when it was stored"


def own_rows(model: Any) -> np.ndarray:
    """A few of the inputs that predictions rest on."""
    inputs = np.asarray(model.inputs_, float)
    inputs = inputs.reshape(-1, inputs.shape[-1])
    return inputs[np.unique(np.linspace(0, len(inputs) - 1, ROWS).astype(int))]


def _moments(model: Any, X: np.ndarray) -> tuple[np.ndarray, float]:
    """(2, m) or (2, m, C) latent means and standard deviations, and the prior's largest standard deviation.

    Where each draw has a kernel of its own they are those of the first: all of them would take a factorisation each.
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
    """A row that the pipeline can take, made from what its first step knows; None if that is too little."""
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
    """Put a level of each categorical column in its place; False if columns are given in a way that is not looked into."""
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
