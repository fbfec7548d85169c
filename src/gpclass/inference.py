"""Inference engines on all rows: covariance matrix and labels in, Gaussian posterior and evidence out.

An engine is a frozen dataclass of settings with a method `fit(K, y, likelihood, start=None) -> Fit`. Its `needs` lists the
likelihood methods that it calls. An engine defines a rule (new sites from the current marginals), an evidence, and the
derivatives of the evidence: `evidence_gradient(fit)` in K and `likelihood_gradient(fit)`. The loop is in engines/iterate.py,
the linear algebra in gaussian/.

One latent function:

    Laplace          curvature of log p(y | f) at the mode
    EP               moments of cavity × likelihood
    TAP, TAPNaive    mean-field equations; TAP has the fixed point of EP, TAPNaive keeps the prior variances
    KL               expected slope and curvature under the marginals: the Gaussian that minimises KL(q‖p)
    VB               quadratic lower bounds of log p(y | f)
    FV               the factorial distribution that minimises KL(q‖p)
    LabelRegression  labels as noisy function values

One latent function per class:

    Laplace          also for Softmax; correction="tierney-kadane" computes class probabilities as ratios of evidences
    NestedEP         EP on the contrasts of multinomial probit, classes fully coupled
    IndependentEP    EP with classes independent a posteriori
    QuadratureEP     either of these two, with tilted moments by quadrature
    MeanFieldProbit  latent functions independent of multinomial probit's auxiliary variables: a lower bound
    VariationalMNL   the best Gaussian under Chai's bound of the expected log softmax; classes may be correlated
"""

from .engines.fit import Fit
from .engines.full.ep import EP
from .engines.full.fv import FV
from .engines.full.independent_ep import IndependentEP
from .engines.full.kl import KL
from .engines.full.label_regression import LabelRegression
from .engines.full.laplace import Laplace
from .engines.full.mean_field import MeanFieldProbit
from .engines.full.nested_ep import NestedEP
from .engines.full.quadrature_ep import QuadratureEP
from .engines.full.tap import TAP, TAPNaive
from .engines.full.vb import VB
from .engines.iterate import Status
from .engines.mnl.dense import VariationalMNL, isotropic_evidence_bound, prior_evidence_bound
from .registry import register

for _name, _cls in (
    ("laplace", Laplace),
    ("ep", EP),
    ("tap", TAP),
    ("tap-naive", TAPNaive),
    ("kl", KL),
    ("vb", VB),
    ("fv", FV),
    ("lr", LabelRegression),
    ("nested-ep", NestedEP),
    ("independent-ep", IndependentEP),
    ("quadrature-ep", QuadratureEP),
    ("mean-field-probit", MeanFieldProbit),
    ("variational-mnl", VariationalMNL),
):
    register(_cls, _name)

__all__ = [
    "EP",
    "FV",
    "KL",
    "TAP",
    "VB",
    "Fit",
    "IndependentEP",
    "LabelRegression",
    "Laplace",
    "MeanFieldProbit",
    "NestedEP",
    "QuadratureEP",
    "Status",
    "TAPNaive",
    "VariationalMNL",
    "isotropic_evidence_bound",
    "prior_evidence_bound",
]
