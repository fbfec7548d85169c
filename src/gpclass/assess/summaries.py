"""Summaries of fitted classifiers: what was learned, as numbers and as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from .metrics import error_rate, nlpd, ranked_probability_score
from .models import classifier, input_names, is_stacked, leave_one_out, training_labels
from .plots.relevance import relevances

MAX_LISTED = 8  # classes and lengthscales that are listed
MAX_CHARACTERS = 160  # of the text of a likelihood


def summary(model: Any) -> dict[str, Any]:
    """Return the kernel, engine, likelihood, calibration, log evidence and leave-one-out scores of a fitted model.

    Parameters
    ----------
    model : GPClassifier or Pipeline
        A fitted classifier, or a fitted pipeline whose last step is one.

    Returns
    -------
    dict
        "engine", "likelihood" and "kernel" are texts. "kernels" has the weight of each kernel of a classifier with
        `kernel="auto"`, and is empty for others. "calibration" and "quality" are dicts, or None. "log_evidence",
        "loo_error" and "loo_nlpd" are None if the engine has none.
    """
    last = classifier(model)
    return {
        "engine": type(last.inference_).__name__,
        "likelihood": type(last.likelihood_).__name__,
        "kernel": str(last.kernel_),
        "kernels": {str(one.kernel): one.weight for one in last.members_} if is_stacked(last) else {},
        "calibration": _calibration(last),
        "quality": quality(last),
        "log_evidence": log_evidence(last),
        "evidence_is_comparable": last.inference_.evidence_is_comparable(last.likelihood_),
        **loo_scores(last),
    }


def log_evidence(last: Any) -> float | None:
    """Return the log evidence of a fitted classifier, or None if its engine has none."""
    value = getattr(last, "log_evidence_", None)
    return None if value is None else float(value)


def loo_scores(last: Any) -> dict[str, float | None]:
    """Return error rate and NLPD of the leave-one-out probabilities, or None if the engine has none."""
    p, y = leave_one_out(last), training_labels(last)
    if p is None or y is None:
        return {"loo_error": None, "loo_nlpd": None}
    shown: dict[str, float | None] = {"loo_error": error_rate(y, p, last.classes_), "loo_nlpd": nlpd(y, p, last.classes_)}
    if last.likelihood_.ordered:
        shown["loo_ranked_probability_score"] = ranked_probability_score(y, p, last.classes_)
    return shown


def _calibration(last: Any) -> dict[str, Any] | None:
    """Return what the calibration found, or None if there is none. The members of a stack have their own."""
    found = last.calibration_
    if not found.n_rows:
        return None
    shown = {"loo_nlpd_before": found.nlpd_before, "loo_nlpd_after": found.nlpd_after}
    if found.held_out:
        shown = {"held_out_nlpd_before": found.nlpd_before, "held_out_nlpd_after": found.nlpd_after}
    return shown if is_stacked(last) else {"temperature": found.temperature, "noise": found.noise, **shown}


def quality(last: Any) -> dict[str, Any] | None:
    """Return held-out or leave-one-out scores, or None if there are none.

    `rows` is their number and `how` is "held-out" or "leave-one-out". `optimistic` says whether the scores are too good,
    because inducing inputs were learned from these rows.
    """
    found = last.calibration_
    if not found.n_rows:
        return None
    learned = last.inference_.design == "inducing inputs" and last.inference_.learn_inputs
    return {
        "how": found.rows_in_words,
        "rows": found.n_rows,
        "error": found.error,
        "nlpd": found.nlpd_after,
        "calibration_error": found.gap_after,
        "calibration_error_before": found.gap_before,
        "optimistic": learned and not found.held_out,
    }


def in_words(model: Any) -> list[tuple[str, str]]:
    """Return names and values of what a fitted classifier has learned, as text for people."""
    last, found = classifier(model), summary(model)
    labels = [str(label) for label in last.classes_.tolist()]
    rows = [("data", f"{_n_rows(last)}{last.n_features_in_} inputs, {len(labels)} classes ({_some(labels)})")]
    rows += [("engine", found["engine"]), ("likelihood", _shortened(repr(last.likelihood_)))]
    if found["kernels"]:
        rows += [(f"kernel of weight {weight:.2f}", kernel) for kernel, weight in found["kernels"].items()]
    else:
        rows += [("kernel", found["kernel"]), *_lengthscales(model)]
    if found["log_evidence"] is not None:
        remark = "" if found["evidence_is_comparable"] else " (not comparable with other engines)"
        rows.append(("log evidence", f"{found['log_evidence']:.2f}{remark}"))
    if found["loo_nlpd"] is not None:
        rows.append(("leave-one-out", f"error {100 * found['loo_error']:.1f} %, NLPD {found['loo_nlpd']:.3f} nats"))
    if found["calibration"] is not None:
        rows.append(("calibration", calibration_in_words(found["calibration"])))
    history = getattr(last, "history_", [])
    seconds = history[-1].seconds if history else None
    return rows if seconds is None else [*rows, ("training", f"{seconds:.1f} s")]


def calibration_in_words(found: dict[str, Any]) -> str:
    """Return the calibration of a summary as text."""
    how = "held_out" if "held_out_nlpd_after" in found else "loo"
    name = "held-out" if how == "held_out" else "leave-one-out"
    gain = f"{name} NLPD {found[f'{how}_nlpd_before']:.3f} before, {found[f'{how}_nlpd_after']:.3f} after"
    if "temperature" not in found:
        return f"of each kernel: {gain}"
    return f"temperature {found['temperature']:.2f}, noise {100 * found['noise']:.2g} %: {gain}"


def _lengthscales(model: Any) -> list[tuple[str, str]]:
    """Return the inputs of each part of the kernel that has one lengthscale per input, most relevant first."""
    kernel, names = classifier(model).kernel_, input_names(model)
    unit = " in units of each input's spread" if kernel.own_units else ""
    rows = []
    for part, values in relevances(kernel).items():
        if len(values) == len(names):
            order = np.argsort(-values, kind="stable")
            shown = [f"{names[d]} {1 / values[d]:.3g}" for d in order]
            rows.append((f"lengthscales of {part}", f"{_some(shown)}{unit}, most relevant first"))
    return rows


def _n_rows(last: Any) -> str:
    prints = getattr(last, "row_fingerprints_", None)
    n = getattr(last, "n_samples_seen_", None) if prints is None else len(prints)
    return "" if n is None else f"{n} rows, "


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"


def _some(texts: list[str]) -> str:
    return ", ".join(texts[:MAX_LISTED]) + (f", … {len(texts) - MAX_LISTED} more" if len(texts) > MAX_LISTED else "")
