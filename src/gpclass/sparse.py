"""Engines that do not see every pair of data: inducing points and active sets.

An active set's engine takes covariances whose columns are computed when asked for (`gaussian.columns`).

ivm        IVM, the informative vector machine: EP on an active set that is chosen greedily
selection  that choice: scores, ties, a bound on memory
criterion  the evidence of an active set, and its derivatives with sites held
sparse_mnl     SparseVariationalMNL: variational multinomial logit through inducing variables
mnl_selection  their choice by what they would add to the bound
engine         what an engine on inducing points with independent classes is: a rule, and what belongs to it
sweep          sweeps over all rows at fixed hyperparameters, and the fit that they end with
step           a step on a minibatch, as two pure functions
scalable_ep    ScalableEP: EP with sites of rank one, all data or a minibatch at a time
stochastic_ep  StochasticEP: the same with tied sites, memory independent of the number of rows
svgp           SVGP: variational, natural gradients
gfitc          GFITC: EP with FITC's prior, all data at once
training       settings of learning that these engines have
"""

from .engines.active.criterion import log_evidence
from .engines.active.ivm import IVM, ActiveFit
from .engines.inducing.engine import LowRankEngine
from .engines.inducing.gfitc import GFITC
from .engines.inducing.scalable_ep import ScalableEP
from .engines.inducing.step import State
from .engines.inducing.stochastic_ep import StochasticEP
from .engines.inducing.svgp import SVGP
from .engines.inducing.sweep import InducingFit
from .engines.inducing.training import Inducing, Training
from .engines.mnl.selection import InducingSet, RowCovariance, scores
from .engines.mnl.sparse import SparseFit, SparseVariationalMNL
from .registry import register

for _name, _cls in (
    ("ivm", IVM),
    ("sparse-mnl", SparseVariationalMNL),
    ("scalable-ep", ScalableEP),
    ("stochastic-ep", StochasticEP),
    ("svgp", SVGP),
    ("gfitc", GFITC),
):
    register(_cls, _name)

__all__ = [
    "GFITC",
    "IVM",
    "SVGP",
    "ActiveFit",
    "Inducing",
    "InducingFit",
    "InducingSet",
    "LowRankEngine",
    "RowCovariance",
    "ScalableEP",
    "SparseFit",
    "SparseVariationalMNL",
    "State",
    "StochasticEP",
    "Training",
    "log_evidence",
    "scores",
]
