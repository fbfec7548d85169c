"""Learning with inducing variables: hyperparameters, which variables, and on demand where they are.

The set grows batch by batch at the current hyperparameters, and after each batch a few steps of the optimiser follow
(`steps`; the paper has one line search). Variables never leave, and adding one never lowers the bound, so that the objective
climbs throughout. Then the hyperparameters are searched to the end, with `move=True` together with the inducing inputs,
which are no longer rows of X from then on.

Alternatives that fix the set at once: "random" rows, and "k-means", all classes' values at the centres of clusters.

[C] Chai 2012, sections 6, 6.1 and 9.4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sklearn

from ..engines.mnl.selection import InducingSet, RowCovariance, choose
from ..engines.mnl.sparse import SparseFit, batches, set_size
from ..gaussian.low_rank_coupled import InducingCovariance, InducingGradient
from ..kernels import Kernel
from ..numerics.separable import Separable, classes_of, inputs_of
from .columns import covariances
from .objective import Evaluation, Objective
from .optimise import Search, Step, maximise


@dataclass(frozen=True)
class InducingPairs:
    """A posterior that rests on inducing variables, each the value of one class at one input; see `Design`."""

    Z: np.ndarray  # (t, D) inputs
    inputs: np.ndarray  # (s,) which of these a variable is at
    classes: np.ndarray  # (s,) which class's function it is a value of
    chosen: InducingSet | None = None  # which rows of X they are; None if they are elsewhere
    move: bool = False  # whether the inputs are parameters

    cheap = True

    @classmethod
    def at_rows(cls, X: np.ndarray, chosen: InducingSet) -> InducingPairs:
        return cls(X[chosen.rows], chosen.inputs, chosen.classes, chosen)

    @classmethod
    def of_all_classes(cls, Z: np.ndarray, n_classes: int) -> InducingPairs:
        """All classes' values at each row of Z."""
        Z = np.asarray(Z, float)
        return cls(Z, np.repeat(np.arange(len(Z)), n_classes), np.tile(np.arange(n_classes), len(Z)))

    @property
    def same(self) -> tuple[Any, ...]:
        """Places of covariances of a row with itself."""
        assert self.chosen is not None, "inducing inputs elsewhere are no rows"
        return ..., self.chosen.rows, np.arange(len(self.Z))

    @property
    def theta(self) -> np.ndarray:
        return self.Z.ravel() if self.move else np.zeros(0)

    @property
    def names(self) -> list[str]:
        t, D = self.Z.shape
        return [f"Z[{j},{d}]" for j in range(t) for d in range(D)] if self.move else []

    def with_theta(self, theta: np.ndarray) -> InducingPairs:
        """Inputs that have moved are no rows of X any more."""
        return replace(self, Z=theta.reshape(self.Z.shape), chosen=None) if self.move else self

    def matrices(self, kernel: Kernel, X: np.ndarray) -> InducingCovariance:
        return inducing_covariance(kernel, X, self)

    def fit(self, engine: Any, K: InducingCovariance, y: np.ndarray, likelihood: Any, start: Any) -> SparseFit:
        return replace(engine.fit(K, y, likelihood, start=start), chosen=self.chosen)

    def pullback(self, kernel: Any, X: np.ndarray, K: InducingCovariance, fit: Any) -> tuple[np.ndarray, np.ndarray]:
        theta, moves = pulled_back(kernel, X, self, K, fit.evidence_gradient(), self.move)
        return theta, moves.ravel() if self.move else np.zeros(0)


def k_means(X: np.ndarray, n_classes: int, inducing: int, random_state: int = 0) -> InducingPairs:
    """All classes' values at the centres of as many clusters as `inducing` variables allow for."""
    count = inducing // n_classes
    if count < 1:
        raise ValueError(f"inducing={inducing} is less than the {n_classes} classes of one centre")
    distinct = len(np.unique(X, axis=0))
    if count > distinct:
        raise ValueError(f"inducing={inducing} asks for {count} centres, but there are only {distinct} distinct rows")
    found = sklearn.cluster.KMeans(count, n_init=1, random_state=random_state).fit(X)
    return InducingPairs.of_all_classes(found.cluster_centers_, n_classes)


# covariances and the way back from their derivatives --------------------------------------------------------------------


def row_covariance(kernel: Kernel, X: np.ndarray, n_classes: int) -> RowCovariance:
    """Covariances of all latent values at rows of X, of which columns are computed when asked for."""
    on_inputs, between = kernel.separated
    columns = RowCovariance.of(covariances(on_inputs, X, n_classes), n_classes).columns
    return RowCovariance(columns, n_classes, between)


def inducing_covariance(kernel: Kernel, X: np.ndarray, at: InducingPairs) -> InducingCovariance:
    """What the engine takes."""
    uu, fu, diag = kernel(at.Z), kernel(X, at.Z), kernel.diag(X)
    if at.chosen is not None:  # a row with itself: noise of the kernel (White) is there too
        inputs_of(fu)[at.same] = inputs_of(diag)[..., at.chosen.rows]
    return InducingCovariance(uu, fu, diag, at.inputs, at.classes)


def pulled_back(
    kernel: Any, X: np.ndarray, at: InducingPairs, K: InducingCovariance, G: InducingGradient, move: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient (p,) in the kernel's theta, and with `move` that (t, D) in the inducing inputs, else zero."""
    dtheta, fu = kernel.pullback_diag(X, G.diag), G.fu
    if at.chosen is not None:
        fu = _with_inputs(fu, inputs_of(fu).copy())
        dtheta = dtheta + kernel.pullback_diag(at.Z, _with_inputs(G.diag, inputs_of(fu)[at.same], blank=True))
        inputs_of(fu)[at.same] = 0.0
    among = kernel.pullback(at.Z, G.uu, inputs=move, value=K.uu)
    across = kernel.pullback(X, at.Z, fu, inputs=move, value=K.fu)
    if not move:
        return dtheta + among + across, np.zeros_like(at.Z)
    return dtheta + among[0] + across[0], among[1] + across[1]


def _with_inputs(part, inputs, blank=False):
    classes = classes_of(part)
    return inputs if classes is None else Separable(inputs, np.zeros_like(classes) if blank else classes)


# the search ---------------------------------------------------------------------------------------------------------------


@dataclass
class InducingSearch(Search):
    """As every search, with `best.theta` the hyperparameters alone; besides, where the inducing variables are."""

    at: InducingPairs | None = None
    fit: SparseFit | None = None  # to the engine's own tolerance


def maximise_inducing(
    objective: Objective,
    start: np.ndarray | None = None,
    max_iter: int = 100,
    verbose: int = 0,
    at: InducingPairs | None = None,
    needed: float | None = None,
) -> InducingSearch:
    """Choose inducing variables and search for hyperparameters; `objective.engine` is a SparseVariationalMNL.

    With max_iter=0 the hyperparameters stay as they are, and the inducing inputs where they were chosen. `at` are inducing
    variables that were chosen before, to begin with instead of a choice. With `needed`, the last search stops as soon as it
    is clear whether its maximum is above this value.
    """
    engine, search = objective.engine, InducingSearch()
    theta = np.clip(objective.theta if start is None else start, *objective.bounds.T)
    at, best = _chosen(objective, theta, max_iter, search, verbose) if at is None else (at, None)
    design = replace(at, move=engine.move and max_iter > 0)
    final = replace(objective, design=design, first=None if best is None else best.fit)
    theta = np.concatenate([theta if best is None else best.theta, design.theta])
    best = _climb(final, theta, max_iter, search, verbose, needed)
    there: Any = best.design
    search.at, search.fit = replace(there, move=False), final.finish(best)
    few = final.n_hyper
    search.best = replace(best, theta=best.theta[:few], gradient=best.gradient[:few], fit=search.fit)
    return search


def _chosen(objective, theta, max_iter, search, verbose):
    """An inducing set, and the last evaluation on the way to it; None if it was chosen at once."""
    engine, C = objective.engine, objective.likelihood.n_classes
    if engine.selection == "k-means":
        return k_means(objective.X, C, set_size(engine, len(objective.y), C), engine.random_state), None
    rng = np.random.default_rng(engine.random_state)
    chosen, best = InducingSet.empty(), None
    *sizes, last = batches(engine, len(objective.y), C)
    for size in [*sizes, last]:
        covariance = row_covariance(objective.at(theta)[0], objective.X, C)
        fit = None if best is None else best.fit
        chosen = choose(engine, fit, covariance, chosen, size, rng)
        if size == last:  # whose turn is the search to the end
            break
        step = replace(objective, design=InducingPairs.at_rows(objective.X, chosen), first=fit)
        best = _climb(step, theta, min(engine.steps, max_iter), search, verbose)
        theta = best.theta
    return InducingPairs.at_rows(objective.X, chosen), best


def _climb(objective: Objective, theta, max_iter, search, verbose, needed=None) -> Evaluation:
    """The best evaluation of a few steps of the optimiser from θ, noted in `search` as a run of its own."""
    number = search.history[-1].run + 1 if search.history else 0
    if max_iter < 1:
        found = objective.evaluate(theta)
        search.history.append(Step(number, 0, theta, found.value, found.fit.log_evidence, found.fit.n_iter))
        return found
    run = maximise(objective, [theta], max_iter, verbose, needed=needed)
    search.history += [step._replace(run=number) for step in run.history]
    search.n_iter += run.n_iter
    search.message, search.problem = run.message, run.problem
    assert run.best is not None, "a search that could not begin has raised"
    return run.best
