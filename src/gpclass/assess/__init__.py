"""Model assessment: scores, evidence surfaces, plots, a report, label checks and active learning.

metrics  error rate, NLPD, Brier score, ranked probability score, calibration error, information in bits
surface  evidence, Jensen bound, information and errors over a grid of (lengthscale, scale)
labels   training rows whose label may be wrong
summaries  what a classifier has learned, as numbers and text
folds    comparison of engines by cross-validation
comparison  comparison of engines on given test rows
novelty  rows far from the training data
seen     test rows that are training rows, and their leave-one-out probabilities
active   rows of a pool to label next
report   one HTML file with all results
plots    decision maps, reliability, surfaces, marginals, learning curves, relevances (with matplotlib)

Leave-one-out probabilities are methods of a fit: `Fit.loo()`, `GPClassifier.loo()`.
"""

from typing import TYPE_CHECKING

from .._lazy import lazy_names

NAMES = {  # imported when first used
    "Comparison": "comparison",
    "FairProbabilities": "seen",
    "Surface": "surface",
    "acquisition": "active",
    "brier": "metrics",
    "compare": "folds",
    "compare_engines": "comparison",
    "error_rate": "metrics",
    "evidence_surface": "surface",
    "expected_calibration_error": "metrics",
    "fair_probabilities": "seen",
    "far_rows": "novelty",
    "information_score": "metrics",
    "nearness": "novelty",
    "nlpd": "metrics",
    "plot_decision_map": "plots",
    "plot_inducing": "plots",
    "plot_learning_curve": "plots",
    "plot_marginal": "plots",
    "plot_marginals": "plots",
    "plot_relevance": "plots",
    "plot_reliability": "plots",
    "plot_score_against_time": "plots",
    "plot_surface": "plots",
    "ranked_probability_score": "metrics",
    "scores": "metrics",
    "suggest": "active",
    "summary": "summaries",
    "suspicious_labels": "labels",
    "trained_on": "seen",
    "write_report": "report",
}

if TYPE_CHECKING:
    from .active import acquisition, suggest
    from .comparison import Comparison, compare_engines
    from .folds import compare
    from .labels import suspicious_labels
    from .metrics import (
        brier,
        error_rate,
        expected_calibration_error,
        information_score,
        nlpd,
        ranked_probability_score,
        scores,
    )
    from .novelty import far_rows, nearness
    from .plots import (
        plot_decision_map,
        plot_inducing,
        plot_learning_curve,
        plot_marginal,
        plot_marginals,
        plot_relevance,
        plot_reliability,
        plot_score_against_time,
        plot_surface,
    )
    from .report import write_report
    from .seen import FairProbabilities, fair_probabilities, trained_on
    from .summaries import summary
    from .surface import Surface, evidence_surface
else:
    __getattr__, __dir__ = lazy_names(__name__, NAMES, tuple(NAMES.values()))

__all__ = [
    "Comparison",
    "FairProbabilities",
    "Surface",
    "acquisition",
    "brier",
    "compare",
    "compare_engines",
    "error_rate",
    "evidence_surface",
    "expected_calibration_error",
    "fair_probabilities",
    "far_rows",
    "information_score",
    "nearness",
    "nlpd",
    "plot_decision_map",
    "plot_inducing",
    "plot_learning_curve",
    "plot_marginal",
    "plot_marginals",
    "plot_relevance",
    "plot_reliability",
    "plot_score_against_time",
    "plot_surface",
    "ranked_probability_score",
    "scores",
    "suggest",
    "summary",
    "suspicious_labels",
    "trained_on",
    "write_report",
]
