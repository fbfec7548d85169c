"""Kernels with their own parameters, as opposed to sums and products of kernels."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array
from .base import Kernel, MatrixKernel
from .parameters import Parameter, Positive, split_label
from .settings import check_settings

Self = TypeVar("Self", bound="Leaf")
Scaled = TypeVar("Scaled", bound="WithLengthscale")


class Leaf(MatrixKernel):
    """A kernel with positive parameters, which its class declares with `Positive`.

    Parameters
    ----------
    bounds : mapping of str to pairs of float, or None
        Bounds of parameters, as values. The default is a factor of 1e5 to either side of the value.
    **values : float or array_like
        The value of each parameter, in the order of theta.
    """

    _parameters: dict[str, Parameter]
    variance = Positive()

    def __init__(self, bounds: Mapping[str, Any] | None, **values: Any) -> None:
        bounds = dict(bounds or {})
        unknown = set(bounds) - set(values)
        if unknown:
            raise ValueError(f"bounds name {sorted(unknown)}, but {type(self).__name__} has {sorted(values)}.")
        self.__dict__["_parameters"] = {
            name: Parameter.make(name, value, bounds.get(name), getattr(type(self), name).may_be_vector)
            for name, value in values.items()
        }

    def declared(self) -> dict[str, Any]:
        """Return the constructor arguments that give this kernel, including bounds and fixed parameters."""
        names = [name for name in inspect.signature(type(self)).parameters if name != "bounds"]
        return {name: self._parameters[name] if name in self._parameters else getattr(self, name) for name in names}

    def settings(self) -> dict[str, Any]:
        return {name: v.value if isinstance(v, Parameter) else v for name, v in self.declared().items()}

    def with_settings(self: Self, **settings: Any) -> Self:
        declared = self.declared()
        check_settings(self, settings, declared)
        for name, value in settings.items():
            p = self._parameters.get(name)
            declared[name] = value if p is None else p.with_value(name, value, getattr(type(self), name).may_be_vector)
        return type(self)(**declared)

    @property
    def theta(self) -> Array:
        return np.concatenate([p.log_free for p in self._parameters.values()])

    @property
    def names(self) -> list[str]:
        return [
            label for name, p in self._parameters.items() for label, free in zip(p.labels(name), p.free, strict=True) if free
        ]

    @property
    def bounds(self) -> Array:
        return np.concatenate([p.bounds_free for p in self._parameters.values()])

    def with_theta(self: Self, theta: ArrayLike) -> Self:
        sizes = [sum(p.free) for p in self._parameters.values()]
        pieces = split_theta(theta, sizes, self)
        return self._with({name: p.moved(t) for (name, p), t in zip(self._parameters.items(), pieces, strict=True)})

    def fix(self: Self, *names: str) -> Self:
        return self._marked(names, False)

    def free(self: Self, *names: str) -> Self:
        return self._marked(names, True)

    def off(self) -> Array | None:
        return self._at_bound("variance", 0)

    def _at_bound(self, name: str, side: int) -> Array | None:
        """Return theta with a parameter at its lower (0) or upper (1) bound; None if it does not exist or is fixed."""
        if name not in self._parameters or not all(self._parameters[name].free):
            return None
        moved = {n: p.bounds_free[:, side] if n == name else p.log_free for n, p in self._parameters.items()}
        return np.concatenate(list(moved.values()))

    def _marked(self: Self, labels: tuple[str, ...], free: bool) -> Self:
        parameters = dict(self._parameters)
        for label in labels:
            if not self._has_parameter(label):
                raise ValueError(f"{type(self).__name__} has no parameter {label!r}; it has {list(self._parameters)}.")
            name, index = split_label(label)
            parameters[name] = parameters[name].marked(index, free)
        return self._with(parameters)

    def _all_names(self) -> list[str]:
        return list(self._parameters)

    def _has_parameter(self, name: str) -> bool:
        return name in self._parameters or any(name in p.labels(own) for own, p in self._parameters.items())

    def _with(self: Self, parameters: dict[str, Parameter]) -> Self:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__, _parameters=parameters)
        return new

    def _gradient(self, slopes: Mapping[str, Any]) -> Array:
        """Return the gradient in theta, given the derivatives in the log of each parameter (0 if not given)."""
        chosen = []
        for name, p in self._parameters.items():
            slope = np.atleast_1d(slopes.get(name, 0.0))
            slope = np.broadcast_to(slope, len(p.values)) if p.is_vector else slope.sum(keepdims=True)
            chosen.append(slope[list(p.free)])
        return np.concatenate(chosen)

    def __hash__(self) -> int:
        return hash((type(self), *self._parameters.items()))

    def __repr__(self) -> str:
        settings = {name: value for name, value in self.__dict__.items() if not name.startswith("_")}
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in (settings | self._parameters).items())})"


class WithLengthscale(Leaf):
    """A kernel with a lengthscale. With `ard=True` it becomes one for each column once their number is known."""

    lengthscale = Positive(may_be_vector=True)

    def __init__(self, bounds: Mapping[str, Any] | None, ard: bool = False, **values: Any) -> None:
        super().__init__(bounds, **values)
        p = self._parameters["lengthscale"]
        if p.per_column != (ard and not p.is_vector):
            self._parameters["lengthscale"] = replace(p, per_column=not p.per_column)

    @property
    def ard(self) -> bool:
        """Whether there will be one lengthscale per input column once their number is known; see `for_columns`."""
        return self._parameters["lengthscale"].per_column

    def for_columns(self: Scaled, n_columns: int) -> Scaled:
        p = self._parameters["lengthscale"]
        return self._with(self._parameters | {"lengthscale": p.for_columns(n_columns)}) if p.per_column else self

    def _check_columns(self, X: Array) -> None:
        p = self._parameters["lengthscale"]
        if p.per_column:
            raise ValueError(
                f"the number of columns of {self!r} is not set; use kernel.for_columns({X.shape[1]}), as estimators do."
            )
        if p.is_vector and len(p.values) != X.shape[1]:
            raise ValueError(
                f"lengthscale has {len(p.values)} values but the inputs have {X.shape[1]} columns; "
                "give one number, or one per column."
            )


class LengthscaleAndVariance(WithLengthscale):
    """A kernel whose parameters are its lengthscale and its variance."""

    def __init__(
        self,
        lengthscale: ArrayLike = 1.0,
        variance: float = 1.0,
        *,
        ard: bool = False,
        bounds: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(bounds, ard, lengthscale=lengthscale, variance=variance)


class VarianceOnly(Leaf):
    """A kernel whose only parameter is its variance, a factor on all values.

    Parameters
    ----------
    variance : float, default=1.0
        The variance σ_f².
    bounds : mapping of str to pairs of float, optional
        Bounds of the parameters, as values.
    """

    def __init__(self, variance: float = 1.0, *, bounds: Mapping[str, Any] | None = None) -> None:
        super().__init__(bounds, variance=variance)

    def _variance_gradient(self, X: Any, Z: Any, G: Array, value: Array | None) -> Array:
        """Return the gradient in theta; `value` is k(X) or k(X, Z) if it is known."""
        return self._gradient({"variance": np.vdot(G, self._matrix(X, Z) if value is None else value)})

    def _pullback_diagonal(self, X: Any, g: Array) -> tuple[Array, Array]:
        return self._gradient({"variance": g @ self._diagonal(X)}), np.zeros_like(X)


def split_theta(theta: ArrayLike, sizes: list[int], kernel: Kernel) -> list[Array]:
    """Split theta into pieces of the given sizes, or raise ValueError if it has another length."""
    theta = np.asarray(theta, dtype=np.float64)
    if theta.shape != (sum(sizes),):
        raise ValueError(f"theta needs {sum(sizes)} log values, one for each of {kernel.names}; got shape {theta.shape}.")
    ends = list(accumulate(sizes, initial=0))
    return [theta[i:j] for i, j in pairwise(ends)]
