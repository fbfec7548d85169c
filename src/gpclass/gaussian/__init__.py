"""Prior × sites: the linear algebra shared by every engine, one file per prior structure.

sites      Gaussian sites (τ, ν) and the one function that makes them from slope and curvature
full       exact prior K with one scalar site per datum: q(f) ∝ N(f | 0, K) ∏ exp(-½ τ_i f_i² + ν_i f_i)
factorial  exact prior K, posterior Gaussian with diagonal covariance (the factorial method's)
coupled    one latent function per class, sites that couple the classes of a datum
stacked    one latent function per class, independent of each other
prior      N(0, K) alone, in whitened coordinates, for samplers

A posterior offers: mean, var, alpha, log_det (log|I + KT|), log_partition, trace_ratio (tr VK⁻¹), cavity(), predict(Ks, kd).
"""

from .coupled import ContrastPosterior, CoupledPosterior, CoupledSystem, other_classes
from .factorial import FactorialPosterior
from .full import FullPosterior, too_large
from .prior import Prior
from .sites import Sites, log_partition_1d, newton_sites
from .stacked import StackedPosterior

__all__ = [
    "ContrastPosterior",
    "CoupledPosterior",
    "CoupledSystem",
    "FactorialPosterior",
    "FullPosterior",
    "Prior",
    "Sites",
    "StackedPosterior",
    "log_partition_1d",
    "newton_sites",
    "other_classes",
    "too_large",
]
