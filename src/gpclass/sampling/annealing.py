"""Annealed importance sampling: log Z along a path of temperatures from a Gaussian to the posterior.

The density at inverse temperature t is q(f) [p(y | f) N(f | 0, K) / q(f)]^t, with q the prior or an engine's posterior. All
runs are columns of one matrix and move by Hamiltonian steps. A pilot population first sets the temperatures, so that every
step adds the same variance to the log weights, and the step sizes and scales. The main runs keep these fixed, so their
weights are unbiased for Z, even if the pilot was inaccurate.

[NR] Nickisch & Rasmussen 2008, section 10.   [N] Neal 2001, Annealed importance sampling.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from ..engines.contract import require
from ..engines.fit import check_observed
from ..progress import counted, phase, shown, tell
from .reference import Reference
from .shared_noise import smooth_target
from .target import generator

LEAPFROGS = 5  # leapfrog steps per temperature
TARGET_ACCEPTANCE = 0.75  # to which the pilot adapts the step size
PILOT_MOVES = 4  # trajectories per temperature of the pilot
# nats between log Z and the mean log weight; above it, with Gaussian log weights, fewer than 0.2 % of the runs are effective
MAX_GAP = 3.0
MAX_PILOT_STEPS = 2000  # temperatures of the pilot


@dataclass(frozen=True)
class AnnealedEvidence:
    """Estimate of log Z by annealed importance sampling.

    Attributes
    ----------
    log_evidence : float
        Log of the mean weight.
    standard_error : float
        Standard error of `log_evidence`.
    thermodynamic : float
        Mean log weight (thermodynamic integration); below log Z on average.
    log_weights : ndarray of shape (runs,)
        Log weights of the runs.
    temperatures : ndarray of shape (steps + 1,)
        Inverse temperatures, from 0 to 1.
    acceptance : float
        Fraction of accepted Hamiltonian trajectories.
    latent : ndarray of shape (runs, n) or (runs, n, C)
        Final states: draws from the posterior with the weights above.
    effective_runs : float
        Effective number of runs, (Σ w)² / Σ w².
    """

    log_evidence: float
    standard_error: float
    thermodynamic: float
    log_weights: np.ndarray
    temperatures: np.ndarray
    acceptance: float
    latent: np.ndarray

    @property
    def effective_runs(self) -> float:
        """Effective number of runs, (Σ w)² / Σ w²."""
        w = np.exp(self.log_weights - self.log_weights.max())
        return float(w.sum() ** 2 / np.sum(w**2))

    def __repr__(self) -> str:
        return (
            f"log Z = {self.log_evidence:.3f} ± {self.standard_error:.3f}  ({len(self.log_weights)} annealed runs of "
            f"{len(self.temperatures) - 1} temperatures, {self.effective_runs:.1f} of them effective; "
            f"thermodynamic integral {self.thermodynamic:.3f})"
        )


def annealed_importance(
    K: np.ndarray,
    y: Any,
    likelihood: Any,
    start: Any = None,
    *,
    n_runs: int = 32,
    n_temperatures: int = 1000,
    random_state: Any = None,
    verbose: int = 0,
) -> AnnealedEvidence:
    """Estimate log Z = log ∫ N(f | 0, K) p(y | f) df by annealed importance sampling. [NR] 10.2

    Ctrl-C raises KeyboardInterrupt, because incomplete runs give no estimate of Z.

    Parameters
    ----------
    K : ndarray of shape (n, n) or (C, n, n)
        Prior covariance, or one per class.
    y : ndarray of shape (n,) or Observed
        Labels as the likelihood takes them; with weights as `Observed`.
    likelihood : Likelihood
        A likelihood with `log_prob`.
    start : Fit, optional
        An engine's fit, whose posterior is the start of the path. By default the prior.
    n_runs : int, default=32
        Number of runs.
    n_temperatures : int, default=1000
        Number of steps from the start to the posterior.
    random_state : int, Generator, RandomState or None, optional
        Seed or source of random numbers.
    verbose : int, default=0
        1 shows the progress on stderr.

    Returns
    -------
    AnnealedEvidence
    """
    for name, value, least in (("n_runs", n_runs, 2), ("n_temperatures", n_temperatures, 1)):
        if not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, but is {value!r}")
    require(likelihood, ("log_prob",), "annealed_importance")
    K, y = check_observed(K, y, likelihood, "annealed_importance")
    rng, target = generator(random_state), smooth_target(K, y, likelihood)
    path = _TemperaturePath(Reference.of(target, start), rng)
    with shown(verbose):
        schedule = _pilot(path, max(n_runs, 32), n_temperatures)
        log_weights, F, acceptance = _anneal(path, schedule, n_runs)
    return _summary(log_weights, schedule.temperatures, acceptance, F)


def _summary(log_weights, temperatures, acceptance, F):
    top = log_weights.max()
    w = np.exp(log_weights - top)
    error = float(np.std(w, ddof=1) / np.sqrt(len(w)) / np.mean(w))
    latent = np.moveaxis(F, (2, 1, 0), (0, 1, 2))
    result = AnnealedEvidence(
        log_evidence=float(top + np.log(np.mean(w))),
        standard_error=error,
        thermodynamic=float(np.mean(log_weights)),
        log_weights=log_weights,
        temperatures=temperatures,
        acceptance=acceptance,
        latent=latent[..., 0] if latent.shape[2] == 1 else latent,
    )
    spread_out = result.log_evidence - result.thermodynamic > MAX_GAP
    if spread_out or result.effective_runs < min(5, 0.5 * len(w)):
        warnings.warn(
            f"annealed_importance: only {result.effective_runs:.1f} of {len(w)} runs are effective; the error of log Z may "
            f"be larger than stated. Raise n_temperatures ({len(temperatures) - 1}) or n_runs, or start from an EP fit.",
            UserWarning,
            stacklevel=3,
        )
    return result


class _TemperaturePath:
    """Moves that leave a temperature's distribution invariant, in coordinates x with f = mean + root x."""

    def __init__(self, reference: Reference, rng: np.random.Generator):
        self.reference, self.rng = reference, rng
        self._transposed = np.ascontiguousarray(np.swapaxes(reference.root, 1, 2))

    def begin(self, runs: int):
        C, rank = self.reference.target.shape
        return self._state(self.rng.standard_normal((C, rank, runs)))

    def _state(self, x):
        """Return x, the log ratio (R,) and its gradient in x."""
        value, slope = self.reference.log_ratio_slope(self.reference.latent(x))
        return x, value, np.matmul(self._transposed, slope)

    def move(self, state, t, epsilon, scale2):
        """Return the state after one trajectory at inverse temperature t, and the acceptance probabilities (R,)."""
        x, value, slope = state
        momentum = self.rng.standard_normal(x.shape) / np.sqrt(scale2)
        before = self._energy(x, value, momentum, t, scale2)
        epsilon = epsilon * self.rng.uniform(0.7, 1.0)  # random, so that no coordinate returns to its start every time
        new = state
        momentum = momentum + 0.5 * epsilon * (t * slope - x)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a diverged trajectory is rejected
            for i in range(LEAPFROGS):
                new = self._state(new[0] + epsilon * scale2 * momentum)
                momentum = momentum + (1.0 if i < LEAPFROGS - 1 else 0.5) * epsilon * (t * new[2] - new[0])
            fall = before - self._energy(new[0], new[1], momentum, t, scale2)
        chance = np.exp(np.minimum(np.where(np.isfinite(fall), fall, -np.inf), 0.0))
        accept = self.rng.random(len(chance)) < chance
        return tuple(np.where(accept, a, b) for a, b in zip(new, state, strict=True)), chance

    @staticmethod
    def _energy(x, value, momentum, t, scale2):
        return 0.5 * np.sum(x * x + scale2 * momentum**2, axis=(0, 1)) - t * value


@dataclass(frozen=True)
class _Schedule:
    """Temperatures of the main runs, and the step size and scales of the nearest pilot temperature for each."""

    temperatures: np.ndarray
    nearest: np.ndarray
    steps: list[float]
    scales: list[np.ndarray]


def _pilot(path, runs, n_temperatures) -> _Schedule:
    """Run a population with resampling from t = 0 to 1, and return the schedule of the main runs.

    In each step the standard deviation of the log weights is at most one.
    """
    state = path.begin(runs)
    t, epsilon = 0.0, 1.0 / LEAPFROGS
    scale2 = np.ones((*state[0].shape[:2], 1))
    stops: list[float] = []
    spreads: list[float] = []
    steps: list[float] = []
    scales: list[np.ndarray] = []
    with phase("annealed importance sampling, pilot"):
        while True:
            for _ in range(PILOT_MOVES):
                state, chance = path.move(state, t, epsilon, scale2)
                epsilon = min(epsilon * np.exp(0.3 * (np.mean(chance) - TARGET_ACCEPTANCE)), np.pi / LEAPFROGS)
            x = state[0]
            scale2 = (runs * x.var(axis=2, keepdims=True) + 30 * scale2) / (runs + 30)
            spread = max(float(np.std(state[1])), 1e-12)
            stops.append(t)
            spreads.append(spread)
            steps.append(epsilon)
            scales.append(scale2)
            if t >= 1.0:
                break
            gain = min(1.0 / spread, 1.0 - t) if len(stops) < MAX_PILOT_STEPS else 1.0 - t
            state = _resampled(state, gain * state[1], path.rng)
            t = min(t + gain, 1.0) if t + gain < 1 - 1e-12 else 1.0
            tell(f"{100 * t:.0f} %")
    # equal steps: dt × spread(t) is constant
    lengths = np.concatenate([[0.0], np.cumsum(np.diff(stops) * 0.5 * (np.array(spreads)[1:] + np.array(spreads)[:-1]))])
    temperatures = np.interp(np.linspace(0, lengths[-1], n_temperatures + 1), lengths, stops)
    temperatures[0], temperatures[-1] = 0.0, 1.0
    nearest = np.clip(np.searchsorted(stops, temperatures), 0, len(stops) - 1)
    return _Schedule(temperatures, nearest, steps, scales)


def _resampled(state, log_weights, rng):
    """Return columns chosen by systematic resampling."""
    w = np.exp(log_weights - log_weights.max())
    places = (np.arange(len(w)) + rng.random()) / len(w)
    pick = np.minimum(np.searchsorted(np.cumsum(w) / w.sum(), places), len(w) - 1)
    return tuple(a[..., pick] for a in state)


def _anneal(path, schedule, runs):
    """Return log weights, final states and the acceptance rate of the main runs.

    Each weight factor uses the f drawn at the previous temperature. [NR] 10.3
    """
    state = path.begin(runs)
    log_weights, accepted = np.zeros(runs), 0.0
    steps = np.diff(schedule.temperatures)
    with counted("annealed importance sampling", len(steps)) as bar:
        for i, gain in enumerate(steps, start=1):
            log_weights += gain * state[1]
            k = schedule.nearest[i]
            state, chance = path.move(state, schedule.temperatures[i], schedule.steps[k], schedule.scales[k])
            accepted += float(np.mean(chance))
            bar.advance()
    F = path.reference.target.latent(path.reference.latent(state[0]))
    return log_weights, F, accepted / len(steps)
