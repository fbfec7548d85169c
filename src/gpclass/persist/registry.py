"""Which classes a model file may name: those of gpclass that make up models, and a few of scikit-learn's.

Names are module paths without the package: "kernels.rbf.RBF". A class that moves keeps its old name in `RENAMED`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import lru_cache

AREAS = ("numerics", "kernels", "likelihoods", "gaussian", "inference", "sparse", "learning", "sampling")
MODULES = ("estimator", "regressor", "tables")
SOURCES = ("learning.streams", "learning.files", "learning.checkpoint")  # of rows and runs: models hold none of these
SKLEARN = {
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.compose": ("ColumnTransformer",),
    "sklearn.impute": ("SimpleImputer",),
    "sklearn.preprocessing": ("StandardScaler", "MinMaxScaler", "OneHotEncoder", "FunctionTransformer"),
    "sklearn.gaussian_process.kernels": (
        "RBF",
        "Matern",
        "RationalQuadratic",
        "ConstantKernel",
        "WhiteKernel",
        "DotProduct",
        "ExpSineSquared",
        "Sum",
        "Product",
        "Exponentiation",
    ),
}
RENAMED: dict[str, str] = {}  # name in older files -> name now


@lru_cache(maxsize=1)
def classes() -> dict[str, type]:
    """All classes that a file may name, by name."""
    return {**_ours(), **_theirs()}


@lru_cache(maxsize=1)
def names() -> dict[type, str]:
    return {cls: name for name, cls in classes().items()}


def _ours() -> dict[str, type]:
    root = __name__.split(".")[0]
    modules = [f"{root}.{name}" for name in MODULES]
    for area in AREAS:
        package = importlib.import_module(f"{root}.{area}")
        modules += [info.name for info in pkgutil.walk_packages(package.__path__, f"{root}.{area}.")]
    found = {}
    for name in modules:
        if name.removeprefix(root + ".") in SOURCES:
            continue
        module = importlib.import_module(name)
        for cls in vars(module).values():
            if inspect.isclass(cls) and cls.__module__ == name and not issubclass(cls, BaseException):
                found[f"{name.removeprefix(root + '.')}.{cls.__qualname__}"] = cls
    return found


def _theirs() -> dict[str, type]:
    return {
        f"{module}.{name}": getattr(importlib.import_module(module), name)
        for module, members in SKLEARN.items()
        for name in members
    }
