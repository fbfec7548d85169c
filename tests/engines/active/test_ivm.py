"""The informative vector machine with one latent function."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from gpclass.engines.active.scores import score
from gpclass.engines.active.selection import select
from gpclass.gaussian import MatrixColumns
from gpclass.inference import EP
from gpclass.kernels import RBF
from gpclass.likelihoods import Gaussian, Heaviside, Logit, Probit
from gpclass.sparse import IVM

n = 70


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    f = 2 * X[:, 0] - X[:, 1] ** 2 + 1
    y = np.where(f + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    K = RBF(1.0, 3.0)(X)
    K.setflags(write=False)
    return K, y, f + 0.3 * rng.normal(size=n)


def slow_ivm(K, y, likelihood, d, kind="information", threshold=1e-10):
    """Algorithm 1 with argmin, dense covariances and site parameters as in B.1: slow but obviously correct."""
    h, A, order, sites, scores = np.zeros(len(y)), K.copy(), [], [], []
    for _ in range(d):
        a = np.diagonal(A)
        _, alpha, minus_nu = likelihood.tilted_moments(y, h, a)
        nu = -minus_nu
        new_h, new_a = h + a * alpha, a * (1 - a * nu)
        pi = 1 / new_a - 1 / a
        m = 1 + a * pi
        delta = -0.5 * (np.log(m) + 1 / m + (new_h - h) ** 2 / a - 1) if kind == "information" else 0.5 * np.log(new_a / a)
        delta[order] = np.inf
        delta[~(pi * a > threshold)] = np.inf
        i = int(np.argmin(np.round(delta, 9)))  # equal up to rounding: the first one
        if delta[i] == np.inf:
            break
        b = new_h[i] / new_a[i] - h[i] / a[i]
        column = A[:, i].copy()
        h = h + (b - pi[i] * h[i]) / (1 + pi[i] * column[i]) * column
        A = A - pi[i] / (1 + pi[i] * column[i]) * np.outer(column, column)
        order.append(i)
        sites.append((pi[i], b))
        scores.append(delta[i])
    return np.array(order), np.array(sites), np.array(scores), h, np.diagonal(A)


LIKELIHOODS = [Probit(), Probit(bias=0.7), Logit(bias=-0.3), Heaviside(0.1)]


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
@pytest.mark.parametrize("kind", ["information", "entropy"])
def test_against_the_algorithm_written_out(problem, likelihood, kind):
    K, y, _ = problem
    fit = IVM(active=25, score=kind).fit(K, y, likelihood)
    order, sites, scores, h, a = slow_ivm(K, y, likelihood, 25, kind)
    assert fit.active.tolist() == order.tolist()
    assert_allclose(fit.scores, scores, rtol=1e-6)
    assert_allclose(fit.sites.tau, sites[:, 0], rtol=1e-8)  # differences of reciprocals in the slow version
    assert_allclose(fit.sites.nu, sites[:, 1], rtol=1e-6, atol=1e-8)
    assert_allclose(fit.mean, h, atol=1e-9)
    assert_allclose(fit.var, a, atol=1e-9)
    assert fit.converged


@pytest.mark.parametrize("likelihood", [Probit(), Logit(bias=0.4), Heaviside(0.0)], ids=repr)
def test_all_rows_active_and_swept_is_ep(problem, likelihood):
    K, y, _ = problem
    tol = 1e-8
    fit, ep = IVM(active=n, sweeps=200, tol=tol).fit(K, y, likelihood), EP(tol=tol).fit(K, y, likelihood)
    assert fit.converged
    assert sorted(fit.active) == list(range(n))
    assert fit.log_evidence == pytest.approx(ep.log_evidence, abs=1e-7)
    assert_allclose(fit.mean, ep.mean, atol=1e-6)  # 100 × tol
    assert_allclose(fit.var, ep.var, atol=1e-6)
    assert_allclose(fit.loo(), ep.loo(), atol=1e-5)
    if not isinstance(likelihood, Heaviside):  # this likelihood has no expected logarithm
        assert fit.jensen_bound() == pytest.approx(ep.jensen_bound(), abs=1e-5)


def test_gaussian_noise_is_exact_regression_on_the_active_set(problem):
    K, _, y = problem
    fit = IVM(active=20).fit(K, y, Gaussian(0.2))
    I = fit.active
    inverse = np.linalg.inv(K[np.ix_(I, I)] + 0.2 * np.eye(20))
    mean, var = fit.predict(K[I], np.diagonal(K))
    assert_allclose(mean, K[:, I] @ inverse @ y[I], atol=1e-10)
    assert_allclose(var, np.diagonal(K - K[:, I] @ inverse @ K[I]), atol=1e-10)
    assert_allclose(fit.mean, mean, atol=1e-10)
    # (11): the evidence of the active rows, times the predictive probabilities of the others
    others = np.setdiff1d(np.arange(n), I)
    active = multivariate_normal.logpdf(y[I], cov=K[np.ix_(I, I)] + 0.2 * np.eye(20))
    rest = np.sum(Gaussian(0.2).log_predictive(y[others], mean[others], var[others]))
    assert fit.log_evidence == pytest.approx(active + rest, abs=1e-9)
    swept = IVM(active=20, sweeps=3).fit(K, y, Gaussian(0.2))
    assert_allclose(swept.mean, mean, atol=1e-9)  # sites of Gaussian noise are exact after one visit


def test_evidence_is_ep_s_formula_over_all_rows(problem):
    """Eq. 3 from scratch: log Z_i of every row under its cavity, sites scaled, and the Gaussian integral."""
    K, y, _ = problem
    likelihood = Probit(bias=0.2)
    fit = IVM(active=15).fit(K, y, likelihood)
    I, tau, nu = fit.active, fit.sites.tau, fit.sites.nu
    V = np.linalg.inv(np.linalg.inv(K[np.ix_(I, I)]) + np.diag(tau))
    m = V @ nu
    phi = 0.5 * (np.linalg.slogdet(V)[1] - np.linalg.slogdet(K[np.ix_(I, I)])[1] + nu @ m)
    cavity_var = 1 / (1 / np.diagonal(V) - tau)
    cavity_mean = cavity_var * (m / np.diagonal(V) - nu)
    log_z = likelihood.log_predictive(y[I], cavity_mean, cavity_var)
    a = np.diagonal(V)
    log_z_site = 0.5 * (np.log(a / cavity_var) + m**2 / a - cavity_mean**2 / cavity_var)  # C.2
    others = np.setdiff1d(np.arange(n), I)
    rest = likelihood.log_predictive(y[others], fit.mean[others], fit.var[others])
    assert fit.log_evidence == pytest.approx(np.sum(log_z - log_z_site) + np.sum(rest) + phi, abs=1e-7)  # K inverted
    assert fit.jensen_bound() < fit.log_evidence


def test_most_informative_rows_beat_random_and_least_informative_ones():
    """Test error with 60 of 600 rows; the paper's algorithm 1 as printed (argmax) is no better than random choice."""
    rng = np.random.default_rng(3)
    X, Xt = rng.uniform(-2, 2, size=(600, 2)), rng.uniform(-2, 2, size=(1000, 2))

    def label(X):
        return np.where(np.sin(2 * X[:, 0]) > X[:, 1], 1.0, -1.0)

    k, y = RBF(0.7, 10.0), label(X)
    K = k(X)

    def error(rows):
        fit = EP().fit(K[np.ix_(rows, rows)], y[rows], Probit())
        return np.mean(np.sign(fit.predict(k(X[rows], Xt), k.diag(Xt))[0]) != label(Xt))

    informative = IVM(active=60).fit(K, y, Probit())
    mean, _ = informative.predict(k(X[informative.rows], Xt), k.diag(Xt))
    own = np.mean(np.sign(mean) != label(Xt))
    assert own < 0.04
    assert own < np.mean([error(rng.permutation(600)[:60]) for _ in range(5)])
    assert np.all(np.diff(informative.scores)[30:].mean() > 0)  # later rows are less informative


def test_ties_go_to_the_lowest_row_and_runs_repeat(problem):
    K, y, _ = problem
    twice = np.tile(np.arange(n), 2)
    fit = IVM(active=30).fit(K[np.ix_(twice, twice)], y[twice], Probit())
    assert fit.active[0] == 0  # all rows are equal under a stationary prior without bias
    again = IVM(active=30).fit(K[np.ix_(twice, twice)], y[twice], Probit())
    assert np.array_equal(fit.active, again.active)
    # each row comes before its copies
    first = {row % n: row for row in fit.active[::-1]}
    assert all(row < n for row in first.values())


def test_a_given_active_set_gets_its_sites_anew(problem):
    K, y, _ = problem
    fit = IVM(active=12).fit(K, y, Probit())
    same = IVM(active=12).fit(K, y, Probit(), start=fit)
    assert np.array_equal(same.active, fit.active)
    assert_allclose(same.sites.tau, fit.sites.tau, rtol=1e-10)
    assert_allclose(same.mean, fit.mean, atol=1e-10)
    other = IVM(active=12).fit(0.5 * K, y, Probit(), start=fit)
    assert np.array_equal(other.active, fit.active)
    assert not np.allclose(other.sites.tau, fit.sites.tau)
    with pytest.raises(TypeError, match="earlier fit of IVM"):
        IVM().fit(K, y, Probit(), start=EP().fit(K, y, Probit()))
    with pytest.raises(ValueError, match="not among those given"):
        IVM().fit(K[:5, :5], y[:5], Probit(), start=fit)


class CountingColumns(MatrixColumns):
    """Also record which columns were requested."""

    def __init__(self, K, rows=None):
        super().__init__(K, rows)
        self.asked = []

    def columns(self, indices, rows=None):
        self.asked.extend(np.asarray(indices).tolist())
        return super().columns(indices, rows)


def test_only_columns_of_active_rows_are_computed(problem):
    K, y, _ = problem
    covariance = CountingColumns(K)
    fit = IVM(active=10).fit(covariance, y, Probit())
    assert set(covariance.asked) == set(fit.active.tolist())
    assert_allclose(fit.mean, IVM(active=10).fit(K, y, Probit()).mean)


# memory ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3000, 3))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] > 0.2 * rng.normal(size=3000), 1.0, -1.0)
    return X, y, RBF(0.8, 4.0)


@pytest.mark.parametrize("memory", [1.5, 4.0])
def test_memory_stays_below_its_bound(large, memory):
    X, y, k = large
    from gpclass.learning import KernelColumns

    covariance = KernelColumns(k, X[:, :1])  # one input, so that rows of X take little memory
    engine = IVM(active=150, memory=memory, block=20)
    select(engine, [covariance], y, Probit(), np.random.default_rng(0))  # nothing is imported during the measurement
    tracemalloc.start()
    try:
        fit = engine.fit(covariance, y, Probit())
        peak = tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()
    assert peak < memory
    assert peak > 0.5 * memory  # otherwise the memory limit has no effect
    assert len(fit.active) == 150
    unbounded = 150 * 3000 * 8 / 2**20
    assert memory > unbounded or peak < unbounded


def test_candidates_shrink_as_the_paper_says(large):
    X, y, k = large
    from gpclass.learning import KernelColumns

    covariance = KernelColumns(k, X)
    chosen = select(IVM(active=150, memory=2.0, block=20), [covariance], y, Probit(), np.random.default_rng(0))
    whole = select(IVM(active=150), [covariance], y, Probit(), np.random.default_rng(0))
    assert len(whole.rows) == 3000
    assert 150 < len(chosen.rows) < 1500
    assert len(chosen.at) == 150
    # the marginals of the kept rows are right
    fit = IVM(active=150).fit(covariance, y, Probit(), start=chosen.at)
    assert_allclose(chosen.mean[:, 0], fit.mean[chosen.rows], atol=1e-8)
    # the steps are the same as long as all candidates fit
    same = np.flatnonzero(whole.at.rows != chosen.at.rows)[0]
    assert same >= 20


def test_evidence_means_the_same_with_and_without_a_bound(large):
    """Dropped candidates cannot be chosen any more, but their labels still count as data."""
    X, y, k = large
    from gpclass.learning import KernelColumns

    covariance = KernelColumns(k, X)
    bounded = IVM(active=60, memory=1.0, keep=0.1, block=10, random_state=1).fit(covariance, y, Probit())
    again = IVM(active=60).fit(covariance, y, Probit(), start=bounded)
    assert bounded.log_evidence == pytest.approx(again.log_evidence, abs=1e-8)
    assert_allclose(bounded.mean, again.mean, atol=1e-8)
    another = IVM(active=60, memory=1.0, keep=0.1, block=10, random_state=2).fit(covariance, y, Probit())
    assert not np.array_equal(another.active, bounded.active)  # another random subset


def test_too_little_memory_is_reported(large):
    X, y, k = large
    from gpclass.learning import KernelColumns

    with pytest.raises(MemoryError, match=r"give at least \d"):
        IVM(active=400, memory=0.5).fit(KernelColumns(k, X), y, Probit())


# bad input ------------------------------------------------------------------------------------------------------------


def test_more_rows_asked_for_than_there_are(problem):
    K, y, _ = problem
    fit = IVM(active=500).fit(K, y, Probit())
    assert sorted(fit.active) == list(range(n))


def test_rows_that_tell_nothing_end_the_selection(problem):
    K, y, _ = problem
    some = K.copy()
    some[10:] = some[:, 10:] = 0.0  # sixty rows with zero variance
    fit = IVM(active=30).fit(some, y, Probit())
    assert sorted(fit.active) == list(range(10))
    with pytest.raises(ValueError, match="no row is informative"):
        IVM(active=30).fit(0 * K, y, Probit())
    small = IVM(active=10).fit(1e-6 * K, y, Probit())
    assert small.log_evidence == pytest.approx(-n * np.log(2), abs=1e-3)


def test_threshold(problem):
    K, y, _ = problem
    strict, loose = (IVM(active=n, threshold=t).fit(K, y, Probit()) for t in (0.1, 1e-10))
    assert 0 < len(strict.active) < len(loose.active) == n


def test_errors(problem):
    K, y, _ = problem
    with pytest.raises(ValueError, match="labels must be"):
        IVM().fit(K, np.where(y > 0, np.nan, y), Probit())
    with pytest.raises(ValueError, match="finite"):
        IVM().fit(K, np.full(n, np.nan), Gaussian())
    with pytest.raises(ValueError, match=r"70 rows but y has 69"):
        IVM().fit(MatrixColumns(K), y[1:], Probit())
    with pytest.raises(ValueError, match="not finite"):
        IVM().fit(MatrixColumns(np.where(np.eye(n) > 0, np.inf, K)), y, Probit())
    with pytest.raises(TypeError, match=r"write Probit\(\)"):
        IVM().fit(MatrixColumns(K), y, Probit)
    settings = [("active", 0), ("active", 2.5), ("score", "best"), ("sweeps", -1), ("keep", 2), ("memory", 0), ("block", 0)]
    for wrong in ({name: value} for name, value in [*settings, ("strategy", "best"), ("minor", 0)]):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            IVM(**wrong)
    fit = IVM(active=5).fit(K, y, Probit())
    with pytest.raises(ValueError, match=r"Ks must be \(5, m\)"):
        fit.predict(K, np.diagonal(K))
    with pytest.raises(AttributeError, match="log_evidence"):
        fit.evidence_gradient()


def test_label_noise_keeps_precisions_positive(problem):
    K, y, _ = problem
    flipped = y.copy()
    flipped[::9] *= -1
    fit = IVM(active=n).fit(K, flipped, Heaviside(0.05))
    assert np.all(fit.sites.tau > 0)
    assert np.isfinite(fit.log_evidence)
    # rows whose site would have negative precision, or whose variance is lost to rounding, are not candidates
    var, slope = np.array([1.0, 1.0, 1.0]), np.array([2.0, -5.0, 3.0])
    assert np.array_equal(np.isinf(score("information", var, slope, np.array([-0.5, 0.3, -1.0]), 0.0)), [False, True, True])


def test_extremes(problem):
    K, y, _ = problem
    for scale in (1e-8, 1e6):
        fit = IVM(active=40).fit(scale * K, y, replace(Probit(), bias=0.1))
        assert np.isfinite(fit.log_evidence)
        assert np.all(np.isfinite(fit.mean))
        assert np.all(fit.var > 0)
