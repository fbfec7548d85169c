"""Criteria of active learning against brute force, and the rows that `suggest` chooses by them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import entr
from sklearn.datasets import load_iris, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.assess import acquisition, suggest
from gpclass.assess.active import CRITERIA, mutual_information
from gpclass.kernels import RBF
from gpclass.likelihoods import Heaviside, Logit, MultinomialProbit, Probit, RobustMax, Softmax

MEANS = np.array([-30.0, -4.0, -0.5, 0.0, 0.2, 1.0, 3.0, 12.0])
VARIANCES = np.array([4.0, 0.01, 1.0, 9.0, 400.0, 1e-6, 2.0, 30.0])


def entropy(p):
    return entr(p) + entr(1 - p)


def on_a_fine_grid(likelihood, mean, var):
    """H[E p] - E[H p] by a plain sum over 400,001 points: for smooth functions this is exact to 1e-9 and better."""
    z = np.linspace(-10, 10, 400_001)
    weights = np.exp(-0.5 * z**2)
    weights /= weights.sum()
    p = np.exp(likelihood.log_prob_value(1.0, mean + np.sqrt(var) * z))
    return entropy(weights @ p) - weights @ entropy(p)


@pytest.mark.parametrize("likelihood", [Probit(), Logit(), Probit(bias=0.7), Logit(bias=-1.5)], ids=str)
def test_bald_of_two_classes_is_the_mutual_information(likelihood):
    wanted = [on_a_fine_grid(likelihood, m, v) for m, v in zip(MEANS, VARIANCES, strict=True)]
    assert_allclose(mutual_information(likelihood, MEANS, VARIANCES), wanted, atol=1e-8)


def test_bald_of_a_step_is_what_noise_leaves():
    likelihood = Heaviside(0.05)
    f = MEANS[:, None] + np.sqrt(VARIANCES)[:, None] * np.random.default_rng(0).standard_normal(200_000)
    p = np.where(f > 0, 0.95, 0.05)
    wanted = entropy(p.mean(1)) - entropy(p).mean(1)
    # 200,000 draws of a coin: a standard error of 0.001 in p, times a slope of the entropy of log 19 at most
    assert_allclose(mutual_information(likelihood, MEANS, VARIANCES), wanted, atol=0.01)


def gaussians(C, rng, m=5):
    root = rng.normal(size=(m, C, C))
    return rng.normal(0, 2, (m, C)), 3 * root @ np.swapaxes(root, 1, 2) / C + 0.3 * np.eye(C)


@pytest.mark.parametrize("likelihood", [Softmax(3), MultinomialProbit(3), RobustMax(3), Softmax(5)], ids=str)
def test_bald_of_several_classes_against_draws(likelihood):
    rng = np.random.default_rng(1)
    mean, cov = gaussians(likelihood.n_latents, rng)
    found = mutual_information(likelihood, mean, cov)
    for m, S, value in zip(mean, cov, found, strict=True):
        p = likelihood.class_probabilities(rng.multivariate_normal(m, S, 40_000))
        wanted = entr(p.mean(0)).sum() - entr(p).sum(1).mean()
        # the rule of 1024 points is good to 0.004 for smooth likelihoods, and draws to as much; robust-max has steps
        assert abs(value - wanted) < (0.02 if isinstance(likelihood, RobustMax) else 0.008)
        assert 0 <= value <= np.log(likelihood.n_latents)


def test_variances_may_stand_for_a_diagonal():
    mean, var = np.array([[0.0, 1.0, -1.0]]), np.array([[1.0, 2.0, 0.5]])
    full = mutual_information(Softmax(3), mean, var[:, :, None] * np.eye(3))
    assert_allclose(mutual_information(Softmax(3), mean, var), full)


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(60, noise=0.2, random_state=0)
    return GPClassifier(kernel=RBF(0.7, 9.0), optimizer=None, calibrate=None).fit(X, np.array(["no", "yes"])[y]), X


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), GPClassifier(kernel=RBF(2.0, 9.0), optimizer=None, calibrate=None))
    return model.fit(X[::6], y[::6]), X


def test_criteria_are_what_they_say(moons, iris):
    for model, X in (moons, iris):
        p = model.predict_proba(X)
        assert_allclose(acquisition(model, X, "entropy"), entr(p).sum(1))
        top = np.sort(p, axis=1)
        assert_allclose(acquisition(model, X, "margin"), top[:, -2] - top[:, -1])
        bald, both = acquisition(model, X, "bald"), acquisition(model, X, "entropy")
        assert np.all(bald >= 0)
        assert np.all(bald <= both + 0.01)  # at most the entropy of a label; quadratures differ by less than 0.01
    clf, X = moons
    assert_allclose(acquisition(clf, X, "variance"), clf.latent(X)[1])
    model, X = iris
    cov = model[-1].latent(model[0].transform(X))[1]
    H = np.eye(3) - 1 / 3
    assert_allclose(acquisition(model, X, "variance"), np.trace(H @ cov @ H, axis1=1, axis2=2))


def test_bald_tells_ignorance_from_noise():
    """Among many labels of both classes the next one is uncertain but not informative; far away it is both."""
    X = np.concatenate([np.zeros((40, 1)), np.ones((5, 1))])
    y = np.concatenate([np.tile([0, 1], 20), np.ones(5, int)])
    clf = GPClassifier(kernel=RBF(1.0, 4.0), optimizer=None).fit(X, y)
    pool = np.array([[0.0], [8.0]])
    assert suggest(clf, pool, 1).index[0] == 1
    noisy, unknown = acquisition(clf, pool, "bald")
    assert noisy < 0.1 * unknown
    assert_allclose(acquisition(clf, pool, "entropy"), np.log(2), atol=0.02)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_best_come_first_and_the_same_every_time(moons, criterion):
    clf, X = moons
    chosen = suggest(clf, X, 7, criterion).index
    scores = acquisition(clf, X, criterion)
    assert_array_equal(chosen, np.argsort(-scores, kind="stable")[:7])
    assert_array_equal(chosen, suggest(clf, X, 7, criterion).index)


def test_copies_come_last_and_ties_in_order(moons):
    clf, X = moons
    pool = np.concatenate([X[:4], X[:4], X[:4]])
    chosen = suggest(clf, pool, len(pool)).index.to_numpy()
    assert sorted(chosen[:4]) == [0, 1, 2, 3]  # each input once, then again
    assert_array_equal(chosen % 4, np.concatenate([chosen[:4], np.repeat(chosen[:4], 2)]))


def test_pipelines_and_frames(iris):
    pd = pytest.importorskip("pandas")
    model, X = iris
    plain = suggest(model, X, 5)
    frame = pd.DataFrame(X, columns=load_iris().feature_names)
    with_names = make_pipeline(StandardScaler(), GPClassifier(kernel=RBF(2.0, 9.0), optimizer=None, calibrate=None))
    with_names.fit(frame.iloc[::6], load_iris().target[::6])
    assert_array_equal(suggest(with_names, frame, 5).index, plain.index)


def test_asking_helps():
    """Twenty labels chosen by BALD give fewer errors than the first twenty rows of a shuffled pool."""
    X, y = make_moons(400, noise=0.1, random_state=3)
    known = [int(np.flatnonzero(y == c)[0]) for c in (0, 1)]
    clf = GPClassifier(kernel=RBF(0.6, 25.0), optimizer=None)
    for _ in range(20):
        known.append(int(suggest(clf.fit(X[known], y[known]), X, 1).index[0]))
    asked = clf.fit(X[known], y[known]).score(X, y)
    others = (np.r_[known[:2], start : start + 20] for start in range(0, 100, 20))
    by_chance = [clf.fit(X[rows], y[rows]).score(X, y) for rows in others]
    assert asked > np.mean(by_chance)
    assert asked > 0.97


def test_errors(moons):
    clf, X = moons
    with pytest.raises(ValueError, match="criterion must be one of 'bald', 'entropy'"):
        suggest(clf, X, criterion="random")
    for n in (0, 61, 2.5, -1):
        with pytest.raises(ValueError, match="n must be an integer from 1 to the number of pool rows, 60"):
            suggest(clf, X, n)
    with pytest.raises(ValueError, match="the pool is empty"):
        suggest(clf, X[:0])
    with pytest.raises(TypeError, match="ends in LogisticRegression"):
        suggest(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, X[:, 0] > 0), X)
    with pytest.raises(ValueError, match="not fitted"):
        suggest(GPClassifier(), X)
    with pytest.raises(ValueError, match="features"):
        suggest(clf, X[:, :1], 3)
