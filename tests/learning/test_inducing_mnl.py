"""Learning with inducing variables: gradients of the whole chain, choice of variables, and movement of inducing inputs."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass import datasets
from gpclass.inference import VariationalMNL
from gpclass.kernels import RBF, ClassCovariance, Correlated, Matern52, PerClass, White
from gpclass.learning import (
    InducingPairs,
    Objective,
    k_means,
    maximise,
    maximise_inducing,
    resolve_priors,
)
from gpclass.learning.inducing_mnl import inducing_covariance, row_covariance
from gpclass.likelihoods import Softmax
from gpclass.sparse import InducingSet, SparseVariationalMNL
from tests.problems import linear_classes

C = 3
SETTLED = SparseVariationalMNL(tol=1e-11)
CHOSEN = InducingSet.empty().with_pairs([0, 3, 3, 5, 8, 9], [1, 0, 2, 1, 0, 2])
CLASSES = ClassCovariance(C, "free", (0.3, 0.5, -0.4))
KERNELS = {
    "ard": RBF(np.array([0.8, 1.5]), 3.0),
    "correlated": Correlated(RBF(1.2, 3.0), CLASSES),
    "sum to zero": Correlated(Matern52(1.2, 3.0), ClassCovariance(C, "sum-to-zero-diagonal", (0.2, -0.3, 0.6))),
    "white": RBF(1.2, 3.0) + White(0.5),
    "correlated white": Correlated(RBF(1.2, 3.0) + White(0.5), CLASSES),
    "per class": PerClass(RBF(1.0, 4.0), RBF(0.7, 2.0) + White(0.3), RBF(2.0, 3.0)),
}


def objective(kernel, engine=SETTLED, likelihood=None, priors=None, n=22):
    X, y = linear_classes(n, C)
    likelihood = likelihood or Softmax(C, learn_bias=True)
    return Objective(X, y, kernel, likelihood, engine, resolve_priors(priors, [*kernel.names, *likelihood.names]))


def numeric(f, theta, h=1e-4):
    """Central differences: errors are h² (third derivatives are of order one) and 1e-13/h."""
    return np.array([(f(theta + h * e) - f(theta - h * e)) / (2 * h) for e in np.eye(len(theta))])


@pytest.mark.parametrize("name", KERNELS)
def test_gradient_at_rows(name):
    base = objective(KERNELS[name], priors="weak" if name == "ard" else None)
    at = InducingPairs.at_rows(base.X, CHOSEN)
    o = replace(base, design=at)
    found = o.evaluate(o.theta, tol=0.0)
    assert_allclose(found.gradient, numeric(lambda t: o.evaluate(t, tol=0.0).value, o.theta), rtol=1e-5, atol=1e-6)


@pytest.mark.quick_cases("correlated")
@pytest.mark.parametrize("name", ["ard", "correlated", "per class"])
def test_gradient_in_inducing_inputs(name):
    base = objective(KERNELS[name], likelihood=Softmax(C))
    at = InducingPairs(np.random.default_rng(3).normal(size=(6, 2)), CHOSEN.inputs, CHOSEN.classes)
    at = replace(at, inputs=np.array([0, 1, 1, 2, 3, 4, 5, 5]), classes=np.array([0, 1, 2, 2, 0, 1, 0, 2]))
    o = replace(base, design=replace(at, move=True))
    assert len(o.theta) == len(base.theta) + 12 == len(o.names) == len(o.bounds)
    found = o.evaluate(o.theta, tol=0.0)
    assert_allclose(found.gradient, numeric(lambda t: o.evaluate(t, tol=0.0).value, o.theta), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_with_all_rows_it_is_the_full_model(name):
    """Including the noise of the kernel: an inducing variable at a row is that row's latent value."""
    base = objective(KERNELS[name])
    everything = InducingSet.empty().with_pairs(np.repeat(np.arange(22), C), np.tile(np.arange(C), 22))
    sparse = replace(base, design=InducingPairs.at_rows(base.X, everything)).evaluate(base.theta, tol=0.0)
    full = replace(base, engine=VariationalMNL(tol=1e-11)).evaluate(base.theta, tol=0.0)
    assert_allclose(sparse.value, full.value, atol=1e-5)  # jitter
    assert_allclose(sparse.gradient, full.gradient, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", KERNELS)
def test_rows_on_demand_are_the_same(name):
    X, _ = linear_classes(22, C)
    lazily = row_covariance(KERNELS[name], X, C).inducing(CHOSEN)
    at_once = inducing_covariance(KERNELS[name], X, InducingPairs.at_rows(X, CHOSEN))
    for part in ("uu", "fu", "diag"):
        a, b = getattr(lazily, part), getattr(at_once, part)
        assert_allclose(getattr(a, "inputs", a), getattr(b, "inputs", b), atol=1e-12)
        if hasattr(a, "classes"):
            assert_allclose(a.classes, b.classes)


def best_of_runs(search):
    runs = {}
    for step in search.history:
        if not step.message:
            runs[step.run] = max(runs.get(step.run, -np.inf), step.objective)
    return list(runs.values())


def test_the_objective_climbs_as_the_set_grows():
    base = objective(RBF(1.0, 1.0), SparseVariationalMNL(inducing=24, batch=4), Softmax(C), n=60)
    search = maximise_inducing(base)
    climbs = best_of_runs(search)
    assert len(climbs) == 6
    assert np.all(np.diff(climbs) > -1e-6)  # intermediate evaluations are accurate to about tol² = 1e-8
    assert_allclose(search.fit.log_evidence, search.best.value, atol=1e-6)
    assert len(search.fit.chosen) == 24
    assert search.best.fit is search.fit
    assert_allclose(search.at.Z, base.X[search.fit.rows])
    assert not search.problem
    slope = replace(base, design=search.at).evaluate(search.best.theta, tol=1e-9).gradient
    assert np.max(np.abs(slope)) < 0.05  # STEEP_SLOPE of learning.run
    # the engine with the same kernel and set gives the same result
    K = row_covariance(search.best.kernel, base.X, C)
    again = base.engine.fit(K, base.y, Softmax(C), start=search.fit)
    assert_allclose(again.log_evidence, search.fit.log_evidence, atol=1e-7)


def test_learning_comes_near_the_full_model():
    base = objective(RBF(1.0, 1.0), VariationalMNL(), Softmax(C), n=60)
    full = maximise(base, [base.theta]).best
    sparse = maximise_inducing(replace(base, engine=SparseVariationalMNL(inducing=60)))
    assert full.value - 0.5 < sparse.best.value <= full.value + 1e-4
    assert_allclose(sparse.best.theta, full.theta, atol=0.5)
    fixed = maximise_inducing(replace(base, engine=SparseVariationalMNL(inducing=60)), start=full.theta, max_iter=0)
    assert_allclose(fixed.best.theta, full.theta)
    assert fixed.best.value <= full.value + 1e-6
    assert len(fixed.fit.chosen) == 60


def test_moving_inducing_inputs_helps():
    engines = [SparseVariationalMNL(inducing=12, selection="k-means", move=move) for move in (False, True)]
    still, moved = (maximise_inducing(objective(RBF(1.0, 1.0), e, Softmax(C), n=60)) for e in engines)
    assert moved.best.value > still.best.value + 0.1
    assert moved.fit.chosen is None
    assert not np.allclose(moved.at.Z, still.at.Z)
    assert moved.best.theta.shape == still.best.theta.shape == (2,)
    again = replace(objective(RBF(1.0, 1.0), engines[1], Softmax(C), n=60), design=moved.at).evaluate(moved.best.theta)
    assert_allclose(again.value, moved.best.value, atol=1e-6)
    kept = maximise_inducing(objective(RBF(1.0, 1.0), engines[1], Softmax(C), n=60), max_iter=0)
    assert_allclose(kept.at.Z, still.at.Z)


def test_class_covariance_is_learned():
    kernel = Correlated(RBF(1.0, 3.0), ClassCovariance(C, "diagonal"))
    search = maximise_inducing(objective(kernel, SparseVariationalMNL(inducing=15), Softmax(C), n=60))
    plain = maximise_inducing(objective(kernel.fix("classes"), SparseVariationalMNL(inducing=15), Softmax(C), n=60))
    assert search.best.value >= plain.best.value - 0.3  # the chosen sets differ
    assert not np.allclose(search.best.kernel.classes.matrix, np.eye(C), atol=1e-2)


def test_k_means():
    X, _ = linear_classes(50, C)
    at = k_means(X, C, 14)
    assert at.Z.shape == (4, 2)
    assert len(at.inputs) == 12
    distances = np.linalg.norm(X[:, None] - at.Z, axis=2)
    nearest = distances.argmin(1)
    for j in range(4):  # each centre is the mean of its rows
        assert_allclose(at.Z[j], X[nearest == j].mean(0), atol=1e-6)
    assert_allclose(k_means(X, C, 14).Z, at.Z)
    with pytest.raises(ValueError, match="must be at least the number of classes, 3"):
        k_means(X, C, 2)
    with pytest.raises(ValueError, match="only 1 distinct rows"):
        k_means(np.ones((9, 2)), C, 6)


def test_bad_starts_raise():
    base = objective(RBF(1.0, 1.0), SparseVariationalMNL(inducing=200), Softmax(C))
    with pytest.raises(ValueError, match="more than the 22 × 3"):
        maximise_inducing(base)
    with pytest.raises(ValueError, match="Rescale the inputs"):
        maximise_inducing(replace(base, X=np.full_like(base.X, 1e200), engine=SparseVariationalMNL(inducing=5)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["iris", "wine", "new_thyroid"])
def test_on_data(name):
    """Variables at twenty inputs lose little of the full model's evidence, and active selection less than random."""
    folder = Path(os.environ.get("GPCLASS_DATA") or "nowhere")
    if name == "new_thyroid" and not (folder / f"{name}.npz").exists():
        pytest.skip(f"needs {name}.npz in the folder named by GPCLASS_DATA")
    found = datasets.load(name)
    X, labels, _, _ = found.split(0)
    X = (X - X.mean(0)) / X.std(0)
    y = np.array([found.class_names.index(label) for label in labels])
    kernel = RBF(np.sqrt(X.shape[1]), 4.0)
    base = Objective(X, y, kernel, Softmax(C), VariationalMNL(), resolve_priors(None, kernel.names))
    full = maximise(base, [base.theta]).best.value
    active, random = (
        maximise_inducing(replace(base, engine=SparseVariationalMNL(inducing=60, selection=kind))).best.value
        for kind in ("active", "random")
    )
    assert full - 1.5 < active <= full + 1e-3
    assert random < active
