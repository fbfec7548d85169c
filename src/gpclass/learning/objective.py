"""What is maximised over hyperparameters: log evidence plus log prior, with its gradient.

θ joins the kernel's log parameters and the likelihood's free ones. Evaluations are warm-started from the last good one.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..inference import Fit
from ..kernels import Kernel, Part
from .priors import log_prior

LOOSE = 1e-6  # engine tolerance on the way: gradients are off by about as much, the evidence of most engines by its square
MANY = 300  # rows times latent functions from which on a search is first made among fewer rows
TAIL = 10.0  # times the gain of the last iteration that a search which moves inducing inputs may still gain
FEW, LEAST, SHARE = 400, 60, 3  # a third of the rows, and no more or less than these


@dataclass(frozen=True)
class Evaluation:
    """The objective at one θ."""

    theta: np.ndarray
    value: float  # log evidence + log prior
    gradient: np.ndarray
    fit: Fit
    kernel: Kernel
    likelihood: Any


@dataclass(frozen=True)
class Objective:
    """log p(y | X, θ) + log p(θ) as a function of θ."""

    X: np.ndarray
    y: np.ndarray
    kernel: Kernel
    likelihood: Any
    engine: Any
    priors: list  # one per entry of θ

    @property
    def theta(self) -> np.ndarray:
        return np.concatenate([self.kernel.theta, self.likelihood.theta])

    @property
    def bounds(self) -> np.ndarray:
        return np.concatenate([self.kernel.bounds.reshape(-1, 2), self.likelihood.bounds.reshape(-1, 2)])

    @property
    def names(self) -> list[str]:
        return [*self.kernel.names, *self.likelihood.names]

    @property
    def tail(self) -> float:
        """How many times the gain of the last iteration a search may still gain: next to nothing, with so few parameters."""
        return 1.0

    def at(self, theta: np.ndarray) -> tuple[Kernel, Any]:
        """Kernel and likelihood with these hyperparameters."""
        p = len(self.kernel.theta)
        return self.kernel.with_theta(theta[:p]), self.likelihood.with_theta(theta[p:])

    def parts(self) -> list[Part]:
        """The terms of a sum of kernels, with places and values of the likelihood's parameters."""
        return parts_of(self.kernel, self.theta)

    def alone(self, part: Part) -> Objective:
        """The same with one of `parts` for a kernel."""
        return replace(self, kernel=part.kernel, priors=[self.priors[i] for i in part.own])

    def of_fewer_rows(self) -> Objective | None:
        """The same with a third of the rows, spread evenly over labels and order of the data; None if these are few."""
        n = len(self.y)
        if n * self.likelihood.n_latents < MANY or n // SHARE < LEAST:
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

    def fit(self, theta: np.ndarray, start: Any = None) -> tuple[Fit, Kernel, Any, np.ndarray]:
        kernel, likelihood = self.at(theta)
        K = kernel(self.X)
        return self.engine.fit(K, self.y, likelihood, start=start), kernel, likelihood, K

    def loose_fit(self, theta: np.ndarray, start: Any = None, tol: float = LOOSE) -> tuple[Fit, Kernel, Any, np.ndarray]:
        """The same as `fit`, with a posterior good to `tol`."""
        loose = replace(self, engine=_loosened(self.engine, tol))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the final fit, with all its digits, will say so
            return loose.fit(theta, start)

    def evaluate(self, theta: np.ndarray, start: Any = None, tol: float = LOOSE) -> Evaluation:
        """Value and gradient at θ, from a posterior good to `tol`: enough for a step of the optimiser."""
        prior, prior_gradient = self._log_prior(theta)
        fit, kernel, likelihood, K = self.loose_fit(theta, start, tol)
        G = fit.evidence_gradient()
        gradient = np.concatenate([kernel.pullback(self.X, G, value=K), fit.likelihood_gradient()]) + prior_gradient
        value = fit.log_evidence + prior
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            raise FloatingPointError(f"the objective is not finite at {self._describe(theta)}")
        return Evaluation(np.array(theta, float), value, gradient, fit, kernel, likelihood)

    def finish(self, evaluation: Evaluation) -> Fit:
        """The posterior of an evaluation, with all the digits that the engine's own tolerance asks for."""
        fit = evaluation.fit
        if fit.converged and fit.status.change <= getattr(self.engine, "tol", np.inf):
            return replace(fit, engine=self.engine)
        K = getattr(fit.posterior, "K", None)  # most posteriors hold it
        K = evaluation.kernel(self.X) if K is None else K
        return self.engine.fit(K, self.y, evaluation.likelihood, start=fit)

    def _log_prior(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = log_prior(theta, self.priors)
        if value == -np.inf:
            raise FloatingPointError(
                f"a prior has no density at {self._describe(theta)} (logs of kernel parameters). "
                "Start the kernel where its priors allow it to be."
            )
        return value, gradient

    def _describe(self, theta: np.ndarray) -> str:
        return ", ".join(f"{name} = {value:.4g}" for name, value in zip(self.names, theta, strict=True))


def parts_of(kernel: Kernel, theta: np.ndarray) -> list[Part]:
    """The terms of a sum of kernels. `theta` begins with the kernel's parameters; each part keeps all that follow these."""
    p = len(kernel.theta)
    rest = np.arange(p, len(theta))
    return [Part(part.kernel, np.append(part.own, rest), np.append(part.theta, theta[p:])) for part in kernel.parts()]


def _loosened(engine, tol):
    return replace(engine, tol=max(engine.tol, tol)) if hasattr(engine, "tol") else engine
