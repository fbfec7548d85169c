"""What every kernel offers, and the one place where its arguments are checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from numbers import Real
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class Part(NamedTuple):
    """One term of a sum by itself, as `Kernel.parts` gives it."""

    kernel: Kernel  # the term alone
    own: NDArray[np.intp]  # (q,) places of its theta in the theta of the whole
    theta: Array  # (p,) of the whole, with the other terms switched off as far as their bounds allow


class Kernel(ABC):
    """A covariance function: immutable, with a vector `theta` of the logs of its free parameters.

    A member provides the abstract methods; those with an underscore get checked float64 arrays and return new ones.
    `Leaf` provides all that concerns parameters, `Pairwise` all but a function of one number.
    """

    __array_ufunc__ = None  # np.float64(2) * kernel must come to __rmul__

    # -- values ------------------------------------------------------------------------------------------------------

    def __call__(self, X: ArrayLike, Z: ArrayLike | None = None) -> Array:
        """k(X) (n, n), exactly symmetric, or the cross covariances k(X, Z) (n, m)."""
        return self._matrix(*checked_inputs(X, Z))

    def diag(self, X: ArrayLike) -> Array:
        """The diagonal of k(X), (n,)."""
        return self._diagonal(checked_inputs(X)[0])

    # -- derivatives -------------------------------------------------------------------------------------------------

    def pullback(
        self,
        X: ArrayLike,
        Z: ArrayLike | None = None,
        G: ArrayLike | None = None,
        *,
        inputs: bool = False,
        value: Array | None = None,
    ) -> Any:
        """`pullback(X, G)`: the gradient (p,) of Σ G_ij k(X)_ij in theta; `pullback(X, Z, G)`: the same for k(X, Z).

        G need not be symmetric. With `inputs=True` a pair comes back: that gradient, and the one in X for the first
        form (X is both arguments of k) or in Z for the second. `value`, the matrix k(X) or k(X, Z) if at hand, may save
        time.
        """
        if G is None:
            Z, G = None, Z
        if G is None:
            raise ValueError("pullback needs the matrix G: pullback(X, G) or pullback(X, Z, G).")
        X, Z = checked_inputs(X, Z)
        shape = (len(X), len(X) if Z is None else len(Z))
        G = checked_shape(G, shape, "G")
        if value is not None:
            value = checked_shape(value, shape, "value")
        dtheta, dinputs = self._pullback(X, Z, G, inputs, value)
        return (dtheta, dinputs) if inputs else dtheta

    def pullback_diag(self, X: ArrayLike, g: ArrayLike, *, inputs: bool = False) -> Any:
        """Gradient (p,) of Σ g_i diag(X)_i in theta; with `inputs=True` also the one in X, (n, D)."""
        X, _ = checked_inputs(X)
        dtheta, dX = self._pullback_diagonal(X, checked_shape(g, (len(X),), "g"))
        return (dtheta, dX) if inputs else dtheta

    # -- what a member provides --------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def theta(self) -> Array:
        """Logs of the free parameters, (p,)."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """A name for each entry of theta."""

    @property
    @abstractmethod
    def bounds(self) -> Array:
        """Where a search should look, (p, 2), in logs like theta."""

    @abstractmethod
    def with_theta(self, theta: ArrayLike) -> Kernel:
        """The same kernel with other values of the free parameters."""

    @abstractmethod
    def fix(self, *names: str) -> Kernel:
        """The same kernel with these parameters held: they leave theta."""

    @abstractmethod
    def free(self, *names: str) -> Kernel:
        """The same kernel with these parameters released: they enter theta."""

    # -- terms of sums -----------------------------------------------------------------------------------------------

    def parts(self) -> list[Part]:
        """The terms of a sum, each alone; empty if the kernel is no sum or its terms cannot be switched off."""
        return []

    def off(self) -> Array | None:
        """theta where the values are as small as the bounds allow; None if fixed parameters leave them as they are."""
        return None

    @abstractmethod
    def _matrix(self, X: Array, Z: Array | None) -> Array: ...

    @abstractmethod
    def _diagonal(self, X: Array) -> Array: ...

    @abstractmethod
    def _pullback(
        self, X: Array, Z: Array | None, G: Array, inputs: bool, value: Array | None
    ) -> tuple[Array, Array | None]:
        """dtheta, and if `inputs` dX (Z is None) or dZ."""

    @abstractmethod
    def _pullback_diagonal(self, X: Array, g: Array) -> tuple[Array, Array]: ...

    # -- arithmetic --------------------------------------------------------------------------------------------------

    def __add__(self, other: Kernel | float) -> Kernel:
        from .composite import Sum

        return _combine(Sum, self, other)

    def __radd__(self, other: float) -> Kernel:
        from .composite import Sum

        is_start_of_sum = isinstance(other, Real) and other == 0  # sum([k1, k2]) begins with 0 + k1
        return self if is_start_of_sum else _combine(Sum, other, self)

    def __mul__(self, other: Kernel | float) -> Kernel:
        from .composite import Product

        return _combine(Product, self, other)

    def __rmul__(self, other: float) -> Kernel:
        from .composite import Product

        return _combine(Product, other, self)

    # -- identity ----------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"kernels are immutable; instead of setting {name!r} make a new one (with_theta, fix, free)."
        )

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __eq__(self, other: object) -> bool:
        """Equal in class, values, bounds and what is fixed."""
        return type(self) is type(other) and self.__dict__ == other.__dict__

    @abstractmethod
    def __hash__(self) -> int: ...

    def _leaves(self) -> tuple[Kernel, ...]:
        return (self,)

    def _with_leaves(self, leaves: Iterator[Kernel]) -> Kernel:
        return next(leaves)


class Standalone(Kernel):
    """A kernel whose values have an axis of classes, so that sums and products must be inside it."""

    _instead: ClassVar[str]  # how to write those

    def _refuse(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is no part of sums and products; put them inside: {self._instead}")

    def _matrix(self, X: Array, Z: Array | None) -> Array:
        self._refuse()

    def _diagonal(self, X: Array) -> Array:
        self._refuse()

    def _pullback(self, X, Z, G, inputs, value):
        self._refuse()

    def _pullback_diagonal(self, X, g):
        self._refuse()

    def _leaves(self) -> tuple[Kernel, ...]:
        self._refuse()

    def _with_leaves(self, leaves: Iterator[Kernel]) -> Kernel:
        self._refuse()


def _combine(cls: Any, a: Any, b: Any) -> Kernel:
    from .constant import Constant

    pair = [Constant(float(k)) if isinstance(k, Real) else k for k in (a, b)]
    return cls(*pair) if all(isinstance(k, Kernel) for k in pair) else NotImplemented


def checked_inputs(X: ArrayLike, Z: ArrayLike | None = None) -> tuple[Array, Array | None]:
    """X (n, D) and Z (m, D) as finite float64 arrays."""
    X = _checked(X, "X")
    if Z is None:
        return X, None
    Z = _checked(Z, "Z")
    if X.shape[1] != Z.shape[1]:
        raise ValueError(f"X has {X.shape[1]} columns but Z has {Z.shape[1]}; both need the same inputs.")
    return X, Z


def _checked(X: ArrayLike, name: str) -> Array:
    try:
        array = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a 2-d array of numbers; got {type(X).__name__}.") from error
    if array.ndim != 2:
        hint = f" Use {name}[:, None] for one column, {name}[None, :] for one row." if array.ndim == 1 else ""
        raise ValueError(f"{name} must be 2-d (rows are points); got shape {array.shape}.{hint}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has NaN or infinite entries; kernels need finite inputs.")
    return array


def checked_shape(G: ArrayLike, shape: tuple[int, ...], name: str) -> Array:
    G = np.asarray(G, dtype=np.float64)
    if G.shape != shape:
        raise ValueError(f"{name} has shape {G.shape}, but the covariances have shape {shape}.")
    return G
