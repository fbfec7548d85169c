"""Gold standards: what approximations are measured against, on the user's own data.

    HMC               Hamiltonian Monte Carlo on the whitened latent function, adapted in its warm-up
    EllipticalSlice   nothing to tune
    ScaledMetropolis  the simplest
    Gibbs             for Probit and MultinomialProbit, with auxiliary variables

Each is an engine: `HMC().fit(K, y, likelihood)` gives `Draws`. Beside them, for the evidence,

    annealed_importance   from the prior or from an engine's posterior
    importance_sampling   from a Student-t, where dimensions are few
    orthant_evidence      probit models, exact to a tolerance

and `audit`, which puts an approximation beside them and says how far it can be trusted.
"""

from .annealing import AnnealedEvidence, annealed_importance
from .audit import Audit, audit
from .chains import Sampler
from .diagnostics import effective_size, pareto_k, r_hat
from .draws import Draws
from .elliptical import EllipticalSlice
from .gibbs import Gibbs
from .hmc import HMC
from .hyper import HyperDraws
from .importance import ImportanceEvidence, importance_sampling
from .metropolis import ScaledMetropolis
from .orthant import OrthantEvidence, orthant_evidence

__all__ = [
    "HMC",
    "AnnealedEvidence",
    "Audit",
    "Draws",
    "EllipticalSlice",
    "Gibbs",
    "HyperDraws",
    "ImportanceEvidence",
    "OrthantEvidence",
    "Sampler",
    "ScaledMetropolis",
    "annealed_importance",
    "audit",
    "effective_size",
    "importance_sampling",
    "orthant_evidence",
    "pareto_k",
    "r_hat",
]
