"""Learning hyperparameters: type-II maximum likelihood, or MAP with priors.

objective   log evidence + log prior at θ, with gradient, warm-started
optimise    L-BFGS-B with restarts; run: one run; history: all evaluations, and the result; curvature: its estimate
priors      half Student-t, normal, gamma, flat, joint priors of lengthscales, or user-defined; prior_choice: by name
starts      random starting points that suit the scale of the data
scan        a scan over lengthscales, which decides where a search starts
doubts      warnings about a result: parameters at a bound, evidence below guessing
learned     the result of learning
active_set  optimisation with an active set that is reselected repeatedly: major and minor steps
augment     virtual informative vectors: transformed copies of active rows, such as shifted images
columns     covariances of a kernel in the form that sparse engines need
inducing    engines with inducing points: covariances, and L-BFGS-B with converged sites
begin, training_state, trainer, adam  engines with inducing points: Adam on minibatches, together with the sites
checkpoint  files from which a minibatch run continues, and the identity of the run
inducing_mnl  optimisation with inducing variables that are selected, or moved, during the search
learn       one function that learns with any kind of engine; learn_inducing: with inducing points
calibration  temperature and noise floor of class probabilities, fitted to leave-one-out probabilities
members     weighted averages over posteriors
integrate   posteriors around the mode of the hyperparameters, weighted by evidence and prior
stack       posteriors with different kernels, weighted by leave-one-out probabilities
crew        rows divided among processes: sums over all of them, minibatches, sweeps, active sets
minibatch   a step of training on a minibatch as two pure functions
streams     sources of rows: arrays, memory maps, sequences of batches; the shuffle buffer
files       CSV and Parquet files as streams
memory      an error or a warning before a fit that needs more memory than is available
validate    X and y as numeric arrays, checked by scikit-learn
"""

from typing import TYPE_CHECKING

from .._lazy import lazy_names
from ..engines.inducing.training import Training
from ..numerics.columns import column_spread, typical_distance
from .active_evidence import fit_active, held_objective
from .active_set import maximise_active, paper_priors, update_active
from .augment import Augmented, ImageShifts, fit_augmented
from .begin import begin_training, train_inducing
from .calibration import Calibration, LeftOut
from .checkpoint import CheckpointError
from .columns import KernelColumns, KernelGradient
from .crew import CrewLost, LostRowsWarning
from .history import Search, Step
from .inducing import InducingInputs, InducingModel, maximise_low_rank
from .inducing_mnl import InducingPairs, InducingSearch, k_means, maximise_inducing
from .inducing_starts import start_inputs
from .integrate import integrated
from .learn import learn
from .learn_inducing import trained
from .learned import Learned
from .members import Member, Mixture, left_out
from .memory import warn_if_too_large
from .objective import Evaluation, Objective
from .optimise import maximise
from .parallel import in_parallel
from .prior_choice import resolve_priors
from .priors import Custom, Flat, Gamma, HalfStudentT, Normal, Relative, log_prior
from .rows import RowMap, TrainingRows
from .stack import stacked
from .starts import random_start
from .streams import Arrays, Batches, SortedStreamWarning, as_source
from .trainer import Trainer
from .training_state import Pass
from .validate import validated

if TYPE_CHECKING:
    from .files import csv_file, files_of, parquet_file, table_files
else:  # imported when first used, since they need pandas
    __getattr__, __dir__ = lazy_names(
        __name__, dict.fromkeys(("csv_file", "files_of", "parquet_file", "table_files"), "files")
    )

__all__ = [
    "Arrays",
    "Augmented",
    "Batches",
    "Calibration",
    "CheckpointError",
    "CrewLost",
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
    "LeftOut",
    "LostRowsWarning",
    "Member",
    "Mixture",
    "Normal",
    "Objective",
    "Pass",
    "Relative",
    "RowMap",
    "Search",
    "SortedStreamWarning",
    "Step",
    "Trainer",
    "Training",
    "TrainingRows",
    "as_source",
    "begin_training",
    "column_spread",
    "csv_file",
    "files_of",
    "fit_active",
    "fit_augmented",
    "held_objective",
    "in_parallel",
    "integrated",
    "k_means",
    "learn",
    "left_out",
    "log_prior",
    "maximise",
    "maximise_active",
    "maximise_inducing",
    "maximise_low_rank",
    "paper_priors",
    "parquet_file",
    "random_start",
    "resolve_priors",
    "stacked",
    "start_inputs",
    "table_files",
    "train_inducing",
    "trained",
    "typical_distance",
    "update_active",
    "validated",
    "warn_if_too_large",
]
