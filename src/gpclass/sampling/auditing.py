"""Errors of an approximation on given data, measured by comparison with samplers.

[NR] Nickisch & Rasmussen 2008: KL(q‖p) = log Z - log Z_B (eq. 9 and the lines after it).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn
from sklearn.exceptions import ConvergenceWarning

from ..engines.fit import Fit
from ..engines.observations import whole_copies
from ..gaussian import Prior
from ..inputs import more_inputs
from ..progress import shown
from .annealing import annealed_importance
from .diagnostics import HIGH_K, pareto_k
from .draws import HIGH_R_HAT
from .figures import Figure, Figures, grade
from .hmc import HMC
from .orthant import orthant_evidence
from .reference import Reference
from .sample_audit import SampleAudit, audit_on_sample, sampled_probabilities
from .target import Target, generator

MAX_ORTHANT = 300  # dimensions up to which the evidence of a probit model is computed as an orthant probability
PROPOSALS = 4000  # draws from the approximation, for the Pareto shape of the weights
EFFECTIVE_DRAWS = 1000  # at which HMC stops; errors: means 0.03 standard deviations, class probabilities about 0.005


@dataclass(frozen=True, repr=False)
class Audit(Figures):
    """Comparison of an approximation with sampling. Errors are approximation minus sampling.

    Attributes
    ----------
    engine, likelihood : str
        Class names.
    n_points : int
        Number of training rows.
    log_evidence : float
        The engine's log evidence.
    bound : float or None
        Jensen's bound of the engine's posterior, or None if the likelihood has no `expected_log_prob`.
    sampled_log_evidence, sampled_error : float
        The sampled log evidence and its standard error.
    evidence_method : str
        How the evidence was sampled.
    mean_error_max, mean_error_mean : float
        Errors of the marginal means at the training points, in posterior standard deviations.
    mean_noise : float
        The part of `mean_error_mean` that is expected from sampling alone.
    sd_error_max, sd_error_mean : float
        Relative errors of the marginal standard deviations.
    probability_error_max, probability_error_mean : float
        Errors of the class probabilities.
    probability_noise : float
        Largest standard error of the sampler's class probabilities.
    pareto_k : float or None
        Pareto shape of the weights posterior / approximation.
    r_hat, effective_draws : float
        Largest R-hat and smallest number of effective draws of the sampler.
    """

    engine: str
    likelihood: str
    n_points: int
    log_evidence: float
    bound: float | None
    sampled_log_evidence: float
    sampled_error: float
    evidence_method: str
    mean_error_max: float
    mean_error_mean: float
    mean_noise: float
    sd_error_max: float
    sd_error_mean: float
    probability_error_max: float
    probability_error_mean: float
    probability_noise: float
    pareto_k: float | None
    r_hat: float
    effective_draws: float

    @property
    def subject(self) -> str:
        return f"{self.engine} with {self.likelihood} on {self.n_points} points"

    @property
    def evidence_error(self) -> float:
        """Error of the engine's log evidence, in nats."""
        return self.log_evidence - self.sampled_log_evidence

    @property
    def kl_divergence(self) -> float | None:
        """KL(q‖p) = log Z - log Z_B, in nats."""
        return None if self.bound is None else self.sampled_log_evidence - self.bound

    @property
    def verdict(self) -> str:
        if not self.r_hat < HIGH_R_HAT:
            return "no conclusion, because the sampler has not converged: raise its number of draws"
        gap = abs(self.evidence_error)
        evidence = "evidence is good enough to compare models" if gap <= 0.5 + 2 * self.sampled_error else (
            f"evidence is {gap:.1f} nats {'too high' if self.evidence_error > 0 else 'too low'}"
        )
        return f"{grade(self.probability_error_max, self.probability_noise)}; {evidence}"

    def rows(self) -> list[Figure]:
        return [
            ("log evidence", self.log_evidence, None, f"by {self.engine}"),
            ("log evidence, sampled", self.sampled_log_evidence, self.sampled_error, self.evidence_method),
            ("evidence error", self.evidence_error, self.sampled_error, "nats"),
            ("Jensen bound", self.bound, None, "never above the true log evidence"),
            ("KL(q‖p)", self.kl_divergence, self.sampled_error, "nats"),
            ("mean error, largest", self.mean_error_max, None, "posterior standard deviations"),
            ("mean error, average", self.mean_error_mean, self.mean_noise, "posterior standard deviations"),
            ("sd error, largest", self.sd_error_max, None, "relative"),
            ("sd error, average", self.sd_error_mean, None, "relative"),
            ("probability error, largest", self.probability_error_max, self.probability_noise, ""),
            ("probability error, average", self.probability_error_mean, self.probability_noise, ""),
            ("Pareto k", self.pareto_k, None, "below 0.5 close, above 0.7 far from the posterior"),
            ("sampler's R-hat", self.r_hat, None, f"should be below {HIGH_R_HAT}"),
            ("sampler's effective draws", self.effective_draws, None, ""),
        ]


def audit(
    posterior: Any,
    X: Any = None,
    *,
    data: Any = None,
    sampler: Any = None,
    n_temperatures: int = 1000,
    random_state: Any = 0,
    verbose: int = 0,
) -> Audit | SampleAudit:
    """Compare a fit with samplers on the same data and hyperparameters.

    The evidence is an orthant probability for probit models of up to 300 dimensions. Otherwise it is estimated by annealed
    importance sampling, which starts from the fit if its Pareto k is good and from the prior if not.

    A classifier with inducing points or an active set does not keep its training rows, which may be too many for an exact
    posterior anyway. It needs `data`: its engine and an engine that uses all rows, or a sampler, are applied to the same
    sample of these rows with the hyperparameters of the model, and their class probabilities are compared (`SampleAudit`).

    Parameters
    ----------
    posterior : Fit, GPClassifier or Pipeline
        An engine's fit, a fitted classifier, or a pipeline that ends with one.
    X : array-like of shape (m, D), optional
        Rows at which class probabilities are compared, for a classifier. By default the training rows, or the rows of
        `data` outside of the sample.
    data : tuple (X, y), optional
        Rows with labels, from which a sample is drawn if the classifier does not keep its training rows.
    sampler : Sampler, optional
        Draws from the posterior. By default HMC. On a sample of rows, by default an engine that uses all rows is the
        reference: EP, NestedEP, or HMC if neither supports the likelihood.
    n_temperatures : int, default=1000
        Number of steps of annealed importance sampling.
    random_state : int, Generator, RandomState or None, default=0
        Seed or source of random numbers.
    verbose : int, default=0
        1 shows the progress on stderr.

    Returns
    -------
    Audit or SampleAudit
    """
    if isinstance(posterior, sklearn.pipeline.Pipeline):
        if len(posterior) > 1:
            X = X if X is None else posterior[:-1].transform(X)
            data = data if data is None else (posterior[:-1].transform(data[0]), data[1])
        posterior = posterior[-1]
    with shown(verbose):
        if _is_sparse(posterior):
            return audit_on_sample(posterior, data, X, sampler, random_state)
        return _audit(posterior, X, sampler, n_temperatures, random_state)


def _is_sparse(model: Any) -> bool:
    """Return whether a model is a classifier with inducing points or an active set."""
    return hasattr(model, "posterior_") and model.inference_.design != "all rows"


def _audit(posterior, X, sampler, n_temperatures, random_state) -> Audit:
    fit, kernel, inputs = _subject(posterior)
    if X is not None and kernel is not None:
        X = more_inputs(posterior, X)
    K = fit.posterior.K
    rng = generator(random_state)
    Ks, kd = _test_covariances(K, kernel, inputs, X)
    if sampler is None:
        sampler = HMC(n_draws=1000, n_warmup=300, enough=EFFECTIVE_DRAWS, random_state=rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the verdict reports it
        draws = sampler.fit(K, fit.y, fit.likelihood)
    shape = _weights_shape(K, fit, rng)
    log_z, error, method = _evidence(K, fit, shape, n_temperatures, rng)
    p, noise = sampled_probabilities(draws, Ks, kd)
    gap = np.abs(np.exp(fit.log_class_probabilities(Ks, kd)) - p)
    sd, draws_sd = np.sqrt(fit.var), np.sqrt(draws.var)
    random = draws_sd > 0  # prior variance zero means posterior variance zero
    unit = np.where(random, draws_sd, 1.0)
    shift, stretch = np.abs(fit.mean - draws.mean) / unit, np.where(random, np.abs(sd / unit - 1), 0.0)
    return Audit(
        engine=type(fit.engine).__name__,
        likelihood=type(fit.likelihood).__name__,
        n_points=len(fit.y),
        log_evidence=float(fit.log_evidence),
        bound=fit.jensen_bound() if fit.likelihood.n_latents == 1 and fit.likelihood.offers("expected_log_prob") else None,
        sampled_log_evidence=log_z,
        sampled_error=error,
        evidence_method=method,
        mean_error_max=float(shift.max()),
        mean_error_mean=float(shift.mean()),
        mean_noise=float(np.mean(np.nan_to_num(1 / np.sqrt(draws.effective_size))) * np.sqrt(2 / np.pi)),
        sd_error_max=float(stretch.max()),
        sd_error_mean=float(stretch.mean()),
        probability_error_max=float(gap.max()),
        probability_error_mean=float(gap.mean()),
        probability_noise=noise,
        pareto_k=shape,
        r_hat=draws.worst_r_hat,
        effective_draws=draws.least_effective_size,
    )


def _subject(posterior):
    """Return fit, kernel and training inputs; the last two are None for a bare fit."""
    if hasattr(posterior, "posterior_"):
        fit, kernel, inputs = posterior.posterior_, posterior.kernel_, posterior.inputs_
    else:
        fit, kernel, inputs = posterior, None, None
    if not isinstance(fit, Fit):
        raise TypeError(
            f"audit takes the fit of an engine, or a fitted GPClassifier that has one, but got {type(posterior).__name__}"
            + (" fitted by sampling, which is what audit compares with" if fit is not posterior else "")
        )
    return fit, kernel, inputs


def _test_covariances(K, kernel, inputs, X):
    """Return covariances of training points with test points, and variances of these; by default the training points."""
    if X is None:
        return K, np.diagonal(K).copy()
    if kernel is None:
        raise ValueError("X needs a fitted GPClassifier: a bare fit has no kernel")
    return kernel(inputs, X), kernel.diag(X)


def _evidence(K, fit, shape, n_temperatures, rng):
    copies = whole_copies(fit.y)
    dimensions = np.inf if copies is None else len(copies) * max(1, fit.likelihood.n_latents - 1)
    if fit.likelihood.offers("orthant") and dimensions <= MAX_ORTHANT:
        exact = orthant_evidence(K, fit.y, fit.likelihood, random_state=rng)
        return exact.log_evidence, exact.standard_error, "orthant probability"
    # the path from an inaccurate posterior is longer than that from the prior
    start, name = (fit, type(fit.engine).__name__) if shape is not None and shape < HIGH_K else (None, "the prior")
    annealed = annealed_importance(
        K, fit.y, fit.likelihood, start, n_temperatures=n_temperatures, random_state=rng
    )
    return annealed.log_evidence, annealed.standard_error, f"annealed from {name}"


def _has_sites(fit):
    return fit.likelihood.n_latents == 1 and fit.posterior.sites is not None


def _weights_shape(K, fit, rng):
    """Return the Pareto k̂ of posterior / approximation at draws from the approximation."""
    if not _has_sites(fit):
        return None
    target = Target(Prior.of(K), fit.y, fit.likelihood)
    reference = Reference.of(target, fit)
    F = reference.latent(rng.standard_normal((*target.shape, PROPOSALS)))
    return pareto_k(reference.log_ratio(F))
