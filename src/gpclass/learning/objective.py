"""What is maximised over hyperparameters: log evidence plus log prior, with its gradient.

θ joins the kernel's log parameters, the likelihood's free ones, and those of the design: what the posterior rests on, and so
which covariances the engine sees. Evaluations are warm-started from the last good one.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..kernels import Kernel, Part
from .priors import Flat, log_prior

LOOSE = 1e-6  # engine tolerance on the way: gradients are off by about as much, the evidence of most engines by its square
MANY = 300  # rows times latent functions from which on a search is first made among fewer rows
TAIL = 10.0  # times the gain of the last iteration that a search which moves inducing inputs may still gain
FEW, LEAST, SHARE = 400, 60, 3  # a third of the rows, and no more or less than these


class Design(Protocol):
    """What a posterior rests on. `AllRows` is here, `InducingInputs` in inducing.py, `InducingPairs` in inducing_mnl.py.

    A design may have parameters of its own, such as inducing inputs that move.
    """

    cheap: bool  # whether an evaluation with all rows is so cheap that a search need not begin among fewer

    @property
    def theta(self) -> np.ndarray:
        """Parameters that follow the hyperparameters in θ."""

    @property
    def names(self) -> list[str]:
        """Their names."""

    def with_theta(self, theta: np.ndarray) -> Any:
        """The same design with other parameters."""

    def matrices(self, kernel: Kernel, X: np.ndarray) -> Any:
        """The covariances that the engine sees."""

    def fit(self, engine: Any, K: Any, y: np.ndarray, likelihood: Any, start: Any) -> Any:
        """The engine's fit with these covariances."""

    def pullback(self, kernel: Kernel, X: np.ndarray, K: Any, fit: Any) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of the log evidence in the kernel's θ and in the design's."""


@dataclass(frozen=True)
class AllRows:
    """A posterior that rests on all rows: the engine sees K of all pairs."""

    cheap = False

    @property
    def theta(self) -> np.ndarray:
        return np.zeros(0)

    @property
    def names(self) -> list[str]:
        return []

    def with_theta(self, theta: np.ndarray) -> AllRows:
        return self

    def matrices(self, kernel: Kernel, X: np.ndarray) -> Any:
        return kernel(X)

    def fit(self, engine: Any, K: Any, y: np.ndarray, likelihood: Any, start: Any) -> Any:
        return engine.fit(K, y, likelihood, start=start)

    def pullback(self, kernel: Kernel, X: np.ndarray, K: Any, fit: Any) -> tuple[np.ndarray, np.ndarray]:
        return kernel.pullback(X, fit.evidence_gradient(), value=K), np.zeros(0)


@dataclass(frozen=True)
class Evaluation:
    """The objective at one θ."""

    theta: np.ndarray
    value: float  # log evidence + log prior
    gradient: np.ndarray
    fit: Any
    kernel: Kernel
    likelihood: Any
    design: Design
    K: Any = field(repr=False)  # the covariances that the engine saw


@dataclass(frozen=True)
class Objective:
    """log p(y | X, θ) + log p(θ) as a function of θ."""

    X: np.ndarray
    y: np.ndarray
    kernel: Kernel
    likelihood: Any
    engine: Any
    priors: list  # one per hyperparameter; none: all are flat
    design: Design = AllRows()
    first: Any = None  # an earlier fit, for an evaluation without another start

    def __post_init__(self):
        if not self.priors:
            object.__setattr__(self, "priors", [Flat()] * self.n_hyper)

    @property
    def n_hyper(self) -> int:
        """Hyperparameters of kernel and likelihood, with which θ begins."""
        return len(self.kernel.theta) + len(self.likelihood.theta)

    @property
    def theta(self) -> np.ndarray:
        return np.concatenate([self.kernel.theta, self.likelihood.theta, self.design.theta])

    @property
    def bounds(self) -> np.ndarray:
        free = np.tile([-np.inf, np.inf], (len(self.design.theta), 1))
        return np.concatenate([self.kernel.bounds.reshape(-1, 2), self.likelihood.bounds.reshape(-1, 2), free])

    @property
    def names(self) -> list[str]:
        return [*self.kernel.names, *self.likelihood.names, *self.design.names]

    @property
    def tail(self) -> float:
        """How many times the gain of the last iteration a search may still gain.

        Next to nothing with few parameters; inducing inputs are many, and the last of them move slowly.
        """
        return TAIL if len(self.design.theta) else 1.0

    def at(self, theta: np.ndarray) -> tuple[Kernel, Any]:
        """Kernel and likelihood with these hyperparameters."""
        p = len(self.kernel.theta)
        return self.kernel.with_theta(theta[:p]), self.likelihood.with_theta(theta[p : self.n_hyper])

    def parts(self) -> list[Part]:
        """The terms of a sum of kernels, with places and values of the likelihood's parameters."""
        return parts_of(self.kernel, self.theta)

    def alone(self, part: Part) -> Objective:
        """The same with one of `parts` for a kernel."""
        return replace(self, kernel=part.kernel, priors=[self.priors[i] for i in part.own if i < self.n_hyper])

    def of_fewer_rows(self) -> Objective | None:
        """The same with a third of the rows, spread evenly over labels and order of the data; None if these are few."""
        n = len(self.y)
        if self.design.cheap or n * self.likelihood.n_latents < MANY or n // SHARE < LEAST:
            return None
        return self.of_rows(min(FEW, n // SHARE))

    def of_rows(self, count: int) -> Objective:
        """The same with at most so many rows, spread evenly over labels and order of the data."""
        n = len(self.y)
        if n <= count:
            return self
        by_label = np.argsort(self.y, kind="stable")
        rows = np.sort(by_label[np.linspace(0, n - 1, count).astype(int)])
        return replace(self, X=self.X[rows], y=self.y[rows])

    def fit(self, theta: np.ndarray, start: Any = None, tol: float = 0.0) -> Evaluation:
        """The posterior at θ, good to the engine's tolerance or to `tol`, without a gradient."""
        (kernel, likelihood), design = self.at(theta), self.design.with_theta(theta[self.n_hyper :])
        K = design.matrices(kernel, self.X)
        fit = design.fit(self.engine.loosened(tol), K, self.y, likelihood, self.first if start is None else start)
        evidence = np.nan if self.engine.draws else fit.log_evidence
        value = evidence + log_prior(theta[: self.n_hyper], self.priors)[0]
        return Evaluation(np.array(theta, float), value, np.full(len(theta), np.nan), fit, kernel, likelihood, design, K)

    def loose_fit(self, theta: np.ndarray, start: Any = None, tol: float = LOOSE) -> Evaluation:
        """The same as `fit`, with a posterior good to `tol`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the final fit, with all its digits, will say so
            return self.fit(theta, start, tol)

    def evaluate(self, theta: np.ndarray, start: Any = None, tol: float = LOOSE) -> Evaluation:
        """Value and gradient at θ, from a posterior good to `tol`: enough for a step of the optimiser."""
        self._check_prior(theta)
        return self.with_gradient(self.loose_fit(theta, start, tol))

    def with_gradient(self, found: Evaluation) -> Evaluation:
        """The same evaluation with its gradient."""
        in_kernel, in_design = found.design.pullback(found.kernel, self.X, found.K, found.fit)
        slope = log_prior(found.theta[: self.n_hyper], self.priors)[1]
        gradient = np.concatenate([np.concatenate([in_kernel, found.fit.likelihood_gradient()]) + slope, in_design])
        if not (np.isfinite(found.value) and np.all(np.isfinite(gradient))):
            raise FloatingPointError(f"the objective is not finite at {self._describe(found.theta)}")
        return replace(found, gradient=gradient)

    def finish(self, evaluation: Evaluation) -> Any:
        """The posterior of an evaluation, with all the digits that the engine's own tolerance asks for."""
        fit = evaluation.fit
        if fit.converged and self.engine.is_met(fit.status.change):
            return replace(fit, engine=self.engine)
        return evaluation.design.fit(self.engine, evaluation.K, self.y, evaluation.likelihood, fit)

    def _check_prior(self, theta: np.ndarray) -> None:
        if log_prior(theta[: self.n_hyper], self.priors)[0] == -np.inf:
            raise FloatingPointError(
                f"a prior has no density at {self._describe(theta)} (logs of kernel parameters). "
                "Start the kernel where its priors allow it to be."
            )

    def _describe(self, theta: np.ndarray) -> str:
        return ", ".join(f"{name} = {value:.4g}" for name, value in zip(self.names, theta[: self.n_hyper], strict=False))


def parts_of(kernel: Kernel, theta: np.ndarray) -> list[Part]:
    """The terms of a sum of kernels. `theta` begins with the kernel's parameters; each part keeps all that follow these."""
    p = len(kernel.theta)
    rest = np.arange(p, len(theta))
    return [Part(part.kernel, np.append(part.own, rest), np.append(part.theta, theta[p:])) for part in kernel.parts()]
