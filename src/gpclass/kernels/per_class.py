"""A kernel for each class: PerClass(RBF(1.0), RBF(3.0), Matern52()) replaces a kernel that all classes share.

The first axis of its values is the class: k(X) is (C, n, n), k(X, Z) is (C, n, m), k.diag(X) is (C, n).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array, pullback_arguments
from .base import Kernel, Part, is_kernel
from .leaf import split_theta
from .settings import with_member_settings


class PerClass(Kernel):
    """Kernels of the latent functions of several classes.

    Parameters
    ----------
    *kernels : Kernel
        One kernel for each class, at least two. theta contains their parameters one after the other.
    """

    kernels: tuple[Kernel, ...]

    def __init__(self, *kernels: Kernel) -> None:
        if len(kernels) < 2 or not all(is_kernel(k) and len(k.class_kernels) == 1 for k in kernels):
            raise TypeError(f"PerClass takes two or more kernels, one for each class; got {kernels!r}")
        self.__dict__.update(kernels=kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    @property
    def class_kernels(self) -> tuple[Kernel, ...]:
        return self.kernels

    @property
    def leaves(self) -> tuple[Kernel, ...]:
        return tuple(leaf for k in self.kernels for leaf in k.leaves)

    def _with_leaves(self, leaves: Iterator[Kernel]) -> PerClass:
        return PerClass(*[k._with_leaves(leaves) for k in self.kernels])

    def seen(self, X: Array) -> Array:
        return self.kernels[0].seen(X)

    @property
    def own_units(self) -> bool:
        return all(k.own_units for k in self.kernels)

    # -- values and derivatives ----------------------------------------------------------------------------------------

    def __call__(self, X: ArrayLike, Z: ArrayLike | None = None) -> Array:
        return np.stack([k(X, Z) for k in self.kernels])

    def diag(self, X: ArrayLike) -> Array:
        return np.stack([k.diag(X) for k in self.kernels])

    def pullback(self, X, Z=None, G=None, *, inputs: bool = False, value: Any = None) -> Any:
        """Return the gradients for G (C, n, n) or (C, n, m); those in the inputs are summed over the classes."""
        Z, G = pullback_arguments(Z, G)
        values = [None] * len(self) if value is None else value
        each = zip(self.kernels, self._by_class(G), values, strict=True)
        return self._joined([k.pullback(X, Z, g, inputs=inputs, value=v) for k, g, v in each], inputs)

    def pullback_diag(self, X, g, *, inputs: bool = False) -> Any:
        each = zip(self.kernels, self._by_class(g), strict=True)
        return self._joined([k.pullback_diag(X, own, inputs=inputs) for k, own in each], inputs)

    def _by_class(self, G):
        if np.ndim(G) < 2 or len(G) != len(self):
            raise ValueError(f"derivatives need one part for each of {len(self)} classes; got shape {np.shape(G)}")
        return G

    @staticmethod
    def _joined(gradients, inputs):
        if not inputs:
            return np.concatenate(gradients)
        return np.concatenate([dtheta for dtheta, _ in gradients]), sum(dX for _, dX in gradients)

    # -- parameters ----------------------------------------------------------------------------------------------------

    @property
    def theta(self) -> Array:
        return np.concatenate([k.theta for k in self.kernels])

    @property
    def names(self) -> list[str]:
        return [f"class{c}.{name}" for c, k in enumerate(self.kernels) for name in k.names]

    @property
    def bounds(self) -> Array:
        return np.concatenate([k.bounds.reshape(-1, 2) for k in self.kernels])

    def with_theta(self, theta: ArrayLike) -> PerClass:
        pieces = split_theta(theta, [len(k.theta) for k in self.kernels], self)
        return PerClass(*(k.with_theta(t) for k, t in zip(self.kernels, pieces, strict=True)))

    def fix(self, *names: str) -> PerClass:
        return self._on_classes(names, lambda kernel, name: kernel.fix(name))

    def free(self, *names: str) -> PerClass:
        return self._on_classes(names, lambda kernel, name: kernel.free(name))

    def _on_classes(self, names: tuple[str, ...], change: Callable[[Kernel, str], Kernel]) -> PerClass:
        """Apply `change` to the parameter of one class ("class0.lengthscale") or of all classes ("lengthscale")."""
        kernels = list(self.kernels)
        for name in names:
            first, _, rest = name.partition(".")
            chosen = [c for c in range(len(self)) if first == f"class{c}"]
            for c in chosen or range(len(self)):
                kernels[c] = change(kernels[c], rest if chosen else name)
        return PerClass(*kernels)

    def settings(self) -> dict[str, Any]:
        return {f"{prefix}__{name}": v for prefix, k in self._labelled() for name, v in k.settings().items()}

    def with_settings(self, **settings: Any) -> PerClass:
        return PerClass(*with_member_settings(self, self._labelled(), settings))

    def _labelled(self) -> list[tuple[str, Kernel]]:
        return [(f"class{c}", k) for c, k in enumerate(self.kernels)]

    def for_columns(self, n_columns: int) -> PerClass:
        return PerClass(*(k.for_columns(n_columns) for k in self.kernels))

    def parts(self) -> list[Part]:
        """Return the first part of every class, the second part of every class, and so on.

        A class whose kernel has no such part keeps its whole kernel.
        """
        each = [k.parts() for k in self.kernels]
        return [self._joined_parts([p[i] if i < len(p) else None for p in each]) for i in range(max(map(len, each)))]

    def _joined_parts(self, chosen: list[Part | None]) -> Part:
        begin, kernels, own, theta = 0, [], [], []
        for k, part in zip(self.kernels, chosen, strict=True):
            part = Part(k, np.arange(len(k.theta)), k.theta) if part is None else part
            kernels.append(part.kernel)
            own.append(begin + part.own)
            theta.append(part.theta)
            begin += len(k.theta)
        return Part(PerClass(*kernels), np.concatenate(own), np.concatenate(theta))

    def __hash__(self) -> int:
        return hash((PerClass, self.kernels))

    def __repr__(self) -> str:
        return f"PerClass({', '.join(map(repr, self.kernels))})"
