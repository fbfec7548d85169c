"""Predictions as weighted averages over members: posteriors with their own kernel, weight and calibration.

A model has one member, or several: draws of the hyperparameters by a sampler (equal weights), points of a design around the
mode of the hyperparameters (weights by their posterior density, `integrate.py`), or different kernels (weights by
leave-one-out probabilities, `stack.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ..engines.observations import weights_of
from ..kernels.cross import CrossCovariances
from ..numerics.threads import threads_for
from .calibration import UNCALIBRATED, Calibration, LeftOut

PREDICTED_ROWS = 2048  # rows predicted at a time, to limit memory
ONE_THREAD_SIZE = 1 << 20  # multiplications up to which BLAS uses one thread anyway


@dataclass(frozen=True)
class Member:
    """A posterior that predictions average over.

    Attributes
    ----------
    weight : float
        Its weight; the weights of all members sum to one.
    kernel : Kernel
        Its kernel.
    posterior : Fit or Ensemble
        The posterior.
    inputs : ndarray of shape (n_inputs, D) or (n_classes, n_inputs, D)
        The inputs that represent the posterior.
    calibration : Calibration
        Calibration of this member's probabilities.
    """

    weight: float
    kernel: Any
    posterior: Any
    inputs: np.ndarray
    calibration: Calibration = UNCALIBRATED

    def ask(self, question: str, X: np.ndarray) -> Any:
        """Return the answer of a method of the posterior at the rows of X, computed in batches."""
        method, n = getattr(self.posterior, question), self.inputs.shape[-2]
        if len(X) * n**2 < ONE_THREAD_SIZE and len(X) <= PREDICTED_ROWS:
            return method(self._covariances(X), self.kernel.diag(X))
        with nullcontext() if len(X) * n**2 < ONE_THREAD_SIZE else threads_for(n):
            parts = [method(self._covariances(rows), self.kernel.diag(rows)) for rows in _batches(X)]
        return tuple(map(np.concatenate, zip(*parts, strict=True))) if type(parts[0]) is tuple else np.concatenate(parts)

    @cached_property
    def _covariances(self) -> CrossCovariances:
        return CrossCovariances(self.kernel, self.inputs)

    def log_class_probabilities(self, X: np.ndarray) -> np.ndarray:
        """Return calibrated log class probabilities (m, C)."""
        return self.calibration.log_probabilities(self.ask("log_class_probabilities", X))

    def loo_log_class_probabilities(self) -> np.ndarray:
        """Return calibrated log class probabilities (n, C) of the training rows, each without itself."""
        return self.calibration.log_probabilities(self.posterior.loo_log_class_probabilities())


def log_class_probabilities(members: Sequence[Member], X: np.ndarray) -> np.ndarray:
    """Return the average of the members' class probabilities, as logs (m, C)."""
    if len(members) == 1:
        return members[0].log_class_probabilities(X)
    logs = [member.log_class_probabilities(X) for member in members]
    return logsumexp(logs, axis=0, b=_weights(members)[:, None, None])


def class_probability_std(members: Sequence[Member], X: np.ndarray, calibration: Calibration) -> np.ndarray:
    """Return the standard deviations (m, C) of the calibrated class probabilities, within and between members."""
    variances, centres = [], []
    for member in members:
        log_p, std = (member.ask(question, X) for question in ("log_class_probabilities", "class_probability_std"))
        variances.append(member.calibration.std(std, log_p) ** 2)
        centres.append(np.exp(member.calibration.log_probabilities(log_p)))
    weights = _weights(members)
    p = np.tensordot(weights, centres, 1)
    std = np.sqrt(np.tensordot(weights, np.array(variances) + (centres - p) ** 2, 1))
    with np.errstate(divide="ignore"):
        return calibration.std(std, np.log(p))


def latent(members: Sequence[Member], X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the (co)variance of the latent values under the mixture of the members' posteriors."""
    moments = [member.ask("predict", X) for member in members]
    if len(moments) == 1:
        return moments[0]
    means, spreads = (np.stack(part) for part in zip(*moments, strict=True))
    weights = _weights(members)
    mean = np.tensordot(weights, means, 1)
    gap = means - mean
    between = gap**2 if gap.ndim == 2 else gap[..., :, None] * gap[..., None, :]
    return mean, np.tensordot(weights, spreads + between, 1)


@dataclass(frozen=True)
class Mixture:
    """Members that are fits of all training rows, with weights.

    Attributes
    ----------
    members : tuple of Member
        The members, heaviest first.
    integrated : bool
        Whether the weights are posterior probabilities of hyperparameters. Otherwise they are fixed weights of rival models.
    """

    members: tuple[Member, ...]
    integrated: bool

    @staticmethod
    def of(members: Sequence[Member], integrated: bool) -> Mixture:
        """Return the mixture with the heaviest member first."""
        return Mixture(tuple(sorted(members, key=lambda member: -member.weight)), integrated)

    @property
    def best(self) -> Member:
        """The heaviest member."""
        return self.members[0]

    @property
    def likelihood(self) -> Any:
        """The likelihood of the heaviest member."""
        return self.best.posterior.likelihood

    @property
    def y(self) -> Any:
        """The targets, which all members share."""
        return self.best.posterior.y

    def uncalibrated(self) -> Mixture:
        """Return the mixture with the probabilities of its members' posteriors."""
        return replace(self, members=tuple(replace(member, calibration=UNCALIBRATED) for member in self.members))

    def loo_log_class_probabilities(self) -> np.ndarray:
        """Return log class probabilities (n, C) of the training rows, each without itself.

        Without row i, the posterior density of hyperparameters θ is divided by p(y_i | other labels, θ). So are the weights,
        if they are integrated.
        """
        logs = np.array([member.loo_log_class_probabilities() for member in self.members])  # (M, n, C)
        log_weights = np.broadcast_to(np.log(_weights(self.members))[:, None], logs.shape[:2])
        if self.integrated:
            codes = self.likelihood.codes_of(self.y)
            log_weights = log_weights - np.where(codes >= 0, logs[:, np.arange(logs.shape[1]), codes], 0.0)
            log_weights = log_weights - logsumexp(log_weights, axis=0)
        return logsumexp(logs + log_weights[:, :, None], axis=0)


def left_out(model: Any) -> LeftOut | None:
    """Return the leave-one-out probabilities of a fit, draws or a mixture, or None if it has none."""
    try:
        logs = model.loo_log_class_probabilities()
    except AttributeError:  # raised if the training rows are not kept
        return None
    codes, weight = model.likelihood.codes_of(model.y), weights_of(model.y)
    labelled = codes >= 0
    return LeftOut(logs[labelled], codes[labelled], weight[labelled])


def _weights(members):
    return np.array([member.weight for member in members])


def _batches(X: np.ndarray) -> Iterator[np.ndarray]:
    return (X[i : i + PREDICTED_ROWS] for i in range(0, len(X), PREDICTED_ROWS))
