"""Sweeps of cold fits to the papers' tables at the hyperparameters that their own fits learn: a part of `make speed`.

Priors are large there, and sweeps more than on artificial problems. Matern 3/2, inputs standardised, rows drawn at random.
The data come from GPCLASS_DATA; tables that are not there are named and left out.
"""

from __future__ import annotations

import time

import numpy as np

from gpclass import datasets
from gpclass.kernels import Matern32
from gpclass.likelihoods import MultinomialProbit, Probit

MOST_SWEEPS = 15
# table: rows, lengthscale and variance learned by EP (two classes) and nested EP from at most 300 rows
TABLES = {
    "breast": (300, 9.78, 34.2), "crabs": (200, 12.8, 2380), "ionosphere": (300, 14.3, 181), "pima": (300, 8.20, 8.00),
    "sonar": (208, 12.7, 210), "iris": (150, 6.99, 258), "new_thyroid": (200, 8.24, 387), "wine": (178, 14.5, 342),
    "glass": (200, 4.35, 68.8), "tae": (151, 0.0565, 20.4), "segmentation": (200, 11.2, 299), "svmguide2": (200, 7.79, 46.1),
    "vehicle": (200, 16.0, 324), "vowel": (200, 4.66, 399), "satimage": (500, 11.4, 90.0),
}  # fmt: skip


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """K at the learned hyperparameters, and the codes of the labels."""
    n, lengthscale, variance = TABLES[name]
    data = datasets.load(name)
    rows = np.random.default_rng(0).permutation(len(data.y))[:n]
    X, codes = np.asarray(data.X, float)[rows], np.unique(data.y[rows], return_inverse=True)[1]
    X = X[:, X.std(0) > 0]
    return Matern32(lengthscale=lengthscale, variance=variance)((X - X.mean(0)) / X.std(0)), codes


def report(engines, several: bool) -> None:
    """Print sweeps and seconds of each engine; with one latent function the largest class is told from the rest."""
    print(f"\nCold fits at learned hyperparameters, sweeps and seconds (≤ {MOST_SWEEPS} sweeps)")
    for name in TABLES:
        try:
            K, codes = table(name)
        except FileNotFoundError:
            print(f"{name:14s} not in GPCLASS_DATA: left out")
            continue
        texts = [_cold(engine, K, codes, several) for engine in engines]
        print(f"{name:14s} n = {len(codes):3d}, C = {codes.max() + 1:2d}   " + "   ".join(texts))


def _cold(engine, K, codes, several):
    y = codes if several else np.where(codes == np.bincount(codes).argmax(), 1.0, -1.0)
    likelihood = MultinomialProbit(codes.max() + 1) if several else Probit()
    began = time.perf_counter()
    fit = engine.fit(K, y, likelihood)
    spent = time.perf_counter() - began
    missed = ", MISSED" if fit.n_iter > MOST_SWEEPS or not fit.converged else ""
    return f"{type(engine).__name__} {fit.n_iter:3d}{missed} {spent:6.2f} s"
