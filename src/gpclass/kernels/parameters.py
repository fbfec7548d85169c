"""Positive parameters of a kernel: one number, or one per input column. Each value has bounds and is free or fixed."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from .arrays import Array

DEFAULT_LOG_WIDTH = np.log(1e5)  # default bounds of a log parameter: this far to either side of the given value


@dataclass(frozen=True)
class Parameter:
    """A positive parameter. Its value, logs and bounds are read with the properties below."""

    values: tuple[float, ...]  # one value, or one per input column
    log_bounds: tuple[tuple[float, float], ...]  # lower and upper bound of the log of each value
    free: tuple[bool, ...]  # whether each value is part of theta
    is_vector: bool  # whether there is one value per input column (there may be only one column)
    per_column: bool = False  # whether the one value is to be repeated for each input column, once their number is known

    @classmethod
    def make(cls, name: str, value: Any, bounds: Any, may_be_vector: bool) -> Parameter:
        """Return a free parameter, or raise ValueError if the value or its bounds are not positive and finite.

        A value that is a Parameter keeps its bounds and what is fixed.
        """
        if isinstance(value, Parameter):
            return value._checked(name, bounds, may_be_vector)
        array = _positive(name, value, may_be_vector)
        values = np.atleast_1d(array)
        default = np.log(values)[:, None] + [-DEFAULT_LOG_WIDTH, DEFAULT_LOG_WIDTH]
        log_bounds = default if bounds is None else _log_bounds(name, bounds, len(values))
        pairs = tuple(map(tuple, log_bounds.tolist()))
        return cls(tuple(values.tolist()), pairs, (True,) * len(values), array.ndim == 1)

    def with_value(self, name: str, value: Any, may_be_vector: bool) -> Parameter:
        """Return the parameter with other values, within its bounds, free or fixed as before."""
        new = Parameter.make(name, value, None, may_be_vector)
        if len(new.values) == len(self.values) and new.is_vector == self.is_vector:
            new = replace(self, values=new.values)
        else:  # one number instead of one per column, or the other way round
            outer = min(low for low, _ in self.log_bounds), max(high for _, high in self.log_bounds)
            size = len(new.values)
            new = replace(new, log_bounds=(outer,) * size, free=(any(self.free),) * size)
        logs, bounds = np.log(new.values), np.array(new.log_bounds)
        if (logs < bounds[:, 0]).any() or (logs > bounds[:, 1]).any():
            low, high = np.exp(bounds[:, 0].min()), np.exp(bounds[:, 1].max())
            raise ValueError(f"{name}={value!r} is outside its bounds, {low:.3g} to {high:.3g}; set bounds in the kernel.")
        return new

    def for_columns(self, n_columns: int) -> Parameter:
        """Return the parameter with one value per column, if it is marked `per_column`."""
        if not self.per_column:
            return self
        return Parameter(self.values * n_columns, self.log_bounds * n_columns, self.free * n_columns, True)

    def _checked(self, name: str, bounds: Any, may_be_vector: bool) -> Parameter:
        values = _positive(name, self.values, True)
        pairs = np.array(self.log_bounds, dtype=np.float64)
        fits = pairs.shape == (len(values), 2) and np.isfinite(pairs).all() and (pairs[:, 0] <= pairs[:, 1]).all()
        flags = len(self.free) == len(values) and all(type(flag) is bool for flag in (*self.free, self.per_column))
        if not (fits and flags) or bounds is not None or (self.is_vector and not may_be_vector):
            raise ValueError(f"{name} needs a pair of bounds, and free or fixed, for each value; got {self!r}.")
        if len(values) > 1 and not self.is_vector:
            raise ValueError(f"{name} has {len(values)} values, but `is_vector` is False.")
        if self.per_column and (self.is_vector or not may_be_vector):
            raise ValueError(f"{name} cannot be `per_column`: it is a vector already, or cannot be one.")
        return self

    # These are cached because a search reads them many times for each kernel.

    @cached_property
    def value(self) -> Any:
        """A float, or a read-only array with one value per input column."""
        return _read_only(self.values) if self.is_vector else self.values[0]

    @cached_property
    def log_free(self) -> Array:
        """Logs of the free values, read-only."""
        return _read_only(np.log([v for v, free in zip(self.values, self.free, strict=True) if free]))

    @cached_property
    def bounds_free(self) -> Array:
        """Logs of the bounds of the free values, (k, 2), read-only."""
        pairs = [pair for pair, free in zip(self.log_bounds, self.free, strict=True) if free]
        return _read_only(np.reshape(pairs, (-1, 2)))

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # without the arrays above

    def labels(self, name: str) -> list[str]:
        """Return a label for each value, free or fixed: 'lengthscale[0]', or 'lengthscale' for a number."""
        return [f"{name}[{i}]" for i in range(len(self.values))] if self.is_vector else [name]

    def moved(self, logs: Array) -> Parameter:
        """Return the parameter with the free values set to the exponentials of `logs`."""
        with np.errstate(over="ignore"):
            new = np.exp(logs)
        bad = ~(np.isfinite(new) & (new > 0))
        if bad.any():
            raise ValueError(f"theta holds logs; exp({logs[bad][0]:.6g}) is {new[bad][0]:.3g}, not positive and finite.")
        # exp(log v) may differ from v in the last digit, so an unchanged entry keeps its value
        values, free = np.array(self.values), np.array(self.free)
        values[free] = np.where(logs == self.log_free, values[free], new)
        return Parameter(tuple(values.tolist()), self.log_bounds, self.free, self.is_vector, self.per_column)

    def marked(self, index: int | None, free: bool) -> Parameter:
        """Return the parameter with one value (all values if `index` is None) freed or fixed."""
        flags = tuple(free if index in (None, i) else old for i, old in enumerate(self.free))
        return replace(self, free=flags)

    def __str__(self) -> str:
        if not self.is_vector:
            text = f"{self.values[0]:.6g}"
        else:
            shown = [f"{v:.3g}" for v in self.values]
            text = "[" + ", ".join(shown if len(shown) <= 6 else [*shown[:3], "...", shown[-1]]) + "]"
        text += " per column" if self.per_column else ""
        return text if any(self.free) else f"{text} fixed"


def _read_only(values: Any) -> Array:
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array


class Positive:
    """Declaration of a parameter in the body of a kernel class. `kernel.variance` then gives its value.

    Parameters
    ----------
    may_be_vector : bool, default=False
        Whether the parameter may have one value per input column.
    """

    def __init__(self, may_be_vector: bool = False) -> None:
        self.may_be_vector = may_be_vector

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, kernel: Any, owner: type | None = None) -> Any:
        return self if kernel is None else kernel._parameters[self.name].value


def split_label(label: str) -> tuple[str, int | None]:
    """Split a label: 'lengthscale[2]' gives ('lengthscale', 2), 'variance' gives ('variance', None)."""
    match = re.fullmatch(r"(.*)\[(\d+)\]", label)
    return (match[1], int(match[2])) if match else (label, None)


def _positive(name: str, value: Any, may_be_vector: bool) -> Array:
    wanted = "a positive finite number" + (", or one per input column" if may_be_vector else "")
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    right_shape = array.ndim == 0 or (may_be_vector and array.ndim == 1 and array.size > 0)
    if not right_shape or not (np.isfinite(array) & (array > 0)).all():
        raise ValueError(f"{name} must be {wanted}; got {value!r}.")
    return array


def _log_bounds(name: str, bounds: Any, size: int) -> Array:
    try:
        pairs = np.array(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        pairs = np.array(np.nan)
    pairs = np.broadcast_to(pairs if pairs.shape in ((2,), (1, 2), (size, 2)) else np.nan, (size, 2))
    if not (np.isfinite(pairs) & (pairs > 0)).all() or (pairs[:, 0] > pairs[:, 1]).any():
        raise ValueError(f"bounds of {name} must be a pair 0 < low <= high of values (not logs); got {bounds!r}.")
    return np.log(pairs)
