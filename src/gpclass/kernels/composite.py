"""Sums and products of kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import accumulate
from operator import iadd, imul
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import Array
from .base import Evaluator, Kernel, MatrixKernel, Part
from .leaf import split_theta
from .settings import with_member_settings


class Composite(MatrixKernel):
    """A combination of kernels. theta, names and bounds are those of the members, one after the other.

    Parameters
    ----------
    *members : Kernel
        At least one kernel whose values are matrices. A sum within a sum is replaced by its members, and so is a product
        within a product.
    """

    members: tuple[MatrixKernel, ...]
    _combine: Callable[[Array, Array], Array]

    def __init__(self, *members: Kernel) -> None:
        if not members or not all(isinstance(k, Kernel) for k in members):
            raise TypeError(f"{type(self).__name__} takes kernels, at least one; got {members!r}.")
        self.__dict__["members"] = tuple(k for member in members for k in self._flattened(member))
        kinds = {k.takes: k for k in self.members if k.takes != "any"}
        if len(kinds) > 1:
            named = ", ".join(f"{type(k).__name__} takes {kind}" for kind, k in kinds.items())
            raise TypeError(f"kernels in a sum or product need the same inputs, but {named}.")

    def _flattened(self, member: Kernel) -> tuple[MatrixKernel, ...]:
        if isinstance(member, type(self)):
            return member.members
        if isinstance(member, MatrixKernel):
            return (member,)
        name = type(member).__name__
        raise TypeError(f"{name} cannot be part of a sum or product; put them inside: {name}(k1 + k2, ...).")

    # -- parameters ----------------------------------------------------------------------------------------------------

    @property
    def theta(self) -> Array:
        return np.concatenate([k.theta for k in self.members])

    @property
    def bounds(self) -> Array:
        return np.concatenate([k.bounds for k in self.members])

    @property
    def names(self) -> list[str]:
        return [f"{prefix}.{name}" for prefix, leaf in self._labelled() for name in leaf.names]

    def with_theta(self, theta: ArrayLike) -> Kernel:
        pieces = split_theta(theta, [len(k.theta) for k in self.members], self)
        return type(self)(*[k.with_theta(t) for k, t in zip(self.members, pieces, strict=True)])

    def fix(self, *names: str) -> Kernel:
        return self._on_leaves(names, lambda leaf, name: leaf.fix(name))

    def free(self, *names: str) -> Kernel:
        return self._on_leaves(names, lambda leaf, name: leaf.free(name))

    @property
    def _indices(self) -> list[NDArray[np.intp]]:
        """The indices of each member's parameters in theta."""
        ends = np.cumsum([len(k.theta) for k in self.members])
        return np.split(np.arange(ends[-1]), ends[:-1])

    def _on_leaves(self, names: tuple[str, ...], change: Callable[[Kernel, str], Kernel]) -> Kernel:
        """Apply `change` to each leaf that a name refers to: 'rbf.variance' to one, 'variance' to all that have it."""
        prefixes, leaves = zip(*self._labelled(), strict=True)
        changed = list(leaves)
        for name in names:
            prefix, _, own = name.rpartition(".")
            hit = [i for i, leaf in enumerate(leaves) if prefix in ("", prefixes[i]) and leaf._has_parameter(own)]
            if not hit:
                raise ValueError(f"no parameter {name!r} in {self!r}; it has {self._all_names()}.")
            for i in hit:
                changed[i] = change(changed[i], own)
        return self._with_leaves(iter(changed))

    def _all_names(self) -> list[str]:
        return [f"{prefix}.{name}" for prefix, leaf in self._labelled() for name in leaf._all_names()]

    def settings(self) -> dict[str, Any]:
        return {f"{prefix}__{name}": v for prefix, leaf in self._labelled() for name, v in leaf.settings().items()}

    def with_settings(self, **settings: Any) -> Kernel:
        return self._with_leaves(iter(with_member_settings(self, self._labelled(), settings)))

    def for_columns(self, n_columns: int) -> Kernel:
        return type(self)(*[k.for_columns(n_columns) for k in self.members])

    def _labelled(self) -> list[tuple[str, Kernel]]:
        """Return each leaf with its prefix: the class name, with a number if the class appears more than once."""
        stems = [type(leaf).__name__.lower() for leaf in self.leaves]
        total, seen, labelled = Counter(stems), Counter[str](), []
        for stem, leaf in zip(stems, self.leaves, strict=True):
            seen[stem] += 1
            labelled.append((f"{stem}{seen[stem]}" if total[stem] > 1 else stem, leaf))
        return labelled

    @property
    def leaves(self) -> tuple[Kernel, ...]:
        return tuple(leaf for k in self.members for leaf in k.leaves)

    def _with_leaves(self, leaves: Iterator[Kernel]) -> Kernel:
        return type(self)(*[k._with_leaves(leaves) for k in self.members])

    # -- values --------------------------------------------------------------------------------------------------------

    def seen(self, X: Array) -> Array:
        return next((k for k in self.members if _has_units(k)), self.members[0]).seen(X)

    @property
    def own_units(self) -> bool:
        return all(k.own_units for k in self.members)

    def _matrix(self, X: Array, Z: Array | None) -> Array:
        self._diagonal(X if Z is None else np.concatenate([X, Z]))  # a finite diagonal makes all values finite
        return reduce(self._combine, (k._matrix(X, Z) for k in self.members))

    def _diagonal(self, X: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            diagonal = reduce(self._combine, (k._diagonal(X) for k in self.members))
        if not np.isfinite(diagonal).all():
            raise ValueError(f"{self!r} overflows at inputs of {np.abs(X).max(initial=0):.3g}. Rescale the inputs.")
        return diagonal

    def _evaluator(self, X: Array) -> Evaluator:
        evaluators = [k._evaluator(X) for k in self.members]
        return lambda Z, rows: reduce(self._combine, (evaluate(Z, rows) for evaluate in evaluators))

    def __hash__(self) -> int:
        return hash((type(self), self.members))


class Sum(Composite):
    """k(x, z) = Σ_i k_i(x, z)."""

    _combine = staticmethod(iadd)

    def parts(self) -> list[Part]:
        """Return each term alone, then the sums in which one term is replaced by a part of that term.

        Each part includes the terms that cannot be switched off.
        """
        offs, indices, found = [k.off() for k in self.members], self._indices, {}
        for i in range(len(self.members)):
            kept = tuple(j for j, off in enumerate(offs) if j == i or off is None)
            if len(kept) < len(self.members):
                found[kept] = self._only(kept, offs, indices)
        return [*found.values(), *_inner_parts(self)]

    def _only(self, kept, offs, indices) -> Part:
        members = [self.members[j] for j in kept]
        theta = [k.theta if j in kept else offs[j] for j, k in enumerate(self.members)]
        kernel = members[0] if len(members) == 1 else Sum(*members)
        return Part(kernel, np.concatenate([indices[j] for j in kept]), np.concatenate(theta))

    def off(self) -> Array | None:
        offs = [k.off() for k in self.members]
        return None if any(off is None for off in offs) else np.concatenate(offs)  # type: ignore[arg-type]

    def _pullback(
        self, X: Array, Z: Array | None, G: Array, inputs: bool, value: Array | None
    ) -> tuple[Array, Array | None]:
        return _joined([k._pullback(X, Z, G, inputs, None) for k in self.members], inputs)

    def _pullback_diagonal(self, X: Array, g: Array) -> tuple[Array, Array]:
        return _joined([k._pullback_diagonal(X, g) for k in self.members], True)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.members))


class Product(Composite):
    """k(x, z) = Π_i k_i(x, z)."""

    _combine = staticmethod(imul)

    def parts(self) -> list[Part]:
        """Return the parts of each factor times the other factors: A * C and B * C for (A + B) * C."""
        return _inner_parts(self)

    def off(self) -> Array | None:
        """Return theta with one factor switched off: the first that can be."""
        for k, indices in zip(self.members, self._indices, strict=True):
            off = k.off()
            if off is not None:
                theta = self.theta
                theta[indices] = off
                return theta
        return None

    def _pullback(
        self, X: Array, Z: Array | None, G: Array, inputs: bool, value: Array | None
    ) -> tuple[Array, Array | None]:
        values = [k._matrix(X, Z) for k in self.members]
        others = _products_of_others(values, G)
        return _joined(
            [k._pullback(X, Z, H, inputs, V) for k, H, V in zip(self.members, others, values, strict=True)], inputs
        )

    def _pullback_diagonal(self, X: Array, g: Array) -> tuple[Array, Array]:
        others = _products_of_others([k._diagonal(X) for k in self.members], g)
        return _joined([k._pullback_diagonal(X, h) for k, h in zip(self.members, others, strict=True)], True)

    def __repr__(self) -> str:
        return " * ".join(f"({k!r})" if isinstance(k, Sum) else repr(k) for k in self.members)


def _has_units(kernel: Kernel) -> bool:
    return any(leaf.lengthscale is not None and leaf.lengthscale_has_units for leaf in kernel.leaves)


def _inner_parts(whole: Composite) -> list[Part]:
    """Return the whole with one member replaced by a part of it, for each part of each member."""
    found, indices = [], whole._indices
    for i, member in enumerate(whole.members):
        for part in member.parts():
            theta, own = whole.theta, [*indices]
            theta[indices[i]], own[i] = part.theta, indices[i][part.own]
            members = [part.kernel if j == i else k for j, k in enumerate(whole.members)]
            found.append(Part(type(whole)(*members), np.concatenate(own), theta))
    return found


def _products_of_others(values: list[Array], G: Array) -> Iterator[Array]:
    """Yield G ∘ Π_{j≠i} values[j] for each i. Products from both ends avoid divisions, so values may be zero."""
    from_right = list(accumulate(values[:0:-1], np.multiply))[::-1]
    left = G
    for i, V in enumerate(values[:-1]):
        yield left * from_right[i]
        left = left * V
    yield left


def _joined(results: list, inputs: bool) -> tuple[Array, Array]:
    """Concatenate the members' gradients in theta, and add up those in the inputs."""
    dthetas, dinputs = zip(*results, strict=True)
    return np.concatenate(dthetas), reduce(iadd, dinputs) if inputs else None  # type: ignore[return-value]
