"""Difficult but valid problems are solved; invalid ones raise an error that says what is wrong."""

import dataclasses
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from gpclass.gaussian import Sites
from gpclass.inference import EP, FV, KL, TAP, VB, LabelRegression, Laplace, TAPNaive
from gpclass.kernels import RBF, Linear
from gpclass.likelihoods import Heaviside, Logit, Probit
from gpclass.numerics import NotPositiveDefinite

from .truth import data, frozen, one_variable, orthant

ENGINES = [Laplace(), EP(), EP(schedule="sequential"), TAP(), TAPNaive(), KL(), VB(), FV(), LabelRegression()]
ITERATIVE = ENGINES[:-1]
CLASSIFIERS = ITERATIVE  # engines whose evidence is that of the labels
SMOOTH = [Probit(), Logit()]


def name(engine):
    return type(engine).__name__ + ("-sequential" if getattr(engine, "schedule", "") == "sequential" else "")


def all_engines(engines=ENGINES):
    return pytest.mark.parametrize("engine", engines, ids=name)


likelihoods = pytest.mark.parametrize("likelihood", SMOOTH, ids=["probit", "logit"])


def fitted(engine, K, y, likelihood):
    """A fit without any warning, all of whose results are finite."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = engine.fit(K, y, likelihood)
        answers = [
            fit.log_evidence,
            fit.mean,
            fit.var,
            fit.alpha,
            fit.evidence_gradient(),
            fit.loo(),
            *fit.predict(K, np.diagonal(K)),
        ]
        if hasattr(likelihood, "expected_log_prob"):
            answers.append(fit.jensen_bound())
    assert fit.converged
    assert all(np.all(np.isfinite(a)) for a in answers)
    assert np.all(fit.var >= 0)
    return fit


# legal ----------------------------------------------------------------------------------------------------------


@all_engines()
@pytest.mark.parametrize("likelihood", [*SMOOTH, Heaviside(0.05)], ids=["probit", "logit", "step"])
def test_duplicate_rows(engine, likelihood):
    if not engine.serves(likelihood):
        pytest.skip("not served")
    rows = np.array([0, 0, 1, 2, 3, 3, 3, 4])
    K, y = data(5, seed=1, flips=0.0)
    fit = fitted(engine, K[np.ix_(rows, rows)], y[rows], likelihood)
    assert_allclose(fit.mean[[0, 4, 4]], fit.mean[[1, 5, 6]], atol=1e-6)  # 100 × tol; FV's ridge has a smaller effect
    assert_allclose(fit.var[[0, 4, 4]], fit.var[[1, 5, 6]], atol=1e-6)


@all_engines()
@likelihoods
def test_duplicate_rows_that_disagree(engine, likelihood):
    """Opposite labels at one input cancel."""
    K, _ = data(1, seed=1)
    fit = fitted(engine, np.tile(K, (2, 2)), np.array([1.0, -1.0]), likelihood)
    assert_allclose(fit.mean, 0.0, atol=1e-6 if engine != FV() else 1e-3)


@all_engines()
@likelihoods
def test_one_datum(engine, likelihood):
    fit = fitted(engine, np.array([[2.0]]), np.array([1.0]), likelihood)
    assert fit.mean[0] > 0
    if isinstance(engine, EP | TAP | TAPNaive | FV):  # exact, and symmetric
        assert_allclose(fit.log_evidence, -np.log(2), atol=1e-10)


@all_engines()
@likelihoods
def test_one_datum_of_each_class(engine, likelihood):
    fit = fitted(engine, np.array([[2.0, 0.5], [0.5, 2.0]]), np.array([1.0, -1.0]), likelihood)
    assert fit.mean[0] > 0
    assert_allclose(fit.mean[0], -fit.mean[1], atol=1e-7)


@all_engines()
@likelihoods
def test_one_class_only(engine, likelihood):
    K, _ = data(10, seed=2)
    fit = fitted(engine, K, np.ones(10), likelihood)
    assert np.all(fit.mean > 0)


@all_engines()
@likelihoods
def test_no_prior_variance(engine, likelihood):
    fit = fitted(engine, np.zeros((5, 5)), np.array([1.0, -1, 1, 1, -1]), likelihood)
    assert_allclose(fit.mean, 0.0, atol=1e-12)
    if engine in CLASSIFIERS:
        assert_allclose(fit.log_evidence, -5 * np.log(2), atol=1e-9)


@all_engines()
@likelihoods
def test_no_prior_variance_for_some(engine, likelihood):
    if isinstance(engine, FV):
        pytest.skip("a ridge relative to the mean variance is not small against no variance")
    K = np.diag([0.0, 0.0, 1.0, 1.0])
    y = np.array([1.0, -1, 1, 1])
    fit, rest = fitted(engine, K, y, likelihood), engine.fit(K[2:, 2:], y[2:], likelihood)
    assert_allclose(fit.mean[:2], 0.0, atol=1e-12)
    if engine in CLASSIFIERS:
        assert_allclose(fit.log_evidence, rest.log_evidence - 2 * np.log(2), atol=1e-9)


@all_engines()
@likelihoods
@pytest.mark.parametrize("scale", [1e-20, 1e-10, 1e8])
def test_extreme_scales(engine, likelihood, scale):
    K, y = data(15, seed=3, flips=0.0)
    fit = fitted(engine, scale * K, y, likelihood)
    assert fit.n_iter <= (20 if scale < 1 else 25 if isinstance(engine, EP) else 120) or isinstance(engine, LabelRegression)
    assert np.all(np.sign(fit.mean) == y) or scale < 1
    if scale < 1 and engine in CLASSIFIERS and not isinstance(engine, FV):
        assert_allclose(fit.log_evidence, -15 * np.log(2), atol=1e-7)  # of first order in the scale


@all_engines()
@likelihoods
def test_constant_covariance(engine, likelihood):
    y = np.array([1.0, 1, -1, 1, 1, -1])
    fit = fitted(engine, np.ones((6, 6)), y, likelihood)
    assert_allclose(fit.mean, np.full(6, fit.mean[0]), atol=1e-5)  # FV's ridge makes a difference of 2e-6 between the data
    if not isinstance(engine, FV | LabelRegression | TAPNaive | VB):
        assert_allclose(fit.log_evidence, one_variable(1.0, y, likelihood), atol=0.02)  # Laplace: 0.013


@all_engines([EP(), KL(), VB(), Laplace(), TAPNaive()])
def test_wide_constant_covariance(engine):
    """A constant kernel of large variance, as for an unknown intercept."""
    y = np.repeat([1.0, -1.0], (8, 4))
    fit = fitted(engine, 1e6 * np.ones((12, 12)), y, Logit())
    assert_allclose(fit.mean, np.full(12, fit.mean[0]), atol=1e-4)
    if not isinstance(engine, TAPNaive):
        # the posterior of one variable under 12 labels, its mode at the log odds log 2
        assert_allclose(fit.mean[0], np.log(2), atol=0.12)
        assert_allclose(fit.log_evidence, one_variable(1e3, y, Logit(), width=0.1), atol=0.25)


@all_engines([EP(), KL(), VB(), Laplace()])
def test_wide_covariance_with_bias(engine):
    """Far from the bias the log likelihood is linear, and only the prior limits Newton's steps."""
    y = np.repeat([1.0, -1.0], 6)
    fit = fitted(engine, 1e3 * (np.ones((12, 12)) + 1e-3 * np.eye(12)), y, Logit(-5.0))
    # a bias is a shift of the latent function, which has almost no cost under the prior
    assert_allclose(np.mean(fit.mean), 5.0, atol=0.2)


@all_engines()
def test_rank_one_covariance(engine):
    x = np.linspace(-2, 2, 10)  # not at zero, where there is no variance
    y = np.where(x > 0.3, 1.0, -1.0)
    fit = fitted(engine, np.outer(x, x), y, Probit())
    if not isinstance(engine, FV):
        assert_allclose(fit.mean, fit.mean[-1] / 2 * x, atol=1e-6)


@all_engines()
def test_arrays_in_any_layout(engine):
    K, y = data(8, seed=4)
    wanted = engine.fit(K, y, Probit())
    padded = np.zeros((16, 16))
    padded[::2, ::2] = K
    for same in (np.asfortranarray(K), K.tolist(), padded[::2, ::2], frozen(K.copy())):
        assert_allclose(engine.fit(same, y.astype(int), Probit()).mean, wanted.mean, atol=1e-12)


# illegal --------------------------------------------------------------------------------------------------------


def spoilt(i, j, value):
    K = data(6, seed=5)[0].copy()
    K[i, j] = value
    return K


Y = frozen(np.array([1.0, -1, 1, -1, 1, 1]))
GOOD = data(6, seed=5)[0]
BAD = {
    "NaN": (spoilt(0, 1, np.nan), Y, "K contains NaN or infinite entries"),
    "infinite": (spoilt(2, 2, np.inf), Y, "K contains NaN or infinite entries"),
    "not square": (GOOD[:, :3], Y, r"K must be a square matrix, but has shape \(6, 3\)"),
    "vector": (GOOD[0], Y, r"K must be a square matrix, but has shape \(6,\)"),
    "not symmetric": (spoilt(0, 1, 5.0), Y, "K is not symmetric"),
    "negative variance": (spoilt(3, 3, -1.0), Y, "negative variances"),
    "short y": (GOOD, Y[:-1], "K is 6×6 but y has 5 labels"),
    "0 and 1": (GOOD, (Y + 1) / 2, r"labels must be -1 or \+1, but y contains \[0.0, 1.0\]"),
    "column": (GOOD, Y[:, None], r"y must be one-dimensional, but has shape \(6, 1\)"),
    "NaN label": (GOOD, np.where(Y > 0, np.nan, -1), r"labels must be -1 or \+1"),
    "empty": (np.zeros((0, 0)), np.zeros(0), "K is empty"),
}


@all_engines()
@pytest.mark.parametrize("case", BAD)
def test_bad_input(engine, case):
    K, y, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        engine.fit(K, y, Probit())


@all_engines()
def test_likelihood_class(engine):
    with pytest.raises(TypeError, match=r"likelihood must be an object; write Probit\(\) instead of Probit"):
        engine.fit(GOOD, Y, Probit)


@pytest.mark.parametrize(("engine", "need"), [(KL(), "expected_log_prob"), (Laplace(), "log_prob"), (VB(), "bound")])
def test_likelihood_that_cannot_serve(engine, need):
    message = f"{type(engine).__name__} needs {need}, which Heaviside does not offer. Likelihoods that do: Logit, Probit"
    with pytest.raises(TypeError, match=message):
        engine.fit(GOOD, Y, Heaviside())


@all_engines()
def test_indefinite_covariance(engine):
    K = np.where(np.eye(6) > 0, 1.0, -0.9)  # an eigenvalue of -3.5
    with pytest.raises(NotPositiveDefinite):
        engine.fit(K, Y, Probit())


@all_engines([e for e in ENGINES if not isinstance(e, FV | LabelRegression)])
def test_start_of_another_size(engine):
    with pytest.raises(ValueError, match="start has 3 sites, but there are 6 training points"):
        engine.fit(GOOD, Y, Probit(), start=Sites(np.ones(3), np.ones(3)))


def test_start_of_another_size_for_the_factorial_method():
    with pytest.raises(ValueError, match="training points"):
        FV().fit(GOOD, Y, Probit(), start=FV().fit(GOOD[:3, :3], Y[:3], Probit()))


@all_engines([e for e in ENGINES if not isinstance(e, FV | LabelRegression)])
def test_start_without_sites(engine):
    with pytest.raises(TypeError, match="start must be"):
        engine.fit(GOOD, Y, Probit(), start=FV().fit(GOOD, Y, Probit()))


@all_engines(ITERATIVE)
@pytest.mark.parametrize(
    "settings", [{"tol": 0.0}, {"tol": np.nan}, {"damping": 0.0}, {"damping": 1.5}, {"max_iter": 0}], ids=str
)
def test_bad_settings(engine, settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must be"):
        dataclasses.replace(engine, **{"max_iter": 3, **settings}).fit(GOOD, Y, Probit())


# unfinished -----------------------------------------------------------------------------------------------------


@all_engines(ITERATIVE)
@pytest.mark.parametrize("max_iter", [1, 2])
def test_unfinished_run_warns(engine, max_iter):
    K, y = data(20, seed=6, variance=100.0)
    short = dataclasses.replace(engine, max_iter=max_iter)
    with pytest.warns(ConvergenceWarning) as caught:
        fit = short.fit(K, y, Logit())
    assert not fit.converged
    assert fit.status.change > engine.tol
    (said,) = [str(w.message) for w in caught]
    assert said.startswith(f"{type(engine).__name__} stopped after {fit.n_iter} sweeps")
    assert f"moving by {fit.status.change:.0e}" in said
    assert "raise max_iter" in said
    assert caught[0].filename == __file__  # points at the caller's line
    assert np.isfinite(fit.log_evidence)


def test_unfinished_bounds_are_bounds():
    K, y = data(8, seed=7, variance=20.0)
    truth = orthant(K, y) + 1e-4  # the oracle's own error
    for engine in (KL(max_iter=1), VB(max_iter=1)):
        with pytest.warns(ConvergenceWarning):
            assert engine.fit(K, y, Probit()).log_evidence < truth


# singular covariances -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.3, 2e3])
@pytest.mark.parametrize("y", [[1.0, -1.0], [1.0, 1, 1, -1, -1, 1, -1, -1]], ids=len)
def test_contradicting_duplicates(y, scale):
    """With equal rows α can move in the null space of K, which changes the cavities but not the mean."""
    y = np.array(y)
    K = scale * np.ones((len(y), len(y)))
    one_by_one = EP(schedule="sequential").fit(K, y, Probit())
    for engine in (EP(), TAP()):
        cold = engine.fit(K, y, Probit())
        warm = engine.fit(K, y, Probit(), start=engine.fit(10 * K, y, Probit()))
        for fit in (cold, warm):
            assert_allclose(fit.log_evidence, one_by_one.log_evidence, atol=1e-7)  # ten times tol
            assert_allclose(fit.sites.nu, one_by_one.sites.nu, atol=1e-6)


@likelihoods
@pytest.mark.parametrize("scale", [1.3, 2e3])
@pytest.mark.parametrize("y", [[1.0, -1.0], [1.0, 1, 1, -1, -1, 1, -1, -1]], ids=len)
def test_contradicting_duplicates_of_the_naive_mean_field(y, scale, likelihood):
    """Its own equations, which are not EP's: a warm start must end where a cold one ends."""
    y = np.array(y)
    K = scale * np.ones((len(y), len(y)))
    cold = fitted(TAPNaive(), K, y, likelihood)
    warm = TAPNaive().fit(K, y, likelihood, start=TAPNaive().fit(10 * K, y, likelihood))
    assert warm.converged
    assert_allclose(warm.log_evidence, cold.log_evidence, atol=1e-7)
    assert_allclose(warm.alpha, cold.alpha, atol=1e-7)
    assert_allclose(warm.sites.tau, cold.sites.tau, rtol=1e-6)


# low rank and huge: rounding of K beside what the labels say ------------------------------------------------------

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(50, 2))
OVERLAP = frozen(np.where(INPUTS[:, 0] + 0.3 * RNG.normal(size=50) > 0, 1.0, -1.0))
HUGE = [*(Linear(variance=v) for v in (1e9, 1e12, 1e14)), RBF(100.0, 1e12), RBF(1e4, 1e12)]
LOW_RANK = [e for e in ENGINES if not isinstance(e, FV)]  # its ridge is larger than rounding; see fv.py


@all_engines([Laplace(), EP(), TAP(), KL(), VB(), LabelRegression()])
@likelihoods
def test_wide_linear_kernel(engine, likelihood):
    """Two weights, determined by the data: the evidence falls as σ^-2 with the prior's width, the rest is constant."""
    small, large = (fitted(engine, v * INPUTS @ INPUTS.T, OVERLAP, likelihood) for v in (1e6, 1e10))
    assert_allclose(large.log_evidence - small.log_evidence, -np.log(1e4), atol=1e-3)  # rounding: 1e-16 × 6e10 × τ × n
    assert_allclose(large.var, small.var, rtol=6e-3)  # rounding: eps × 6e10 × τ × n is 3e-3 on some machines


@all_engines(LOW_RANK)
@likelihoods
@pytest.mark.parametrize("kernel", HUGE, ids=repr)
def test_no_silent_nonsense(engine, likelihood, kernel):
    """A converged run has plausible results; all others report that K is too large."""
    K = kernel(INPUTS)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit = engine.fit(K, OVERLAP, likelihood)
    except (NotPositiveDefinite, FloatingPointError) as error:
        assert "scale the kernel's variance down" in str(error)  # noqa: PT017
        return
    assert np.all(fit.sites.tau >= 0)
    assert np.all(fit.var >= 0)
    assert np.all(fit.posterior.cavity()[1] >= 0)
    assert np.isfinite(fit.log_evidence)
    said = [str(w.message) for w in caught]
    if fit.converged:
        assert not said
        assert fit.posterior.rounding < 1e-3
    else:
        assert len(said) == 1
        assert "scale the kernel's variance down" in said[0]


def test_label_regression_knows_when_rounding_wins():
    with pytest.raises(NotPositiveDefinite, match=r"K has entries of 1e\+14, which float64 rounds by 2e-02"):
        LabelRegression().fit(RBF(100.0, 1e14)(INPUTS), OVERLAP, Probit())
    with pytest.warns(ConvergenceWarning, match=r"LabelRegression stopped .* K has entries of 1e\+12"):
        LabelRegression().fit(RBF(100.0, 1e12)(INPUTS), OVERLAP, Probit())


@all_engines()
@likelihoods
def test_full_rank_may_be_as_wide_as_it_likes(engine, likelihood):
    K, y = data(10, seed=8, nugget=1.0, flips=0.0)
    fitted(engine, 1e12 * K, y, likelihood)


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scale", [1e100, 1e200])
@pytest.mark.parametrize(
    ("engine", "likelihood"), [(KL(max_iter=20), Probit()), (FV(max_iter=20), Probit()), (VB(max_iter=20), Logit())], ids=str
)
def test_squares_of_huge_latent_values_do_not_overflow(engine, likelihood, scale):
    """Products of α and f, and squares of means and variances, are beyond the range of floats."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(14, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=14) > 0, 1.0, -1.0)
    K = scale * np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1))
    fit = engine.fit(K, y, likelihood)
    assert all(np.all(np.isfinite(x)) for x in (fit.log_evidence, fit.mean, fit.var))
