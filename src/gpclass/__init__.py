"""Gaussian process classification: every serious approximation behind one scikit-learn estimator."""

__version__ = "0.1.0"
