"""A kernel for each class: PerClass(RBF(1.0), RBF(3.0), Matern52()) takes the place of a kernel that all classes share.

Its values have the class before all else: k(X) is (C, n, n), k(X, Z) is (C, n, m), k.diag(X) is (C, n).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .base import Array, Kernel, Part, Standalone


class PerClass(Standalone):
    """Kernels of the latent functions of several classes, with their parameters in a row."""

    kernels: tuple[Kernel, ...]
    _instead = "PerClass(k1 + k2, k3, …)"

    def __init__(self, *kernels: Kernel) -> None:
        if len(kernels) < 2 or not all(isinstance(k, Kernel) and not isinstance(k, PerClass) for k in kernels):
            raise TypeError(f"PerClass takes two or more kernels, one for each class; got {kernels!r}")
        self.__dict__.update(kernels=kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    def __call__(self, X: ArrayLike, Z: ArrayLike | None = None) -> Array:
        return np.stack([k(X, Z) for k in self.kernels])

    def diag(self, X: ArrayLike) -> Array:
        return np.stack([k.diag(X) for k in self.kernels])

    def pullback(self, X, Z=None, G=None, *, inputs: bool = False, value: Any = None) -> Any:
        """As for every kernel, with G, (C, n, n) or (C, n, m), and gradients in inputs summed over the classes."""
        if G is None:
            Z, G = None, Z
        parts = []
        for c, (k, g) in enumerate(zip(self.kernels, self._by_class(G), strict=True)):
            args = (X, g) if Z is None else (X, Z, g)
            parts.append(k.pullback(*args, inputs=inputs, value=None if value is None else value[c]))
        return self._joined(parts, inputs)

    def pullback_diag(self, X, g, *, inputs: bool = False) -> Any:
        each = zip(self.kernels, self._by_class(g), strict=True)
        return self._joined([k.pullback_diag(X, part, inputs=inputs) for k, part in each], inputs)

    def _by_class(self, G):
        if np.ndim(G) < 2 or len(G) != len(self):
            raise ValueError(f"derivatives must have one part for each of {len(self)} classes, but are {np.shape(G)}")
        return G

    @staticmethod
    def _joined(parts, inputs):
        if not inputs:
            return np.concatenate(parts)
        return np.concatenate([dtheta for dtheta, _ in parts]), sum(dX for _, dX in parts)

    # parameters -----------------------------------------------------------------------------------------------------

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
        theta = np.asarray(theta, float)
        if theta.shape != self.theta.shape:
            raise ValueError(f"theta needs {len(self.theta)} values, one for each of {self.names}; got shape {theta.shape}")
        parts = np.split(theta, np.cumsum([len(k.theta) for k in self.kernels])[:-1])
        return PerClass(*(k.with_theta(t) for k, t in zip(self.kernels, parts, strict=True)))

    def fix(self, *names: str) -> PerClass:
        return self._marked(names, "fix")

    def free(self, *names: str) -> PerClass:
        return self._marked(names, "free")

    def _marked(self, names: tuple[str, ...], how: str) -> PerClass:
        """A name is that of one class's parameter ("class0.lengthscale") or of all classes' ("lengthscale")."""
        kernels = list(self.kernels)
        for name in names:
            first, _, rest = name.partition(".")
            chosen = [c for c in range(len(self)) if first == f"class{c}"]
            for c in chosen or range(len(self)):
                kernels[c] = getattr(kernels[c], how)(rest if chosen else name)
        return PerClass(*kernels)

    def parts(self) -> list[Part]:
        """The first part in every class, the second in every class, and so on; kernels without that part are whole."""
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
