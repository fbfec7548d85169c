"""The classes that a model file may contain, each with its kind and public name: {"kernel": "RBF"}, {"engine": "ep"}.

Kernels, likelihoods and engines have the names under which they are registered (`gpclass.register`); all other classes are
listed here. An object is stored as its constructor arguments (`declared`). Loading calls the constructor, which validates
them.
"""

from __future__ import annotations

import dataclasses
import inspect
from functools import lru_cache
from typing import Any

import sklearn.gaussian_process.kernels as sk
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, StandardScaler

from .. import registry
from ..engines.observations import Observed
from ..estimator import GPClassifier
from ..inputs import GivenMatrix, ObjectRows, SparseRows
from ..kernels import ClassCovariance
from ..kernels.parameters import Parameter
from ..learning import Calibration, Flat, Gamma, HalfStudentT, Normal, Pass, RowMap, Step
from ..regressor import GPRegressor
from ..sampling import HMC, EllipticalSlice, Gibbs, ScaledMetropolis
from ..tables import Column, TableEncoder
from .errors import ModelFileError

FURTHER: dict[str, tuple[type, ...]] = {  # by kind; their names are the class names
    "sampler": (HMC, EllipticalSlice, Gibbs, ScaledMetropolis),
    "prior": (Flat, HalfStudentT, Normal, Gamma),
    "record": (
        Calibration, Observed, RowMap, Step, Pass, Column, Parameter, ClassCovariance, GivenMatrix, ObjectRows, SparseRows,
    ),
    "estimator": (
        GPClassifier, GPRegressor, TableEncoder, Pipeline, ColumnTransformer, SimpleImputer, StandardScaler, MinMaxScaler,
        OneHotEncoder, FunctionTransformer,
    ),
    "sklearn_kernel": (
        sk.RBF, sk.Matern, sk.RationalQuadratic, sk.ConstantKernel, sk.WhiteKernel, sk.DotProduct, sk.ExpSineSquared, sk.Sum,
        sk.Product, sk.Exponentiation,
    ),
}  # fmt: skip
KINDS = (*registry.KINDS, *FURTHER)
LOCAL: dict[type, tuple[str, ...]] = {Pipeline: ("memory",)}  # for classes of other packages, see `local_settings`
NOT_STORED: dict[type, tuple[str, ...]] = {  # posteriors are stored separately (`models`); a training run needs its rows
    GPClassifier: ("posterior_", "_trainer", "_mixture", "_members"),
    GPRegressor: ("posterior_",),
}


def name_of(cls: type) -> tuple[str, str] | None:
    """Return kind and name of a class; None if files cannot contain its objects."""
    for kind, some in FURTHER.items():
        if cls in some:
            return kind, cls.__name__
    name = registry.name_of(cls)
    return None if name is None else (cls.kind, name)  # type: ignore[attr-defined]


def class_of(kind: str, name: Any) -> type:
    """Return the class of this kind and name."""
    known = {cls.__name__: cls for cls in FURTHER[kind]} if kind in FURTHER else registry.registered(kind)
    if not isinstance(name, str) or name not in known:
        raise ModelFileError(
            f"it needs the {kind} {repr(name)[:60]}, which is not registered: if it is not part of gpclass, import "
            "the module that registers it (gpclass.register) before loading"
        )
    return known[name]


def classes() -> list[type]:
    """Return all classes whose objects files can contain."""
    ours = [cls for kind in registry.KINDS for cls in registry.registered(kind).values()]
    return [*ours, *(cls for some in FURTHER.values() for cls in some)]


# constructors ---------------------------------------------------------------------------------------------------------


def declared(value: Any) -> dict[str, Any]:
    """Return the constructor arguments of an object, without settings of this machine."""
    cls: Any = type(value)
    if hasattr(value, "declared"):
        return dict(value.declared())
    local = local_settings(cls)
    if missing := [name for name in _parameters(cls) if not hasattr(value, name)]:
        raise TypeError(
            f"this model cannot be saved: {cls.__name__} takes {', '.join(missing)}, but has no such attributes; add a "
            "method declared() that returns the constructor arguments"
        )
    return {name: getattr(value, name) for name in _parameters(cls) if name not in local}


def made(cls: Any, given: dict[str, Any]) -> Any:
    """Return an object of the class, made by its constructor. Missing parameters have their defaults."""
    parameters = _parameters(cls)
    if strange := given.keys() - parameters.keys():
        raise ModelFileError(f"{cls.__name__} has no parameter {', '.join(sorted(strange))[:60]}")
    local, several = local_settings(cls), [name for name, p in parameters.items() if p.kind is p.VAR_POSITIONAL]
    named = {name: part for name, part in given.items() if name not in local and name not in several}
    return cls(*(part for name in several for part in given[name]), **named)


@lru_cache(maxsize=1024)
def _parameters(cls: type) -> dict[str, inspect.Parameter]:
    return {name: p for name, p in inspect.signature(cls).parameters.items() if p.kind is not p.VAR_KEYWORD}


@lru_cache(maxsize=1024)
def local_settings(cls: type) -> tuple[str, ...]:
    """Return the names of settings of the machine on which a model was fitted. Files do not contain and cannot set them.

    Dataclasses mark such fields with `metadata={"local": True}`.
    """
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return (*LOCAL.get(cls, ()), *(f.name for f in fields if f.metadata.get("local")))


def learned(value: BaseEstimator) -> dict[str, Any]:
    """Return the attributes that `fit` has added to an estimator."""
    cls: Any = type(value)
    skipped = {*_parameters(cls), *NOT_STORED.get(cls, ())}
    return {name: part for name, part in vars(value).items() if name not in skipped}


def set_learned(value: BaseEstimator, attributes: dict[str, Any]) -> None:
    """Set learned attributes of an estimator. Raises an error if one would replace a method or a parameter."""
    cls: Any = type(value)
    for name, part in attributes.items():
        standing = inspect.getattr_static(cls, name, None)
        taken = inspect.isroutine(standing) or hasattr(standing, "__get__") or name in _parameters(cls)
        if taken or name.startswith("__") or name in NOT_STORED.get(cls, ()):
            raise ModelFileError(f"{cls.__name__} has no attribute {name[:60]!r} that can be stored")
        setattr(value, name, part)
