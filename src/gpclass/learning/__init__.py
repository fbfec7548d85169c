"""Learning hyperparameters: type-II maximum likelihood, or MAP with priors.

objective   log evidence + log prior at θ, with gradient, warm-started
optimise    L-BFGS-B with restarts that never end worse than the single run; keeps a history
priors      half Student-t ("weak"), normal, gamma, flat, or the user's own
starts      starting points that fit the data
memory      a word before a fit that will not fit in memory
"""

from .memory import warn_if_too_large
from .objective import Evaluation, Objective
from .optimise import Search, Step, maximise, warn_if_unfinished
from .priors import Custom, Flat, Gamma, HalfStudentT, Normal, log_prior, resolve_priors
from .starts import column_spread, random_start, typical_distance

__all__ = [
    "Custom",
    "Evaluation",
    "Flat",
    "Gamma",
    "HalfStudentT",
    "Normal",
    "Objective",
    "Search",
    "Step",
    "column_spread",
    "log_prior",
    "maximise",
    "random_start",
    "resolve_priors",
    "typical_distance",
    "warn_if_too_large",
    "warn_if_unfinished",
]
