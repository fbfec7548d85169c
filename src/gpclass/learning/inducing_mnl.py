"""Learning with inducing variables: selects the variables and learns hyperparameters and, optionally, inducing inputs.

The set grows in batches at the current hyperparameters, and each batch is followed by a few steps of the optimiser (`steps`;
the paper has one line search). Variables are never removed, and adding one never lowers the bound, so the objective
increases throughout. Then the hyperparameters are optimised until convergence. With `move=True` the inducing inputs are
optimised too, and are then no longer rows of X.

Alternatives that select the whole set at once: "random" rows, and "k-means", the values of all classes at cluster centres.

[C] Chai 2012, sections 6, 6.1 and 9.4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..engines.mnl.inducing_set import InducingSet, RowCovariance
from ..engines.mnl.selection import choose
from ..engines.mnl.sparse import SparseFit, batches, set_size
from ..gaussian import InducingCovariance, InducingGradient
from ..kernels import Kernel
from ..numerics.columns import column_units
from ..numerics.separable import classes_of, combined, inputs_of
from ..progress import interrupted, phase
from .columns import covariances
from .history import Search, Step
from .inducing_starts import cluster_centres
from .objective import Evaluation, Objective
from .optimise import maximise


@dataclass(frozen=True)
class InducingPairs:
    """Design with inducing variables, each the latent value of one class at one input; see `Design`."""

    Z: np.ndarray  # (t, D) inputs
    inputs: np.ndarray  # (s,) row of Z of each variable
    classes: np.ndarray  # (s,) class of each variable
    chosen: InducingSet | None = None  # the corresponding rows of X; None if the inputs are not rows of X
    move: bool = False  # whether the inputs are parameters
    unit: Any = 1.0  # scale of the inputs, a number or (D,): θ contains Z / unit

    cheap = True

    @classmethod
    def at_rows(cls, X: np.ndarray, chosen: InducingSet) -> InducingPairs:
        return cls(X[chosen.rows], chosen.inputs, chosen.classes, chosen)

    @classmethod
    def of_all_classes(cls, Z: np.ndarray, n_classes: int) -> InducingPairs:
        """Return a design with the values of all classes at each row of Z."""
        Z = np.asarray(Z, float)
        return cls(Z, np.repeat(np.arange(len(Z)), n_classes), np.tile(np.arange(n_classes), len(Z)))

    @property
    def same(self) -> tuple[Any, ...]:
        """Index of the covariances of a row with itself in K_fu."""
        assert self.chosen is not None, "the inducing inputs are not rows of X"
        return ..., self.chosen.rows, np.arange(len(self.Z))

    @property
    def theta(self) -> np.ndarray:
        return (self.Z / self.unit).ravel() if self.move else np.zeros(0)

    @property
    def names(self) -> list[str]:
        t, D = self.Z.shape
        return [f"Z[{j},{d}]" for j in range(t) for d in range(D)] if self.move else []

    def with_theta(self, theta: np.ndarray) -> InducingPairs:
        """Return a design with these inputs. After a move they are not rows of X."""
        return replace(self, Z=theta.reshape(self.Z.shape) * self.unit, chosen=None) if self.move else self

    def matrices(self, kernel: Kernel, X: np.ndarray) -> InducingCovariance:
        return inducing_covariance(kernel, X, self)

    def fit(self, engine: Any, K: InducingCovariance, y: np.ndarray, likelihood: Any, start: Any) -> SparseFit:
        return replace(engine.fit(K, y, likelihood, start=start), chosen=self.chosen)

    def pullback(self, kernel: Any, X: np.ndarray, K: InducingCovariance, fit: Any) -> tuple[np.ndarray, np.ndarray]:
        theta, moves = pulled_back(kernel, X, self, K, fit.evidence_gradient(), self.move)
        return theta, (moves * self.unit).ravel() if self.move else np.zeros(0)


def k_means(X: np.ndarray, n_classes: int, inducing: int, random_state: int = 0) -> InducingPairs:
    """Return a design with the values of all classes at the centres of `inducing // n_classes` clusters."""
    count = inducing // n_classes
    if count < 1:
        raise ValueError(f"inducing={inducing} must be at least the number of classes, {n_classes}")
    centre, spread = column_units(X)  # clusters depend on distances, so the columns must have a common scale
    distinct, times = np.unique(X, axis=0, return_counts=True)
    if count > len(distinct):
        raise ValueError(f"inducing={inducing} needs {count} centres, but there are only {len(distinct)} distinct rows")
    centres = cluster_centres(distinct, (distinct - centre) / spread, times, count, random_state)
    return InducingPairs.of_all_classes(centres, n_classes)


# covariances and gradients -----------------------------------------------------------------------------------------------


def row_covariance(kernel: Kernel, X: np.ndarray, n_classes: int) -> RowCovariance:
    """Return the covariances of all latent values at rows of X. Columns are computed when they are needed."""
    on_inputs, between = kernel.separated
    columns = RowCovariance.of(covariances(on_inputs, X, n_classes), n_classes).columns
    return RowCovariance(columns, n_classes, between)


def inducing_covariance(kernel: Kernel, X: np.ndarray, at: InducingPairs) -> InducingCovariance:
    """Return the covariances that the engine needs."""
    uu, fu, diag = kernel(at.Z), kernel(X, at.Z), kernel.diag(X)
    if at.chosen is not None:  # the covariance of a row with itself includes the noise of the kernel (White)
        inputs_of(fu)[at.same] = inputs_of(diag)[..., at.chosen.rows]
    return InducingCovariance(uu, fu, diag, at.inputs, at.classes)


def pulled_back(
    kernel: Any, X: np.ndarray, at: InducingPairs, K: InducingCovariance, G: InducingGradient, move: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients (p,) in the kernel parameters and (t, D) in the inducing inputs (zero without `move`)."""
    dtheta, fu = kernel.pullback_diag(X, G.diag), G.fu
    if at.chosen is not None:
        classes = classes_of(fu)
        fu = combined(inputs_of(fu).copy(), classes)
        # the derivative in the classes stays in `fu`
        own = combined(inputs_of(fu)[at.same], None if classes is None else np.zeros_like(classes))
        dtheta = dtheta + kernel.pullback_diag(at.Z, own)
        inputs_of(fu)[at.same] = 0.0
    among = kernel.pullback(at.Z, G.uu, inputs=move, value=K.uu)
    across = kernel.pullback(X, at.Z, fu, inputs=move, value=K.fu)
    if not move:
        return dtheta + among + across, np.zeros_like(at.Z)
    return dtheta + among[0] + across[0], among[1] + across[1]


# the search ---------------------------------------------------------------------------------------------------------------


@dataclass
class InducingSearch(Search):
    """A search that also holds the inducing variables. `best.theta` contains the hyperparameters only.

    Attributes
    ----------
    at : InducingPairs or None
        The inducing variables.
    fit : SparseFit or None
        The fit, converged to the tolerance of the engine.
    """

    at: InducingPairs | None = None
    fit: SparseFit | None = None


def maximise_inducing(
    objective: Objective,
    start: np.ndarray | None = None,
    max_iter: int = 100,
    at: InducingPairs | None = None,
    needed: float | None = None,
) -> InducingSearch:
    """Select inducing variables and optimise the hyperparameters.

    Parameters
    ----------
    objective : Objective
        The objective; its engine is a SparseVariationalMNL.
    start : ndarray of shape (p,), optional
        Initial hyperparameters. The default is those of the objective.
    max_iter : int, default=100
        Iterations of the optimiser. 0 keeps the hyperparameters and the selected inducing inputs fixed.
    at : InducingPairs, optional
        Inducing variables to use instead of a selection.
    needed : float, optional
        Stop the last search as soon as it is clear whether its maximum exceeds this value.

    Returns
    -------
    InducingSearch
    """
    engine, search = objective.engine, InducingSearch()
    theta = np.clip(objective.theta if start is None else start, *objective.bounds.T)
    at, best = _chosen(objective, theta, max_iter, search) if at is None else (at, None)
    design = replace(at, move=engine.move and max_iter > 0, unit=column_units(objective.X).spread)
    final = replace(objective, design=design, first=None if best is None else best.fit)
    theta = np.concatenate([theta if best is None else best.theta, design.theta])
    best = _climb(final, theta, max_iter, search, needed)
    there: Any = best.design
    search.at, search.fit = replace(there, move=False), final.finish(best)
    few = final.n_hyper
    search.best = replace(best, theta=best.theta[:few], gradient=best.gradient[:few], fit=search.fit)
    return search


def _chosen(objective, theta, max_iter, search):
    """Return an inducing set, and the last evaluation during the selection; None if there was none."""
    engine, C = objective.engine, objective.likelihood.n_classes
    if engine.selection == "k-means":
        return k_means(objective.X, C, set_size(engine, len(objective.y), C), engine.random_state), None
    rng = np.random.default_rng(engine.random_state)
    chosen, best = InducingSet.empty(), None
    *sizes, last = batches(engine, len(objective.y), C)
    for size in [*sizes, last]:
        covariance = row_covariance(objective.at(theta)[0], objective.X, C)
        fit = None if best is None else best.fit
        with phase(f"selection of {size} inducing variables"):
            chosen = choose(engine, fit, covariance, chosen, size, rng)
        if size == last:  # the caller optimises with the last batch until convergence
            break
        step = replace(objective, design=InducingPairs.at_rows(objective.X, chosen), first=fit)
        best = _climb(step, theta, min(engine.steps, max_iter), search)
        theta = best.theta
        if interrupted():
            break
    return InducingPairs.at_rows(objective.X, chosen), best


def _climb(objective: Objective, theta, max_iter, search, needed=None) -> Evaluation:
    """Return the best evaluation of a few optimiser steps from θ, and record them in `search` as a separate run."""
    number = search.history[-1].run + 1 if search.history else 0
    if max_iter < 1:
        found = objective.evaluate(theta)
        search.history.append(Step(number, 0, theta, found.value, found.fit.log_evidence, found.fit.n_iter))
        return found
    run = maximise(objective, [theta], max_iter, needed=needed)
    search.history += [step._replace(run=number) for step in run.history]
    search.n_iter += run.n_iter
    search.message, search.problem = run.message, run.problem
    assert run.best is not None, "a search without an evaluation raises an error"
    return run.best
