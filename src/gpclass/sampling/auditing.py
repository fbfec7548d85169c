"""Errors of an approximation on given data, measured by comparison with samplers.

[NR] Nickisch & Rasmussen 2008: KL(q‖p) = log Z - log Z_B (eq. 9 and the lines after it).
"""

from __future__ import annotations

import html
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn
from sklearn.exceptions import ConvergenceWarning

from ..engines.observations import whole_copies
from ..gaussian import Prior
from ..inputs import more_inputs
from .annealing import annealed_importance
from .diagnostics import HIGH_K, pareto_k
from .draws import HIGH_R_HAT
from .hmc import HMC
from .orthant import orthant_evidence
from .reference import Reference
from .target import Target, generator

ORTHANT = 300  # maximum dimension for which the evidence of a probit model is computed as an orthant probability
PROPOSALS = 4000  # draws from the approximation, for the Pareto shape of the weights
ENOUGH = 1000  # effective draws of HMC; errors: means 0.03 standard deviations, class probabilities about 0.005
GOOD, FAIR = 0.02, 0.05  # largest errors of a class probability for these grades


@dataclass(frozen=True)
class Audit:
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
    def evidence_error(self) -> float:
        """Error of the engine's log evidence, in nats."""
        return self.log_evidence - self.sampled_log_evidence

    @property
    def kl_divergence(self) -> float | None:
        """KL(q‖p) = log Z - log Z_B, in nats."""
        return None if self.bound is None else self.sampled_log_evidence - self.bound

    @property
    def verdict(self) -> str:
        """The conclusion in one sentence."""
        if not self.r_hat < HIGH_R_HAT:
            return "no conclusion, because the sampler has not converged: raise its number of draws"
        worst = self.probability_error_max
        if worst <= GOOD + 2 * self.probability_noise:
            grade = "class probabilities can be trusted"
        elif worst <= FAIR + 2 * self.probability_noise:
            grade = "class probabilities have errors of a few percent in places"
        else:
            grade = "do not trust class probabilities"
        gap = abs(self.evidence_error)
        evidence = "evidence is good enough to compare models" if gap <= 0.5 + 2 * self.sampled_error else (
            f"evidence is {gap:.1f} nats {'too high' if self.evidence_error > 0 else 'too low'}"
        )
        return f"{grade}; {evidence}"

    def rows(self) -> list[tuple[str, float | None, float | None, str]]:
        """Return tuples (quantity, value, sampling error, remark), as shown by `to_frame` and `print`."""
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

    def to_frame(self):
        """Return the results as a pandas DataFrame with one row per quantity."""
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=["quantity", "value", "error", "remark"]).set_index("quantity")

    @property
    def table(self):
        """The results as a pandas DataFrame; see `to_frame`."""
        return self.to_frame()

    @property
    def _headline(self) -> str:
        return f"Audit of {self.engine} with {self.likelihood} on {self.n_points} points: {self.verdict}."

    def _repr_html_(self) -> str:
        table = self.to_frame().to_html(float_format="{:.4g}".format, na_rep="–")
        return f"<p>{html.escape(self._headline)}</p>\n{table}"

    def __repr__(self) -> str:
        lines = [self._headline]
        for quantity, value, error, remark in self.rows():
            shown = "–" if value is None else f"{value:.4g}" if abs(value) < 100 else f"{value:.2f}"
            spread = "" if error is None or value is None else f" ± {error:.2g}"
            lines.append(f"  {quantity:<28}{shown + spread:<22}{remark}".rstrip())
        return "\n".join(lines)


def audit(
    posterior: Any,
    X: Any = None,
    *,
    sampler: Any = None,
    n_temperatures: int = 1000,
    random_state: Any = 0,
    verbose: int = 0,
) -> Audit:
    """Compare a fit with samplers on the same data and hyperparameters.

    The evidence is an orthant probability for probit models of up to 300 dimensions. Otherwise it is estimated by annealed
    importance sampling, which starts from the fit if its Pareto k is good and from the prior if not.

    Parameters
    ----------
    posterior : Fit, GPClassifier or Pipeline
        An engine's fit, a fitted classifier, or a pipeline that ends with one.
    X : array-like of shape (m, D), optional
        Rows at which class probabilities are compared, for a classifier. By default the training rows.
    sampler : Sampler, optional
        Draws from the posterior. By default HMC.
    n_temperatures : int, default=1000
        Number of steps of annealed importance sampling.
    random_state : int, Generator, RandomState or None, default=0
        Seed or source of random numbers.
    verbose : int, default=0
        1 shows progress bars.

    Returns
    -------
    Audit
    """
    if isinstance(posterior, sklearn.pipeline.Pipeline):
        X = X if X is None or len(posterior) == 1 else posterior[:-1].transform(X)
        posterior = posterior[-1]
    fit, kernel, inputs = _subject(posterior)
    if X is not None and kernel is not None:
        X = more_inputs(posterior, X)
    K = fit.posterior.K
    rng = generator(random_state)
    Ks, kd = _where(K, kernel, inputs, X)
    if sampler is None:
        sampler = HMC(n_draws=1000, n_warmup=300, enough=ENOUGH, random_state=rng, verbose=verbose)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the verdict reports it
        draws = sampler.fit(K, fit.y, fit.likelihood)
    shape = _weights_shape(K, fit, rng)
    log_z, error, method = _evidence(K, fit, shape, n_temperatures, rng, verbose)
    p, noise = _sampled_probabilities(draws, Ks, kd)
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


def _rows_of(model):
    """Return the number of training rows. Fits to Dask collections have no fingerprints, and fits to streams no number."""
    prints = getattr(model, "row_fingerprints_", None)
    return model.n_samples_seen_ if prints is None else len(prints)


def _subject(posterior):
    """Return fit, kernel and training inputs; the last two are None for a bare fit."""
    if hasattr(posterior, "posterior_"):
        fit, kernel, inputs = posterior.posterior_, posterior.kernel_, posterior.inputs_
        engine = posterior.inference_
        if engine.design != "all rows":
            raise TypeError(
                "audit needs a posterior of the latent values of all rows, but that of "
                f"{type(engine).__name__} has {inputs.shape[-2]} inputs for {_rows_of(posterior)} training rows"
            )
    else:
        fit, kernel, inputs = posterior, None, None
    if not (hasattr(fit, "posterior") and hasattr(fit, "log_class_probabilities")):
        raise TypeError(
            f"audit takes the fit of an engine, or a fitted GPClassifier that has one, but got {type(posterior).__name__}"
            + (" fitted by sampling, which is what audit compares with" if fit is not posterior else "")
        )
    return fit, kernel, inputs


def _where(K, kernel, inputs, X):
    if X is None:
        return K, np.diagonal(K).copy()
    if kernel is None:
        raise ValueError("X needs a fitted GPClassifier: a bare fit has no kernel")
    return kernel(inputs, X), kernel.diag(X)


def _evidence(K, fit, shape, n_temperatures, rng, verbose):
    copies = whole_copies(fit.y)
    dimensions = np.inf if copies is None else len(copies) * max(1, fit.likelihood.n_latents - 1)
    if fit.likelihood.offers("orthant") and dimensions <= ORTHANT:
        exact = orthant_evidence(K, fit.y, fit.likelihood, random_state=rng, verbose=verbose)
        return exact.log_evidence, exact.standard_error, "orthant probability"
    # the path from an inaccurate posterior is longer than that from the prior
    start, name = (fit, type(fit.engine).__name__) if shape is not None and shape < HIGH_K else (None, "the prior")
    annealed = annealed_importance(
        K, fit.y, fit.likelihood, start, n_temperatures=n_temperatures, random_state=rng, verbose=verbose
    )
    return annealed.log_evidence, annealed.standard_error, f"annealed from {name}"


def _has_sites(fit):
    return getattr(fit.posterior, "sites", None) is not None and fit.likelihood.n_latents == 1


def _sampled_probabilities(draws, Ks, kd):
    """Return the sampler's class probabilities (m, C) and their largest standard error, from the spread of half chains."""
    parts = max(2, 2 * draws.n_chains)
    means, noises = [], []
    for p in draws._per_draw(Ks, kd):
        pieces = np.stack([part.mean(0) for part in np.array_split(p, parts)])
        means.append(p.mean(0))
        noises.append(pieces.std(0, ddof=1).max() / np.sqrt(parts))
    return np.concatenate(means), float(np.max(noises))


def _weights_shape(K, fit, rng):
    """Return the Pareto k̂ of posterior / approximation at draws from the approximation."""
    if not _has_sites(fit):
        return None
    target = Target(Prior.of(K), fit.y, fit.likelihood)
    reference = Reference.of(target, fit)
    F = reference.latent(rng.standard_normal((*target.shape, PROPOSALS)))
    return pareto_k(reference.log_ratio(F))
