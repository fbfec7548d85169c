"""The state of a training run on minibatches, and its change by one minibatch.

Each minibatch (or all rows at once) gives one step of Adam and an update of the sites of its rows; the posterior need not
have converged ([VC] 5.2.2, "inner").

[VC] Villacampa-Calvo 2017, section 5.2.2 and chapter 6.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ..engines.inducing.step import Broadcast, RowSites, State, repaired
from ..engines.inducing.training import Training
from ..kernels import Kernel
from .adam import Adam
from .inducing import InducingKernel, InducingModel
from .minibatch import TrainingStep, finished
from .priors import log_prior
from .streams import Batch

LEAST_RATE = 1e-3  # smallest learning rate of a decaying schedule, relative to the first


@dataclass(frozen=True)
class Pass:
    """One pass over the data, as kept in the history.

    Attributes
    ----------
    epoch : int
        Number of the pass.
    log_evidence : float
        Mean of the estimates of the minibatches, weighted by their numbers of rows.
    seconds : float
        Time since training began.
    validation : float
        Mean negative log probability of the held-out labels; NaN without `validation`.
    """

    epoch: int
    log_evidence: float
    seconds: float
    validation: float

    unit: ClassVar = "pass"  # what one entry of the history is
    run: ClassVar = 0  # there are no restarts

    @property
    def value(self) -> float:
        """The value that learning maximises."""
        return self.log_evidence


@dataclass
class TrainingState:
    """State of a training run. `Trainer` adds passes over the data, further rows and checkpoints.

    A step changes the state in a single operation (`vars(self).update`). Therefore an error or Ctrl-C leaves the run between
    two steps, where it can be saved and continued.

    Attributes
    ----------
    engine : Engine
        The engine.
    origin : tuple of Kernel and Likelihood
        Kernel and likelihood at the beginning of the run.
    theta : ndarray of shape (p,)
        Current hyperparameters of kernel and likelihood.
    Z : ndarray of shape (1 or n_classes, M, D)
        Current inducing inputs.
    training : Training
        Settings of the training.
    labels : ndarray of shape (n_classes,)
        The class labels.
    unit : ndarray of shape (D,)
        Scale of the inputs, in which inducing inputs are moved.
    priors : list
        One prior per entry of `theta`. An empty list means flat priors.
    state : State
        State of the posterior.
    store : SiteStore
        Sites of the rows.
    adam : Adam
        State of the optimiser.
    seed : int
        Seed of the order of rows.
    n_rows : int
        Number of training rows.
    weight : float or None
        Sum of the weights of the training rows; None means one each.
    epoch : int
        Number of completed passes.
    place : int
        Number of completed minibatches of the current pass.
    taken : int
        Number of completed rows of the current pass.
    total : float
        Sum over the current pass of the estimates of the evidence, weighted by rows.
    seconds : float
        Training time.
    history : list of Pass
        The completed passes.
    best : dict or None
        Parameters with the best score on the held-out rows.
    held : tuple of ndarray or None
        Inputs and class numbers of the held-out rows.
    held_weight : ndarray or None
        Weights of the held-out rows; None means one each.
    data : dict or None
        Fingerprints of the data, a part of the identity of the run (see `checkpoint`); None if it cannot be saved.
    before : object or None
        What is needed to undo the current step.
    """

    engine: Any
    origin: tuple[Kernel, Any]
    theta: np.ndarray
    Z: np.ndarray
    training: Training
    labels: np.ndarray
    unit: np.ndarray
    priors: list
    state: State
    store: Any
    adam: Adam
    seed: int
    n_rows: int
    weight: float | None = None
    epoch: int = 0
    place: int = 0
    taken: int = 0
    total: float = 0.0
    seconds: float = 0.0
    history: list[Pass] = field(default_factory=list)
    best: dict[str, Any] | None = None
    held: tuple[np.ndarray, np.ndarray] | None = None
    held_weight: np.ndarray | None = None
    data: dict[str, Any] | None = None
    before: Any = None

    @property
    def kernel(self) -> Kernel:
        """The current kernel."""
        return self._at(self.theta)[0]

    @property
    def likelihood(self) -> Any:
        """The current likelihood."""
        return self._at(self.theta)[1]

    def _at(self, theta: np.ndarray) -> tuple[Kernel, Any]:
        """Return kernel and likelihood with these hyperparameters.

        They are made from the initial objects, so that they depend on θ only, to the last bit. A resumed run has only θ, and
        exp(log x) may differ from x.
        """
        kernel, likelihood = self.origin
        p = len(kernel.theta)
        return kernel.with_theta(theta[:p]), likelihood.with_theta(theta[p:])

    # one minibatch --------------------------------------------------------------------------------------------------

    def step(self, batch: Batch, rate: float | None = None, place: int | None = None) -> float:
        """Update the sites of these rows and the hyperparameters; return the estimate of the evidence. [VC] (5.22)

        If an error is raised or Ctrl-C is pressed, the run is unchanged.

        Parameters
        ----------
        batch : Batch
            A minibatch of the source. If it has fewer rows than `batch_size`, as at the end of a pass, the step is shorter.
        rate : float, optional
            Learning rate. The default is that of the schedule.
        place : int, optional
            Number of completed minibatches of the pass after this one. None does not count the minibatch.

        Returns
        -------
        float
        """
        self._undo()
        began, rows = time.perf_counter(), len(batch.rows)
        self.before = self.store.mark(batch)
        try:
            value, new = self._stepped(batch, rate)
            if place is not None:
                new |= {"place": place, "taken": self.taken + rows, "total": self.total + rows * value}
                new |= {"seconds": self.seconds + time.perf_counter() - began}
            vars(self).update(new, before=None)  # one operation: an interrupt cannot leave half of a step
        except BaseException:
            self._undo()
            raise
        return value

    def _stepped(self, batch, rate) -> tuple[float, dict[str, Any]]:
        """Return the estimate of the evidence and the changed attributes. The store changes the sites of the rows."""
        step = self._step(len(batch.rows))
        done, gradient, inputs = finished(step, self.store.sums(step, batch, self.labels))
        gradient = np.concatenate([gradient, done.theta])
        value = done.log_evidence
        if self.priors:
            more, slope = log_prior(self.theta, self.priors)
            value, gradient = value + more, gradient + slope
        if not (np.all(np.isfinite(gradient)) and np.all(np.isfinite(inputs))):
            raise FloatingPointError("the gradient of the evidence is not finite. Are the inputs scaled?")
        if done.state.steps <= self.training.warm_up:
            return value, {"state": done.state}
        rate = self.learning_rate if rate is None else rate
        return value, self._climbed(done.state, gradient, inputs, rate, len(batch.rows) / self._size)

    def _step(self, rows: int) -> TrainingStep:
        """Return the step for a minibatch of `rows` rows, without these rows."""
        kernel, likelihood = self._at(self.theta)
        inducing = InducingKernel(kernel, self.Z)
        sizes = self.n_rows, rows, self._size, self.weight
        return TrainingStep(inducing, Broadcast(self.engine, likelihood, inducing.gram(), self.state, *sizes))

    def _undo(self) -> None:
        """Restore the sites of an incomplete step. After an interrupt here, the next call restores them again."""
        if self.before is not None:
            self.store.undo(self.before)
            self.before = None

    def _climbed(self, state, gradient, inputs, rate, part):
        """Return the changed attributes after a step of Adam."""
        few = len(gradient)
        if self.training.learn_inputs:
            gradient = np.concatenate([gradient, (inputs * self.unit).ravel()])
        adam, move = self.adam.step(gradient, rate, self.training, part)
        bounds = np.concatenate([part.bounds.reshape(-1, 2) for part in self.origin])
        theta = np.clip(self.theta + move[:few], bounds[:, 0], bounds[:, 1])
        state = replace(state, moved=state.moved + float(np.max(np.abs(move), initial=0.0)))
        Z = self.Z + move[few:].reshape(self.Z.shape) * self.unit if self.training.learn_inputs else self.Z
        return {"state": state, "adam": adam, "theta": theta, "Z": Z}

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next step. With `decay` it falls along half a cosine to nearly zero."""
        first = self.training.learning_rate
        if not self.training.decay:
            return first
        steps = max(1, self.n_rows / self._size * self.training.passes(self.n_rows))
        return first * max(LEAST_RATE, 0.5 + 0.5 * np.cos(np.pi * min(1.0, self.adam.t / steps)))

    @property
    def _size(self) -> int:
        """Number of rows of a full minibatch."""
        return min(self.training.batch_size or self.n_rows, self.n_rows)

    # rows ---------------------------------------------------------------------------------------------------------------

    @property
    def sites(self) -> RowSites:
        """The sites of all rows, by their numbers; empty for engines that keep none."""
        return self.store.content(self._step(0))

    def leave(self) -> None:
        """Release what the run keeps in other processes. Afterwards it can only be extended by more rows."""
        self.store.close()
        self.store = self.store.left(self.n_rows)

    def rows_of(self, batch: Batch) -> tuple[Batch, RowSites]:
        """Return the rows of a minibatch, from any process, and their sites."""
        return self.store.rows(self._step(0), batch)

    def grow(self, n_rows: int, weight: float | None = None) -> None:
        """Increase the number of rows to `n_rows`. The new rows have empty sites, and in total this weight."""
        if n_rows < self.n_rows or self.place:
            raise ValueError(f"rows can be added only between two passes; there are {self.n_rows} rows, n_rows is {n_rows}")
        self.state = replace(self.state, seen=max(n_rows, self.state.seen) if self.state.seen else 0)
        if weight is not None or self.weight is not None:
            now = self.n_rows if self.weight is None else self.weight
            self.weight = now + (n_rows - self.n_rows if weight is None else weight)
        self.store, self.n_rows = self.store.grown(n_rows), n_rows

    # results --------------------------------------------------------------------------------------------------------

    def current(self) -> InducingModel:
        """Return the model with the current parameters."""
        return self._model(self._parameters())

    def model(self) -> InducingModel:
        """Return the model with the best score on the held-out rows, or the current one without held-out rows."""
        return self._model(self.best or self._parameters())

    def _parameters(self) -> dict[str, Any]:
        return {"theta": self.theta, "Z": self.Z.copy(), "P": self.state.P.copy(), "h": self.state.h.copy()}

    def _model(self, at: dict[str, Any]) -> InducingModel:
        kernel, likelihood = self._at(at["theta"])
        prior = self.engine.prior(InducingKernel(kernel, at["Z"]).gram(), likelihood)
        return InducingModel(self.engine, kernel, likelihood, at["Z"], repaired(prior, *prior.whitened(at["P"], at["h"])))
