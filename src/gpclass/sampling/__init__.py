"""Samplers: reference results for the approximations, on the user's data.

    HMC               Hamiltonian Monte Carlo on the whitened latent function, adapted in the warm-up
    EllipticalSlice   elliptical slice sampling, without settings to tune
    ScaledMetropolis  Metropolis-Hastings with proposals that keep the prior
    Gibbs             for Probit and MultinomialProbit, with auxiliary variables

Each is an engine: `HMC().fit(K, y, likelihood)` returns `Draws`. Three functions estimate the evidence:

    annealed_importance   annealed importance sampling, from the prior or from an engine's posterior
    importance_sampling   from a Student-t proposal, for few dimensions
    orthant_evidence      for probit models, with a standard error

`audit` compares an approximation with these and reports its errors.
"""

from typing import TYPE_CHECKING

from .._lazy import lazy_names

NAMES = {  # imported when first used
    "AnnealedEvidence": "annealing",
    "Audit": "auditing",
    "Draws": "draws",
    "EllipticalSlice": "elliptical",
    "Gibbs": "gibbs",
    "HMC": "hmc",
    "HyperDraws": "hyper",
    "ImportanceEvidence": "importance",
    "OrthantEvidence": "orthant",
    "SampleAudit": "sample_audit",
    "Sampler": "chains",
    "ScaledMetropolis": "metropolis",
    "annealed_importance": "annealing",
    "audit": "auditing",
    "effective_size": "diagnostics",
    "importance_sampling": "importance",
    "orthant_evidence": "orthant",
    "pareto_k": "diagnostics",
    "r_hat": "diagnostics",
}

if TYPE_CHECKING:
    from .annealing import AnnealedEvidence, annealed_importance
    from .auditing import Audit, audit
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
    from .sample_audit import SampleAudit
else:
    __getattr__, __dir__ = lazy_names(__name__, NAMES, tuple(NAMES.values()))

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
    "SampleAudit",
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
