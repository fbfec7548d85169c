"""The scan over lengthscales: the search finds the global maximum."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from gpclass import GPClassifier, GPRegressor
from gpclass.engines.observations import Observed
from gpclass.inference import EP, NestedEP
from gpclass.kernels import RBF, ClassCovariance, Correlated, Linear, Matern32, PerClass, Periodic, Polynomial, White
from gpclass.learning import Objective, learn, log_prior, resolve_priors
from gpclass.learning.optimise import Start, maximise
from gpclass.learning.priors import Custom, Flat
from gpclass.learning.scan import SCANNED_VALUES, on_few_rows, scanned, scanned_starts, varying_lengthscales
from gpclass.likelihoods import MultinomialProbit, OneAgainstRest, Probit, Softmax
from gpclass.sampling import HMC
from gpclass.sparse import IVM, SVGP, ScalableEP, SparseVariationalMNL

NEAR = 0.5  # nats below the best of a fine grid of starts: searches stop within 1e-2 of a maximum


def wave(periods, n=200, n_classes=2):
    X = np.random.default_rng(periods).random((n, 1))
    return X, np.floor(n_classes * (periods * X[:, 0] % 1)).astype(int)


def chessboard(fields=6, n=400):
    X = np.random.default_rng(0).random((n, 2))
    return X, np.floor(fields * X).sum(1).astype(int) % 2


def problem(X, y, engine, kernel=None, priors="weak"):
    likelihood = MultinomialProbit(int(y.max()) + 1) if y.max() > 1 else Probit()
    kernel = RBF(0.5, 4.0) if kernel is None else kernel
    resolved = resolve_priors(priors, [*kernel.names, *likelihood.names], np.std(X, axis=0))
    return Objective(X, likelihood.class_targets[y], kernel, likelihood, engine, resolved)


def end(objective, start=None, scan=True):
    """The objective at the end of learning, from a converged fit."""
    learned = learn(objective, [objective.theta if start is None else start], 100, scan=scan)
    return learned.posterior.log_evidence + log_prior(learned.theta, objective.priors)[0]


def best_of_grid(objective):
    """The best result of plain searches from a fine grid of lengthscales."""
    ends = []
    for lengthscale in np.geomspace(0.004, 1.0, 7):
        start = objective.theta.copy()
        start[0] = np.log(lengthscale)
        ends.append(end(objective, start, scan=False))
    return max(ends)


PROBLEMS = {
    "wave 2, EP": (wave(2), EP()),
    "wave 6, EP": (wave(6), EP()),
    "wave 24, EP": (wave(24), EP()),
    "chessboard, EP": (chessboard(5, 250), EP()),
    "wave 5, nested EP": (wave(5, 120, 3), NestedEP()),
    "wave 4, IVM": (wave(4, 100), IVM(active=80)),
    "wave 5, ScalableEP": (wave(5, 150), ScalableEP(n_inducing=40, learn_inputs=False)),
}


SLOW = "wave 4, IVM", "chessboard, EP", "wave 5, nested EP"


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in PROBLEMS])
def test_the_search_ends_at_the_best_of_a_fine_grid_of_starts(name):
    (X, y), engine = PROBLEMS[name]
    objective = problem(X, y, engine)
    value = end(objective)
    assert value > best_of_grid(objective) - NEAR
    if name not in ("wave 2, EP", "wave 5, ScalableEP"):  # a plain search fails on the other problems
        assert value > end(objective, scan=False) + 10


def test_structure_that_few_rows_cannot_show_is_found_on_more_rows():
    objective = problem(*wave(60, n=600), EP())  # of SCANNED_VALUES rows, three fall on a period
    value = end(objective)
    short = np.log([0.004, 4.0])
    assert value > end(objective, short, scan=False) - NEAR
    assert value > end(objective, scan=False) + 50


@pytest.mark.quick_cases("5")
@pytest.mark.parametrize("seed", [0, 5, 7, 9])
def test_the_scan_ends_no_lower_than_the_plain_search(seed):
    # with seeds 0 and 7 the labels of few rows look like noise, and a single lengthscale would be long
    rng = np.random.default_rng(seed)
    D = int(rng.integers(1, 7))
    X, W = rng.normal(size=(150, D)), rng.normal(size=(D, 3)) * rng.choice([0.3, 1.0, 5.0])
    y = (np.sin(X @ W).sum(1) + 0.5 * rng.normal(size=150) > 0).astype(int)
    for kernel in (RBF(2.0, 4.0), RBF([2.0] * D, 4.0), Matern32(2.0, 4.0) + Linear()):
        objective = problem(X, y, EP(), kernel)
        assert end(objective) > end(objective, scan=False) - NEAR, repr(kernel)


@pytest.mark.parametrize(
    "inference", ["svgp", "scalable-ep", "ivm", pytest.param("sparse-mnl", marks=pytest.mark.slow), "laplace"]
)
def test_the_classifier_learns_a_wave_with_every_design(inference):
    X, y = wave(5, 300, 3) if inference == "sparse-mnl" else wave(5, 300)
    engine = {
        "svgp": SVGP(n_inducing=40, search="minibatches", epochs=60),
        "scalable-ep": ScalableEP(n_inducing=40, search="minibatches", epochs=20),
        "sparse-mnl": SparseVariationalMNL(inducing=80),
    }.get(inference, inference)
    X_test, y_test = wave(5, 1000, int(y.max()) + 1)
    assert GPClassifier(inference=engine, random_state=0).fit(X, y).score(X_test, y_test) > 0.9


def test_a_regressor_learns_a_fast_wave():
    X = np.random.default_rng(0).random((150, 1))
    model = GPRegressor(random_state=0).fit(X[:100], np.sin(50 * X[:100, 0]))
    assert model.score(X[100:], np.sin(50 * X[100:, 0])) > 0.99


def test_the_result_does_not_depend_on_the_seed():
    X, y = chessboard(5, 250)
    thetas = [GPClassifier(random_state=seed).fit(X, y).kernel_.theta for seed in (0, 1)]
    assert_array_equal(*thetas)


# what is scanned ------------------------------------------------------------------------------------------------------


def test_only_lengthscales_of_distances_are_scanned():
    kernel = RBF([1.0, 2.0]) + Linear([1.0, 1.0]) + Polynomial() + Matern32() * Linear() + White() + Periodic()
    chosen = [n for n, m in zip(kernel.names, varying_lengthscales(kernel), strict=True) if m]
    assert chosen == ["rbf.lengthscale[0]", "rbf.lengthscale[1]", "matern32.lengthscale", "periodic.lengthscale"]
    per_class = PerClass(RBF(), Linear(), RBF())
    assert [per_class.names[i] for i in np.flatnonzero(varying_lengthscales(per_class))] == [
        "class0.lengthscale",
        "class2.lengthscale",
    ]
    correlated = Correlated(RBF(), ClassCovariance(3))
    assert_array_equal(np.flatnonzero(varying_lengthscales(correlated)), [correlated.names.index("lengthscale")])


def test_a_fixed_lengthscale_is_not_scanned():
    objective = problem(*wave(6), EP(), RBF(0.5, 4.0).fix("lengthscale"))
    (start,) = scanned(objective, objective.theta)
    assert_array_equal(start, objective.theta)


def test_bounds_hold():
    objective = problem(*wave(6), EP(), RBF(0.5, 4.0, bounds={"lengthscale": (0.1, 1.0)}))
    for start in scanned(objective, objective.theta):
        assert np.all(start >= objective.bounds[:, 0])
        assert np.all(start <= objective.bounds[:, 1])


def test_the_ratios_of_lengthscales_are_kept():
    X, y = wave(6)
    X = np.column_stack([X, 100 * X])
    objective = problem(X, y, EP(), RBF([0.5, 50.0], 4.0))
    (start, *_) = scanned(objective, objective.theta)
    assert start[0] < np.log(0.1)
    assert start[1] - start[0] == pytest.approx(np.log(100), abs=1e-9)


def test_a_warm_start_is_not_scanned():
    X, y = wave(6)
    with pytest.warns(ConvergenceWarning, match="guessing"):
        clf = GPClassifier(RBF(0.5, 4.0), optimizer=None, warm_start=True).fit(X, y)
    clf.optimizer = "lbfgs"
    with pytest.warns(ConvergenceWarning, match="guessing"):
        clf.fit(X, y)
    assert clf.log_evidence_ < -130  # a search from the given lengthscale, which misses the maximum
    clf.kernel = RBF(0.6, 4.0)
    assert clf.fit(X, y).log_evidence_ > -60  # a different kernel is scanned


@pytest.mark.parametrize(
    ("likelihood", "engine"),
    [
        (Probit(), IVM()),
        (MultinomialProbit(3), ScalableEP()),
        (Softmax(3), SparseVariationalMNL()),
        (OneAgainstRest(3), ScalableEP()),
    ],
)
def test_every_design_is_scanned_on_few_rows(likelihood, engine):
    X = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    y = likelihood.class_targets[np.arange(500) % len(likelihood.class_targets)]
    few = on_few_rows(Objective(X, y, RBF(), likelihood, engine, []), SCANNED_VALUES)
    assert len(few.y) == SCANNED_VALUES
    assert np.isfinite(few.fit(few.theta).value)


def test_equal_rows_are_scanned_as_repeated_ones():
    """A sampler shares latent values between equal rows; nested EP, which scans for it, needs one for each observation."""
    rng = np.random.default_rng(0)
    X, place = rng.normal(size=(12, 1)), np.repeat(np.arange(12), 3)
    y = np.digitize(X[place, 0] + 0.5 * rng.normal(size=36), [-0.5, 0.5])
    kernel, likelihood, sampler = RBF(1.0, 4.0), MultinomialProbit(3), HMC(sample_hyper=True)
    priors = resolve_priors("weak", kernel.names)
    shared = Objective(X, Observed(y, np.ones(36), place), kernel, likelihood, sampler, priors)
    repeated = Objective(X[place], y, kernel, likelihood, sampler, priors)
    assert isinstance(on_few_rows(shared, 100).engine, NestedEP)
    for one, other in zip(*(scanned(objective, objective.theta) for objective in (shared, repeated)), strict=True):
        assert_allclose(one, other, rtol=1e-12)


# curvature --------------------------------------------------------------------------------------------------------------


def several_columns(n, D, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return X, np.argmax(X[:, :3] + 0.5 * rng.normal(size=(n, 3)), axis=1)


def test_the_metric_maps_differences_of_slopes_along_the_line_to_the_step(monkeypatch):
    monkeypatch.setattr("gpclass.learning.scan.SCAN_TOL", 1e-6)
    objective = problem(*several_columns(90, 5, 0), NestedEP(), RBF([4.0] * 5, 4.0))  # the best of its line
    ((_, metric, _),) = scanned_starts(objective, objective.theta)
    step = np.log(2) * varying_lengthscales(objective.kernel)
    drop = objective.evaluate(objective.theta - step).gradient - objective.evaluate(objective.theta + step).gradient
    assert_allclose(metric @ drop, 2 * step, atol=1e-4)  # slopes have the error of posteriors that converge to 1e-6
    assert np.all(np.linalg.eigvalsh(metric) > 0)


def test_the_start_is_a_first_step_uphill():
    for seed in range(3):
        objective = problem(*several_columns(90, 5, seed), NestedEP(), RBF([2.0] * 5, 4.0))
        (start,) = scanned_starts(objective, objective.theta)
        line = objective.theta + np.log(2) * np.outer(np.arange(-3, 4), varying_lengthscales(objective.kernel))
        assert objective.evaluate(start.points[0]).value > max(objective.evaluate(point).value for point in line)
        assert np.max(np.abs(start.step)) <= 1 + 1e-12


def test_the_metric_saves_evaluations():
    counts = []
    for seed in range(4):
        objective = problem(*several_columns(80, 8, seed), NestedEP(), Matern32([4.0] * 8, 4.0))
        ((theta, metric, _),) = scanned_starts(objective, objective.theta)
        plain, begun = maximise(objective, [theta]), maximise(objective, [Start(theta, metric)])
        assert begun.best.value == pytest.approx(plain.best.value, abs=1e-3)  # what searches may leave
        counts.append([len(plain.history), len(begun.history)])
    plain, begun = np.sum(counts, axis=0)
    assert begun < 0.9 * plain  # 0.65 on real tables, whose variances are larger at the end


def test_a_first_step_that_cannot_be_evaluated_is_not_taken():
    X, y = several_columns(60, 3, 0)
    bounded = Custom(lambda theta: (np.where(theta < 1.0, 0.0, -np.inf), np.zeros_like(theta)))
    objective = replace(problem(X, y, NestedEP(), RBF(2.0, 2.5)), priors=[Flat(), bounded])
    (start,) = scanned_starts(objective, objective.theta)
    assert (start.theta + start.step)[1] > 1.0
    assert learn(objective, [objective.theta], 100).theta[1] < 1.0


def test_without_slopes_there_is_no_metric():
    class Flat(Objective):
        def with_gradient(self, found):
            raise FloatingPointError("no slopes")

    made = problem(*wave(6), EP())
    objective = Flat(made.X, made.y, made.kernel, made.likelihood, made.engine, made.priors)
    assert scanned_starts(objective, objective.theta)[0].metric is None
