"""Kernels with a lengthscale: one number, or one for each input column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from .arrays import Array
from .leaf import Leaf
from .parameters import Positive

Self = TypeVar("Self", bound="WithLengthscale")


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

    def for_columns(self: Self, n_columns: int) -> Self:
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
