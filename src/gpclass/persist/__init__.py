"""Models on disk: `save(model, "iris.gpclass")`, `load("iris.gpclass")`.

A model file is a zip of JSON and `.npy` arrays, described in docs/model_format.md. It contains constructor arguments, the
attributes learned by `fit`, labels and sites. Loading first verifies all checksums (`archive`). Then it calls the
constructors of registered classes (`registry`) with plain data (`tree`) and rebuilds the posterior from kernel, inputs and
sites (`models`). Finally it compares latent moments of the model with those in the file (`probe`). A file contains no code.

Why not skops: it stores the private attributes of objects under their module paths, so refactoring breaks files. Why not
safetensors: it stores arrays without text, labels or structure. Zip and `.npy` need no new dependency.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from . import archive
from .archive import is_model
from .errors import ModelFileError
from .probe import check_fitted, disagreement, expected
from .tree import decode, encode
from .trusted import trusted_types

__all__ = ["ModelFileError", "is_model", "load", "save", "trusted_types"]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file.

    Predictions of the loaded model are the same up to rounding. An existing file is replaced only when the new one is
    complete.

    Parameters
    ----------
    model : GPClassifier, GPRegressor or Pipeline
        A fitted model. A scikit-learn Pipeline must end in a GPClassifier or GPRegressor.
    path : str or path-like
        The file.

    Raises
    ------
    TypeError
        If the model contains a function, or an object of a class that is not registered.
    """
    check_fitted(model)
    archive.write(path, *encode({"model": model, "probe": expected(model)}))


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model in a file that was written by `save`.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    GPClassifier, GPRegressor or Pipeline
        The fitted model.

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged or incomplete, or has another format version.
    """
    shown = os.fspath(path)
    document, arrays = archive.read(path)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            content = decode(document, arrays)
            model, stored = content["model"], content["probe"]
            check_fitted(model)
            problem = disagreement(model, stored)
    except ModelFileError as error:
        raise ModelFileError(f"{shown}: {error}") from error
    except Exception as error:  # any error of a constructor or a posterior is caused by invalid data in the file
        said = " ".join(str(error).split())[:200]
        raise ModelFileError(f"{shown} is damaged: it contains no model ({type(error).__name__}: {said})") from error
    if problem:
        raise ModelFileError(f"{shown} is damaged, or this version of gpclass reads it differently: {problem}")
    return model
