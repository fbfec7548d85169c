"""Sparse engines: they use an active set or inducing points instead of the full covariance matrix.

Engines on active sets take covariances whose columns are computed on demand (`gaussian.columns`).

engines/active/ivm              IVM, the informative vector machine: EP on a greedily chosen active set
engines/active/selection        the greedy choice: scores, ties, a bound on memory
engines/active/criterion        the evidence of an active set and its derivatives with fixed sites
engines/mnl/sparse              SparseVariationalMNL: variational multinomial logit with inducing variables
engines/mnl/sparse_climb        the maximisation of its bound
engines/mnl/inducing_set        sets of inducing variables at rows, and their covariances
engines/mnl/selection           choice of inducing variables by their increase of the bound
engines/inducing/engine         base of the engines on inducing points
engines/inducing/sweep          sweeps over all rows at fixed hyperparameters, and the resulting fit
engines/inducing/mixer          the sites of the next sweep
engines/inducing/step           a minibatch step as two pure functions
engines/inducing/scalable_ep    ScalableEP: EP with rank-one sites, on all data or on minibatches
engines/inducing/coupled_ep     CoupledScalableEP: nested EP on inducing points, classes coupled in the posterior
engines/inducing/stochastic_ep  StochasticEP: the same with tied sites; memory does not depend on the number of rows
engines/inducing/svgp           SVGP: variational inference with natural gradients
engines/inducing/gfitc          GFITC: EP with the FITC prior, on all data
engines/inducing/training       training settings of these engines
"""

from . import inference as inference  # lists of engines begin with those on all rows, whatever is imported first
from .engines.active.criterion import log_evidence
from .engines.active.ivm import IVM, ActiveFit
from .engines.inducing.coupled_ep import CoupledScalableEP
from .engines.inducing.engine import LowRankEngine, Message
from .engines.inducing.gfitc import GFITC
from .engines.inducing.scalable_ep import ScalableEP
from .engines.inducing.step import State
from .engines.inducing.stochastic_ep import StochasticEP
from .engines.inducing.svgp import SVGP
from .engines.inducing.sweep import InducingFit
from .engines.inducing.training import Inducing, Training
from .engines.mnl.inducing_set import InducingSet, RowCovariance
from .engines.mnl.selection import scores
from .engines.mnl.sparse import SparseFit, SparseVariationalMNL
from .registry import register

for _name, _cls in (
    ("ivm", IVM),
    ("sparse-mnl", SparseVariationalMNL),
    ("scalable-ep", ScalableEP),
    ("coupled-scalable-ep", CoupledScalableEP),
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
    "CoupledScalableEP",
    "Inducing",
    "InducingFit",
    "InducingSet",
    "LowRankEngine",
    "Message",
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
