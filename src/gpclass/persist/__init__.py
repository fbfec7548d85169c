"""Models on disk: `save(model, "iris.gpclass")`, `load("iris.gpclass")`.

A model file is a zip of JSON and `.npy` arrays, described in docs/model_format.md. Nothing in it is code: loading makes
objects of known classes only (`registry`), from plain data (`tree`), after all checksums agree (`archive`), and then asks
the model for predictions that the file also holds (`probe`).
"""

from __future__ import annotations

import os
from typing import Any

from . import archive
from .archive import is_model
from .errors import ModelFileError
from .probe import check_fitted, disagreement, expected
from .tree import decode, encode

__all__ = ["ModelFileError", "is_model", "load", "save"]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted GPClassifier or GPRegressor, or a scikit-learn Pipeline that ends in one, to a file.

    Predictions of the loaded model are the same to the last bit. What is no data (functions, classes of your own) is
    refused by name. An existing file is replaced, but only by a whole one.
    """
    check_fitted(model)
    document, arrays = encode({"model": model, "probe": expected(model)})
    archive.write(path, document, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """The model in a file that `save` wrote. Raises ModelFileError if it is none, or not whole, or of a newer format."""
    document, arrays = archive.read(path)
    try:
        content = decode(document, arrays)
        model, stored = content["model"], content["probe"]
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from error
    except (TypeError, LookupError, ValueError, AttributeError, OverflowError, RecursionError, MemoryError) as error:
        raise ModelFileError(f"{os.fspath(path)} is damaged: it holds no model ({type(error).__name__})") from error
    if problem := disagreement(model, stored):
        raise ModelFileError(f"{os.fspath(path)} is damaged, or this version of gpclass reads it differently: {problem}")
    return model
