"""Training on minibatches: kernel, likelihood, inducing inputs and sites move together.

A run is a `Trainer`: it holds the whole state and can be saved after any minibatch. A run that is resumed gives the same
result as a run without interruption.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..numerics.fingerprint import fingerprint
from ..progress import counted, interrupted, phase, shown, stops_here, tell
from . import checkpoint as checkpoints
from .checkpoint import CheckpointError
from .crew import CrewLost
from .inducing import threads
from .saving import Saver, content, restored
from .streams import Batch, Source, codes, finite
from .training_state import Pass, TrainingState

LATER_ROWS = "rows added later"  # their key in the identity of a run
EVIDENCE = "log evidence (estimate from minibatches)"
LATER_RATE = 0.1  # learning rate for rows added later, relative to `learning_rate`


@dataclass
class Trainer(TrainingState):
    """A training run. `begin_training` creates one; `Trainer.resume` continues from a checkpoint."""

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
        if interrupted():  # before this run began, so that there is no result
            raise KeyboardInterrupt
        each = -(-self.n_rows // self._size)  # minibatches
        done = self.epoch * each + self.place
        exact = not self.training.validation  # validation may end training earlier
        with counted("training on minibatches", until * each, done, exact) as steps:
            while self.epoch < until:
                if self.best is not None and self.epoch - 1 - self.best["epoch"] >= self.training.patience:
                    break  # the score of the held-out rows does not improve any more
                for number, batch in enumerate(source.batches(self._size, (self.seed, self.epoch))):
                    if number < self.place:
                        continue
                    self.step(batch, place=number + 1)
                    saver.save()
                    steps.advance()
                    tell(self._figures(until))
                self._end_pass()

    def _figures(self, until: int) -> str:
        """Return the progress after a step: passes, rows per second, and the evidence as soon as there is an estimate."""
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

    @property
    def log_evidence(self) -> float:
        """Log evidence as estimated in the last completed pass; NaN before the first."""
        return self.history[-1].log_evidence if self.history else np.nan

    # rows added later -------------------------------------------------------------------------------------------------

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
            rate = LATER_RATE * self.training.learning_rate
            own = None if weight is None else np.asarray(weight, float)[at]
            total += len(at) * self.step(Batch(finite(X[at]), np.asarray(y)[at], first + at, own), rate)
            if self.engine.keeps_rows:  # not a new pass: the new rows add to the earlier ones and replace none
                now = self.state
                P, h = before.P + now.fresh_P, before.h + now.fresh_h
                self.state = replace(now, P=P, h=h, fresh_P=np.zeros_like(P), fresh_h=np.zeros_like(h), passed=0)
        self.seconds += time.perf_counter() - began
        # as in a first pass, there is no estimate of the evidence while rows have no sites
        value = np.nan if self.engine.keeps_rows else total / len(y)
        self.history = [*self.history, Pass(self.epoch, value, self.seconds, np.nan)]
        if self.data is not None:
            weights = [] if weight is None else [np.asarray(weight, float)]
            later = fingerprint(self.data.get(LATER_ROWS), np.asarray(X), np.asarray(y), *weights)
            self.data = {**self.data, LATER_ROWS: later}

    # checkpoints ----------------------------------------------------------------------------------------------------

    @property
    def identity(self) -> dict[str, Any]:
        """Fingerprints of the data, and the settings of the run; see `checkpoint`."""
        if self.data is None:
            raise ValueError("this run cannot be saved: its rows were not hashed (`hashed` in `train_inducing`)")
        kernel, likelihood = self.origin
        parts = {"kernel": kernel, "likelihood": likelihood, "engine": self.engine, "priors": self.priors}
        parts |= {} if self.training == self.engine else {"training": self.training}
        return self.data | checkpoints.identity_of_settings(self.seed, parts)

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
