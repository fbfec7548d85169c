"""Learning hyperparameters: type-II maximum likelihood, or MAP with priors.

objective   log evidence + log prior at θ, with gradient, warm-started
optimise    L-BFGS-B with restarts that never end worse than the single run; keeps a history
priors      half Student-t ("weak"), normal, gamma, flat, or the user's own
starts      starting points that fit the data
active_set  the search with an active set that is chosen anew on the way: major and minor steps
augment     virtual informative vectors: copies of active rows, as image shifts
columns     a kernel's covariances as sparse engines take them
inducing    engines on inducing points: covariances, and L-BFGS-B on settled sites
trainer     engines on inducing points: Adam on minibatches along with sites
checkpoint  files that a run on minibatches is continued from, and whose run that is
inducing_mnl  the same search with inducing variables that are chosen, or moved, on the way
learn       where the searches of all kinds of engines meet
streams     sources of rows: arrays, memory maps, sequences of batches; the buffer that mixes them
files       CSV and Parquet files as streams
memory      an error or a warning before a fit that needs more memory than there is
validate    X and y as arrays of numbers, after scikit-learn's checks
"""

from typing import TYPE_CHECKING

from .._lazy import lazy_names
from ..engines.inducing.training import Training
from .active_set import fit_active, held_objective, maximise_active, paper_priors, update_active
from .augment import Augmented, ImageShifts, fit_augmented
from .checkpoint import CheckpointError
from .columns import KernelColumns, KernelGradient
from .inducing import InducingInputs, InducingModel, maximise_low_rank, start_inputs
from .inducing_mnl import InducingPairs, InducingSearch, k_means, maximise_inducing
from .learn import Learned, learn, prior_covariances, trained
from .memory import warn_if_too_large
from .objective import Evaluation, Objective
from .optimise import Search, Step, check_search, maximise, warn_if_unfinished
from .priors import Custom, Flat, Gamma, HalfStudentT, Normal, log_prior, resolve_priors
from .starts import column_spread, random_start, typical_distance
from .streams import Arrays, Batches, SortedStreamWarning, as_source
from .trainer import Pass, Trainer, train_inducing
from .validate import validated

if TYPE_CHECKING:
    from .files import csv_file, parquet_file
else:  # imported when first used, since they need pandas
    __getattr__, __dir__ = lazy_names(__name__, {"csv_file": "files", "parquet_file": "files"})

__all__ = [
    "Arrays",
    "Augmented",
    "Batches",
    "CheckpointError",
    "Custom",
    "Evaluation",
    "Flat",
    "Gamma",
    "HalfStudentT",
    "ImageShifts",
    "InducingInputs",
    "InducingModel",
    "InducingPairs",
    "InducingSearch",
    "KernelColumns",
    "KernelGradient",
    "Learned",
    "Normal",
    "Objective",
    "Pass",
    "Search",
    "SortedStreamWarning",
    "Step",
    "Trainer",
    "Training",
    "as_source",
    "check_search",
    "column_spread",
    "csv_file",
    "fit_active",
    "fit_augmented",
    "held_objective",
    "k_means",
    "learn",
    "log_prior",
    "maximise",
    "maximise_active",
    "maximise_inducing",
    "maximise_low_rank",
    "paper_priors",
    "parquet_file",
    "prior_covariances",
    "random_start",
    "resolve_priors",
    "start_inputs",
    "train_inducing",
    "trained",
    "typical_distance",
    "update_active",
    "validated",
    "warn_if_too_large",
    "warn_if_unfinished",
]
