"""Plots. Every function takes `ax=` and returns the axes. They need matplotlib (`pip install gpclass[plot]`).

decision    class probabilities over two inputs, with the training rows; inducing points and active sets
reliability predicted probabilities against observed frequencies, with counts
surface     evidence, bound, information and errors over lengthscale and latent scale
marginals   engines' marginals against those of a sampler
progress    the objective during learning; test scores against time
relevance   relevance of the inputs, 1/lengthscale
"""

from .common import COLOURS, MARKERS
from .decision import plot_decision_map, plot_inducing
from .marginals import plot_marginal, plot_marginals
from .progress import plot_learning_curve, plot_score_against_time
from .relevance import plot_relevance, relevances
from .reliability import plot_reliability, wilson
from .surface import contour_levels, plot_surface

__all__ = [
    "COLOURS",
    "MARKERS",
    "contour_levels",
    "plot_decision_map",
    "plot_inducing",
    "plot_learning_curve",
    "plot_marginal",
    "plot_marginals",
    "plot_relevance",
    "plot_reliability",
    "plot_score_against_time",
    "plot_surface",
    "relevances",
    "wilson",
]
