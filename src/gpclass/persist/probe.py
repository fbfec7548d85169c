"""Predictions that go into a model file beside the model, so that a reader can tell whether it reads it rightly.

They are taken at a few of the rows that the model rests on, and, for a pipeline, at an example of its own input.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from ..estimator import GPClassifier
from ..regressor import GPRegressor
from ..sampling.hyper import HyperDraws

ROWS = 3
TOLERANCE = 1e-6  # other machines and versions of BLAS round otherwise, and iterations make more of it


def check_fitted(model: Any) -> None:
    """Raise unless this is a model that can be saved."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) and model.steps else model
    if not isinstance(last, (GPClassifier, GPRegressor)):
        raise TypeError(
            f"a model is a GPClassifier, a GPRegressor or a Pipeline that ends in one, not {type(last).__name__}"
        )
    check_is_fitted(last, "posterior_")


def expected(model: Any) -> dict[str, Any]:
    """What to compare with after reading: {"rows": answers at own rows, "example": answers to an example or None}."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        rows = _answers(last, own_rows(last), cheap=True)
        if isinstance(model, Pipeline):
            example = example_of(model)
            front = None if example is None else np.asarray(model[:-1].transform(example), float)
            return {"rows": rows, "example": front}
        return {"rows": rows, "example": None}


def disagreement(model: Any, stored: Any) -> str:
    """Empty if the model answers as the file says, else what is wrong."""
    try:
        check_fitted(model)
        now = expected(model)
        for key, answer in now.items():
            if (answer is None) != (stored[key] is None):
                return "it lacks stored predictions"
            if answer is not None and not _close(answer, stored[key]):
                return "its predictions are not those that were stored with it"
        if isinstance(model, Pipeline):
            _answers(model, example_of(model), cheap=isinstance(model.steps[-1][1].posterior_, HyperDraws))
    except Exception as error:  # whatever odd data does to a model, the file is to blame
        return f"the model in it cannot predict ({type(error).__name__}: {str(error)[:200]})"
    return ""


def own_rows(model: Any) -> np.ndarray:
    """A few of the inputs that predictions rest on."""
    inputs = np.asarray(model.inputs_, float)
    inputs = inputs.reshape(-1, inputs.shape[-1])
    return inputs[np.unique(np.linspace(0, len(inputs) - 1, ROWS).astype(int))]


def _answers(model: Any, X: Any, cheap: bool) -> np.ndarray | None:
    if X is None:
        return None
    if cheap and isinstance(getattr(model, "posterior_", None), HyperDraws):
        kernel, member = model.posterior_.members(model.kernel_)[0]  # all of them would take a factorisation each
        logs = member.log_class_probabilities(kernel(model.inputs_, X), kernel.diag(X))
        return np.exp(logs)
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if isinstance(last, GPRegressor):
        return np.stack(last.predict(X, return_std=True)) if model is last else np.asarray(model.predict(X))
    p = np.asarray(model.predict_proba(X))
    if np.shape(last.classes_) != (p.shape[1],):
        raise ValueError(f"{p.shape[1]} class probabilities for classes of shape {np.shape(last.classes_)}")
    return p


def _close(now: np.ndarray, stored: Any) -> bool:
    stored = np.asarray(stored, float)
    return now.shape == stored.shape and bool(np.allclose(now, stored, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True))


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
