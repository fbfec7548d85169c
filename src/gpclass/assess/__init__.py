"""How good is it: scores of class probabilities, evidence over hyperparameters, plots.

metrics  error rate, NLPD, Brier score, expected calibration error, information in bits; any number of classes
surface  evidence, Jensen bound, information and errors over a grid of (lengthscale, scale)
plots    contours of such surfaces, reliability diagrams (with matplotlib)

Leave-one-out probabilities come from a fit itself: `Fit.loo()`, `GPClassifier.loo()`.
"""

from .metrics import brier, error_rate, expected_calibration_error, information_score, nlpd, scores
from .plots import plot_reliability, plot_surface
from .surface import Surface, evidence_surface

__all__ = [
    "Surface",
    "brier",
    "error_rate",
    "evidence_surface",
    "expected_calibration_error",
    "information_score",
    "nlpd",
    "plot_reliability",
    "plot_surface",
    "scores",
]
