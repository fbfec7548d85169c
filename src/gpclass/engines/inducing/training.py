"""Training settings of engines on inducing points, which inherit them as fields."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np

INPUTS = ("k-means", "k-means++", "random")
SEARCHES = ("auto", "settled", "minibatches")
RESUMES = ("auto", "never", "must")
LOCAL_SETTING = {"local": True}  # a setting of this machine, not stored in model files
# Default number of inducing points: one for so many rows, but within the range, and no more than a third of the rows. That
# third is at least MIN_INDUCING
ROWS_PER_INDUCING, INDUCING_RANGE, MIN_INDUCING = 20, (100, 200), 20
# Default number of passes over the data, unless minibatches contain fewer or more rows in total than ROWS_RANGE. The number
# of steps is at least that of FEWEST_STEPS and no more than that of MOST_STEPS, which both depend on the size of minibatches
DEFAULT_PASSES, ROWS_RANGE = 20, (300_000, 2_400_000)
FEWEST_STEPS, MOST_STEPS = (500, 1500), (4000, 12000)
# `refine`: a posterior with M inducing points has C M² numbers, for C latent functions. They are so many that this number
# times that of the rows, which is the time of a sweep, is REFINED_WORK, but within the range REFINED_SIZES: with many rows
# training takes longer, too. There are at most MOST_FEATURES features of all rows, and M is at most MOST_REFINED. Fewer than
# WORTH_REFINING times the number of training are not worth the time (`benchmarks/many_rows.py`)
REFINED_WORK, REFINED_SIZES, MOST_FEATURES = 4e10, (3.3e6, 1e7), 6e7
MOST_REFINED, WORTH_REFINING = 1500, 1.5


@dataclass(frozen=True, kw_only=True)
class Inducing:
    """Settings of the inducing points."""

    n_inducing: int | None = None  # None: a twentieth of the rows, between 100 and 200; up to 300 rows a third of them
    per_class: bool = False  # whether each class has its own inducing inputs
    inputs: str = "k-means"  # initial inducing inputs: centres of clusters, distant rows ("k-means++") or "random" rows
    learn_inputs: bool = True

    def __post_init__(self):
        if self.n_inducing is not None and self.n_inducing < 1:
            raise ValueError(f"n_inducing must be at least 1, but is {self.n_inducing}")
        if self.inputs not in INPUTS:
            raise ValueError(f"inputs must be one of {', '.join(map(repr, INPUTS))}, but is {self.inputs!r}")

    def count(self, n_rows: int) -> int:
        """Return the number of inducing points for this number of rows."""
        if self.n_inducing is None:
            most = max(n_rows // 3, min(MIN_INDUCING, n_rows))
            return min(int(np.clip(n_rows // ROWS_PER_INDUCING, *INDUCING_RANGE)), most)
        if self.n_inducing > n_rows:
            raise ValueError(f"n_inducing={self.n_inducing} is more than the {n_rows} rows: use fewer inducing points")
        return self.n_inducing


@dataclass(frozen=True, kw_only=True)
class Training(Inducing):
    """Settings of training.

    `search` selects the method. "settled": the sites of all rows are swept to convergence for each evaluation of L-BFGS.
    "minibatches": sites and hyperparameters are updated together, one Adam step for each minibatch. "auto" is "settled" up
    to a few thousand rows and "minibatches" above.

    Villacampa-Calvo 2017 (6.4) uses Adam with learning_rate=1e-3, decay=False and the other constants as here. This is not
    the default: in 100 seconds of one core on MNIST (M = 200) it reaches an error of 4.4 % and a loss of 0.148, the
    constants here 3.0 % and 0.109. A larger rate alone does not explain it: while the rate is still 0.026, the error is 3.4
    % after 150 seconds.
    """

    search: str = "auto"
    # Whether more inducing points, chosen as `inputs` says, are tried after training on minibatches. Hyperparameters stay. A
    # tenth of the rows, at most 2000, held out of training, decides whether the posterior becomes better; then the sites of
    # all rows converge with the points that were better. Rows of `held_out` decide, too, but stay out of the posterior.
    # Below 2000 rows none are held out, and points are always added. Only for rows in arrays without `validation`. True
    # chooses the number of points, if the time allows at least half as many points again; a number above one sets it.
    refine: bool | int = False
    batch_size: int | None = 200  # rows per minibatch; None uses all rows at once
    epochs: int | None = None  # passes over the data; None chooses them for a default number of steps, see `passes`
    learning_rate: float = 0.03  # initial rate of Adam; inducing inputs are measured in standard deviations
    decay: bool = True  # whether the rate decreases to zero over the passes, as half a cosine
    beta1: float = 0.9
    beta2: float = 0.999
    adam_epsilon: float = 1e-8
    validation: float = 0.0  # fraction of the rows held out for early stopping; 0 disables it
    # Rows held out of minibatches for calibration and scores: at most a tenth of all, and none if that is fewer than 200.
    # Rows of `validation` serve as well.
    held_out: int = 0
    patience: int = 5  # passes without improvement on the held-out rows before stopping
    warm_up: int = 0  # initial minibatches that update only the sites
    # File in which a run on minibatches is saved, and whether a saved run is continued. With a file, search="auto" is
    # "minibatches". "auto" continues the run if the file exists and belongs to this run (same data, labels, order of the
    # rows, kernel, likelihood, engine, priors and seed; more passes are allowed, fewer are not), starts a new run if there
    # is no file, and raises an error if the file belongs to another run. "never" starts a new run and overwrites the file.
    # "must" is "auto", but raises an error if there is no file.
    checkpoint: str | os.PathLike | None = field(default=None, metadata=LOCAL_SETTING)
    resume: str = field(default="auto", metadata=LOCAL_SETTING)

    def __post_init__(self):
        super().__post_init__()
        if self.search not in SEARCHES:
            raise ValueError(f"search must be one of {', '.join(map(repr, SEARCHES))}, but is {self.search!r}")
        if self.resume not in RESUMES:
            raise ValueError(f"resume must be one of {', '.join(map(repr, RESUMES))}, but is {self.resume!r}")
        if (self.epochs is not None and self.epochs < 0) or (self.batch_size is not None and self.batch_size < 1):
            raise ValueError("batch_size must be at least 1, epochs at least 0")
        if not isinstance(self.refine, (bool, np.bool_)) and self.refine <= 1:
            raise ValueError(f"refine must be True, False or a number of inducing points, but is {self.refine!r}")
        if not 0 <= self.validation < 1 or self.patience < 1 or self.held_out < 0:
            raise ValueError("validation must be in [0, 1), patience at least 1 and held_out at least 0")
        if not (self.learning_rate > 0 and 0 <= self.beta1 < 1 and 0 <= self.beta2 < 1 and self.adam_epsilon > 0):
            raise ValueError("learning_rate and adam_epsilon must be positive, beta1 and beta2 in [0, 1)")

    def refined_count(self, n_rows: int, n_latents: int) -> int:
        """Return the number of inducing points after training, if they are refined; that of training if it stays."""
        count = self.count(n_rows)
        if self.refine > 1:
            return max(count, min(int(self.refine), n_rows))
        size = np.clip(REFINED_WORK / n_rows, *REFINED_SIZES)
        most = min(MOST_REFINED, n_rows, int(MOST_FEATURES / n_rows), int(np.sqrt(size / n_latents)))
        return most if most >= WORTH_REFINING * count else count

    def passes(self, n_rows: int) -> int:
        """Return the number of passes over this number of rows."""
        if self.epochs is not None:
            return self.epochs
        size = min(self.batch_size or n_rows, n_rows)
        of_pass = -(-n_rows // size)
        fewest, most = np.clip(ROWS_RANGE[0] // size, *FEWEST_STEPS), np.clip(ROWS_RANGE[1] // size, *MOST_STEPS)
        return -(-int(np.clip(DEFAULT_PASSES * of_pass, fewest, most)) // of_pass)
