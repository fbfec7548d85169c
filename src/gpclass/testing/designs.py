"""The arguments of an engine's `fit`, by design: what the checks in `engines.py` change, fit and differentiate.

A `Problem` holds covariances by name and targets. The checks scale them, put rows or classes into another order and move
one covariance at a time; what `fit` wants of them, and where its answer has the derivatives, each design says for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..gaussian import InducingCovariance, MatrixColumns, MatrixGradient
from ..sparse import log_evidence
from .pieces import Array
from .problems import frozen

Rows = NDArray[np.intp]

ROOM = 0.5  # variance that the inducing variables do not know: at their own inputs there would be none to move in


@dataclass(frozen=True)
class Problem:
    """Covariances and targets. With several latent functions covariances are shared, or have an axis of functions first."""

    parts: Mapping[str, Array]
    y: Array

    rows: ClassVar[dict[str, tuple[int, ...]]] = {}  # by name: axes that are data
    symmetric: ClassVar[tuple[str, ...]] = ()
    smallest: ClassVar[float] = 1e-10  # prior scale at which the limit of no prior variance is looked at
    start_decides: ClassVar[bool] = False  # whether a start says which rows the posterior rests on
    answers: ClassVar[tuple[str, ...]] = ("loo", "jensen_bound")  # what else a fit can be asked

    def fit(self, engine: Any, likelihood: Any, start: Any = None) -> Any:
        return engine.fit(*self.parts.values(), self.y, likelihood, start=start)

    def gradient(self, fit: Any) -> dict[str, Array]:
        """Derivatives of the evidence in the covariances, by name."""
        raise NotImplementedError

    def likelihood_gradient(self, fit: Any) -> Array:
        return fit.likelihood_gradient()

    def evidence(self, engine: Any, likelihood: Any, near: Any) -> float:
        """What the derivatives are of; `near` is a fit to a problem nearby."""
        return self.fit(engine, likelihood, start=near).log_evidence

    def known(self, fit: Any) -> tuple[Rows, Any]:
        """Rows, and predictions at their inputs that should have the marginals of the fit itself."""
        raise NotImplementedError

    def unknown(self, fit: Any, variances: Array) -> Any:
        """Predictions at inputs with these prior variances that have no covariance with anything."""
        raise NotImplementedError

    def spoilt(self) -> dict[str, Problem]:
        """Problems that no engine may take, by what is wrong."""
        raise NotImplementedError

    def interior(self) -> Any:
        """A problem like this whose covariances may all move a little, each by itself."""
        return self

    # changes ----------------------------------------------------------------------------------------------------------

    def having(self, y: Array | None = None, **parts: Any) -> Any:
        return replace(self, parts={**self.parts, **parts}, y=self.y if y is None else y)

    def scaled(self, factor: float) -> Any:
        return self.having(**{name: factor * part for name, part in self.parts.items()})

    def another_order(self, rng: np.random.Generator) -> Rows:
        """A random order of the rows."""
        return rng.permutation(len(self.y))

    def reordered(self, order: Rows) -> Any:
        """With the rows in another order."""
        parts = dict(self.parts)
        for name, axes in self.rows.items():
            for axis in axes:
                parts[name] = np.take(parts[name], order, axis)
        return replace(self, parts=parts, y=self.y[order])

    def renamed(self, names: Rows) -> Any:
        """With class c called `names[c]`; the covariances of its function go with it."""
        back = np.argsort(names)
        parts = {name: part if part.ndim == self.rank(name) else part[back] for name, part in self.parts.items()}
        return replace(self, parts=parts, y=names[self.y])

    def of_each_class(self, n_latents: int) -> Any:
        """The same with copies of the covariances for each latent function."""
        return self.having(**{name: np.stack([part] * n_latents) for name, part in self.parts.items()})

    def rank(self, name: str) -> int:
        """Axes of a covariance that is shared."""
        return 1 if name.endswith("diag") else 2

    def _entry(self, name: str, value: float) -> Any:
        """With one variance or covariance replaced."""
        bad = self.parts[name].copy()
        bad[(..., 1, 1) if self.rank(name) == 2 else (..., 1)] = value
        return self.having(**{name: bad})


@dataclass(frozen=True)
class AllRows(Problem):
    """`fit(K, y, likelihood, start)`."""

    rows: ClassVar = {"K": (-2, -1)}
    symmetric: ClassVar = ("K",)

    @property
    def K(self) -> Array:
        return self.parts["K"]

    @property
    def variances(self) -> Array:
        """(n,) or (C, n)"""
        return np.diagonal(self.K, axis1=-2, axis2=-1)

    def gradient(self, fit: Any) -> dict[str, Array]:
        return {"K": fit.evidence_gradient()}

    def known(self, fit: Any) -> tuple[Rows, Any]:
        return np.arange(len(self.y)), fit.predict(self.K, self.variances)

    def unknown(self, fit: Any, variances: Array) -> Any:
        return fit.predict(np.zeros((len(self.y), len(variances))), variances)

    def spoilt(self) -> dict[str, Problem]:
        lopsided = self.K.copy()
        lopsided[..., 0, 1] += 1.0
        return {
            "K with NaN": self._entry("K", np.nan),
            "K with an infinite entry": self._entry("K", np.inf),
            "K that is not square": self.having(K=self.K[..., :-1]),
            "K with one dimension": self.having(K=self.K.ravel()[: len(self.y)]),
            "K that is not symmetric": self.having(K=lopsided),
            "K with a negative variance": self._entry("K", -1.0),
            "K for fewer data than y": self.having(K=self.K[..., 1:, 1:]),
            "no data": self.having(K=np.zeros((0, 0)), y=self.y[:0]),
        }


@dataclass(frozen=True)
class ActiveRows(AllRows):
    """The same, with sites on some rows: `fit.rows` names them, `fit.at` are their sites.

    The evidence has derivatives with these held (`gpclass.sparse.log_evidence`).
    """

    start_decides: ClassVar = True
    smallest: ClassVar = 1e-8  # rows are not included if they tell nothing to ten digits

    def another_order(self, rng: np.random.Generator) -> Rows:
        """With the first row first: rows that tell as much as each other are taken in order."""
        return np.append(0, 1 + rng.permutation(len(self.y) - 1))

    def gradient(self, fit: Any) -> dict[str, Array]:
        sinks = [MatrixGradient(len(self.y)) for _ in range(fit.likelihood.n_latents)]
        self._held(fit, fit.likelihood, sinks)
        total = np.stack([sink.total for sink in sinks])
        return {"K": total if self.K.ndim == 3 else total.sum(0)}

    def likelihood_gradient(self, fit: Any) -> Array:
        sinks = [MatrixGradient(len(self.y)) for _ in range(fit.likelihood.n_latents)]
        return self._held(fit, fit.likelihood, sinks).in_theta

    def evidence(self, engine: Any, likelihood: Any, near: Any) -> float:
        return self._held(near, likelihood).value

    def _held(self, fit: Any, likelihood: Any, sinks: Any = None) -> Any:
        matrices = self.K if self.K.ndim == 3 else [self.K] * likelihood.n_latents
        return log_evidence([MatrixColumns(k) for k in matrices], fit.at, self.y, likelihood, None, sinks)

    def known(self, fit: Any) -> tuple[Rows, Any]:
        return np.arange(len(self.y)), fit.predict(self.K[..., fit.rows, :], self.variances)

    def unknown(self, fit: Any, variances: Array) -> Any:
        return fit.predict(np.zeros((len(fit.rows), len(variances))), variances)


@dataclass(frozen=True)
class InducingInputs(Problem):
    """`fit(K_uu, K_fu, k_diag, y, likelihood, start)`; `inducing` are the rows that the inducing inputs are."""

    inducing: Rows

    rows: ClassVar = {"K_fu": (-2,), "k_diag": (-1,)}
    symmetric: ClassVar = ("K_uu",)
    answers: ClassVar = ()

    def gradient(self, fit: Any) -> dict[str, Array]:
        G = fit.evidence_gradient()
        return {"K_uu": G.uu, "K_fu": G.fu, "k_diag": G.diag}

    def interior(self) -> Any:
        return self.having(k_diag=self.parts["k_diag"] + ROOM)

    def known(self, fit: Any) -> tuple[Rows, Any]:
        """Of other rows the inducing variables do not know all that the label says."""
        at = self.inducing
        return at, fit.predict(np.swapaxes(self.parts["K_fu"][..., at, :], -1, -2), self.parts["k_diag"][..., at])

    def unknown(self, fit: Any, variances: Array) -> Any:
        return fit.predict(np.zeros((len(self.inducing), len(variances))), variances)

    def reordered(self, order: Rows) -> Any:
        return replace(super().reordered(order), inducing=np.argsort(order)[self.inducing])

    def spoilt(self) -> dict[str, Problem]:
        K_uu, K_fu, k_diag = self.parts.values()
        return {
            **{f"{name} with NaN": self._entry(name, np.nan) for name in self.parts},
            **{f"{name} with an infinite entry": self._entry(name, np.inf) for name in self.parts},
            "K_fu of fewer inducing inputs": self.having(K_fu=K_fu[..., :-1]),
            "K_fu for fewer data than y": self.having(K_fu=K_fu[..., 1:, :]),
            "k_diag for fewer data than y": self.having(k_diag=k_diag[..., 1:]),
            "K_uu that is not square": self.having(K_uu=K_uu[..., 1:, :]),
            "K_uu with one dimension": self.having(K_uu=K_uu.ravel()),
            "k_diag with a negative variance": self._entry("k_diag", -1.0),
            "more inducing inputs than data": self.having(K_fu=K_fu[..., :2, :], k_diag=k_diag[..., :2], y=self.y[:2]),
        }


@dataclass(frozen=True)
class InducingPairs(Problem):
    """`fit(InducingCovariance, y, likelihood, start)` with inducing variables of chosen inputs and classes."""

    pairs: tuple[Rows, Rows]  # (s,) inputs and (s,) classes

    rows: ClassVar = {"fu": (-2,), "diag": (-1,)}
    symmetric: ClassVar = ("uu",)
    answers: ClassVar = ("loo",)

    def interior(self) -> Any:
        return self.having(diag=self.parts["diag"] + ROOM)

    def fit(self, engine: Any, likelihood: Any, start: Any = None) -> Any:
        uu, fu, diag = self.parts.values()
        return engine.fit(InducingCovariance(uu, fu, diag, *self.pairs), self.y, likelihood, start=start)

    def gradient(self, fit: Any) -> dict[str, Array]:
        G = fit.evidence_gradient()
        return {"uu": G.uu, "fu": G.fu, "diag": G.diag}

    def known(self, fit: Any) -> tuple[Rows, Any]:
        return np.arange(len(self.y)), fit.predict(np.swapaxes(self.parts["fu"], -1, -2), self.parts["diag"])

    def unknown(self, fit: Any, variances: Array) -> Any:
        return fit.predict(np.zeros((self.parts["uu"].shape[-1], len(variances))), variances)

    def renamed(self, names: Rows) -> Any:
        return replace(super().renamed(names), pairs=(self.pairs[0], names[self.pairs[1]]))

    def spoilt(self) -> dict[str, Problem]:
        fu, diag = self.parts["fu"], self.parts["diag"]
        inputs, classes = self.pairs
        twice = np.append(inputs, inputs[0]), np.append(classes, classes[0])
        return {
            **{f"{name} with NaN": self._entry(name, np.nan) for name in self.parts},
            "fu of fewer inducing inputs": self.having(fu=fu[..., :-1]),
            "fu for fewer data than y": self.having(fu=fu[..., 1:, :]),
            "diag for fewer data than y": self.having(diag=diag[..., 1:]),
            "an inducing variable twice": replace(self, pairs=twice),
            "a class that there is not": replace(self, pairs=(inputs, classes + classes.max() + 1)),
            "an input that there is not": replace(self, pairs=(inputs + inputs.max() + 1, classes)),
        }


def posed(design: str, K: Array, y: Array, n_latents: int, inducing: Rows | None = None) -> Any:
    """The problem with covariance matrix K, (n, n) or (C, n, n), as a design asks for it.

    `inducing` are the rows that the inducing inputs are; by default every other one.
    """
    at = np.arange(0, len(y), 2) if inducing is None else inducing
    parts = K[..., at[:, None], at], K[..., at], np.diagonal(K, axis1=-2, axis2=-1)
    if design == "all rows":
        return AllRows({"K": K}, y)
    if design == "active rows":
        return ActiveRows({"K": K}, y)
    if design == "inducing inputs":
        return InducingInputs(dict(zip(("K_uu", "K_fu", "k_diag"), parts, strict=True)), y, at)
    if design == "inducing pairs":
        every = np.repeat(np.arange(len(at)), n_latents), np.tile(np.arange(n_latents), len(at))
        pairs = every if inducing is not None else (every[0][:-1], every[1][:-1])  # not all classes need have all inputs
        return InducingPairs(dict(zip(("uu", "fu", "diag"), parts, strict=True)), y, frozen(*pairs))
    raise ValueError(f"design must be that of an engine, but is {design!r}")
