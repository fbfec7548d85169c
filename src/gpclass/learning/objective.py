"""The objective of learning: log evidence plus log prior as a function of the hyperparameters, with its gradient.

θ contains the log parameters of the kernel, the free parameters of the likelihood, and those of the design. The design is
the set of inputs that represents the posterior, and determines which covariances the engine needs. Evaluations are
warm-started from the last successful one.
"""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..engines.observations import main_targets, targets_at
from ..kernels import Kernel, Part
from ..numerics import single_precision
from ..numerics.fingerprint import RowPrints
from ..numerics.threads import threads_for
from .priors import Flat, log_prior

SEARCH_TOL = 1e-6  # engine tolerance during a search, about the error of gradients; errors of most evidences are its square
SUBSET_FROM = 300  # rows times latent functions above which a search starts with a subset of the rows
INDUCING_TAIL = 10.0  # largest remaining gain, in gains of the last iteration, if the search moves inducing inputs
SINGLE_SIZE = 400  # size of a problem (`Engine.size`) from which evaluations in single precision are faster
SINGLE_ROUNDING = 3e-4  # largest `rounding` of a posterior in single precision: values are accurate to about 0.01 nats there
SINGLE_SWEEPS = 20  # maximum number of sweeps in single precision; if they do not converge, double precision is needed
VARIANCE_ROWS = 100  # rows from which the prior variance is computed
SUBSET_SHARE, LEAST_SUBSET_ROWS, SUBSET_ROWS = 3, 60, 400  # the subset is a third of the rows, at least 60 and at most 400


FAILURES = (np.linalg.LinAlgError, FloatingPointError, ValueError, OverflowError)  # errors of an evaluation


class TooCoarse(Exception):
    """Single precision is not enough for an evaluation."""


class Design(Protocol):
    """The inputs that represent a posterior, and the covariances that the engine needs for them.

    A design may have parameters, such as inducing inputs that move. `AllRows` is in this file, `InducingInputs` in
    inducing.py, `InducingPairs` in inducing_mnl.py.
    """

    cheap: bool  # whether an evaluation is so cheap that a search need not start with a subset of the rows

    @property
    def theta(self) -> np.ndarray:
        """Return the parameters, which follow the hyperparameters in θ."""

    @property
    def names(self) -> list[str]:
        """Return the names of the parameters."""

    def with_theta(self, theta: np.ndarray) -> Any:
        """Return a design with these parameters."""

    def matrices(self, kernel: Kernel, X: np.ndarray) -> Any:
        """Return the covariances that the engine needs."""

    def fit(self, engine: Any, K: Any, y: np.ndarray, likelihood: Any, start: Any) -> Any:
        """Return the fit of the engine with these covariances."""

    def pullback(self, kernel: Kernel, X: np.ndarray, K: Any, fit: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives of the log evidence in the parameters of the kernel and of the design."""


@dataclass(frozen=True)
class AllRows:
    """Design with all rows: the engine needs the covariance matrix K of all rows."""

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
    """The objective at one θ.

    Attributes
    ----------
    theta : ndarray of shape (p,)
        Hyperparameters and parameters of the design.
    value : float
        Log evidence plus log prior.
    gradient : ndarray of shape (p,)
        Gradient of `value`; NaN if it was not computed.
    fit : Fit
        The fit of the engine.
    kernel : Kernel
        The kernel at `theta`.
    likelihood : Likelihood
        The likelihood at `theta`.
    design : Design
        The design at `theta`.
    K : object
        The covariances that the engine was given.
    single : bool
        Whether factorisations were in single precision.
    """

    theta: np.ndarray
    value: float
    gradient: np.ndarray
    fit: Any
    kernel: Kernel
    likelihood: Any
    design: Design
    K: Any = field(repr=False)
    single: bool = False


@dataclass(frozen=True)
class Objective:
    """log p(y | X, θ) + log p(θ) as a function of θ.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Training inputs.
    y : ndarray of shape (n,) or Observed
        Targets of the likelihood. With weights, or with several targets for a row of X, they are `Observed`.
    kernel : Kernel
        The kernel; its parameters are the start of learning.
    likelihood : Likelihood
        The likelihood; its parameters are the start of learning.
    engine : Engine
        The engine that computes the posterior and the evidence.
    priors : list
        One prior per hyperparameter. An empty list means flat priors.
    design : Design, default=AllRows()
        The inputs that represent the posterior.
    first : Fit, optional
        An earlier fit, the warm start of an evaluation that is given no other.
    prints : RowPrints, optional
        Fingerprints of X, which several objectives may share.
    """

    X: np.ndarray
    y: np.ndarray
    kernel: Kernel
    likelihood: Any
    engine: Any
    priors: list
    design: Design = AllRows()
    first: Any = None
    prints: RowPrints | None = field(default=None, repr=False)

    def __post_init__(self):
        if not self.priors:
            object.__setattr__(self, "priors", [Flat()] * self.n_hyper)

    @property
    def n_hyper(self) -> int:
        """Number of hyperparameters of kernel and likelihood, the first entries of θ."""
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
    def shifts(self) -> np.ndarray:
        """Which parameters shift the latent functions: biases and the first threshold of ordered categories, bool (p,)."""
        return np.array([name.split("[")[0] in ("bias", "threshold") for name in self.names], bool)

    def units_at(self, theta: np.ndarray) -> np.ndarray:
        """Return the length of a usual step of each parameter: one for logs, for shifts the prior's standard deviation.

        A constant with this standard deviation could replace a shift. So the curvature of the log evidence along a shift is
        at least about one in this unit.
        """
        shifts = self.shifts
        if not shifts.any():
            return np.ones(len(shifts))
        some = np.asarray(self.X[:VARIANCE_ROWS], float)
        return np.where(shifts, np.sqrt(np.mean(self.at(theta)[0].separated[0].diag(some))), 1.0)

    @property
    def offers_single(self) -> bool:
        """Whether evaluations in single precision are possible, and faster."""
        return self.engine.single and self.engine.size(len(self.X), self.likelihood.n_latents) >= SINGLE_SIZE

    @property
    def tail(self) -> float:
        """Largest remaining gain to expect of a search, in gains of the last iteration.

        It is larger if inducing inputs are parameters: they are many, and some of them move slowly.
        """
        return INDUCING_TAIL if len(self.design.theta) else 1.0

    def at(self, theta: np.ndarray) -> tuple[Kernel, Any]:
        """Return kernel and likelihood with these hyperparameters."""
        p = len(self.kernel.theta)
        return self.kernel.with_theta(theta[:p]), self.likelihood.with_theta(theta[p : self.n_hyper])

    def parts(self) -> list[Part]:
        """Return the terms of a sum of kernels. Each has all parameters that follow those of the kernel in θ."""
        p, theta = len(self.kernel.theta), self.theta
        rest = np.arange(p, len(theta))
        found = self.kernel.parts()
        return [Part(part.kernel, np.append(part.own, rest), np.append(part.theta, theta[p:])) for part in found]

    def alone(self, part: Part) -> Objective:
        """Return the objective with one of `parts` as its kernel."""
        return replace(self, kernel=part.kernel, priors=[self.priors[i] for i in part.own if i < self.n_hyper])

    def of_fewer_rows(self) -> Objective | None:
        """Return the objective on a third of the rows, chosen as in `of_rows`; None if there are too few."""
        n = len(self.X)
        if self.design.cheap or n * self.likelihood.n_latents < SUBSET_FROM or n // SUBSET_SHARE < LEAST_SUBSET_ROWS:
            return None
        return self.of_rows(min(SUBSET_ROWS, n // SUBSET_SHARE))

    def of_rows(self, count: int) -> Objective:
        """Return the objective on at most `count` rows, spread evenly over the labels.

        The choice depends on the rows, not on their order.
        """
        n = len(self.X)
        if n <= count:
            return self
        prints = self.prints if self.prints is not None and self.prints.X is self.X else RowPrints(self.X)
        by_label = np.lexsort((prints.values, main_targets(self.y)))
        rows = np.sort(by_label[np.linspace(0, n - 1, count).astype(int)])
        return replace(self, X=self.X[rows], y=targets_at(self.y, rows))

    def fit(self, theta: np.ndarray, start: Any = None, tol: float | None = None) -> Evaluation:
        """Return the posterior at θ without a gradient.

        By default it is converged to the tolerance of the engine. With `tol` it is converged to that tolerance, if it is
        larger, and without convergence warnings: the final fit of a search warns.
        """
        (kernel, likelihood), design = self.at(theta), self.design.with_theta(theta[self.n_hyper :])
        start = self.first if start is None else start
        with self.threads(), nullcontext() if tol is None else warnings.catch_warnings():
            if tol is not None:
                warnings.simplefilter("ignore", ConvergenceWarning)
            K = design.matrices(kernel, self.X)
            fit = design.fit(self.engine.loosened(tol or 0.0), K, self.y, likelihood, start)
        evidence = np.nan if self.engine.draws else fit.log_evidence
        value = evidence + log_prior(theta[: self.n_hyper], self.priors)[0]
        return Evaluation(np.array(theta, float), value, np.full(len(theta), np.nan), fit, kernel, likelihood, design, K)

    def threads(self) -> AbstractContextManager:
        """Return a context in which BLAS uses one thread if this objective has few rows.

        Searches begin with a subset of the rows, and threads would make these evaluations slower.
        """
        return threads_for(self.engine.size(len(self.X), self.likelihood.n_latents))

    def evaluate(self, theta: np.ndarray, start: Any = None, tol: float = SEARCH_TOL) -> Evaluation:
        """Return value and gradient at θ. The posterior is converged to `tol`, enough for a step of the optimiser."""
        self._check_prior(theta)
        return self.with_gradient(self.fit(theta, start, tol))

    def evaluate_in_single(self, theta: np.ndarray, start: Any = None, tol: float = SEARCH_TOL) -> Evaluation:
        """Return value and gradient at θ with factorisations in single precision, for the first part of a search.

        Raise TooCoarse as `fit_in_single` does.
        """
        self._check_prior(theta)
        found = self.fit_in_single(theta, start, tol)
        try:
            return self.with_gradient(found)
        except (np.linalg.LinAlgError, FloatingPointError) as error:
            raise self._too_coarse(theta, str(error)) from error

    def fit_in_single(self, theta: np.ndarray, start: Any = None, tol: float = SEARCH_TOL) -> Evaluation:
        """Return the posterior at θ with factorisations in single precision, without a gradient.

        Sweeps converge to `tol` or to the rounding of float32 (`rounding` of posteriors).

        Raises
        ------
        TooCoarse
            If that rounding is too large, or sweeps do not converge.
        """
        engine = replace(self.engine, max_iter=min(self.engine.max_iter, SINGLE_SWEEPS))
        try:
            with single_precision():
                found = replace(self, engine=engine).fit(theta, start, tol)
            rounding = found.fit.posterior.rounding
            if found.fit.converged and rounding <= SINGLE_ROUNDING:
                return replace(found, single=True)
            coarse = rounding > SINGLE_ROUNDING
            reason = f"it rounds by {rounding:.0e} standard deviations" if coarse else "sweeps do not converge"
        except (np.linalg.LinAlgError, FloatingPointError) as error:
            reason = str(error)
        raise self._too_coarse(theta, reason)

    def _too_coarse(self, theta: np.ndarray, reason: str) -> TooCoarse:
        return TooCoarse(f"float32 is too coarse at {self._describe(theta)}: {reason}")

    def with_gradient(self, found: Evaluation) -> Evaluation:
        """Return the evaluation with its gradient."""
        with self.threads():
            in_kernel, in_design = found.design.pullback(found.kernel, self.X, found.K, found.fit)
            in_likelihood = found.fit.likelihood_gradient()
        slope = log_prior(found.theta[: self.n_hyper], self.priors)[1]
        gradient = np.concatenate([np.concatenate([in_kernel, in_likelihood]) + slope, in_design])
        if not (np.isfinite(found.value) and np.all(np.isfinite(gradient))):
            raise FloatingPointError(f"the objective is not finite at {self._describe(found.theta)}")
        return replace(found, gradient=gradient)

    def finish(self, evaluation: Evaluation) -> Any:
        """Return the posterior of an evaluation, converged to the tolerance of the engine."""
        fit, tol = evaluation.fit, self.engine.tol
        if fit.converged and (tol is None or fit.status.change <= tol) and not evaluation.single:
            return replace(fit, engine=self.engine)
        return evaluation.design.fit(self.engine, evaluation.K, self.y, evaluation.likelihood, fit)

    def _check_prior(self, theta: np.ndarray) -> None:
        if log_prior(theta[: self.n_hyper], self.priors)[0] == -np.inf:
            raise FloatingPointError(
                f"a prior has no density at {self._describe(theta)} (logs of kernel parameters). "
                "Start the kernel at values where its priors have density."
            )

    def _describe(self, theta: np.ndarray) -> str:
        return ", ".join(f"{name} = {value:.4g}" for name, value in zip(self.names, theta[: self.n_hyper], strict=False))
