"""What samplers cost beside the matrix products that they cannot do without: `make bench`.

Annealed importance sampling needs, per leapfrog step, one product of an n × n matrix with the columns of all runs for the
latent values and one for the gradient. Elliptical slice sampling needs one product with a vector per draw. Both are timed as
bare products in the same process, one BLAS thread, best of several.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from gpclass.inference import EP
from gpclass.kernels import RBF
from gpclass.likelihoods import Logit, Probit
from gpclass.sampling import HMC, EllipticalSlice, Gibbs, ScaledMetropolis, annealed_importance, orthant_evidence
from gpclass.sampling.annealing import LEAPFROGS

AIS_GOAL, SLICE_GOAL = 25, 3


def seconds(function, repeats):
    """Best of several."""
    best = np.inf
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - began)
    return best


def problem(n):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:n]
    return RBF(np.exp(2.0), np.exp(2.0))(X), 2.0 * y[:n] - 1


def annealing(repeats, n=200, runs=32, temperatures=2000):
    K, y = problem(n)
    A, B = np.random.default_rng(0).normal(size=(n, n)), np.random.default_rng(1).normal(size=(n, runs))
    products = 2 * LEAPFROGS * temperatures
    bare = seconds(lambda: [A @ B for _ in range(products)], repeats)
    print(f"AIS, n = {n}, {runs} runs × {temperatures} temperatures; {products} bare products take {bare:.2f} s")
    for likelihood in (Probit(), Logit()):
        spent = seconds(
            lambda lik=likelihood: annealed_importance(
                K, y, lik, n_runs=runs, n_temperatures=temperatures, random_state=0
            ),
            repeats,
        )
        print(f"  {type(likelihood).__name__:8s}{spent:7.2f} s, {spent / bare:5.1f} × (≤ {AIS_GOAL})")


def slices(repeats, n=500, chains=4, draws=5000):
    K, y = problem(n)
    A, b = np.random.default_rng(0).normal(size=(n, n)), np.random.default_rng(1).normal(size=n)
    bare = seconds(lambda: [A @ b for _ in range(chains * draws)], repeats)
    print(f"elliptical slice, n = {n}, {chains} × {draws} draws; as many bare matrix-vector products take {bare:.2f} s")
    sampler = EllipticalSlice(n_draws=draws, n_warmup=500, n_chains=chains, random_state=0)
    for likelihood in (Probit(), Logit()):
        spent = seconds(lambda lik=likelihood: sampler.fit(K, y, lik, start=EP().fit(K, y, lik)), repeats)
        print(f"  {type(likelihood).__name__:8s}{spent:7.2f} s, {spent / bare:5.1f} × (≤ {SLICE_GOAL})")


def mixing(n=200):
    K, y = problem(n)
    exact = orthant_evidence(K, y)
    print(f"draws, n = {n}, 4 chains: effective draws per second, the least of all latent values ({exact})")
    for sampler in (HMC(), EllipticalSlice(), Gibbs(), ScaledMetropolis()):
        began = time.perf_counter()
        draws = type(sampler)(random_state=0).fit(K, y, Probit())
        spent = time.perf_counter() - began
        least = np.nanmin(draws.effective_size)
        print(f"  {type(sampler).__name__:17s}{least:8.0f} in {spent:5.1f} s, {least / spent:8.1f} per second")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    with threadpool_limits(args.threads, "blas"):
        annealing(args.repeats)
        slices(args.repeats)
        mixing()


if __name__ == "__main__":
    main()
