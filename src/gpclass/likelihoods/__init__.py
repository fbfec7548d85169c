"""Likelihoods p(y | f): the probability of a label given the latent value.

Each method returns a value with its first and second derivatives in the latent mean, vectorised over data:

    log_prob(y, f)                    log p(y | f)                         (Laplace; log_prob_third for its gradient)
    expected_log_prob(y, mean, var)   E[log p(y | f)], f ~ N(mean, var)    (KL, Jensen bound)
    tilted_moments(y, mean, var)      log E[p(y | f)], f ~ N(mean, var)    (EP, TAP, FV, leave-one-out)
    bound(y, touch)                   quadratic lower bound of log p(y | f): constant, ν, τ   (VB; with bound_point)
    expected_log_prob_bound(mean, cov)  Chai's lower bound of E[log p(y | f)]   (VariationalMNL; see mnl_bound.py)
    predictive(mean, var)             p(y = +1); also log_predictive, predictive_std

If the likelihood has free parameters θ, `log_prob_theta`, `expected_log_prob_theta`, `tilted_theta` and `bound_theta`
return the derivatives in θ. A likelihood implements only the methods it can support, and engines declare the methods they
need. No likelihood depends on an engine.

    Logit      logistic sigmoid, with bias
    Probit     cumulative Gaussian, with bias; label noise if ε > 0
    Heaviside  step function with label noise: the binary robust likelihood
    NullCategory  probit with a gap between the classes, for rows without a label
    Gaussian   real-valued targets; every engine is exact regression
    LaplaceNoise  real-valued targets with outliers
    Ordinal    ordered categories between thresholds (interval.py)
    Poisson    counts

Likelihoods of several classes have one latent function per class, with the class on the last axis of f:

    Softmax            multinomial logit
    MultinomialProbit  the class with the largest latent value after standard Gaussian noise; label noise if ε > 0
    RobustMax          the class with the largest latent value, with label noise
    OneAgainstRest     a separate binary likelihood for each class
"""

from ..registry import register
from .base import Likelihood
from .gaussian import Gaussian
from .heaviside import Heaviside
from .laplace_noise import LaplaceNoise
from .logit import Logit
from .multiclass import Multiclass
from .multinomial_probit import MultinomialProbit
from .null_category import NullCategory
from .one_against_rest import OneAgainstRest
from .ordinal import Ordinal
from .poisson import Poisson
from .probit import Probit
from .robust_max import RobustMax
from .sigmoid import Sigmoid
from .softmax import Softmax

for _name, _cls in (
    ("logit", Logit),
    ("probit", Probit),
    ("heaviside", Heaviside),
    ("softmax", Softmax),
    ("multinomial-probit", MultinomialProbit),
    ("robust-max", RobustMax),
    ("one-against-rest", OneAgainstRest),
    ("gaussian", Gaussian),
    ("laplace-noise", LaplaceNoise),
    ("null-category", NullCategory),
    ("ordinal", Ordinal),
    ("poisson", Poisson),
):
    register(_cls, _name)

__all__ = [
    "Gaussian",
    "Heaviside",
    "LaplaceNoise",
    "Likelihood",
    "Logit",
    "Multiclass",
    "MultinomialProbit",
    "NullCategory",
    "OneAgainstRest",
    "Ordinal",
    "Poisson",
    "Probit",
    "RobustMax",
    "Sigmoid",
    "Softmax",
]
