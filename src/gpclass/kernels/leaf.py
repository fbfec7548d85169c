"""A kernel with parameters of its own (as opposed to a sum or product of kernels)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from .base import Array, Kernel
from .parameters import Parameter, Positive, split_label

Self = TypeVar("Self", bound="Leaf")


class Leaf(Kernel):
    """Keeps the parameters that a class declares with `Positive`, in the order of its constructor."""

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

    @property
    def theta(self) -> Array:
        return np.concatenate([p.log_free for p in self._parameters.values()])

    @property
    def names(self) -> list[str]:
        return [
            label
            for name, p in self._parameters.items()
            for label, free in zip(p.labels(name), p.free, strict=True)
            if free
        ]

    @property
    def bounds(self) -> Array:
        return np.concatenate([p.bounds_free for p in self._parameters.values()])

    def with_theta(self: Self, theta: ArrayLike) -> Self:
        sizes = [sum(p.free) for p in self._parameters.values()]
        parts = split_theta(theta, sizes, self)
        return self._with({name: p.moved(t) for (name, p), t in zip(self._parameters.items(), parts, strict=True)})

    def fix(self: Self, *names: str) -> Self:
        return self._marked(names, False)

    def free(self: Self, *names: str) -> Self:
        return self._marked(names, True)

    def off(self) -> Array | None:
        return self._at_bound("variance", 0)

    def _at_bound(self, name: str, side: int) -> Array | None:
        """theta with a parameter at its lower (0) or upper (1) bounds; None if there is none, or a value of it is fixed."""
        if name not in self._parameters or not all(self._parameters[name].free):
            return None
        moved = {n: p.bounds_free[:, side] if n == name else p.log_free for n, p in self._parameters.items()}
        return np.concatenate(list(moved.values()))

    def _marked(self: Self, labels: tuple[str, ...], free: bool) -> Self:
        parameters = dict(self._parameters)
        for label in labels:
            if not self._knows(label):
                raise ValueError(f"{type(self).__name__} has no parameter {label!r}; it has {list(self._parameters)}.")
            name, index = split_label(label)
            parameters[name] = parameters[name].marked(index, free)
        return self._with(parameters)

    def _knows(self, label: str) -> bool:
        return label in self._parameters or any(label in p.labels(name) for name, p in self._parameters.items())

    def _with(self: Self, parameters: dict[str, Parameter]) -> Self:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__, _parameters=parameters)
        return new

    def _gradient(self, parts: Mapping[str, Any]) -> Array:
        """Derivatives in the log of each parameter (0 if not given) as one vector over the free ones."""
        chosen = []
        for name, p in self._parameters.items():
            part = np.atleast_1d(parts.get(name, 0.0))
            part = np.broadcast_to(part, len(p.values)) if p.is_vector else part.sum(keepdims=True)
            chosen.append(part[list(p.free)])
        return np.concatenate(chosen)

    def __hash__(self) -> int:
        return hash((type(self), *self._parameters.items()))

    def __repr__(self) -> str:
        settings = {name: value for name, value in self.__dict__.items() if not name.startswith("_")}
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in (settings | self._parameters).items())})"


def split_theta(theta: ArrayLike, sizes: list[int], kernel: Kernel) -> list[Array]:
    theta = np.asarray(theta, dtype=np.float64)
    if theta.shape != (sum(sizes),):
        raise ValueError(
            f"theta needs {sum(sizes)} log values, one for each of {kernel.names}; got shape {theta.shape}."
        )
    return np.split(theta, np.cumsum(sizes)[:-1])
