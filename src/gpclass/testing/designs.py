"""The arguments of an engine's `fit` for each design. The checks in `engines.py` change, fit and differentiate them.

A `Problem` holds covariances by name and targets. The checks scale them, permute rows or classes, and change one covariance
at a time. Each design defines how to call `fit`, and where the result has the derivatives.
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

ADDED_VARIANCE = 0.5  # added to conditional variances given the inducing variables, which are zero at inducing inputs


@dataclass(frozen=True)
class Problem:
    """Covariances and targets. With several latent functions, covariances are shared or have a first axis of functions."""

    parts: Mapping[str, Array]
    y: Array

    rows: ClassVar[dict[str, tuple[int, ...]]] = {}  # by name: axes of training rows
    symmetric: ClassVar[tuple[str, ...]] = ()
    smallest: ClassVar[float] = 1e-10  # prior scale for the limit of zero prior variance
    start_decides: ClassVar[bool] = False  # whether a start determines the active rows
    answers: ClassVar[tuple[str, ...]] = ("loo", "jensen_bound")  # further methods of a fit

    def fit(self, engine: Any, likelihood: Any, start: Any = None) -> Any:
        return engine.fit(*self.parts.values(), self.y, likelihood, start=start)

    def gradient(self, fit: Any) -> dict[str, Array]:
        """Return the derivatives of the evidence in the covariances, by name."""
        raise NotImplementedError

    def likelihood_gradient(self, fit: Any) -> Array:
        return fit.likelihood_gradient()

    def evidence(self, engine: Any, likelihood: Any, near: Any) -> float:
        """Return the evidence of which `gradient` returns the derivatives; `near` is a fit to a similar problem."""
        return self.fit(engine, likelihood, start=near).log_evidence

    def known(self, fit: Any) -> tuple[Rows, Any]:
        """Return rows, and predictions at their inputs, which should equal the marginals of the fit."""
        raise NotImplementedError

    def unknown(self, fit: Any, variances: Array) -> Any:
        """Return predictions at inputs with these prior variances and zero covariance with the training rows."""
        raise NotImplementedError

    def invalid(self) -> dict[str, Problem]:
        """Return invalid problems, by a description of the error. Every engine must reject them."""
        raise NotImplementedError

    def interior(self) -> Any:
        """Return a similar problem in which each covariance can be changed a little without making it invalid."""
        return self

    # changes ----------------------------------------------------------------------------------------------------------

    def replaced(self, y: Array | None = None, **parts: Any) -> Any:
        return replace(self, parts={**self.parts, **parts}, y=self.y if y is None else y)

    def scaled(self, factor: float) -> Any:
        return self.replaced(**{name: factor * part for name, part in self.parts.items()})

    def another_order(self, rng: np.random.Generator) -> Rows:
        """Return a random order of the rows."""
        return rng.permutation(len(self.y))

    def reordered(self, order: Rows) -> Any:
        """Return the problem with the rows in this order."""
        parts = dict(self.parts)
        for name, axes in self.rows.items():
            for axis in axes:
                parts[name] = np.take(parts[name], order, axis)
        return replace(self, parts=parts, y=self.y[order])

    def renamed(self, names: Rows) -> Any:
        """Return the problem with class c renamed to `names[c]`, including its covariances."""
        back = np.argsort(names)
        parts = {name: part if part.ndim == self.rank(name) else part[back] for name, part in self.parts.items()}
        return replace(self, parts=parts, y=names[self.y])

    def of_each_class(self, n_latents: int) -> Any:
        """Return the problem with a copy of the covariances for each latent function."""
        return self.replaced(**{name: np.stack([part] * n_latents) for name, part in self.parts.items()})

    def rank(self, name: str) -> int:
        """Return the number of axes of a covariance that is shared by all functions."""
        return 1 if name.endswith("diag") else 2

    def _entry(self, name: str, value: float) -> Any:
        """Return the problem with one variance or covariance replaced."""
        bad = self.parts[name].copy()
        bad[(..., 1, 1) if self.rank(name) == 2 else (..., 1)] = value
        return self.replaced(**{name: bad})


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
        """Prior variances, (n,) or (C, n)."""
        return np.diagonal(self.K, axis1=-2, axis2=-1)

    def gradient(self, fit: Any) -> dict[str, Array]:
        return {"K": fit.evidence_gradient()}

    def known(self, fit: Any) -> tuple[Rows, Any]:
        return np.arange(len(self.y)), fit.predict(self.K, self.variances)

    def unknown(self, fit: Any, variances: Array) -> Any:
        return fit.predict(np.zeros((len(self.y), len(variances))), variances)

    def invalid(self) -> dict[str, Problem]:
        lopsided = self.K.copy()
        lopsided[..., 0, 1] += 1.0
        return {
            "K with NaN": self._entry("K", np.nan),
            "K with an infinite entry": self._entry("K", np.inf),
            "K that is not square": self.replaced(K=self.K[..., :-1]),
            "K with one dimension": self.replaced(K=self.K.ravel()[: len(self.y)]),
            "K that is not symmetric": self.replaced(K=lopsided),
            "K with a negative variance": self._entry("K", -1.0),
            "K for fewer data than y": self.replaced(K=self.K[..., 1:, 1:]),
            "no data": self.replaced(K=np.zeros((0, 0)), y=self.y[:0]),
        }


@dataclass(frozen=True)
class ActiveRows(AllRows):
    """As `AllRows`, with sites on some rows: `fit.rows` are their numbers, `fit.at` their sites.

    Derivatives of the evidence are those with fixed rows and sites (`gpclass.sparse.log_evidence`).
    """

    start_decides: ClassVar = True
    smallest: ClassVar = 1e-8  # rows whose information is zero to ten digits are not included

    def another_order(self, rng: np.random.Generator) -> Rows:
        """Return a random order that keeps the first row first: ties in the selection are broken by row order."""
        return np.append(0, 1 + rng.permutation(len(self.y) - 1))

    def gradient(self, fit: Any) -> dict[str, Array]:
        sinks = [MatrixGradient(len(self.y)) for _ in range(fit.likelihood.n_latents)]
        self._evidence_of_sites(fit, fit.likelihood, sinks)
        total = np.stack([sink.total for sink in sinks])
        return {"K": total if self.K.ndim == 3 else total.sum(0)}

    def likelihood_gradient(self, fit: Any) -> Array:
        sinks = [MatrixGradient(len(self.y)) for _ in range(fit.likelihood.n_latents)]
        return self._evidence_of_sites(fit, fit.likelihood, sinks).in_theta

    def evidence(self, engine: Any, likelihood: Any, near: Any) -> float:
        return self._evidence_of_sites(near, likelihood).value

    def _evidence_of_sites(self, fit: Any, likelihood: Any, sinks: Any = None) -> Any:
        matrices = self.K if self.K.ndim == 3 else [self.K] * likelihood.n_latents
        return log_evidence([MatrixColumns(k) for k in matrices], fit.at, self.y, likelihood, None, sinks)

    def known(self, fit: Any) -> tuple[Rows, Any]:
        return np.arange(len(self.y)), fit.predict(self.K[..., fit.rows, :], self.variances)

    def unknown(self, fit: Any, variances: Array) -> Any:
        return fit.predict(np.zeros((len(fit.rows), len(variances))), variances)


@dataclass(frozen=True)
class InducingInputs(Problem):
    """`fit(K_uu, K_fu, k_diag, y, likelihood, start)`; `inducing` are the row numbers of the inducing inputs."""

    inducing: Rows

    rows: ClassVar = {"K_fu": (-2,), "k_diag": (-1,)}
    symmetric: ClassVar = ("K_uu",)
    answers: ClassVar = ()

    def gradient(self, fit: Any) -> dict[str, Array]:
        G = fit.evidence_gradient()
        return {"K_uu": G.uu, "K_fu": G.fu, "k_diag": G.diag}

    def interior(self) -> Any:
        return self.replaced(k_diag=self.parts["k_diag"] + ADDED_VARIANCE)

    def known(self, fit: Any) -> tuple[Rows, Any]:
        """Return predictions at the inducing inputs. At other rows they differ from the marginals of the fit."""
        at = self.inducing
        return at, fit.predict(np.swapaxes(self.parts["K_fu"][..., at, :], -1, -2), self.parts["k_diag"][..., at])

    def unknown(self, fit: Any, variances: Array) -> Any:
        return fit.predict(np.zeros((len(self.inducing), len(variances))), variances)

    def reordered(self, order: Rows) -> Any:
        return replace(super().reordered(order), inducing=np.argsort(order)[self.inducing])

    def invalid(self) -> dict[str, Problem]:
        K_uu, K_fu, k_diag = self.parts.values()
        return {
            **{f"{name} with NaN": self._entry(name, np.nan) for name in self.parts},
            **{f"{name} with an infinite entry": self._entry(name, np.inf) for name in self.parts},
            "K_fu of fewer inducing inputs": self.replaced(K_fu=K_fu[..., :-1]),
            "K_fu for fewer data than y": self.replaced(K_fu=K_fu[..., 1:, :]),
            "k_diag for fewer data than y": self.replaced(k_diag=k_diag[..., 1:]),
            "K_uu that is not square": self.replaced(K_uu=K_uu[..., 1:, :]),
            "K_uu with one dimension": self.replaced(K_uu=K_uu.ravel()),
            "k_diag with a negative variance": self._entry("k_diag", -1.0),
        }


@dataclass(frozen=True)
class InducingPairs(Problem):
    """`fit(InducingCovariance, y, likelihood, start)` with inducing variables at selected inputs and classes."""

    pairs: tuple[Rows, Rows]  # (s,) inputs and (s,) classes

    rows: ClassVar = {"fu": (-2,), "diag": (-1,)}
    symmetric: ClassVar = ("uu",)
    answers: ClassVar = ("loo",)

    def interior(self) -> Any:
        return self.replaced(diag=self.parts["diag"] + ADDED_VARIANCE)

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

    def invalid(self) -> dict[str, Problem]:
        fu, diag = self.parts["fu"], self.parts["diag"]
        inputs, classes = self.pairs
        twice = np.append(inputs, inputs[0]), np.append(classes, classes[0])
        return {
            **{f"{name} with NaN": self._entry(name, np.nan) for name in self.parts},
            "fu of fewer inducing inputs": self.replaced(fu=fu[..., :-1]),
            "fu for fewer data than y": self.replaced(fu=fu[..., 1:, :]),
            "diag for fewer data than y": self.replaced(diag=diag[..., 1:]),
            "an inducing variable twice": replace(self, pairs=twice),
            "a class that does not exist": replace(self, pairs=(inputs, classes + classes.max() + 1)),
            "an input that does not exist": replace(self, pairs=(inputs + inputs.max() + 1, classes)),
        }


def problem_of(design: str, K: Array, y: Array, n_latents: int, inducing: Rows | None = None) -> Any:
    """Return the problem with covariance matrix K, (n, n) or (C, n, n), in the form of a design.

    `inducing` are the row numbers of the inducing inputs; by default every second row.
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
        pairs = every if inducing is not None else (every[0][:-1], every[1][:-1])  # classes may have different inputs
        return InducingPairs(dict(zip(("uu", "fu", "diag"), parts, strict=True)), y, frozen(*pairs))
    raise ValueError(f"design must be that of an engine, but is {design!r}")
