"""Models on disk: `save(model, "iris.gpclass")`, `load("iris.gpclass")`.

A model file is a zip of JSON and `.npy` arrays, described in docs/model_format.md. It holds declared state: what
constructors take, what `fit` has learned, labels and sites. Loading calls constructors of registered classes (`registry`)
with plain data (`tree`), after all checksums agree (`archive`), and rebuilds the posterior from kernel, inputs and sites
(`models`); then it asks the model for latent moments that the file also holds (`probe`). Nothing in a file is code.

Not skops: it stores the private layout of objects under their module paths, so that refactoring breaks files. Not
safetensors: it holds arrays without text, labels or structure; zip and `.npy` hold them without a new dependency.
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

__all__ = ["ModelFileError", "is_model", "load", "save"]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted GPClassifier or GPRegressor, or a scikit-learn Pipeline that ends in one, to a file.

    Predictions of the loaded model are the same but for rounding. What is no data (functions), or of a class that was not
    registered, is refused by name. An existing file is replaced, but only by a whole one.
    """
    check_fitted(model)
    archive.write(path, *encode({"model": model, "probe": expected(model)}))


def load(path: str | os.PathLike[str]) -> Any:
    """The model in a file that `save` wrote. Raises ModelFileError if it is none, or not whole, or of another format."""
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
    except Exception as error:  # whatever odd data does to a constructor or a posterior, the file is to blame
        said = " ".join(str(error).split())[:200]
        raise ModelFileError(f"{shown} is damaged: it holds no model ({type(error).__name__}: {said})") from error
    if problem:
        raise ModelFileError(f"{shown} is damaged, or this version of gpclass reads it differently: {problem}")
    return model
