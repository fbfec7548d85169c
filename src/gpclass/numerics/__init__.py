"""Numerical routines: factorisations, tails of the normal distribution, Gaussian quadrature.

linalg      Cholesky factor of I + √τ K √τ, inverted in place; operations on symmetric matrices
normal      log Φ and the ratio N/Φ, accurate in both tails; the logistic function as a mixture of probits
winner      the probability that one of several independent Gaussian variables is the largest, and its derivatives
shares      expected class probabilities under a joint Gaussian: of the largest value, of softmax
orthants    probabilities that each of several jointly Gaussian values is the largest: closed forms, contrasts drawn in turn
nearly_independent  the same for values that are nearly independent, with or without noise, by a series in their covariances
grid        expected softmax by trapezoid rules along principal axes
rare        expected softmax of a rare class by importance sampling
gumbel      Gumbel noise as mixtures of normal distributions
plackett    covariance of two normal probabilities under a Gaussian
points      quasi-random points, and averages over as many points as the required accuracy needs
truncated   exact draws from truncated and tilted Gaussians
columns     centre and spread of columns, typical distance of rows
blocks      rows taken block by block, so that temporary arrays stay small
threads     one BLAS thread for small matrices
product     moments of independent Gaussians times softmax, by product quadrature
separable   covariances that are a product of an input factor and a class factor
classes     contrasts of classes
mixing      Anderson mixing of the last steps of a fixed-point iteration
conjugate_gradients  preconditioned conjugate gradients
precision   float32 in place of float64 for factorisations; the BLAS and LAPACK routines of a dtype
refinement  iterative refinement of the solution of a linear system
quadrature  nodes and weights for expectations under Gaussians, for functions with a feature and for smooth functions
fingerprint hashes of rows and of whole data sets
"""

from .blocks import CACHE, MEMORY, blocks
from .conjugate_gradients import conjugate_gradients
from .linalg import (
    Factor,
    NotPositiveDefinite,
    RightFactor,
    mirror_lower,
    row_blocks,
    scale_lower,
    scaled_plus_identity,
    strips_times_lower,
    symmetric_product,
    whole_strips,
)
from .mixing import NormalEquations, anderson, mixed_point, within_reach
from .normal import (
    LOG_SQRT_2PI,
    LOGISTIC_SCALES2,
    LOGISTIC_WEIGHTS,
    hazard,
    hazard_curvature,
    log_ndtr,
    log_ndtr_and_hazard,
)
from .precision import blas, epsilon, factor_dtype, single_precision
from .quadrature import gaussian_nodes, hermite_nodes, nodes_about, nodes_between, quasi_random_normal
from .refinement import refined
from .shares import covariance_roots, expected_softmax, winner_probabilities
from .truncated import draw_log_concave, normal_below
from .winner import hub_integral, largest, log_largest

__all__ = [
    "CACHE",
    "LOGISTIC_SCALES2",
    "LOGISTIC_WEIGHTS",
    "LOG_SQRT_2PI",
    "MEMORY",
    "Factor",
    "NormalEquations",
    "NotPositiveDefinite",
    "RightFactor",
    "anderson",
    "blas",
    "blocks",
    "conjugate_gradients",
    "covariance_roots",
    "draw_log_concave",
    "epsilon",
    "expected_softmax",
    "factor_dtype",
    "gaussian_nodes",
    "hazard",
    "hazard_curvature",
    "hermite_nodes",
    "hub_integral",
    "largest",
    "log_largest",
    "log_ndtr",
    "log_ndtr_and_hazard",
    "mirror_lower",
    "mixed_point",
    "nodes_about",
    "nodes_between",
    "normal_below",
    "quasi_random_normal",
    "refined",
    "row_blocks",
    "scale_lower",
    "scaled_plus_identity",
    "single_precision",
    "strips_times_lower",
    "symmetric_product",
    "whole_strips",
    "winner_probabilities",
    "within_reach",
]
