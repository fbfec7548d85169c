"""Calibration of class probabilities by a temperature and a noise floor, fitted to leave-one-out probabilities.

    p_c  ->  (1 - noise) p_c^(1/temperature) / Σ_k p_k^(1/temperature) + noise / C

A temperature below one makes probabilities more extreme, one above one makes them less so. The noise is the probability that
a label is drawn at random. Both have priors that shrink them towards no change, so that a few surprising rows of
a small data set do not decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy
from scipy.special import expit, log_expit, log_softmax

LOG_TEMPERATURE_SD = 0.5  # prior of the log temperature: normal around zero
LOGIT_NOISE = -5.0, 1.5  # prior of the noise's logit: mean and standard deviation
HELD_OUT_FOLDS = 5  # of held-out rows, to score a calibration that is fitted to them
SURE_GAIN = 2.0  # standard errors by which such a calibration must be better than none
CONFIDENCE_BINS = 10  # of the confidence, for the calibration error
LEAST_LOG = -700.0  # smaller log probabilities, such as those of zero probabilities, count as this


class LeftOut(NamedTuple):
    """Class probabilities of rows that were predicted without themselves."""

    log_p: np.ndarray  # (n, C) log class probabilities
    codes: np.ndarray  # (n,) class numbers of the labels
    weight: np.ndarray | None = None  # (n,) weights; None means one each
    held_out: bool = False  # whether learning has not seen these rows at all
    numbers: np.ndarray | None = None  # (n,) numbers of the training rows; None if they are all rows, or not known
    # the same for held-out rows, which decide whether a calibration by these rows is used
    check: LeftOut | None = None

    @property
    def weights(self) -> np.ndarray:
        """The weights, (n,)."""
        return np.ones(len(self.codes)) if self.weight is None else self.weight

    def mean(self, values: np.ndarray) -> float:
        """Return the weighted mean of values (n,)."""
        return float(np.average(values, weights=self.weight))

    def some(self, numbers: np.ndarray) -> LeftOut:
        """Return the probabilities of the training rows with these numbers; here they are those of all training rows."""
        weight = None if self.weight is None else self.weight[numbers]
        return LeftOut(self.log_p[numbers], self.codes[numbers], weight, self.held_out, numbers)

    @property
    def score(self) -> float:
        """The mean log probability of the labels."""
        return self.mean(self.log_p[np.arange(len(self.codes)), self.codes])


@dataclass(frozen=True)
class Calibration:
    """A map of class probabilities. The default changes nothing.

    Attributes
    ----------
    temperature : float
        Log probabilities are divided by it; below one, probabilities become more extreme.
    noise : float
        Probability that a label is drawn at random, from 0 to 1. No probability is below `noise` / C.
    nlpd_before, nlpd_after : float
        Negative log probability of the labels, averaged over the rows that were used, by their weights, before and after
        calibration. NaN if no rows were used.
    n_rows : int
        Number of rows that were used.
    error : float
        Error rate of these rows, which calibration does not change.
    gap_before, gap_after : float
        Expected calibration error of these rows before and after calibration: the mean distance of accuracy and confidence,
        in ten bins of the confidence.
    held_out : bool
        Whether these rows were held out of learning. Otherwise they are training rows without their own sites
        (leave-one-out). For those, the scores are too good if inducing inputs were learned: these follow their labels.
    """

    temperature: float = 1.0
    noise: float = 0.0
    nlpd_before: float = np.nan
    nlpd_after: float = np.nan
    n_rows: int = 0
    error: float = np.nan
    gap_before: float = np.nan
    gap_after: float = np.nan
    held_out: bool = False

    @staticmethod
    def fitted(left_out: LeftOut) -> Calibration:
        """Return the most probable calibration, given rows that were predicted without themselves.

        If there are held-out rows to check it, it must predict them better than no calibration does, and the scores are
        theirs. If it does not, the calibration is that of the held-out rows, provided that it clearly helps them.
        """
        rows = left_out._replace(log_p=np.maximum(left_out.log_p, LEAST_LOG))
        if not np.all(np.isfinite(rows.log_p)):
            raise FloatingPointError("leave-one-out probabilities are not finite; calibrate=None does not need them")
        made = _most_probable(rows)
        if rows.check is None:
            return made.scored(rows, made.log_probabilities(rows.log_p))
        check = rows.check._replace(log_p=np.maximum(rows.check.log_p, LEAST_LOG))
        after = check._replace(log_p=made.log_probabilities(check.log_p))
        return made.scored(check, after.log_p) if after.score > check.score else _of_held_out(check)

    def scored(self, before: LeftOut, after: np.ndarray) -> Calibration:
        """Return the calibration with the scores of rows before and after it; `after` are log class probabilities (n, C)."""
        codes, weight = before.codes, before.weights
        nlpd, gap = [], []
        for log_p in (before.log_p, after):
            nlpd.append(-before.mean(log_p[np.arange(len(codes)), codes]))
            gaps = confidence_gaps(np.exp(log_p), codes, CONFIDENCE_BINS, weight)
            gap.append(float(np.sum(np.abs(gaps)) / np.sum(weight)))
        return replace(
            self,
            nlpd_before=nlpd[0],
            nlpd_after=nlpd[1],
            n_rows=len(codes),
            error=before.mean(after.argmax(axis=1) != codes),
            gap_before=gap[0],
            gap_after=gap[1],
            held_out=before.held_out,
        )

    @property
    def is_identity(self) -> bool:
        """Whether the calibration changes nothing."""
        return self.temperature == 1 and self.noise == 0

    @property
    def rows_in_words(self) -> str:
        """How the used rows were predicted: "held-out" or "leave-one-out"."""
        return "held-out" if self.held_out else "leave-one-out"

    def log_probabilities(self, log_p: np.ndarray) -> np.ndarray:
        """Return calibrated log class probabilities (m, C) from those of the model."""
        if self.is_identity:
            return log_p
        tempered = _log_softmax(np.maximum(log_p, LEAST_LOG) / self.temperature)
        if self.noise == 0:
            return tempered
        tempered += math.log1p(-self.noise)
        return np.logaddexp(tempered, math.log(self.noise / log_p.shape[1]))

    def std(self, std: np.ndarray, log_p: np.ndarray) -> np.ndarray:
        """Return standard deviations (m, C) of calibrated probabilities from those of the model, to first order.

        If p_c changes and the other classes keep their proportions, the logit of the tempered probability changes by
        1/temperature times the change of the logit of p_c.
        """
        if self.is_identity:
            return std
        log_p = np.maximum(log_p, LEAST_LOG)
        tempered = log_softmax(log_p / self.temperature, axis=1)
        slope = np.exp(_log_variance(tempered) - _log_variance(log_p)) / self.temperature
        largest = np.exp(0.5 * _log_variance(tempered))  # standard deviation of a variable that is 0 or 1, with this mean
        return (1 - self.noise) * np.minimum(slope * std, largest)

    def __str__(self) -> str:
        if not self.n_rows:
            return "none"
        gain = f"{self.rows_in_words} NLPD {self.nlpd_before:.4g} → {self.nlpd_after:.4g}"
        return f"temperature {self.temperature:.3g}, noise {self.noise:.2g} ({gain})"


UNCALIBRATED = Calibration()


def _most_probable(rows: LeftOut) -> Calibration:
    """Return the most probable calibration, without scores."""
    arguments = rows.log_p, rows.codes, rows.weights
    found = scipy.optimize.minimize(_loss, [0.0, LOGIT_NOISE[0]], arguments, "BFGS", jac=True)
    return Calibration(float(np.exp(-found.x[0])), float(expit(found.x[1])))


def _of_held_out(rows: LeftOut) -> Calibration:
    """Return the calibration fitted to held-out rows, scored by folds of them; none if that is not clearly better.

    Leave-one-out probabilities of learned inducing inputs can be so much too good that held-out rows refuse the calibration
    by them. Few held-out rows make a noisy calibration, which can also do harm.
    """
    own, fold = np.arange(len(rows.codes)), np.arange(len(rows.codes)) % HELD_OUT_FOLDS
    after = np.empty_like(rows.log_p)
    for k in range(HELD_OUT_FOLDS):
        after[fold == k] = _most_probable(rows.some(np.flatnonzero(fold != k))).log_probabilities(rows.log_p[fold == k])
    gain = (after - rows.log_p)[own, rows.codes]
    mean, share = rows.mean(gain), rows.weights / np.sum(rows.weights)
    error = np.sqrt(np.sum(share**2 * (gain - mean) ** 2))
    if mean <= SURE_GAIN * error:
        return UNCALIBRATED.scored(rows, rows.log_p)
    return _most_probable(rows).scored(rows, after)


def confidence_gaps(P: np.ndarray, codes: np.ndarray, n_bins: int, weight: np.ndarray | None = None) -> np.ndarray:
    """Return n_b (accuracy_b - confidence_b) of each bin (n_bins,), which is the sum of hit - confidence over the bin.

    Confidence is the probability of the most probable class. The bins (a, b] of [0, 1] have equal width. With weights (n,),
    rows count by them.
    """
    confidence, hit = P.max(axis=1), P.argmax(axis=1) == codes
    which = np.digitize(confidence, np.linspace(0, 1, n_bins + 1)[1:-1], right=True)
    gap = hit - confidence
    return np.bincount(which, weights=gap if weight is None else weight * gap, minlength=n_bins)


def _log_variance(log_p):
    """Return log p (1 - p), accurate for p near 0 and near 1."""
    with np.errstate(divide="ignore"):
        return log_p + np.log(-np.expm1(np.minimum(log_p, -np.finfo(float).tiny)))


def _log_softmax(x):
    """Return `scipy.special.log_softmax` along rows of finite numbers, without its checks."""
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def _loss(x, log_p, codes, weight):
    """Return the negative log posterior of x = (-log temperature, logit noise), and its gradient."""
    n, C = log_p.shape
    own, power = np.arange(n), np.exp(x[0])
    tempered = _log_softmax(power * log_p)
    log_true = tempered[own, codes]
    d_log_true = power * (log_p[own, codes] - np.sum(np.exp(tempered) * log_p, axis=1))
    noise = expit(x[1])
    value = np.logaddexp(log_expit(-x[1]) + log_true, log_expit(x[1]) - np.log(C))
    share = np.exp(log_expit(-x[1]) + log_true - value)  # probability that the label was not drawn at random
    d_noise = np.exp(-value) / C - share / (1 - noise)  # (1/C - p) over the mixture
    z = x[0] / LOG_TEMPERATURE_SD, (x[1] - LOGIT_NOISE[0]) / LOGIT_NOISE[1]
    gradient = np.array([
        np.sum(weight * share * d_log_true) - z[0] / LOG_TEMPERATURE_SD,
        np.sum(weight * d_noise) * noise * (1 - noise) - z[1] / LOGIT_NOISE[1],
    ])  # fmt: skip
    return -(np.sum(weight * value) - 0.5 * (z[0] ** 2 + z[1] ** 2)), -gradient
