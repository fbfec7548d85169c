"""Checks of labels and predicted class probabilities, for scores and plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

TOLERANCE = 1e-6  # of probabilities and their sums; allows float32

Classes = Sequence[Any] | np.ndarray | None


def checked_predictions(
    y: Any, p: Any, classes: Classes = None, y_train: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return class numbers (n,), probabilities (n, C) and classes (C,), or raise a ValueError.

    The arguments are those of the scores in `metrics`.
    """
    labels, P = checked_labels(y, "y"), checked_probabilities(p)
    if len(labels) != len(P):
        raise ValueError(f"y has {len(labels)} labels but p has {len(P)} rows.")
    if classes is None:
        known = np.unique(labels if y_train is None else np.concatenate([labels, checked_labels(y_train, "y_train")]))
    else:
        known = np.asarray(classes)
    if known.shape != (P.shape[1],) or len(np.unique(known)) != len(known):
        given = "the data have labels" if classes is None else "classes ="
        raise ValueError(
            f"p is for {P.shape[1]} classes but {given} {known.tolist()}. "
            "Pass classes= with one distinct label per column of p, such as the classifier's classes_."
        )
    return codes_of(labels, known), P, known


def checked_labels(y: Any, name: str) -> np.ndarray:
    """Return labels as a non-empty vector, or raise a ValueError."""
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) == 0:
        raise ValueError(f"{name} must be a non-empty vector of labels; its shape is {labels.shape}.")
    return labels


def checked_probabilities(p: Any) -> np.ndarray:
    """Return probabilities (n, C), clipped to [0, 1], or raise a ValueError."""
    P = np.asarray(p, dtype=float)
    if P.ndim == 1:
        P = np.column_stack([1 - P, P])
    if P.ndim != 2 or P.shape[1] < 2:
        raise ValueError(f"p must be (n, C) with C > 1, or (n,) for two classes; its shape is {np.shape(p)}.")
    if not (P.min(initial=0) >= -TOLERANCE and P.max(initial=0) <= 1 + TOLERANCE):  # written so that NaN fails
        raise ValueError(f"p must lie in [0, 1] (within {TOLERANCE}); it runs from {P.min()} to {P.max()}.")
    off = np.abs(P.sum(axis=1) - 1).max(initial=0)
    if off > TOLERANCE:
        raise ValueError(f"Each row of p must sum to 1 (within {TOLERANCE}); the worst is off by {off:.2g}.")
    return P.clip(0, 1)


def codes_of(labels: Any, classes: np.ndarray, name: str = "y") -> np.ndarray:
    """Return the class numbers (n,) of labels, or raise a ValueError that names unknown labels."""
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ValueError(f"{name} must be a vector of labels; its shape is {labels.shape}")
    code_of = {label: code for code, label in enumerate(classes.tolist())}
    codes = np.array([code_of.get(label, -1) for label in labels.tolist()], dtype=int)
    if np.any(codes < 0):
        unknown = sorted({str(label) for label in labels[codes < 0].tolist()})
        shown = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
        raise ValueError(f"{name} has labels that are not among the classes {classes.tolist()}: {shown}")
    return codes
