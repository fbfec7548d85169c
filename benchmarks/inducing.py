"""Engines on inducing points: what they cost, and what they reach on the data of Villacampa-Calvo 2017.

    python benchmarks/inducing.py cost                  linear in n and C, quadratic in M
    python benchmarks/inducing.py switch                where "auto" should go over to them: whole fits beside exact engines
    python benchmarks/inducing.py memory                peak memory at 10^5 and 10^6 rows, read from a memory map
    python benchmarks/inducing.py curve satimage        test error and loss over training time, M = 100
    python benchmarks/inducing.py curve mnist           the same, M = 200, minibatches of 200
    python benchmarks/inducing.py flights               the same against a linear classifier, 273,853 rows
    python benchmarks/inducing.py tables --splits 20    tables 6.2 and 6.3, the thesis's figures beside ours; 2 splits and
                                                        M = 10 % unless told otherwise
    python benchmarks/inducing.py figure --to out.png   figure 6.1, where inducing points go; needs matplotlib

The data come from GPCLASS_DATA or --data; sets that cannot be loaded are named and left out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier, datasets
from gpclass.assess import nlpd
from gpclass.engines.inducing.training import INPUTS
from gpclass.kernels import RBF
from gpclass.learning import (
    Arrays,
    Batches,
    InducingInputs,
    Objective,
    Training,
    begin_training,
    maximise_low_rank,
    start_inputs,
    typical_distance,
)
from gpclass.learning.inducing import threads
from gpclass.likelihoods import MultinomialProbit, RobustMax, Softmax
from gpclass.sparse import GFITC, SVGP, ScalableEP, StochasticEP

THESIS_ROBUST = partial(RobustMax, epsilon=0.001)  # chapter 6
ENGINES = {
    "EP": (ScalableEP(), MultinomialProbit),
    "EP-joint": (ScalableEP("joint"), MultinomialProbit),
    "power EP": (ScalableEP(power=0.5), MultinomialProbit),
    "REP": (ScalableEP(), THESIS_ROBUST),
    "SEP": (StochasticEP(), MultinomialProbit),
    "VI": (SVGP(), THESIS_ROBUST),
    "VI-softmax": (SVGP(), Softmax),
}

# tables 6.2 (error) and 6.3 (mean negative log probability), a row for each set; VI of glass is known for 5 % only
SETS = ("glass", "new-thyroid", "satellite", "svmguide2", "vehicle", "vowel", "waveform", "wine")
METHODS = ("GFITC", "EP", "EP outer", "REP", "SEP", "VI")
THESIS_ERROR = {
    5: (
        (0.24, 0.31, 0.31, 0.33, 0.32, 0.35),
        (0.02, 0.04, 0.02, 0.06, 0.03, 0.03),
        (0.12, 0.11, 0.11, 0.11, 0.12, 0.12),
        (0.20, 0.20, 0.20, 0.20, 0.21, 0.19),
        (0.17, 0.17, 0.17, 0.18, 0.18, 0.16),
        (0.05, 0.09, 0.07, 0.09, 0.09, 0.06),
        (0.16, 0.15, 0.15, 0.15, 0.16, 0.17),
        (0.03, 0.03, 0.03, 0.02, 0.03, 0.04),
    ),
    10: (
        (0.21, 0.29, 0.29, 0.31, 0.32),
        (0.03, 0.02, 0.03, 0.02, 0.02, 0.03),
        (0.11, 0.11, 0.11, 0.11, 0.11, 0.12),
        (0.19, 0.20, 0.20, 0.20, 0.19, 0.17),
        (0.17, 0.16, 0.17, 0.18, 0.16, 0.15),
        (0.03, 0.05, 0.05, 0.06, 0.07, 0.05),
        (0.17, 0.16, 0.15, 0.16, 0.16, 0.18),
        (0.04, 0.02, 0.02, 0.01, 0.02, 0.03),
    ),
    20: (
        (0.20, 0.28, 0.27, 0.31, 0.32),
        (0.03, 0.02, 0.03, 0.02, 0.02, 0.03),
        (0.11, 0.11, 0.11, 0.11, 0.12, 0.11),
        (0.20, 0.19, 0.19, 0.19, 0.20, 0.20),
        (0.17, 0.16, 0.17, 0.17, 0.16, 0.15),
        (0.03, 0.03, 0.02, 0.04, 0.05, 0.03),
        (0.17, 0.16, 0.16, 0.16, 0.16, 0.18),
        (0.04, 0.01, 0.02, 0.02, 0.02, 0.03),
    ),
}
THESIS_LOSS = {
    5: (
        (0.60, 0.78, 0.78, 0.78, 0.78, 2.45),
        (0.06, 0.11, 0.07, 0.24, 0.07, 0.09),
        (0.33, 0.31, 0.30, 0.30, 0.31, 0.62),
        (0.63, 0.63, 0.60, 0.60, 0.62, 1.03),
        (0.32, 0.34, 0.33, 0.35, 0.35, 0.76),
        (0.16, 0.25, 0.24, 0.27, 0.27, 0.41),
        (0.42, 0.36, 0.33, 0.36, 0.38, 0.89),
        (0.08, 0.07, 0.10, 0.07, 0.07, 0.08),
    ),
    10: (
        (0.58, 0.74, 0.74, 0.76, 0.77),
        (0.07, 0.06, 0.07, 0.07, 0.06, 0.05),
        (0.34, 0.30, 0.29, 0.29, 0.32, 0.58),
        (0.67, 0.67, 0.64, 0.61, 0.64, 0.90),
        (0.33, 0.33, 0.33, 0.35, 0.35, 0.71),
        (0.14, 0.19, 0.19, 0.21, 0.22, 0.30),
        (0.42, 0.36, 0.34, 0.36, 0.40, 0.85),
        (0.07, 0.06, 0.09, 0.06, 0.06, 0.07),
    ),
    20: (
        (0.60, 0.75, 0.74, 0.74, 0.75),
        (0.07, 0.06, 0.07, 0.07, 0.05, 0.06),
        (0.34, 0.30, 0.29, 0.29, 0.33, 0.53),
        (0.67, 0.65, 0.63, 0.62, 0.67, 0.94),
        (0.33, 0.33, 0.34, 0.34, 0.34, 0.63),
        (0.12, 0.16, 0.16, 0.18, 0.20, 0.14),
        (0.43, 0.37, 0.35, 0.37, 0.43, 0.80),
        (0.07, 0.05, 0.09, 0.06, 0.06, 0.08),
    ),
}
FILES = {"new-thyroid": "new_thyroid", "satellite": "satimage"}


def scores(model, X, y):
    """Test error and mean negative log probability."""
    log_p = model.log_class_probabilities(X)
    return float(np.mean(log_p.argmax(1) != y)), -float(np.mean(log_p[np.arange(len(y)), y]))


# what it costs ------------------------------------------------------------------------------------------------------------


def made(n, C, D=10, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return X, np.argmax(X @ np.random.default_rng(C).normal(size=(D, C)) + rng.normal(size=(n, C)), axis=1)


def pass_seconds(engine, likelihood, n, M, C, batch=500, repeats=3):
    """One pass over n rows after the first, the best of several, in processor time."""
    X, y = made(n, C)
    training = Training(n_inducing=M, batch_size=batch, inputs="random")
    run, source = begin_training(Arrays(X, y), RBF(3.0, 4.0), likelihood(C), engine, training)
    best = np.inf
    for _ in range(repeats):
        began = time.process_time()
        run.run(source, epochs=1)
        best = min(best, time.process_time() - began)
    return best


def cost(_args):
    print("Exponents of growth of one pass (processor time): n 1, M at most 2 (a minibatch of M), C 1")
    for name in ("EP", "SEP", "VI-softmax"):
        engine, likelihood = ENGINES[name]
        n = [pass_seconds(engine, likelihood, n, 100, 3) for n in (5000, 20000)]
        M = [pass_seconds(engine, likelihood, 10000, M, 3, batch=1000) for M in (100, 400)]
        C = [pass_seconds(engine, likelihood, 5000, 100, C) for C in (4, 16)]
        growth = [np.log(b / a) / np.log(4) for a, b in (n, M, C)]
        print(f"{name:10s} n {growth[0]:.2f}   M {growth[1]:.2f}   C {growth[2]:.2f}   20,000 rows {n[1]:.1f} s")


# memory -------------------------------------------------------------------------------------------------------------------

MEMORY_RUN = """
import resource, sys
import numpy as np
import benchmarks_inducing as here

name, folder, n, mapped = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "map"
X, y = (np.load(f"{folder}/{part}.npy", mmap_mode="r")[:n] for part in "Xy")
engine, likelihood = here.ENGINES[name]
source = here.Arrays(X, y) if mapped else here.Batches(lambda: here.pieces(folder, n), n, X.shape[1])
training = here.Training(n_inducing=50, batch_size=1000, epochs=1)
begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run, source = here.begin_training(source, here.RBF(3.0, 4.0), likelihood(3), engine, training)
run.run(source)
print(begun / 1024, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def switch(args):
    """Processor seconds of whole default fits, and test NLPD, on a smooth problem of six inputs and two classes."""
    print(f"{'n':>6}  {'engine':<12} {'seconds':>8}   NLPD")
    for n in args.sizes:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n + 4000, 6))
        f = 2 * np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.7 * X[:, 3]
        y = (rng.random(len(X)) < 1 / (1 + np.exp(-2 * f))).astype(int)
        for name in ("ep", "laplace", "scalable-ep"):
            began = time.process_time()
            clf = GPClassifier(inference=name, random_state=0).fit(X[:n], y[:n])
            spent = time.process_time() - began
            loss = nlpd(y[n:], clf.predict_proba(X[n:]))
            print(f"{n:>6}  {name:<12} {spent:>8.1f}   {loss:.4f}", flush=True)


def pieces(folder, n, size=10_000):
    """Copies of some rows at a time; the map is closed after each, so that its pages are not counted."""
    for i in range(0, n, size):
        yield tuple(np.array(np.load(f"{folder}/{part}.npy", mmap_mode="r")[i : i + size]) for part in "Xy")


def memory(args):
    """Each in a process of its own: the highest resident set before training begins, and when it has ended."""
    sizes, D = (10**5, 10**6), 10
    print("Peak resident memory of one pass in MiB, all that is imported included; M = 50, minibatches of 1000")
    print("Pages of a map count. Rows and labels: " + ", ".join(f"{n} rows {48 * n / 2**20:.0f} MiB" for n in sizes))
    with tempfile.TemporaryDirectory() as folder:
        X = np.lib.format.open_memmap(f"{folder}/X.npy", "w+", np.float32, (max(sizes), D))
        y = np.lib.format.open_memmap(f"{folder}/y.npy", "w+", np.int64, (max(sizes),))
        for i in range(0, max(sizes), 10_000):
            X[i : i + 10_000], y[i : i + 10_000] = made(10_000, 3, D, seed=[0, i])
        X.flush(), y.flush()
        script = MEMORY_RUN.replace("import benchmarks_inducing as here", f"here = __import__({Path(__file__).stem!r})")
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
        for name, how in (("SEP", "stream"), ("SEP", "map"), ("VI-softmax", "stream"), ("EP", "stream")):
            shown = []
            for n in sizes:
                words = [sys.executable, "-c", script, name, folder, str(n), how]
                begun, peak = map(float, subprocess.run(words, env=env, check=True, capture_output=True).stdout.split())
                shown.append(f"{n} rows: {peak:4.0f} ({peak - begun:3.0f} more than before training)")
            print(f"{name:10s} {how:7s}" + "   ".join(shown), flush=True)


# curves --------------------------------------------------------------------------------------------------------------------


def curve_data(name):
    if name == "flights":
        data = datasets.load("nycflights13")
        classes, y = np.unique(data.y, return_inverse=True)
        order = np.random.default_rng(0).permutation(len(y))
        test, train = order[:10_000], order[10_000:]
        scaler = StandardScaler().fit(data.X[train])
        X, Xs = scaler.transform(data.X[train]).astype(np.float32), scaler.transform(data.X[test])
        return X, y[train], Xs, y[test], len(classes)
    data = datasets.load(name)
    classes, y = np.unique(data.y, return_inverse=True)
    X, Xs = data.X_train, data.X_test
    if name == "mnist":
        X, Xs = (X / 255).astype(np.float32), (Xs / 255).astype(np.float32)
    else:
        scaler = StandardScaler().fit(X)
        X, Xs = scaler.transform(X), scaler.transform(Xs)
    return X, y[: len(X)], Xs, y[len(X) :], len(classes)


def flights(args):
    X, y, Xs, ys, _ = curve_data("flights")
    began = time.perf_counter()
    p = np.log(LogisticRegression(max_iter=500).fit(X, y).predict_proba(Xs))
    took, loss = time.perf_counter() - began, -np.mean(p[np.arange(len(ys)), ys])
    print(f"linear classifier: error {np.mean(p.argmax(1) != ys):.4f} loss {loss:.4f} in {took:.0f} s", flush=True)
    args.set = "flights"
    curve(args)


def curve(args):
    """The learning rate falls over the seconds that there are; scoring does not count."""
    data = curve_data(args.set)
    clock = time.process_time if args.processor else time.perf_counter
    M = args.inducing or (100 if args.set == "satimage" else 200)
    marks = [*(m for m in (10, 30, 60, 120, 240, 600, 900, 1800) if m < args.seconds), args.seconds]
    for name in args.engines:
        print(f"{name} on {args.set}: M = {M}, {len(data[0])} rows, {data[4]} classes, learning rate {args.rate}")
        settings = {"per_class": args.per_class, "inputs": args.inputs, "learning_rate": args.rate}
        training = Training(n_inducing=M, batch_size=200, **settings)
        for point in curve_points(data, name, training, marks, args.ard, clock):
            shown = f"error {point['error']:.4f}  loss {point['loss']:.4f}"
            print(f"  {point['seconds']:6.0f} s  pass {point['passes']:3d}  {shown}", flush=True)
        print(f"  {1000 * point['seconds'] / point['steps']:.1f} ms a step")


def curve_points(data, name, training, marks, ard=False, clock=time.process_time):
    """Yield error and loss on the test rows when training has taken so many seconds; its rate falls until the last of them.

    `expected` is the mean of -E[log p(y | f)] over the test rows, where the likelihood can tell: what VI minimises.
    """
    X, y, Xs, ys, C = data
    engine, likelihood = ENGINES[name]
    lengthscale = typical_distance(X[:: max(1, len(X) // 1000)].astype(float), np.random.default_rng(0))
    kernel = RBF(np.full(X.shape[1], lengthscale) if ard else lengthscale, 4.0)
    yield from points_of(Arrays(X, y), (Xs, ys, C), kernel, (engine, likelihood(C)), training, marks, clock)


def points_of(source, test, kernel, model, training, marks, clock=time.process_time):
    """The same for any source of rows; reading them counts, scoring does not."""
    (Xs, ys, C), (engine, likelihood), marks = test, model, list(marks)
    began = clock()
    run, source = begin_training(source, kernel, likelihood, engine, training)
    spent, steps, last = 0.0, 0, marks[-1]
    size = training.batch_size or source.n_rows
    with threads(size, run.Z, C):
        for epoch, batch in ((e, batch) for e in count() for batch in source.batches(size, (0, e))):
            run.step(batch, rate=training.learning_rate * (0.5 + 0.5 * np.cos(np.pi * min(1.0, spent / last))))
            steps, now = steps + 1, clock()
            spent, began = spent + now - began, now
            if spent >= marks[0]:
                yield {"seconds": spent, "passes": epoch + 1, "steps": steps, **judged(run.current(), Xs, ys)}
                while marks and spent >= marks[0]:
                    marks.pop(0)
                if not marks:
                    return
                began = clock()


STREAM = 8, 3, 10_000  # inputs, classes and rows of a chunk of the stream


def stream_chunk(seed) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, classes and the true log probabilities of all classes: softmax of smooth functions of eight inputs."""
    D, C, n = STREAM
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    f = np.stack([2 * np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2], 1.5 * np.cos(X[:, 3]) * X[:, 4] + X[:, 0],
                  X[:, 5] - 1.5 * np.tanh(X[:, 1] * X[:, 6])], axis=1)  # fmt: skip
    log_p = f - np.logaddexp.reduce(f, axis=1, keepdims=True)
    return X, np.argmax(f + rng.gumbel(size=(n, C)), axis=1), log_p


def stream_points(name, rows, seconds, training):
    """Error and loss over time on rows that a generator makes, chunk by chunk, never all in memory; and what is possible.

    `bayes` is the loss of the true probabilities, `linear` that of logistic regression on 200,000 of the rows.
    """
    D, C, n = STREAM
    engine, likelihood = ENGINES[name]
    source = Batches(lambda: (stream_chunk([0, i])[:2] for i in range(rows // n)), rows, D)
    X, y, log_p = stream_chunk([1, 0])
    marks = [m for m in (10, 20, 40) if m < seconds] + [seconds]
    kernel, model = RBF(np.full(D, np.sqrt(2.0 * D)), 4.0), (engine, likelihood(C))
    points = list(points_of(source, (X, y, C), kernel, model, training, marks))
    some = [stream_chunk([0, i])[:2] for i in range(20)]
    line = LogisticRegression().fit(*map(np.concatenate, zip(*some, strict=True)))
    own = np.arange(len(y)), y
    bayes, linear = -float(log_p[own].mean()), -float(line.predict_log_proba(X)[own].mean())
    return {"points": points, "bayes": bayes, "linear": linear, "rows": rows}


def judged(model, X, y):
    """Error, loss, and the mean of -E[log p(y | f)] if the likelihood has it."""
    error, loss = scores(model, X, y)
    found = {"error": error, "loss": loss}
    if model.likelihood.offers("expected_log_prob"):
        mean, var = model.latent(X)
        found["expected"] = -float(np.mean(model.likelihood.expected_log_prob(y, mean, var)[0]))
    return found


def outer_points(data, name, M, seconds, iterations=3, seed=0):
    """Yield the same, and log Z, if sites converge before each step of L-BFGS, after rounds of some steps."""
    X, y, Xs, ys, C = data
    engine = {"GFITC": GFITC, "EP outer": ScalableEP}[name](max_iter=100)
    kernel = RBF(np.full(X.shape[1], np.sqrt(2.0 * X.shape[1])), 4.0)
    design = InducingInputs(X[np.random.default_rng(seed).permutation(len(X))[:M]].astype(float)[None], np.ones(X.shape[1]))
    spent = 0.0
    while spent < seconds:
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            objective = Objective(X, y, kernel, MultinomialProbit(C), engine, [], design)
            model, search = maximise_low_rank(objective, max_iter=iterations)
        kernel, design = model.kernel, replace(design, Z=model.Z)
        spent += time.process_time() - began
        yield {"seconds": spent, "log_Z": float(search.best.value), **judged(model, Xs, ys)}


def inner_evidence(name, split, percent, seconds):
    """Figure 5.1: log Z_q over time if sites and hyperparameters move together, on all rows of a table's data set."""
    X, y, _, _ = table_data(name, split)
    C, M = int(y.max()) + 1, round(percent / 100 * len(y))
    training = Training(n_inducing=M, batch_size=None, learning_rate=0.05, inputs="random")
    kernel = RBF(np.full(X.shape[1], np.sqrt(2.0 * X.shape[1])), 4.0)
    run, source = begin_training(Arrays(X, y), kernel, MultinomialProbit(C), ScalableEP(), training, random_state=split)
    spent, points = 0.0, []
    for epoch in count():
        for batch in source.batches(len(X), (0, epoch)):
            at = time.process_time()
            value = run.step(batch, rate=0.05 * (0.5 + 0.5 * np.cos(np.pi * min(1.0, spent / seconds))))
            spent += time.process_time() - at
        points.append({"seconds": spent, "log_Z": float(value)})
        if spent >= seconds:
            return points


# tables 6.2 and 6.3 --------------------------------------------------------------------------------------------------------


def waveform(rng, n=1000):
    """Breiman's waveforms: a random convex combination of two of three triangular waves, plus noise."""
    t = np.arange(1, 22)
    waves = np.maximum(6 - np.abs(t - np.array([7, 15, 11])[:, None]), 0.0)
    y = rng.integers(3, size=n)
    a, b = np.array([[0, 2], [0, 1], [1, 2]])[y].T
    u = rng.random((n, 1))
    return u * waves[a] + (1 - u) * waves[b] + rng.normal(size=(n, 21)), y


def table_data(name, split):
    """Training and test rows: 90/10 %, satellite 20/80 %, waveform 30/70 %; standardised by the training rows."""
    rng = np.random.default_rng([split, SETS.index(name)])
    if name == "waveform":
        X, y = waveform(rng)
    else:
        data = datasets.load(FILES.get(name, name))
        y = np.unique(data.y, return_inverse=True)[1]
        X = data.X
        if name == "vowel":
            codes = {label: c for c, label in enumerate(data.class_names)}
            y = np.array([codes[label] for label in data.y])
            X, y = X[y < 6], y[y < 6]
    share = {"satellite": 0.2, "waveform": 0.3}.get(name, 0.9)
    order = rng.permutation(len(y))
    train, test = order[: round(share * len(y))], order[round(share * len(y)) :]
    scaler = StandardScaler().fit(X[train])
    return scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def trial(name, percent, split, methods, iterations):
    X, y, Xs, ys = table_data(name, split)
    C, M = int(y.max()) + 1, max(2, round(percent / 100 * len(y)))
    training = Training(n_inducing=M, batch_size=None, epochs=iterations, learning_rate=0.05, inputs="random")
    Z = start_inputs(Arrays(X, y).look((split, 0)), training, len(y), C, np.random.default_rng(split))
    kernel = RBF(np.full(X.shape[1], np.sqrt(2.0 * X.shape[1])), 4.0)
    out = {}
    for method in methods:
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                if method in ("GFITC", "EP outer"):
                    engine = (GFITC if method == "GFITC" else ScalableEP)(max_iter=100)
                    design = InducingInputs(Z, np.ones(X.shape[1]))
                    objective = Objective(X, y, kernel, MultinomialProbit(C), engine, [], design)
                    model, _ = maximise_low_rank(objective, max_iter=iterations // 5)
                else:
                    engine, likelihood = ENGINES[method]
                    run, source = begin_training(Arrays(X, y), kernel, likelihood(C), engine, training, Z=Z)
                    model = run.run(source).model()
                out[method] = (*scores(model, Xs, ys), time.process_time() - began)
            except Exception as error:  # a failed trial is a result too
                print(f"{method} on {name}, {percent} %, split {split}: {error}", file=sys.stderr)
    return out


def tables(args):
    found = [name for name in args.sets if loads(name)]
    for percent in args.percent:
        print(f"M = {percent} %: error and mean negative log probability, ours over {args.splits} splits (thesis over 20)")
        print(f"{'':12s}" + "".join(f"{method:^28s}" for method in args.methods))
        for name in found:
            jobs = (delayed(trial)(name, percent, s, args.methods, args.iterations) for s in range(args.splits))
            trials = Parallel(n_jobs=args.jobs)(jobs)
            print(f"{name:12s}" + "".join(shown(trials, name, percent, method) for method in args.methods), flush=True)


def shown(trials, name, percent, method):
    got = np.array([t[method] for t in trials if method in t]).reshape(-1, 3)
    ours = f"{got[:, 0].mean():.2f} {got[:, 1].mean():.2f}" if len(got) else " failed  "
    at = METHODS.index(method) if method in METHODS else 99
    row = THESIS_ERROR[percent][SETS.index(name)], THESIS_LOSS[percent][SETS.index(name)]
    theirs = f"({row[0][at]:.2f} {row[1][at]:.2f})" if at < len(row[0]) else ""
    return f"{ours} {theirs} {got[:, 2].mean() if len(got) else 0:4.0f} s".center(28)


def loads(name):
    try:
        table_data(name, 0)
    except (FileNotFoundError, OSError) as error:
        print(f"{name} left out: {error}", file=sys.stderr)
        return False
    return True


# figure 6.1 ----------------------------------------------------------------------------------------------------------------

PLACES_KERNEL, GRID = RBF(0.8, 25.0), 50


def places_data(n=600):
    """Three classes in the plane: the largest of three functions of a GP."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, size=(n, 2))
    f = np.linalg.cholesky(PLACES_KERNEL(X) + 1e-6 * np.eye(n)) @ rng.normal(size=(n, 3))
    return X, f.argmax(1)


def places(name, M, iterations):
    """Where inducing points begin and end under the true kernel, which is held; and the classes on a grid."""
    X, y = places_data()
    began = X[np.random.default_rng(M).permutation(len(X))[:M]]
    held = PLACES_KERNEL.fix("lengthscale", "variance")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if name == "GFITC":
            objective = Objective(X, y, held, MultinomialProbit(3), GFITC(), [], InducingInputs(began[None], np.ones(2)))
            model, _ = maximise_low_rank(objective, max_iter=iterations // 5)
        else:
            engine, likelihood = ENGINES[name]
            training = Training(n_inducing=M, batch_size=None, epochs=iterations, learning_rate=0.05, inputs="random")
            run, source = begin_training(Arrays(X, y), held, likelihood(3), engine, training, random_state=M, Z=began)
            model = run.run(source).model()
    side = np.linspace(-2, 2, GRID)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    classes = model.log_class_probabilities(grid).argmax(1)
    wrong = float(np.mean(model.log_class_probabilities(X).argmax(1) != y))
    return {"began": began, "ended": model.Z[0], "classes": "".join(map(str, classes)), "training_error": wrong}


def draw_places(found, names, counts, fig):
    """Rows are engines, columns numbers of inducing points; grey lines lead from where a point began to where it ended."""
    X, y = places_data()
    axes = fig.subplots(len(names), len(counts), squeeze=False)
    side = np.linspace(-2, 2, GRID)
    for i, name in enumerate(names):
        for j, M in enumerate(counts):
            ax, at = axes[i, j], found[name, M]
            classes = np.array([int(c) for c in at["classes"]]).reshape(GRID, GRID).T
            for c, colour in enumerate(("tab:blue", "tab:red", "tab:green")):
                ax.plot(*X[y == c].T, ".", ms=2, color=colour, alpha=0.4)
                if 0 < np.sum(classes == c) < classes.size:
                    ax.contour(side, side, classes == c, [0.5], colors="k", linewidths=0.8)
            began, ended = np.array(at["began"]), np.array(at["ended"])
            ax.plot(*np.stack([began, ended]).transpose(2, 0, 1), "-", color="0.5", lw=0.6)
            ax.plot(*ended.T, "o", ms=4, mfc="w", mec="k")
            ax.set(xlim=(-2.4, 2.4), ylim=(-2.4, 2.4), xticks=[], yticks=[])
            ax.set_title(f"M = {M}" if i == 0 else "", fontsize=9)
            ax.set_ylabel(name if j == 0 else "")
    fig.tight_layout()


def figure(args):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names, counts = ("EP", "REP", "SEP", "VI"), (2, 4, 8, 16, 32, 64)
    found = {(name, M): places(name, M, args.iterations) for name in names for M in counts}
    fig = plt.figure(figsize=(2.2 * len(counts), 2.2 * len(names)))
    draw_places(found, names, counts, fig)
    fig.savefig(args.to, dpi=120)
    print(f"wrote {args.to}")


def _add_curve_settings(part, seconds):
    part.add_argument("--engines", nargs="+", default=["EP"], choices=list(ENGINES))
    part.add_argument("--seconds", type=float, default=seconds)
    part.add_argument("--processor", action="store_true", help="seconds of processor time, for a machine that is shared")
    part.add_argument("--rate", type=float, default=Training().learning_rate)
    part.add_argument("--inducing", type=int)
    part.add_argument("--inputs", default=Training().inputs, choices=INPUTS)
    part.add_argument("--per-class", action="store_true")
    part.add_argument("--ard", action="store_true")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of data sets, in place of GPCLASS_DATA")
    parts = parser.add_subparsers(required=True)
    parts.add_parser("cost").set_defaults(run=cost)
    part = parts.add_parser("switch")
    part.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000, 4000])
    part.set_defaults(run=switch)
    parts.add_parser("memory").set_defaults(run=memory)
    part = parts.add_parser("curve")
    part.add_argument("set", choices=("satimage", "mnist"))
    part.set_defaults(run=curve)
    _add_curve_settings(part, 60)
    part = parts.add_parser("flights")
    part.set_defaults(run=flights)
    _add_curve_settings(part, 240)
    part = parts.add_parser("tables")
    part.add_argument("--splits", type=int, default=2)
    part.add_argument("--percent", type=int, nargs="+", default=[10], choices=(5, 10, 20))
    part.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    part.add_argument("--methods", nargs="+", default=list(METHODS), choices=[*METHODS, *(set(ENGINES) - set(METHODS))])
    part.add_argument("--iterations", type=int, default=250)
    part.add_argument("--jobs", type=int, default=2)
    part.set_defaults(run=tables)
    part = parts.add_parser("figure")
    part.add_argument("--to", default="inducing_points.png")
    part.add_argument("--iterations", type=int, default=400)
    part.set_defaults(run=figure)
    args = parser.parse_args()
    if args.data:
        os.environ["GPCLASS_DATA"] = args.data
    args.run(args)


if __name__ == "__main__":
    main()
