"""Importance sampling from a multivariate Student-t: log Z, its error, and predictions, for few dimensions.

In whitened coordinates, f = root w, a draw is w = centre + R⁻¹ x, where x has a standard multivariate t distribution. The
scale R⁻¹ is that of the prior (R = I) or of the posterior (RᵀR = I + rootᵀ W root).

[C] Chai 2012, appendix F; the exponent of the t density should be -(ν + p)/2, not +.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.special import gammaln

from ..engines.contract import require
from ..engines.fit import check_observed
from ..gaussian import Prior
from ..inference import EP
from ..numerics import LOG_SQRT_2PI, NotPositiveDefinite
from ..progress import phase, shown
from .diagnostics import HIGH_K, pareto_k
from .ensemble import Ensemble
from .reference import sites_at_places
from .target import Target, generator

BLOCK_SAMPLES = 2048  # samples per block
BOUND_ERRORS = 3.09  # distance of the 99.9 % bound from the estimate, in standard errors. [C] section 9.1


@dataclass(frozen=True)
class ImportanceEvidence(Ensemble):
    """Estimate of log Z by importance sampling, with the weighted samples.

    Attributes
    ----------
    log_evidence : float
        The estimate of log Z.
    standard_error : float
        Standard error of `log_evidence`.
    upper_bound : float
        Upper bound of log Z that holds with probability 0.999 if the weights are well behaved.
    pareto_k : float
        Shape of the tail of the weights. Above 0.7 the other results are not reliable.
    log_weights : ndarray of shape (S,)
        Log weights of the samples.
    pooled : ndarray of shape (S, n) or (S, n, C)
        The samples.
    prior : Prior
        Prior of the latent values.
    likelihood : Likelihood
        The likelihood.
    """

    log_evidence: float
    standard_error: float
    upper_bound: float
    pareto_k: float
    log_weights: np.ndarray
    pooled: np.ndarray
    prior: Prior
    likelihood: Any

    @property
    def weights(self) -> np.ndarray:  # type: ignore[override]
        """(S,) the weights, normalised to sum to one."""
        w = np.exp(self.log_weights - self.log_weights.max())
        return w / w.sum()

    @property
    def effective_samples(self) -> float:
        """Effective number of samples, 1 / Σ w²."""
        return float(1 / np.sum(self.weights**2))

    def __repr__(self) -> str:
        return (
            f"log Z = {self.log_evidence:.3f} ± {self.standard_error:.3f}, below {self.upper_bound:.3f} with 99.9 %  "
            f"({len(self.log_weights)} samples, {self.effective_samples:.0f} effective, Pareto k̂ {self.pareto_k:.2f})"
        )


def importance_sampling(
    K: np.ndarray,
    y: Any,
    likelihood: Any,
    start: Any = None,
    *,
    covariance: str = "posterior",
    df: float = 4.0,
    n_samples: int = 20_000,
    random_state: Any = None,
    verbose: int = 0,
) -> ImportanceEvidence:
    """Estimate log Z and draw weighted posterior samples from a Student-t proposal.

    Ctrl-C ends the sampling early and returns the result of the samples drawn so far.

    Parameters
    ----------
    K : ndarray of shape (n, n) or (C, n, n)
        Prior covariance, or one per class.
    y : ndarray of shape (n,) or Observed
        Labels as the likelihood takes them; with weights as `Observed`.
    likelihood : Likelihood
        A likelihood with `log_prob`.
    start : Fit, Draws or ndarray of shape (n, C), optional
        Its mean is the centre of the proposal. Draws and arrays are allowed for several classes only. By default EP's
        posterior for two classes, and the posterior mode for more.
    covariance : {"posterior", "prior"}, default="posterior"
        Scale of the proposal. "posterior" is that of the fit, or from the curvature at the centre.
    df : float, default=4.0
        Degrees of freedom.
    n_samples : int, default=20000
        Number of samples.
    random_state : int, Generator, RandomState or None, optional
        Seed or source of random numbers.
    verbose : int, default=0
        1 shows the progress on stderr.

    Returns
    -------
    ImportanceEvidence
    """
    if covariance not in ("posterior", "prior"):
        raise ValueError(f"covariance must be 'posterior' or 'prior', but is {covariance!r}")
    if not df > 0:
        raise ValueError(f"df must be positive, but is {df}")
    if not isinstance(n_samples, Integral) or n_samples < 2:
        raise ValueError(f"n_samples must be an integer of at least 2, but is {n_samples!r}")
    require(likelihood, ("log_prob",), "importance_sampling")
    K, y = check_observed(K, y, likelihood, "importance_sampling")
    target, rng = Target(Prior.of(K), y, likelihood), generator(random_state)
    centre, R = _proposal(K, target, start, covariance)
    with shown(verbose), phase("importance sampling"):
        log_weights, samples = _weighted(target, centre, R, df, n_samples, rng)
    return _summary(target, log_weights, samples)


def _summary(target, log_weights, samples):
    top = log_weights.max()
    w = np.exp(log_weights - top)
    mean, error = float(np.mean(w)), float(np.std(w, ddof=1) / np.sqrt(len(w)))
    k = pareto_k(log_weights)
    if k > HIGH_K:
        warnings.warn(
            f"importance_sampling: the tail of the weights is too heavy (Pareto k̂ = {k:.2f}, above {HIGH_K}); the estimate "
            "and its error are not reliable. Use annealed_importance, or more samples with a better proposal.",
            UserWarning,
            stacklevel=3,
        )
    return ImportanceEvidence(
        log_evidence=float(top + np.log(mean)),
        standard_error=error / mean,
        upper_bound=float(top + np.log(mean + BOUND_ERRORS * error)),
        pareto_k=k,
        log_weights=log_weights,
        pooled=samples,
        prior=target.prior,
        likelihood=target.likelihood,
    )


def _weighted(target, centre, R, df, n_samples, rng):
    C, rank = target.shape
    log_det = -float(np.sum(np.log(np.diagonal(R)))) if R is not None else 0.0
    weights, samples = [], []
    blocks = range(0, n_samples, BLOCK_SAMPLES)
    try:
        for i in blocks:
            columns = min(BLOCK_SAMPLES, n_samples - i)
            x = rng.standard_normal((C * rank, columns)) / np.sqrt(rng.chisquare(df, columns) / df)
            w = centre[:, None] + (x if R is None else solve_triangular(R, x))
            F = target.prior.colour(w.reshape(C, rank, columns))
            log_prior = -0.5 * np.sum(w * w, axis=0) - C * rank * LOG_SQRT_2PI
            weights.append(target.log_likelihood(F) + log_prior - _log_t(x, df) + log_det)
            samples.append(np.transpose(F, (2, 1, 0)))
    except KeyboardInterrupt:
        if not weights:
            raise
        warnings.warn(f"interrupted: {sum(map(len, weights))} of {n_samples} samples were drawn", stacklevel=3)
    latent = np.concatenate(samples)
    return np.concatenate(weights), latent[..., 0] if C == 1 else latent


def _log_t(x, df):
    """Return the log density of the standard multivariate t, with the dimensions on the first axis. [C] appendix F"""
    p = len(x)
    norm = gammaln((df + p) / 2) - gammaln(df / 2) - 0.5 * p * np.log(np.pi * df)
    return norm - 0.5 * (df + p) * np.log1p(np.sum(x * x, axis=0) / df)


def _proposal(K, target, start, covariance):
    """Return the centre (C r,) and R, upper triangular or None for the identity, in whitened coordinates."""
    C, _ = target.shape
    if C == 1:
        if start is None and target.likelihood.offers("tilted_moments"):
            start = EP().fit(K, target.y, target.likelihood)
        if start is not None:
            sites = sites_at_places(target, start)
            R = _root_precision(target, sites.tau[:, None, None])
            pull = target.prior.root[0].T @ sites.nu
            centre = solve_triangular(R, solve_triangular(R, pull, trans=1))
            return centre, R if covariance == "posterior" else None
        centre = _mode(target)
    else:
        centre = _mode(target) if start is None else _whitened_mean(target, start)
    if covariance == "prior":
        return centre, None
    f = target.prior.colour(centre.reshape(*target.shape, 1))[:, :, 0]
    data = target.data
    hessian = data.at_places(target.likelihood.log_prob(data.y, data.places.spread(f[0] if C == 1 else f.T))[2])
    return centre, _root_precision(target, -hessian.reshape(-1, C, C))


def _whitened_mean(target, start):
    try:
        mean = np.asarray(start if isinstance(start, np.ndarray) else start.mean, float)
    except (AttributeError, TypeError) as error:
        raise TypeError(f"start must be a fit or an array of means, but is of type {type(start).__name__}") from error
    if mean.shape != (target.n, target.likelihood.n_latents):
        raise ValueError(f"start must have a mean of shape {(target.n, target.likelihood.n_latents)}")
    return target.prior.whiten(mean.T[:, :, None]).ravel()


def _mode(target):
    """Return the posterior mode in whitened coordinates (C r,)."""
    shape = (*target.shape, 1)

    def negative(z):
        z = z.reshape(shape)
        value, slope = target.slope(target.prior.colour(z))
        by_z = np.matmul(np.swapaxes(target.prior.root, 1, 2), slope)
        return 0.5 * np.sum(z * z) - value[0], (z - by_z).ravel()

    start = np.zeros(shape[0] * shape[1])
    return scipy.optimize.minimize(negative, start, jac=True, method="L-BFGS-B", options={"maxiter": 500}).x


def _root_precision(target, W):
    """Return upper triangular R with RᵀR = I + rootᵀ W root, for W (n, C, C)."""
    C, rank = target.shape
    roots = np.broadcast_to(target.prior.root, (C, *target.prior.root.shape[1:]))
    precision = np.eye(C * rank)
    for a in range(C):
        for b in range(C):
            block = roots[a].T @ (W[:, a, b, None] * roots[b])
            precision[a * rank : (a + 1) * rank, b * rank : (b + 1) * rank] += block
    try:
        return cholesky(precision, overwrite_a=True)
    except LinAlgError as error:
        raise NotPositiveDefinite("the posterior's curvature is not positive definite; try covariance='prior'") from error
