"""The judgement of a report: how far the model can be trusted, in words, with the figures behind it.

A calibration error of 0.06 is bad on ten thousand test rows and means nothing on fifty. So each figure is compared with its
random variation for the same number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..metrics import expected_calibration_error, information_score
from ..seen import FairProbabilities
from .words import percent

if TYPE_CHECKING:
    import pandas as pd

LEVELS = ("good", "care", "poor")
NOTE = "note"  # level of a remark that is neither praise nor warning
HEADLINES = {
    "good": "These probabilities can be trusted on rows like the training rows.",
    "care": "Usable with care: see what follows.",
    "poor": "Do not rely on these probabilities yet.",
}
NOT_JUDGED = "These rows cannot show how good the model is: it was trained on them."
MIN_TEST_ROWS = 40  # with fewer, all figures are imprecise
SIMULATED_SETS = 200  # of labels, for the random variation of the calibration error
SIGNIFICANCE = 0.05  # significance level of the calibration error
MAX_FAR_SHARE = 0.05  # share of the test rows that may be far from the training data
MAX_SEEN_SHARE = 0.05  # share of the test rows that may be training rows, scored by leave-one-out
DOUBTFUL_PROBABILITY = 0.05  # a label with a smaller probability is doubtful
MAX_DOUBTFUL_SHARE = 0.02  # of the training rows; a larger share is a sign of wrong labels
CHANCE_ERRORS = 2.0  # standard errors between test rows and leave-one-out up to which they match
SHIFT_ERRORS = 3.0  # standard errors that count as a difference


@dataclass(frozen=True)
class Remark:
    """The result of one check: a level of LEVELS, or NOTE, and a sentence."""

    level: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """The results of all checks."""

    remarks: list[Remark]
    judged: bool = True  # whether the rows can show how good the model is

    @property
    def level(self) -> str:
        """The worst level of all remarks."""
        return max((remark.level for remark in self.remarks if remark.level != NOTE), key=LEVELS.index)

    @property
    def headline(self) -> str:
        """The judgement in one sentence."""
        return HEADLINES[self.level] if self.judged else NOT_JUDGED


def judge(
    last: Any,
    judged: FairProbabilities,
    codes: np.ndarray,
    loo: np.ndarray | None,
    engines: list[Any],
    n_far: int,
    check: pd.DataFrame | None,
    n_given: int,
    train: np.ndarray | None = None,
) -> Verdict:
    """Return the results of all checks.

    These are: training rows among test rows, convergence, skill, calibration, number of rows, test scores against
    leave-one-out, far rows, labels.

    `judged` holds the probabilities and `codes` (m,) the class numbers of the test rows; `loo` (n,) the leave-one-out
    probabilities of the training rows' labels; `n_far` is the number of far rows, `n_given` that of rows the user gave.
    `train` (n,) holds the class numbers of the training rows, if they are known.
    """
    p, rows = judged.p, rows_in_words(judged)
    new = ~judged.seen
    remarks = [_seen_rows(last, judged, n_given), _convergence(last, engines), _skill(p, codes, rows, train)]
    remarks += [_calibration(p, codes), _size(codes, rows)]
    remarks += [_shift(p[new], codes[new], loo), _far(n_far, int(new.sum())), _labels(check)]
    return Verdict([remark for remark in remarks if remark is not None], bool(judged.fair.all()))


def rows_in_words(judged: FairProbabilities) -> str:
    """Return what to call the rows that the model is judged by."""
    if not judged.n_seen:
        return "test rows"
    return "training rows" if judged.seen.all() else "rows"


def _seen_rows(last, judged, n_given):
    """Check whether test rows are training rows."""
    engine, n, m = type(last.inference_).__name__, judged.n_seen, len(judged.seen)
    if not judged.recognises:
        text = "The model was fitted to a Dask collection and does not recognise its training rows: if some of these rows"
        return Remark("care", f"{text} were used for training, the figures below are too good.")
    if not judged.fair.all():
        text = f"All {n} rows were used for training, and {engine} has no leave-one-out probabilities"
        return Remark("poor", f"{text}: the figures below say nothing about new rows. Use rows that the model has not seen.")
    if m < n_given:
        text = f"{n_given - m} of {n_given} rows were used for training and are left out of all figures"
        return Remark("good", f"{text}, because {engine} has no leave-one-out probabilities.")
    if not n:
        return Remark("good", f"None of the {m} test rows was used for training.")
    text = f"{n} of {m} rows were used for training (they have the inputs of training rows); figures for them are "
    text += "leave-one-out, with hyperparameters learned from all rows. Rows that the model has not seen are a better test."
    if judged.copies:
        text += f" {judged.copies} of them occur more than once in the training data; leave-one-out removes one copy only."
    return Remark("care" if n > MAX_SEEN_SHARE * m else "good", text)


def _convergence(last, engines):
    note = next((row.note for row in engines if row.own), "")
    if not bool(getattr(last.posterior_, "converged", True)):
        text = "The approximation did not converge: its probabilities may be wrong. Raise the engine's max_iter."
        return Remark("poor", text)
    if note:
        return Remark("care", f"Fitting warned: {note}")
    return Remark("good", "The approximation converged.")


def _skill(p, codes, rows, train):
    """Compare with class frequencies: those of the training rows, or of these rows if the training labels are not known."""
    known, n_classes = codes if train is None else train, p.shape[1]
    bits = information_score(codes, p, known, classes=np.arange(n_classes))
    common = np.argmax(np.bincount(known, minlength=n_classes))
    error, guess = np.mean(p.argmax(axis=1) != codes), np.mean(codes != common)
    figures = f"{percent(error)} of the {rows} are misclassified"
    if train is None and not guess:  # frequencies of one class are a certainty, which no probabilities exceed
        return Remark(NOTE, f"{figures}; they have one class only, so that the model cannot be compared with a guess.")
    figures += f"; always guessing the most frequent class would miss {percent(guess)}."
    if not bits > 0:
        return Remark("poor", f"The probabilities are worse than the class frequencies alone. {figures}")
    if error >= guess > 0:
        return Remark("care", f"The predicted classes are no better than a guess. {figures}")
    return Remark("good", figures)


def _calibration(p, codes):
    """Compare the calibration error with that of perfectly calibrated probabilities."""
    found, limit = expected_calibration_error(codes, p, classes=np.arange(p.shape[1])), chance_calibration_error(p)
    confidence, right = p.max(axis=1).mean(), np.mean(p.argmax(axis=1) == codes)
    said = f"On average the model was {percent(confidence)} sure of its answer and right on {percent(right)} of the rows"
    figures = f"{said} (calibration error {found:.3f}; chance alone gives up to {limit:.3f} on {len(p)} rows)."
    if found <= limit:
        return Remark("good", f"No sign of miscalibration. {figures}")
    how = "overconfident" if confidence > right else "underconfident"
    return Remark("care", f"The model is {how}. {figures}")


def chance_calibration_error(p: np.ndarray) -> float:
    """Return the calibration error that true probabilities p (m, C) exceed in one of twenty random sets of labels."""
    rng, classes = np.random.default_rng(0), np.arange(p.shape[1])
    thresholds = np.cumsum(p, axis=1)[:, :-1]  # the last is one
    found = []
    for _ in range(SIMULATED_SETS):
        labels = (rng.random((len(p), 1)) > thresholds).sum(axis=1)
        found.append(expected_calibration_error(labels, p, classes=classes))
    return float(np.quantile(found, 1 - SIGNIFICANCE))


def _size(codes, rows):
    if len(codes) >= MIN_TEST_ROWS:
        return None
    return Remark("care", f"There are only {len(codes)} {rows}: all figures here are imprecise.")


def _shift(p, codes, loo):
    """Compare test rows with leave-one-out: a much worse test score suggests that the test rows differ in kind."""
    if loo is None or not len(codes):
        return None
    tiny = np.finfo(float).tiny
    before = -np.log(np.maximum(loo, tiny))
    now = -np.log(np.maximum(p[np.arange(len(codes)), codes], tiny))
    error = np.sqrt(before.var() / len(before) + now.var() / len(now))
    figures = f"(mean negative log probability {now.mean():.3f} on the test rows, {before.mean():.3f} by leave-one-out)"
    errors = (now.mean() - before.mean()) / max(error, tiny)
    if abs(errors) <= CHANCE_ERRORS:
        return Remark("good", f"Test performance matches the leave-one-out estimate {figures}.")
    if abs(errors) <= SHIFT_ERRORS:
        how = f"{'worse' if errors > 0 else 'better'} than the leave-one-out estimate"
        chance = f"possibly by chance with {len(before)} training and {len(now)} test rows"
        return Remark(NOTE, f"Test performance is {how}, but {chance} {figures}.")
    if errors < 0:
        return Remark("good", f"Test performance is better than the leave-one-out estimate {figures}.")
    worse = f"Test performance is much worse than the leave-one-out estimate {figures}"
    return Remark("care", f"{worse}. Are the test rows of the same kind as the training rows?")


def _far(n_far, n_rows):
    if not n_rows:
        return None
    if n_far <= MAX_FAR_SHARE * n_rows:
        some = "No test row lies" if not n_far else f"{n_far} of {n_rows} test rows lie{'s' * (n_far == 1)}"
        return Remark("good", f"{some} far from the training data.")
    return Remark("care", f"{n_far} of {n_rows} test rows lie far from the training data: the model knows little there.")


def _labels(check):
    if check is None:
        return None
    doubtful, few = int(np.sum(check["probability"] < DOUBTFUL_PROBABILITY)), f"{100 * DOUBTFUL_PROBABILITY:g}\u00a0%"
    if not doubtful:
        return Remark("good", f"No training row has a label whose probability, given all other rows, is below {few}.")
    rows = "row has a label" if doubtful == 1 else "rows have labels"
    text = f"{doubtful} training {rows} whose probability, given all other rows, is below {few}: see “Check these labels”."
    return Remark("good" if doubtful <= MAX_DOUBTFUL_SHARE * len(check) else "care", text)
