"""The result of learning, for any kind of engine."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .calibration import LeftOut
from .history import Search
from .members import left_out
from .trainer import Trainer


@dataclass(frozen=True)
class Learned:
    """The result of learning.

    Attributes
    ----------
    posterior : Fit or Draws
        The posterior.
    kernel : Kernel
        The learned kernel.
    likelihood : Likelihood
        The learned likelihood.
    inputs : ndarray of shape (n_inputs, D) or (n_classes, n_inputs, D)
        The inputs whose covariances with test points a prediction needs.
    history : list of Step or list of Pass
        The evaluations of the optimiser, or the passes over the minibatches.
    n_iter : int
        Number of iterations of the optimiser.
    rows : ndarray of shape (n_inputs,) or None
        Row numbers of `inputs`, if they are training rows.
    trainer : Trainer or None
        The minibatch run, which can be continued.
    rows_left_out : callable or None
        Function that computes `left_out`, if `posterior` has no training rows.
    problem : str
        Why the result may not be a maximum, and what to do; empty if there is no problem.
    slopes : ndarray of shape (p,) or None
        Gradient of the objective in the hyperparameters; None if they were not learned.
    doubts : tuple of str
        Further texts for warnings; see `learning.doubts`.
    engine : Engine or None
        The engine of the posterior, if it is not that of the objective.
    enough_points : bool
        Whether a posterior on more inducing points was tried, and was not better.
    unseen : ndarray or None
        Numbers of the training rows on whose labels neither hyperparameters nor inducing inputs depend, if there are any.
    """

    posterior: Any
    kernel: Any
    likelihood: Any
    inputs: np.ndarray
    history: list[Any]
    n_iter: int
    rows: np.ndarray | None = None
    trainer: Trainer | None = None
    rows_left_out: Callable[[], LeftOut | None] | None = None
    problem: str = ""
    slopes: np.ndarray | None = None
    doubts: tuple[str, ...] = ()
    engine: Any = None
    enough_points: bool = False
    unseen: np.ndarray | None = None

    @property
    def theta(self) -> np.ndarray:
        """The hyperparameters of kernel and likelihood."""
        return np.concatenate([self.kernel.theta, self.likelihood.theta])

    def left_out(self) -> LeftOut | None:
        """Return class probabilities of training rows, each predicted without itself; None if the engine has none."""
        return left_out(self.posterior) if self.rows_left_out is None else self.rows_left_out()

    def warn_of_doubts(self) -> None:
        """Warn of the problem and the doubts. The warnings point to the caller of the function that calls this one."""
        for text in (self.problem, *self.doubts):
            if text:
                warnings.warn(text, ConvergenceWarning, stacklevel=3)


def learned_from(search: Search, fit, inputs, rows=None) -> Learned:
    """Return the result of a search, with its posterior and the inputs that represent it."""
    assert search.best is not None, "a search without an evaluation raises an error"
    best, n_iter = search.best, max(1, search.n_iter)
    learned = Learned(fit, best.kernel, best.likelihood, inputs, search.history, n_iter, rows)
    return replace(learned, problem=search.problem, slopes=best.gradient)
