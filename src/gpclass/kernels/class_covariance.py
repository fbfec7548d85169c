"""Correlated latent functions of several classes: cov(f_c(x), f_d(z)) = k(x, z) K^c_cd.

    Correlated(RBF(), ClassCovariance(3, "free"))

replaces a kernel. Its values are of type `Separable`: k(X) and K^c, not multiplied. VariationalMNL and SparseVariationalMNL
accept them. K^c always has trace C, so the kernel's variance is the mean prior variance of the latent functions. The forms
are the five models of [C]:

    identity              M1   latent functions are independent and have equal variances
    diagonal              M2   latent functions are independent and have different variances
    sum-to-zero-diagonal  M3   M - M11ᵀM/(1ᵀM1) + I with a diagonal M. (46)
    sum-to-zero           M4   the same with any M
    free                  M5   any covariance of the differences between classes

Softmax depends on differences between latent functions only. M4 is therefore H P Hᵀ + I and M5 is H P Hᵀ + 11ᵀ/C, both
scaled. The columns of H span the differences, and P = U diag(d) Uᵀ, with U unit lower triangular, is any covariance of them.
If the parameters were M, or all entries of K^c, some directions would have no effect. One such direction remains in M4 and
M5 (and in M3 for three classes): the scale of P and the kernel's variance have the same effect. The paper learns the kernel
with M1, and then K^c alone: use `fix("variance")`.

[C] Chai 2012, section 9.2.2. In all forms except the diagonal one, 1 is an eigenvector of K^c, so posterior means sum to
zero over the classes (section 5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..numerics.classes import contrast_basis
from ..numerics.separable import Separable
from .arrays import Array, checked_shape, pullback_arguments
from .base import Kernel, MatrixKernel, Part
from .leaf import split_theta

FORMS = ("identity", "diagonal", "sum-to-zero-diagonal", "sum-to-zero", "free")
LOG_PARAMETER_LIMIT = np.log(1e4)  # default bounds of parameters that are logs, to either side of zero
ENTRY_LIMIT = 30.0  # default bounds of the entries of U


@dataclass(frozen=True)
class ClassCovariance:
    """The covariance K^c (C, C) of the classes, with trace C.

    Parameters
    ----------
    n_classes : int
        The number C of classes, at least 2.
    form : str, default="free"
        One of the forms listed at the top of this file.
    parameters : tuple of float, optional
        All parameters: logs, except for the entries of U. The default gives the identity, or for the two sum-to-zero
        forms 2I - 11ᵀ/C, scaled.
    held : tuple of bool, optional
        Which parameters are fixed. By default all are free.
    """

    n_classes: int
    form: str = "free"
    parameters: tuple[float, ...] | None = None
    held: tuple[bool, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.n_classes, (int, np.integer)) or self.n_classes < 2:
            raise ValueError(f"n_classes must be an integer of at least 2, but is {self.n_classes!r}")
        if self.form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(map(repr, FORMS))}, but is {self.form!r}")
        size = len(self.all_names)
        values = np.zeros(size) if self.parameters is None else np.asarray(self.parameters, float)
        if values.shape != (size,) or not np.all(np.isfinite(values)):
            raise ValueError(f"{self.form!r} for {self.n_classes} classes has {size} parameters; got {self.parameters!r}")
        object.__setattr__(self, "parameters", tuple(values.tolist()))
        if self.held is None or len(self.held) != size:
            object.__setattr__(self, "held", (False,) * size)

    # -- parameters ----------------------------------------------------------------------------------------------------

    @property
    def all_names(self) -> list[str]:
        """Names of all parameters, free or fixed."""
        C = self.n_classes
        if self.form == "identity":
            return []
        if self.form == "diagonal":
            return [f"classes.ratio[{c}]" for c in range(1, C)]  # variance of class c over that of class 0
        if self.form == "sum-to-zero-diagonal":
            return [f"classes.weight[{c}]" for c in range(C)]  # the diagonal of M
        pairs = zip(*np.tril_indices(C - 1), strict=True)  # entries of U, with log d in place of its unit diagonal
        return [f"classes.d[{i}]" if i == j else f"classes.u[{i},{j}]" for i, j in pairs]

    @property
    def names(self) -> list[str]:
        """Names of the free parameters."""
        return [name for name, held in zip(self.all_names, self._held, strict=True) if not held]

    @property
    def theta(self) -> Array:
        """Values of the free parameters."""
        return self._values[self._free]

    @property
    def bounds(self) -> Array:
        """Bounds (p, 2) of the free parameters."""
        limit = np.full(len(self._held), LOG_PARAMETER_LIMIT)
        limit[~self._logs] = ENTRY_LIMIT
        return np.stack([-limit, limit], axis=1)[self._free]

    def with_theta(self, theta: ArrayLike) -> ClassCovariance:
        """Return the covariance with these values of the free parameters."""
        values, free = self._values, self._free
        theta = np.asarray(theta, float)
        if theta.shape != (free.sum(),):
            raise ValueError(f"theta needs {free.sum()} values, one for each of {self.names}; got shape {theta.shape}")
        values[free] = theta
        moved = replace(self, parameters=tuple(values.tolist()))
        if np.any(np.abs(values[self._logs]) > 300) or not np.all(np.isfinite(moved.matrix)):
            raise ValueError(f"theta holds logs; {theta.tolist()} gives covariances that are not finite")
        return moved

    def marked(self, name: str, held: bool) -> ClassCovariance:
        """Return the covariance with one parameter, or all ("classes"), fixed or freed."""
        if name not in ("classes", *self.all_names):
            raise ValueError(f"no parameter {name!r} in {self!r}; it has {self.all_names}")
        each = zip(self.all_names, self._held, strict=True)
        return replace(self, held=tuple(held if name in ("classes", own) else old for own, old in each))

    @property
    def _values(self) -> Array:
        return np.array(self.parameters, float)

    @property
    def _held(self) -> tuple[bool, ...]:
        assert self.held is not None
        return self.held

    @property
    def _free(self) -> NDArray[np.bool_]:
        return ~np.array(self._held, dtype=bool)

    @property
    def _logs(self) -> NDArray[np.bool_]:
        """Which parameters are logs, as a mask."""
        if self.form in ("sum-to-zero", "free"):
            rows, columns = np.tril_indices(self.n_classes - 1)
            return rows == columns
        return np.ones(len(self.all_names), dtype=bool)

    # -- values and derivatives ----------------------------------------------------------------------------------------

    @property
    def matrix(self) -> Array:
        """K^c, (C, C)."""
        raw = self._unscaled()
        return raw * (self.n_classes / np.trace(raw))

    @property
    def correlation(self) -> Array:
        """Prior correlations (C, C) of the latent functions."""
        scale = np.sqrt(np.diagonal(self.matrix))
        return self.matrix / np.outer(scale, scale)

    def pullback(self, G: ArrayLike) -> Array:
        """Return the gradient (p,) of Σ G_cd K^c_cd in theta."""
        given = checked_shape(G, (self.n_classes, self.n_classes), "G")
        raw = self._unscaled()
        trace = np.trace(raw)
        slope = 0.5 * (given + given.T) * (self.n_classes / trace)
        slope -= np.eye(self.n_classes) * (np.sum(slope * raw) / trace)  # the scale depends on the trace
        return self._slopes(slope)[self._free]

    def _unscaled(self) -> Array:
        C = self.n_classes
        if self.form == "identity":
            return np.eye(C)
        if self.form == "diagonal":
            return np.diag(np.exp([0.0, *self._values]))
        if self.form == "sum-to-zero-diagonal":
            m = np.exp(self._values)
            return np.diag(m) - np.outer(m, m) / m.sum() + np.eye(C)  # (46)
        U, d = self._factors()
        HU = contrast_basis(C) @ U
        return (HU * d) @ HU.T + (np.eye(C) if self.form == "sum-to-zero" else np.full((C, C), 1 / C))

    def _slopes(self, G: Array) -> Array:
        """Return the gradient of Σ G_cd (unscaled)_cd in all parameters, for symmetric G."""
        C = self.n_classes
        if self.form == "identity":
            return np.zeros(0)
        if self.form == "diagonal":
            return np.diagonal(G)[1:] * np.exp(self._values)
        if self.form == "sum-to-zero-diagonal":
            m = np.exp(self._values)
            total, pulled = m.sum(), G @ m
            return m * (np.diagonal(G) - 2 * pulled / total + m @ pulled / total**2)
        H, (U, d) = contrast_basis(C), self._factors()
        inner = H.T @ G @ H @ U
        slopes = 2 * inner * d
        np.fill_diagonal(slopes, np.sum(U * inner, axis=0) * d)
        return slopes[np.tril_indices(C - 1)]

    def _factors(self) -> tuple[Array, Array]:
        """Return U and d."""
        U = np.zeros((self.n_classes - 1,) * 2)
        U[np.tril_indices(self.n_classes - 1)] = self._values
        d = np.exp(np.diagonal(U))
        np.fill_diagonal(U, 1.0)
        return U, d


class Correlated(Kernel):
    """A kernel on the inputs times a covariance of the classes. Values and derivatives are of type `Separable`.

    Parameters
    ----------
    kernel : Kernel
        The kernel on the inputs.
    classes : ClassCovariance
        The covariance of the classes.
    """

    kernel: Kernel
    classes: ClassCovariance

    def __init__(self, kernel: Kernel, classes: ClassCovariance) -> None:
        if not isinstance(kernel, MatrixKernel):
            raise TypeError(f"Correlated takes a kernel on the inputs, but got {kernel!r}")
        if not isinstance(classes, ClassCovariance):
            raise TypeError(f"classes must be a ClassCovariance, but is {classes!r}")
        self.__dict__.update(kernel=kernel, classes=classes)

    @property
    def separated(self) -> tuple[Kernel, Array]:
        return self.kernel, self.classes.matrix

    @property
    def leaves(self) -> tuple[Kernel, ...]:
        return self.kernel.leaves

    def _with_leaves(self, leaves: Iterator[Kernel]) -> Correlated:
        return Correlated(self.kernel._with_leaves(leaves), self.classes)

    # -- values and derivatives ----------------------------------------------------------------------------------------

    def __call__(self, X: ArrayLike, Z: ArrayLike | None = None) -> Separable:
        return Separable(self.kernel(X, Z), self.classes.matrix)

    def diag(self, X: ArrayLike) -> Separable:
        return Separable(self.kernel.diag(X), self.classes.matrix)

    def pullback(self, X, Z=None, G=None, *, inputs: bool = False, value: Any = None) -> Any:
        """Return the gradients for a `Separable` G: derivatives in k(X) or k(X, Z), and in K^c."""
        Z, G = pullback_arguments(Z, G)
        _require_separable(G, "pullback")
        value = None if value is None else value.inputs
        return self._joined(self.kernel.pullback(X, Z, G.inputs, inputs=inputs, value=value), G, inputs)

    def pullback_diag(self, X, g, *, inputs: bool = False) -> Any:
        _require_separable(g, "pullback_diag")
        return self._joined(self.kernel.pullback_diag(X, g.inputs, inputs=inputs), g, inputs)

    def _joined(self, gradient, G, inputs):
        dtheta, dX = gradient if inputs else (gradient, None)
        dtheta = np.concatenate([dtheta, self.classes.pullback(G.classes)])
        return (dtheta, dX) if inputs else dtheta

    # -- parameters ----------------------------------------------------------------------------------------------------

    @property
    def theta(self) -> Array:
        return np.concatenate([self.kernel.theta, self.classes.theta])

    @property
    def names(self) -> list[str]:
        return [*self.kernel.names, *self.classes.names]

    @property
    def bounds(self) -> Array:
        return np.concatenate([self.kernel.bounds.reshape(-1, 2), self.classes.bounds])

    def with_theta(self, theta: ArrayLike) -> Correlated:
        on_inputs, between = split_theta(theta, [len(self.kernel.theta), len(self.classes.theta)], self)
        return Correlated(self.kernel.with_theta(on_inputs), self.classes.with_theta(between))

    def seen(self, X: Array) -> Array:
        return self.kernel.seen(X)

    @property
    def own_units(self) -> bool:
        return self.kernel.own_units

    def settings(self) -> dict[str, Any]:
        return self.kernel.settings()

    def with_settings(self, **settings: Any) -> Correlated:
        return Correlated(self.kernel.with_settings(**settings), self.classes)

    def for_columns(self, n_columns: int) -> Correlated:
        return Correlated(self.kernel.for_columns(n_columns), self.classes)

    def parts(self) -> list[Part]:
        """Return the parts of the kernel on the inputs, each with the same covariance of the classes."""
        between, p = self.classes.theta, len(self.kernel.theta)
        rest = p + np.arange(len(between))
        return [
            Part(Correlated(part.kernel, self.classes), np.append(part.own, rest), np.append(part.theta, between))
            for part in self.kernel.parts()
        ]

    def fix(self, *names: str) -> Correlated:
        return self._marked(names, True)

    def free(self, *names: str) -> Correlated:
        return self._marked(names, False)

    def _marked(self, names: tuple[str, ...], held: bool) -> Correlated:
        kernel, classes = self.kernel, self.classes
        for name in names:
            if name.partition(".")[0] == "classes":
                classes = classes.marked(name, held)
            else:
                kernel = kernel.fix(name) if held else kernel.free(name)
        return Correlated(kernel, classes)

    def __hash__(self) -> int:
        return hash((Correlated, self.kernel, self.classes))

    def __repr__(self) -> str:
        return f"Correlated({self.kernel!r}, {self.classes!r})"


def _require_separable(G, who):
    if not isinstance(G, Separable):
        raise TypeError(f"{who} of Correlated needs G of type Separable(inputs=…, classes=…), not {type(G).__name__}")
