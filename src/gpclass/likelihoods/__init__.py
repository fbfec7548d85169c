"""Likelihoods p(y | f): what a latent value says about a label.

A likelihood answers each question with value, slope and curvature in the latent mean, vectorised over data:

    log_prob(y, f)                    log p(y | f)                         (Laplace; log_prob_third for its gradient)
    expected_log_prob(y, mean, var)   E[log p(y | f)], f ~ N(mean, var)    (KL, Jensen bound)
    tilted_moments(y, mean, var)      log E[p(y | f)], f ~ N(mean, var)    (EP, TAP, FV, leave-one-out)
    bound(y, touch)                   quadratic lower bound of log p(y | f): constant, ν, τ   (VB; with bound_point)
    expected_log_prob_bound(mean, cov)  Chai's lower bound of E[log p(y | f)]   (VariationalMNL; mnl_bound.py has its kin)
    predictive(mean, var)             p(y = +1); log_predictive, predictive_std beside it

and, where it has free parameters θ, the derivatives in them (`log_prob_theta`, `expected_log_prob_theta`,
`tilted_theta`, `bound_theta`). It offers only what it can; engines say what they need. It knows no engine.

    Logit      logistic sigmoid, with bias
    Probit     cumulative Gaussian, with bias
    Heaviside  step function with label noise: the binary robust likelihood
    Gaussian   real-valued targets; makes every engine exact regression
    Ordinal    ordered categories between thresholds
    Poisson    counts

and for several classes, with one latent function each and the class on the last axis of f:

    Softmax            multinomial logit
    MultinomialProbit  the largest latent value wins after standard Gaussian noise on each
    RobustMax          the largest latent value wins, but for labels that are wrong at random
    OneAgainstRest     a binary likelihood for each class by itself
"""

from ..registry import register
from .base import Likelihood, Sigmoid
from .gaussian import Gaussian
from .heaviside import Heaviside
from .logit import Logit
from .multiclass import Multiclass
from .multinomial_probit import MultinomialProbit
from .one_against_rest import OneAgainstRest
from .ordinal import Ordinal
from .poisson import Poisson
from .probit import Probit
from .robust_max import RobustMax
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
    ("ordinal", Ordinal),
    ("poisson", Poisson),
):
    register(_cls, _name)

__all__ = [
    "Gaussian",
    "Heaviside",
    "Likelihood",
    "Logit",
    "Multiclass",
    "MultinomialProbit",
    "OneAgainstRest",
    "Ordinal",
    "Poisson",
    "Probit",
    "RobustMax",
    "Sigmoid",
    "Softmax",
]
