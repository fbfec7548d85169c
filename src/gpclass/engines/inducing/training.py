"""Settings of learning on inducing points. Engines on inducing points have them, each as fields of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np

SEARCHES = ("auto", "settled", "minibatches")
RESUMES = ("auto", "never", "must")
HERE = {"local": True}  # a setting for this machine: model files do not keep it
USUAL, LEAST = 100, 20  # inducing points, and how many there are even if these are more than a third of the rows
PASSES = 20  # over the data, unless these are fewer or more steps than
STEPS = 1500, 12000


@dataclass(frozen=True, kw_only=True)
class Inducing:
    """Which inducing points there are."""

    n_inducing: int | None = None  # None: 100, or a third of the rows if these are fewer
    per_class: bool = False  # whether each class has inducing inputs of its own
    inputs: str = "k-means++"  # where inducing inputs begin: "k-means++" or "random" rows
    learn_inputs: bool = True

    def __post_init__(self):
        if self.n_inducing is not None and self.n_inducing < 1:
            raise ValueError(f"n_inducing must be at least 1, but is {self.n_inducing}")
        if self.inputs not in ("k-means++", "random"):
            raise ValueError(f"inputs must be 'k-means++' or 'random', but is {self.inputs!r}")

    def count(self, n_rows: int) -> int:
        """How many inducing points there are for so many rows."""
        if self.n_inducing is None:
            return min(USUAL, max(n_rows // 3, min(LEAST, n_rows)))
        if self.n_inducing > n_rows:
            raise ValueError(f"n_inducing={self.n_inducing} is more than the {n_rows} rows: take fewer inducing points")
        return self.n_inducing


@dataclass(frozen=True, kw_only=True)
class Training(Inducing):
    """How to train.

    "settled": all rows' sites are swept to convergence for each evaluation of L-BFGS. "minibatches": sites and
    hyperparameters move together, one step of Adam for each minibatch. "auto" is the first up to a few thousand rows.

    Villacampa-Calvo 2017 (6.4) has Adam with learning_rate=1e-3, decay=False and the other constants as here. That is not
    the default: in 100 seconds of one core on MNIST (M = 200) it gets to an error of 4.4 % and a loss of 0.148, the
    constants here to 3.0 % and 0.109. A larger rate alone is not it: while still at 0.026 it stands at 3.4 % after 150.
    """

    search: str = "auto"
    batch_size: int | None = 200  # rows of a minibatch; None takes all at once
    epochs: int | None = None  # passes over the data; None: as many as make a usual number of steps, see `passes`
    learning_rate: float = 0.03  # of Adam at the beginning; inducing inputs are measured in standard deviations
    decay: bool = True  # whether the rate falls to nothing, as half a cosine, over the passes
    beta1: float = 0.9
    beta2: float = 0.999
    adam_epsilon: float = 1e-8
    validation: float = 0.0  # part of the rows held out to stop by; 0 never stops early
    patience: int = 5  # passes without a better one on the held-out rows
    warm_up: int = 0  # minibatches at the beginning that set sites only
    # File that a run on minibatches is saved to on the way, and whether the run that it holds is continued. With a file,
    # search="auto" is "minibatches". "auto" continues the run if the file exists and belongs to this run (same data, labels,
    # order of the rows, kernel, likelihood, engine, priors and seed; more passes are allowed, fewer are not), starts anew if
    # there is no file, and raises an error if it is another run's. "never" starts anew and overwrites the file. "must" is
    # "auto", but raises an error if there is no file.
    checkpoint: str | os.PathLike | None = field(default=None, metadata=HERE)
    resume: str = field(default="auto", metadata=HERE)

    def __post_init__(self):
        super().__post_init__()
        if self.search not in SEARCHES:
            raise ValueError(f"search must be one of {', '.join(map(repr, SEARCHES))}, but is {self.search!r}")
        if self.resume not in RESUMES:
            raise ValueError(f"resume must be one of {', '.join(map(repr, RESUMES))}, but is {self.resume!r}")
        if (self.epochs is not None and self.epochs < 0) or (self.batch_size is not None and self.batch_size < 1):
            raise ValueError("batch_size must be at least 1, epochs at least 0")
        if not 0 <= self.validation < 1 or self.patience < 1:
            raise ValueError("validation must be in [0, 1) and patience at least 1")
        if not (self.learning_rate > 0 and 0 <= self.beta1 < 1 and 0 <= self.beta2 < 1 and self.adam_epsilon > 0):
            raise ValueError("learning_rate and adam_epsilon must be positive, beta1 and beta2 in [0, 1)")

    def passes(self, n_rows: int) -> int:
        """How often so many rows are passed over."""
        if self.epochs is not None:
            return self.epochs
        steps = 1 if self.batch_size is None else -(-n_rows // self.batch_size)
        return -(-int(np.clip(PASSES * steps, *STEPS)) // steps)
