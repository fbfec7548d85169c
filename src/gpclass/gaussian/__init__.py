"""Prior × sites: the linear algebra shared by all engines, one file per prior structure.

sites             Gaussian sites (τ, ν), from a slope and a curvature or by moment matching
places            observations that share latent values
full              exact prior K with one scalar site per datum: q(f) ∝ N(f | 0, K) ∏ exp(-½ τ_i f_i² + ν_i f_i)
shared            the same for weighted observations, several of which may share a latent value
factorial         exact prior K, Gaussian posterior with diagonal covariance (factorial variational method)
coupled           one latent function per class, sites that couple the classes of a datum
contrasts         the same for multinomial probit, as scalar sites on contrasts of classes
dense_coupled     the same with sites of any precision, and with classes that are correlated a priori
stacked           one latent function per class, independent of each other
columns           covariances whose columns are computed on demand
low_rank          one latent function per class, inducing variables, a scalar site per datum and class
active            sites on an active set only, which can grow row by row
inducing_pairs    covariances of data and inducing (input, class) pairs, and derivatives in them
low_rank_coupled  one latent function per class, coupled at the data, with inducing (input, class) pairs
prior             N(0, K) alone, in whitened coordinates, for samplers
nearby            predictions for site precisions near those of a posterior, without a new factorisation
rounding          rounding of B = I + √τ K √τ, and errors if its factorisation fails

A posterior has: mean, var, alpha, log_det (log|I + KT|), log_partition, trace_ratio (tr VK⁻¹), cavity(), predict(Ks, kd).
"""

from ..numerics.classes import other_classes
from .active import ActivePosterior, ActiveSites, Stubs
from .active_gradient import EvidenceGradient
from .columns import Columns, MatrixColumns, MatrixGradient
from .contrast_prior import ContrastPrior
from .contrasts import ContrastPosterior
from .coupled import CoupledPosterior, precisions
from .coupled_system import CoupledSystem
from .dense_coupled import DenseCoupledPosterior, precision_root
from .factorial import FactorialPosterior
from .full import FullPosterior
from .inducing_pairs import InducingCovariance, InducingGradient
from .low_rank import LowRankPosterior, LowRankPrior
from .low_rank_coupled import InducingPosterior, InducingPrior
from .low_rank_matrices import GradientSum, LowRankGradient, LowRankMatrices
from .nearby import NearbyPosterior, Response
from .prior import Prior
from .rounding import SMALLER, too_large
from .shared import SharedPosterior
from .sites import Places, Sites, log_partition_1d, matched_sites, matrix_cavity, newton_sites
from .stacked import StackedPosterior

__all__ = [
    "SMALLER",
    "ActivePosterior",
    "ActiveSites",
    "Columns",
    "ContrastPosterior",
    "ContrastPrior",
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
    "NearbyPosterior",
    "Places",
    "Prior",
    "Response",
    "SharedPosterior",
    "Sites",
    "StackedPosterior",
    "Stubs",
    "log_partition_1d",
    "matched_sites",
    "matrix_cavity",
    "newton_sites",
    "other_classes",
    "precision_root",
    "precisions",
    "too_large",
]
