"""Training on minibatches: kernel, likelihood, inducing inputs and sites move together.

Each minibatch (or all rows at once) gives one step of Adam and an update of the sites of its rows; the posterior need not
have converged ([VC] 5.2.2, "inner"). A run is a `Trainer`: it holds the whole state and can be saved after any minibatch. A
run that is resumed gives the same result as a run without interruption.

[VC] Villacampa-Calvo 2017, section 5.2.2 and chapter 6.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..engines.inducing.step import RowSites, State, repaired
from ..engines.inducing.training import Training
from ..kernels import Kernel
from ..numerics.fingerprint import fingerprint
from ..progress import counted, interrupted, phase, shown, stops_here, tell
from . import checkpoint as checkpoints
from .adam import Adam, learning_rate
from .checkpoint import CheckpointError
from .crew import CrewLost
from .inducing import InducingKernel, InducingModel, threads
from .minibatch import TrainingStep, finished
from .priors import log_prior
from .saving import Saver, content, restored
from .streams import Batch, Source, codes, finite

LATER_ROWS = "rows added later"  # their key in the identity of a run
EVIDENCE = "log evidence (estimate from minibatches)"
LATER = 0.1  # learning rate for rows added later, relative to `learning_rate`


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


@dataclass
class Trainer:
    """A training run. `begin_training` creates one; `Trainer.resume` continues from a checkpoint.

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
    identity : dict
        Fingerprints of the data and settings of the run, see `checkpoint`.
    before : object or None
        What undoing the current step needs.
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
    identity: dict[str, Any] = field(default_factory=dict)
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

        They are made from the initial objects, so that they depend on θ only, to the last bit: exp(log x) may differ from x,
        and a resumed run knows only θ.
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
        rate = self._scheduled() if rate is None else rate
        return value, self._climbed(done.state, gradient, inputs, rate, len(batch.rows) / self._size)

    def _step(self, rows: int) -> TrainingStep:
        """Return what a step on some rows needs besides them."""
        kernel, likelihood = self._at(self.theta)
        sizes = self.n_rows, rows, self._size, self.weight
        return TrainingStep.of(InducingKernel(kernel, self.Z), self.engine, likelihood, self.state, *sizes)

    def _undo(self) -> None:
        """Restore the sites of an incomplete step. After an interrupt here, the next call restores them again."""
        if self.before is not None:
            self.store.undo(self.before)
            self.before = None

    @property
    def sites(self) -> RowSites:
        """The sites of all rows, by their numbers; empty for engines that keep none."""
        return self.store.content(self._step(0))

    def leave(self) -> None:
        """Release what the run keeps in other processes. Afterwards it can only be extended by more rows."""
        self.store.close()
        self.store = self.store.left(self.n_rows)

    def rows_of(self, batch: Batch) -> tuple[Batch, RowSites]:
        """Return the rows of a minibatch, wherever they are, and their sites."""
        return self.store.rows(self._step(0), batch)

    @property
    def _size(self) -> int:
        """Number of rows of a full minibatch."""
        return min(self.training.batch_size or self.n_rows, self.n_rows)

    def _scheduled(self) -> float:
        """Return the learning rate of the next step."""
        steps = self.n_rows / self._size * self.training.passes(self.n_rows)
        return learning_rate(self.training, self.adam.t / max(1, steps))

    def grow(self, n_rows: int, weight: float | None = None) -> None:
        """Increase the number of rows to `n_rows`. The new rows have empty sites, and in total this weight."""
        if n_rows < self.n_rows or self.place:
            raise ValueError(f"rows can be added only between two passes; there are {self.n_rows} rows, n_rows is {n_rows}")
        self.state = replace(self.state, seen=max(n_rows, self.state.seen) if self.state.seen else 0)
        if weight is not None or self.weight is not None:
            now = self.n_rows if self.weight is None else self.weight
            self.weight = now + (n_rows - self.n_rows if weight is None else weight)
        self.store, self.n_rows = self.store.grown(n_rows), n_rows

    def extend(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> None:
        """Train on additional rows, once, in minibatches. The earlier rows are not needed.

        The sites of the earlier rows are unchanged; the hyperparameters are updated. `weight` (m,) are the weights of the
        new rows, by default one each.
        """
        codes(np.asarray(y), self.labels)  # raises on unknown labels before anything changes
        self._undo()
        before = dict(vars(self))  # a shallow copy is enough: `grow` copies the sites
        try:
            self._extend(X, y, weight)
        except BaseException:
            vars(self).update(before)
            raise

    def _extend(self, X, y, weight):
        first = self.n_rows
        self.grow(first + len(y), None if weight is None else float(np.sum(weight)))
        size = self.training.batch_size or len(y)
        order = np.random.default_rng([self.seed, first]).permutation(len(y))
        self.best = None  # the best parameters so far do not include these rows
        began, total = time.perf_counter(), 0.0
        for i in range(0, len(y), size):
            at = np.sort(order[i : i + size])
            before = self.state
            rate = LATER * self.training.learning_rate
            own = None if weight is None else np.asarray(weight, float)[at]
            total += len(at) * self.step(Batch(finite(X[at]), np.asarray(y)[at], first + at, own), rate)
            if self.engine.keeps_rows:  # the new rows are not a pass: they add to the earlier rows and replace none
                now = self.state
                P, h = before.P + now.fresh_P, before.h + now.fresh_h
                self.state = replace(now, P=P, h=h, fresh_P=np.zeros_like(P), fresh_h=np.zeros_like(h), passed=0)
        self.seconds += time.perf_counter() - began
        # rows without sites give no estimate for rows that have sites: as in a first pass, it is NaN
        value = np.nan if self.engine.keeps_rows else total / len(y)
        self.history = [*self.history, Pass(self.epoch, value, self.seconds, np.nan)]
        told = [] if weight is None else [np.asarray(weight, float)]
        later = fingerprint(self.identity.get(LATER_ROWS), np.asarray(X), np.asarray(y), *told)
        self.identity = {**self.identity, LATER_ROWS: later}

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

    # passes ---------------------------------------------------------------------------------------------------------

    def run(
        self, source: Source, epochs: int | None = None, checkpoint: Any = None, verbose: int = 0, overwrite: bool = False
    ) -> Trainer:
        """Train for several passes over the data.

        Parameters
        ----------
        source : Source
            The rows, as returned by `begin_training`.
        epochs : int, optional
            Number of additional passes. The default is to complete the passes of `training`.
        checkpoint : path-like, optional
            File to which the run is saved regularly.
        verbose : int, default=0
            1 shows the progress on stderr.
        overwrite : bool, default=False
            Whether to replace a checkpoint of another run. Otherwise it is an error.

        Returns
        -------
        Trainer
            The run itself.
        """
        if source.n_rows != self.n_rows:
            raise ValueError(f"the source has {source.n_rows} rows, but training began with {self.n_rows}")
        until = self.training.passes(self.n_rows) if epochs is None else self.epoch + epochs
        saver = Saver(self, checkpoint, overwrite)
        try:
            with shown(verbose), threads(self._size, self.Z, self.likelihood.n_latents):
                self._passes(source, until, saver)
        except CrewLost as error:  # the sites of the rows cannot be fetched either
            raise CrewLost(f"{error}. {saver.told()}") from error
        except KeyboardInterrupt:
            saver.save(force=True)
            if not (self.passes and stops_here(f"{self.passes:.1f} passes over the rows")):
                raise
        except BaseException:
            saver.save(force=True)
            raise
        saver.save(force=True)
        return self

    @property
    def passes(self) -> float:
        """Number of passes over the rows so far, with the fraction of the current one."""
        return self.epoch + self.taken / self.n_rows

    def _passes(self, source, until, saver):
        if interrupted():  # before this run began: there is nothing to finish with
            raise KeyboardInterrupt
        each = -(-self.n_rows // self._size)  # minibatches
        done = self.epoch * each + self.place
        exact = not self.training.validation  # which may end it earlier
        with counted("training on minibatches", until * each, done, exact) as steps:
            while self.epoch < until and not self._stopped():
                for number, batch in enumerate(source.batches(self._size, (self.seed, self.epoch))):
                    if number < self.place:
                        continue
                    self.step(batch, place=number + 1)
                    saver.save()
                    steps.advance()
                    tell(self._figures(until))
                self._end_pass()

    def _figures(self, until: int) -> str:
        """Return what is told after a step: the pass, the pace, and the evidence as soon as there is an estimate."""
        pace = (self.epoch * self.n_rows + self.taken) / max(self.seconds, 1e-9)
        bound = "at most " if self.training.validation else ""
        text = f"{self.passes:.1f} of {bound}{until} passes, {pace:,.0f} rows/s"
        value = self.total / self.taken if np.isfinite(self.total) else self.log_evidence
        return f"{text}, {EVIDENCE} {value:.1f}" if np.isfinite(value) else text

    def _end_pass(self):
        score, best = np.nan, self.best
        if self.held is not None and self.training.validation:
            with phase("held-out rows"):
                score = self._score()
            if best is None or score < best["score"]:
                best = {"score": score, "epoch": self.epoch, **self._parameters()}
        history = [*self.history, Pass(self.epoch, self.total / max(1, self.taken), self.seconds, score)]
        vars(self).update(best=best, history=history, epoch=self.epoch + 1, place=0, taken=0, total=0.0)

    def _score(self) -> float:
        """Return the mean negative log probability of the held-out labels, by their weights."""
        X, place = self.held  # type: ignore[misc]
        log_p = self.current().log_class_probabilities(X)
        return -float(np.average(log_p[np.arange(len(place)), place], weights=self.held_weight))

    def _stopped(self) -> bool:
        return self.best is not None and self.epoch - 1 - self.best["epoch"] >= self.training.patience

    def _parameters(self):
        return {"theta": self.theta, "Z": self.Z.copy(), "P": self.state.P.copy(), "h": self.state.h.copy()}

    @property
    def log_evidence(self) -> float:
        """Log evidence as estimated in the last completed pass; NaN before the first."""
        return self.history[-1].log_evidence if self.history else np.nan

    # results --------------------------------------------------------------------------------------------------------

    def current(self) -> InducingModel:
        """Return the model with the current parameters."""
        return self._model(self._parameters())

    def model(self) -> InducingModel:
        """Return the model with the best score on the held-out rows, or the current one without held-out rows."""
        return self._model(self.best or self._parameters())

    def _model(self, at):
        kernel, likelihood = self._at(at["theta"])
        prior = self.engine.prior(InducingKernel(kernel, at["Z"]).gram(), likelihood)
        return InducingModel(self.engine, kernel, likelihood, at["Z"], repaired(prior, *prior.whitened(at["P"], at["h"])))

    # checkpoints ----------------------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the run to one file. An existing file is replaced only when the new one is complete."""
        self._undo()
        checkpoints.write(path, self.identity, content(self))

    def resume(self, path: Any) -> Trainer:
        """Restore the state from a checkpoint.

        Parameters
        ----------
        path : path-like
            The checkpoint.

        Returns
        -------
        Trainer
            The run itself.

        Raises
        ------
        CheckpointError
            If another run wrote the file, or the file is damaged.
        """
        whose, found = checkpoints.read(path, in_blocks=self.store.elsewhere)
        checkpoints.check_same(path, whose, self.identity)
        try:
            new = restored(self, found)
            new["history"] = [Pass(int(epoch), *rest) for epoch, *rest in new["history"]]
            vars(self).update(new, before=None)
        except (KeyError, ValueError, TypeError) as error:
            raise CheckpointError(f"{path} is damaged ({error}). Remove it, or use another path.") from error
        return self
