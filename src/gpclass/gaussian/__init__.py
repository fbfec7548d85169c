"""Prior × sites: the linear algebra shared by every engine, one file per prior structure.

sites      Gaussian sites (τ, ν), made from a slope and a curvature or by matching moments
full       exact prior K with one scalar site per datum: q(f) ∝ N(f | 0, K) ∏ exp(-½ τ_i f_i² + ν_i f_i)
factorial  exact prior K, posterior Gaussian with diagonal covariance (the factorial method's)
coupled    one latent function per class, sites that couple the classes of a datum
dense_coupled  the same with sites of any precision, and with classes that are correlated a priori
stacked    one latent function per class, independent of each other
columns    covariances of which columns are computed when asked for
inducing   low rank: one latent function per class known through inducing variables, a scalar site per datum and class
active     sites on an active set only, which may grow one by one
inducing_coupled  one latent function per class, coupled at the data, known through inducing (input, class) pairs
prior      N(0, K) alone, in whitened coordinates, for samplers

A posterior offers: mean, var, alpha, log_det (log|I + KT|), log_partition, trace_ratio (tr VK⁻¹), cavity(), predict(Ks, kd).
"""

from .active import ActivePosterior, ActiveSites, EvidenceGradient, Stubs
from .columns import Columns, MatrixColumns, MatrixGradient
from .coupled import ContrastPosterior, CoupledPosterior, CoupledSystem, other_classes
from .dense_coupled import DenseCoupledPosterior, precision_root
from .factorial import FactorialPosterior
from .full import SMALLER, FullPosterior, too_large
from .low_rank import GradientSum, LowRankGradient, LowRankMatrices, LowRankPosterior, LowRankPrior
from .low_rank_coupled import InducingCovariance, InducingGradient, InducingPosterior, InducingPrior
from .prior import Prior
from .sites import Sites, log_partition_1d, matched_sites, newton_sites
from .stacked import StackedPosterior

__all__ = [
    "SMALLER",
    "ActivePosterior",
    "ActiveSites",
    "Columns",
    "ContrastPosterior",
    "CoupledPosterior",
    "CoupledSystem",
    "DenseCoupledPosterior",
    "EvidenceGradient",
    "FactorialPosterior",
    "FullPosterior",
    "GradientSum",
    "InducingCovariance",
    "InducingGradient",
    "InducingPosterior",
    "InducingPrior",
    "LowRankGradient",
    "LowRankMatrices",
    "LowRankPosterior",
    "LowRankPrior",
    "MatrixColumns",
    "MatrixGradient",
    "Prior",
    "Sites",
    "StackedPosterior",
    "Stubs",
    "log_partition_1d",
    "matched_sites",
    "newton_sites",
    "other_classes",
    "precision_root",
    "too_large",
]
