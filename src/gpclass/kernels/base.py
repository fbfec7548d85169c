"""The contract of a kernel, and the checks of its arguments.

Kernels are immutable: methods that change something return a new kernel. A kernel written outside the package derives from
one of three classes and passes `gpclass.testing.check_kernel`.

`Pairwise` (pairwise.py), for a function h of a distance or an inner product. It must have:

    _similarity                  `similarity.Distance` or `similarity.Inner`
    _shape(s)                    replaces s by h(s)
    _expand(s)                   h(s), h'(s), and derivatives in other parameters of h

`Leaf` (leaf.py), for a kernel with positive parameters. It must declare them with `parameters.Positive`, pass their values
to `Leaf.__init__`, and have:

    _matrix(X, Z)                k(X, Z), or k(X) if Z is None
    _diagonal(X)                 the diagonal of k(X)
    _pullback(X, Z, G, inputs, value), _pullback_diagonal(X, g)
                                 derivatives in theta and in the inputs

`MatrixKernel` (here), for any other kernel. It must have those four methods, `__hash__`, and:

    theta, names, bounds         logs of the free parameters (p,), their names, their bounds (p, 2)
    with_theta(theta)            the kernel with other free parameters
    fix(*names), free(*names)    the kernel with parameters removed from theta, or returned to it; ValueError for an
                                 unknown name

Optional, with defaults in `Kernel` or `MatrixKernel`:

    parts(), off()               terms of a sum, and how to switch the kernel off; default: no terms, cannot be switched off
    leaves                       the kernels that a sum or product consists of; default: the kernel itself
    lengthscale                  a number, a vector with one value per input column, or None (the default)
    class_kernels                one kernel for each class, or one kernel for all classes (the default: itself)
    separated                    the kernel on the inputs and the covariance of classes, or None (the default) for the latter
    seen(X), own_units           the inputs in the units of the lengthscales, and whether these units are the columns'
                                 spreads; default: X itself, False
    common_units                 whether these spreads are the same for all columns; default: False
    settings(), with_settings()  constructor arguments by name, for grid searches; default: none
    for_columns(n_columns)       the kernel with one lengthscale per column where `ard=True` asks for it; default: itself
    _evaluator(X)                covariances of other inputs with the rows of X on demand; the default calls `_matrix`
    _takes                       what rows it takes: "numbers" (the default), "any" if values do not depend on them,
                                 "covariances" (`Precomputed`), "objects" (`FunctionKernel`)
    lengthscale_of_distance      whether lengthscales divide distances, so that k(x, x) does not depend on them; searches
                                 then scan them; default: False, or that of `_similarity`
    standardizable               whether columns may be centred and scaled; default: True
    compressible                 whether outlying values may be moved towards the others without changing what the kernel
                                 means; default: True
    takes_sparse                 whether `unit_values` and `unit_diagonal` take sparse matrices; default: False

`PerClass` and `Correlated`, whose values are not matrices, describe themselves to callers by `class_kernels` and
`separated`. Callers never ask for the type of a kernel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import Array, checked_inputs, checked_shape, pullback_arguments
from .settings import check_settings

# Maps inputs (k, D) and the indices (m,) of given rows, or None for all of them, to the covariances (k, m) between them.
Evaluator: TypeAlias = "Callable[[Array, NDArray[np.intp] | None], Array]"


class Part(NamedTuple):
    """One term of a sum of kernels, as returned by `Kernel.parts`."""

    kernel: Kernel  # the term alone
    own: NDArray[np.intp]  # (q,) indices of its parameters in theta of the sum
    theta: Array  # (p,) theta of the sum with the other terms switched off, as far as their bounds allow


class Kernel(ABC):
    """A covariance function, with a vector `theta` of the logs of its free parameters. See the top of this file."""

    kind: ClassVar[str] = "kernel"
    __array_ufunc__ = None  # np.float64(2) * kernel must call __rmul__

    # -- values and derivatives ----------------------------------------------------------------------------------------

    @abstractmethod
    def __call__(self, X: ArrayLike, Z: ArrayLike | None = None) -> Any:
        """Return k(X), or the cross covariances k(X, Z)."""

    @abstractmethod
    def diag(self, X: ArrayLike) -> Any:
        """Return the diagonal of k(X)."""

    @abstractmethod
    def pullback(
        self,
        X: ArrayLike,
        Z: Any = None,
        G: Any = None,
        *,
        inputs: bool = False,
        value: Any = None,
    ) -> Any:
        """Return the gradient of Σ G_ij K_ij in theta, where K is k(X), or k(X, Z) if Z is given.

        Parameters
        ----------
        X : array_like of shape (n, D)
            Inputs.
        Z : array_like of shape (m, D), optional
            Other inputs. `pullback(X, G)` is short for `pullback(X, None, G)`.
        G : array_like of shape (n, n) or (n, m)
            Derivatives in K. They need not be symmetric.
        inputs : bool, default=False
            Whether to return the gradient in the inputs too.
        value : ndarray of shape (n, n) or (n, m), optional
            K, if the caller has it. It may save time.

        Returns
        -------
        dtheta : ndarray of shape (p,)
            The gradient in theta.
        dinputs : ndarray of shape (n, D) or (m, D)
            Only with `inputs=True`: the gradient in Z, or in X (as both arguments of k) if Z is not given.
        """

    @abstractmethod
    def pullback_diag(self, X: ArrayLike, g: Any, *, inputs: bool = False) -> Any:
        """Return the gradient (p,) of Σ g_i diag(X)_i in theta; with `inputs=True` also the gradient (n, D) in X."""

    # -- parameters ----------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def theta(self) -> Array:
        """Logs of the free parameters, (p,)."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The name of each entry of theta."""

    @property
    @abstractmethod
    def bounds(self) -> Array:
        """Bounds of theta for optimisers, (p, 2)."""

    @abstractmethod
    def with_theta(self, theta: ArrayLike) -> Kernel:
        """Return the kernel with these values of the free parameters."""

    @abstractmethod
    def fix(self, *names: str) -> Kernel:
        """Return the kernel with these parameters fixed: theta no longer contains them."""

    @abstractmethod
    def free(self, *names: str) -> Kernel:
        """Return the kernel with these parameters free: theta contains them."""

    def _all_names(self) -> list[str]:
        """Return the names of all parameters for an error message. Names of fixed parameters may be missing."""
        return self.names

    def _has_parameter(self, name: str) -> bool:
        """Return whether there is a parameter, free or fixed, with this name."""
        try:
            self.free(name)
        except ValueError:
            return False
        return True

    def settings(self) -> dict[str, Any]:
        """Return the constructor arguments by name: values of parameters, free or fixed, and other settings.

        Names within sums, products and classes have the form "rbf__lengthscale" or "class0__lengthscale".
        """
        return {}

    def with_settings(self, **settings: Any) -> Kernel:
        """Return the kernel with some of its `settings` changed. Bounds and fixed parameters stay as they are."""
        check_settings(self, settings, {})
        return self

    def for_columns(self, n_columns: int) -> Kernel:
        """Return the kernel for inputs with this number of columns: `ard=True` becomes one lengthscale per column."""
        return self

    # -- structure -----------------------------------------------------------------------------------------------------

    _takes: ClassVar[str] = "numbers"  # of a leaf: "numbers", "any", "covariances" or "objects"
    standardizable: ClassVar[bool] = True  # of a leaf: whether columns may be centred and scaled
    compressible: ClassVar[bool] = True  # of a leaf: whether outlying values may be moved towards the others
    takes_sparse: ClassVar[bool] = False  # of a leaf: whether `unit_values` and `unit_diagonal` take sparse matrices
    lengthscale_has_units: ClassVar[bool] = True  # whether lengthscales have the units of the inputs
    lengthscale: Any = None  # a number, a vector with one value per input column, or None if there is none

    @property
    def lengthscale_of_distance(self) -> bool:
        """Whether k(x, x) does not depend on the lengthscales of a leaf."""
        return False

    @property
    def takes(self) -> str:
        """What rows the kernel takes: "numbers", "covariances", "objects", or "any" if values do not depend on them."""
        kinds = {leaf._takes for leaf in self.leaves} - {"any"}
        return kinds.pop() if kinds else "any"

    def unit_values(self, X: Any, Z: Any) -> Array:
        """Return k(X, Z) (n, m), or k(X) if Z is None, for variance 1, of objects or sparse rows."""
        raise TypeError(f"{type(self).__name__} takes arrays of numbers.")

    def unit_diagonal(self, X: Any) -> Array:
        """Return the diagonal of k(X) (n,) for variance 1, of objects or sparse rows."""
        raise TypeError(f"{type(self).__name__} takes arrays of numbers.")

    @property
    def class_kernels(self) -> tuple[Kernel, ...]:
        """One kernel for each class, or a single kernel if all classes share it."""
        return (self,)

    @property
    def separated(self) -> tuple[Kernel, Array | None]:
        """The kernel on the inputs, and the covariance (C, C) of the classes or None if they are independent."""
        return self, None

    def seen(self, X: Array) -> Array:
        """Return the inputs (n, D) in the units of the lengthscales; in a sum, those of its first term."""
        return X

    @property
    def own_units(self) -> bool:
        """Whether lengthscales are in units of the columns' spreads instead of the units of the inputs."""
        return False

    @property
    def common_units(self) -> bool:
        """Whether `own_units` is true, and all columns have the same spread there."""
        return False

    @property
    def leaves(self) -> tuple[Kernel, ...]:
        """The kernels that this kernel combines by sums and products, or the kernel itself."""
        return (self,)

    def _with_leaves(self, leaves: Iterator[Kernel]) -> Kernel:
        """Return the same combination of other leaves."""
        return next(leaves)

    def parts(self) -> list[Part]:
        """Return each term of a sum alone; an empty list if there is no sum or its terms cannot be switched off."""
        return []

    def off(self) -> Array | None:
        """Return theta at which values are as small as the bounds allow, or None if fixed parameters prevent that."""
        return None

    def _evaluator(self, X: Array) -> Evaluator:
        """Return a function that computes covariances of other inputs with rows of X, given by their indices."""
        raise TypeError(f"{type(self).__name__} has no single matrix k(X), so its columns cannot be computed.")

    # -- arithmetic ----------------------------------------------------------------------------------------------------

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

    # -- identity ------------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"kernels are immutable; to change {name!r} make a new kernel (with_theta, fix, free).")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __eq__(self, other: object) -> bool:
        """Return whether class, values, bounds and the choice of fixed parameters are equal."""
        return type(self) is type(other) and self.__dict__ == other.__dict__

    @abstractmethod
    def __hash__(self) -> int: ...


class MatrixKernel(Kernel):
    """A kernel whose values are matrices. Its private methods get checked float64 arrays and return new ones."""

    def __call__(self, X: ArrayLike, Z: ArrayLike | None = None) -> Array:
        """Return k(X) (n, n), exactly symmetric, or the cross covariances k(X, Z) (n, m)."""
        return self._matrix(*checked_inputs(X, Z, self.takes))

    def diag(self, X: ArrayLike) -> Array:
        """Return the diagonal of k(X), (n,)."""
        return self._diagonal(checked_inputs(X, None, self.takes)[0])

    def pullback(
        self,
        X: ArrayLike,
        Z: ArrayLike | None = None,
        G: ArrayLike | None = None,
        *,
        inputs: bool = False,
        value: Array | None = None,
    ) -> Any:
        Z, G = pullback_arguments(Z, G)
        rows, others = checked_inputs(X, Z, self.takes)
        shape = (len(rows), len(rows) if others is None else len(others))
        G = checked_shape(G, shape, "G")
        if value is not None:
            value = checked_shape(value, shape, "value")
        dtheta, dinputs = self._pullback(rows, others, G, inputs, value)
        return (dtheta, dinputs) if inputs else dtheta

    def pullback_diag(self, X: ArrayLike, g: ArrayLike, *, inputs: bool = False) -> Any:
        rows, _ = checked_inputs(X, None, self.takes)
        dtheta, dX = self._pullback_diagonal(rows, checked_shape(g, (len(rows),), "g"))
        return (dtheta, dX) if inputs else dtheta

    def _evaluator(self, X: Array) -> Evaluator:
        return lambda Z, rows: self._matrix(Z, X if rows is None else X[rows])

    @abstractmethod
    def _matrix(self, X: Array, Z: Array | None) -> Array:
        """Return k(X) if Z is None, else k(X, Z)."""

    @abstractmethod
    def _diagonal(self, X: Array) -> Array:
        """Return the diagonal of k(X)."""

    @abstractmethod
    def _pullback(
        self, X: Array, Z: Array | None, G: Array, inputs: bool, value: Array | None
    ) -> tuple[Array, Array | None]:
        """Return dtheta, and if `inputs` dX (Z is None) or dZ, else None."""

    @abstractmethod
    def _pullback_diagonal(self, X: Array, g: Array) -> tuple[Array, Array]:
        """Return dtheta and dX."""


def is_kernel(obj: object) -> bool:
    """Return whether `obj` is a kernel of gpclass (an instance, not a class)."""
    return isinstance(obj, Kernel)


def _combine(cls: Any, a: Any, b: Any) -> Kernel:
    from .constant import Constant

    pair = [Constant(float(k)) if isinstance(k, Real) else k for k in (a, b)]
    return cls(*pair) if all(map(is_kernel, pair)) else NotImplemented
