"""GPClassifier: scikit-learn's own checks, labels, pipelines, persistence, bad input."""

import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF as SklearnRBF
from sklearn.gaussian_process.kernels import ConstantKernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpclass import GPClassifier
from gpclass.assess import nlpd
from gpclass.inference import EP, KL, Laplace
from gpclass.kernels import RBF, Linear, Matern32, Standardized, White
from gpclass.learning import Gamma, Normal, log_prior, resolve_priors
from gpclass.likelihoods import Gaussian, Heaviside, Logit, Probit
from gpclass.registry import registered
from gpclass.sampling import HMC

FEW = {"n_draws": 20, "n_warmup": 20, "n_chains": 2}  # enough for scikit-learn's checks, which are not about mixing


ENGINES = registered("engine")
ON_INDUCING_POINTS = [name for name, engine in ENGINES.items() if engine.design == "inducing inputs"]
SHORT = {
    "scalable-ep": {"search": "minibatches", "epochs": 10},
    "stochastic-ep": {"epochs": 10},
    "svgp": {"epochs": 10},
    "ivm": {"active": 40},
    "quadrature-ep": {"nodes": 4},
}
ONE_OF_EACH_PATH = ("nested-ep", "ivm", "scalable-ep")  # several classes, an active set, inducing points


@parametrize_with_checks([GPClassifier(inference="ep")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow  # it is tested below at fixed hyperparameters, which is quick
@parametrize_with_checks([GPClassifier(inference="nested-ep")])
def test_scikit_learn_checks_with_several_classes(estimator, check):
    check(estimator)


def at_fixed_hyperparameters(names):
    """Classifiers with these engines. Enough for scikit-learn's checks, which are not about learning."""
    return [GPClassifier("rbf", inference=ENGINES[name](**SHORT.get(name, {})), optimizer=None) for name in names]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(at_fixed_hyperparameters(ONE_OF_EACH_PATH))
def test_scikit_learn_checks_at_fixed_hyperparameters(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(at_fixed_hyperparameters(sorted(set(ENGINES) - {"ep", *ONE_OF_EACH_PATH})))
def test_scikit_learn_checks_of_the_other_engines(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([GPClassifier(inference=HMC(**FEW), optimizer=None)])
def test_scikit_learn_checks_of_samplers(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([GPClassifier(inference=HMC(**FEW, sample_hyper=True))])
def test_scikit_learn_checks_of_sampled_hyperparameters(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(120, noise=0.25, random_state=0)
    return X[:80], y[:80], X[80:], y[80:]


@pytest.fixture(scope="module")
def fitted(moons):
    return GPClassifier().fit(*moons[:2])


# what a fit leaves behind -------------------------------------------------------------------------------------------


def test_attributes(fitted, moons):
    assert_array_equal(fitted.classes_, [0, 1])
    assert isinstance(fitted.kernel_, Standardized)
    assert isinstance(fitted.kernel_.kernel, Matern32)
    assert isinstance(fitted.likelihood_, Probit)
    assert isinstance(fitted.inference_, EP)
    assert fitted.n_features_in_ == 2
    assert fitted.n_iter_ >= 1
    assert fitted.posterior_.converged
    assert fitted.log_evidence_ == fitted.posterior_.log_evidence
    assert fitted.log_evidence_ > -80 * np.log(2)
    assert fitted.score(*moons[2:]) >= 0.9
    assert not hasattr(fitted, "feature_names_in_")


def test_learning_improves_the_evidence(fitted, moons):
    assert fitted.log_evidence_ > GPClassifier(optimizer=None).fit(*moons[:2]).log_evidence_ + 5
    _, gradient = fitted.log_evidence(eval_gradient=True)
    slope = log_prior(fitted.kernel_.theta, resolve_priors("shrink", fitted.kernel_.names, np.ones(2)))[1]
    assert_allclose(gradient, -slope, atol=0.1)  # at the maximum of evidence times prior; the search stops at slopes of 0.1


@pytest.mark.slow_cases("stochastic-ep", "svgp")
@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_learns_moons(name, moons):
    clf = GPClassifier("rbf", inference=name, random_state=0).fit(*moons[:2])
    assert clf.score(*moons[2:]) >= 0.85
    if name in ON_INDUCING_POINTS:
        with pytest.raises(AttributeError, match="keeps no training rows"):
            clf.loo()
        return
    assert clf.loo().shape == (80, 2)
    if clf.likelihood_.n_latents == 1:
        assert clf.jensen_bound() <= 0


@pytest.mark.parametrize("name", ["auto", "laplace", "nested-ep"])
def test_several_classes(name):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    train, test = np.arange(0, 150, 3), np.arange(1, 150, 3)
    clf = GPClassifier(inference=name).fit(X[train], names[y[train]])
    p = clf.predict_proba(X[test])
    assert clf.classes_.tolist() == names.tolist()
    assert p.shape == (50, 3)
    assert clf.score(X[test], names[y[test]]) >= 0.9
    assert clf.loo().shape == (50, 3)
    assert nlpd(names[y[train]], clf.loo(), classes=names) < 0.6
    mean, cov = clf.latent(X[test])
    assert mean.shape == (50, 3)
    assert cov.shape == (50, 3, 3)
    assert clf.predict_proba_std(X[test]).shape == (50, 3)
    assert np.all(clf.predict_proba_std(X[test]) < 0.5)
    one_by_one = np.concatenate([clf.predict_proba(row[None]) for row in X[test][:5]])
    assert_allclose(one_by_one, p[:5], rtol=1e-6)
    value, slope = clf.log_evidence(eval_gradient=True)
    theta, h = clf.kernel_.theta, 1e-4
    for i, e in enumerate(np.eye(len(theta))):
        wanted = (clf.log_evidence(theta + h * e) - clf.log_evidence(theta - h * e)) / (2 * h)
        assert slope[i] == pytest.approx(wanted, abs=1e-4)
    assert value == pytest.approx(clf.log_evidence_, abs=1e-6)


def test_two_classes_through_the_engine_of_several(moons):
    kernel = RBF(1.0, 4.0)
    binary = GPClassifier(kernel, optimizer=None).fit(*moons[:2])
    several = GPClassifier(kernel, inference="nested-ep", optimizer=None).fit(*moons[:2])
    assert_allclose(several.predict_proba(moons[2]), binary.predict_proba(moons[2]), atol=1e-5)


def test_probabilities_do_not_depend_on_batches(fitted, moons):
    whole = fitted.predict_proba(moons[2])
    rows = np.concatenate([fitted.predict_proba(row[None]) for row in moons[2]])
    assert_allclose(whole, rows, rtol=1e-10)  # BLAS rounds differently for one column and many


def test_many_rows_are_predicted_in_blocks(fitted, moons):
    X = np.tile(moons[2], (60, 1))
    assert_allclose(fitted.predict_proba(X)[-40:], fitted.predict_proba(moons[2]), rtol=1e-10)


def test_log_probabilities_reach_far_into_the_tails(moons):
    clf = GPClassifier(kernel=Linear(variance=1e4), optimizer=None, inference="laplace").fit(*moons[:2])
    far = np.array([[0.0, 1e4], [0.0, -1e4]])
    log_p = clf.predict_log_proba(far)
    assert np.all(np.isfinite(log_p))
    assert log_p.argmax(1).tolist() == [0, 1]  # the moon of class 0 is the upper one


@pytest.fixture(scope="module")
def uncalibrated(moons):
    return GPClassifier(calibrate=None).fit(*moons[:2])


def test_latent_gives_the_probabilities(uncalibrated, moons):
    mean, var = uncalibrated.latent(moons[2])
    assert np.all(var > 0)
    want = uncalibrated.likelihood_.predictive(mean, var)
    assert_allclose(uncalibrated.predict_proba(moons[2])[:, 1], want, atol=1e-12)


def test_std_of_the_probability_by_sampling(uncalibrated, moons):
    mean, var = uncalibrated.latent(moons[2][:5])
    draws = mean + np.sqrt(var) * np.random.default_rng(0).normal(size=(200_000, 5))
    sampled = np.exp(Probit().log_prob(1.0, draws)[0]).std(0)
    # the sampling error of skewed distributions
    assert_allclose(uncalibrated.predict_proba_std(moons[2][:5])[:, 1], sampled, rtol=0.02)


def test_std_grows_away_from_the_data(fitted):
    near, far = fitted.predict_proba_std(np.array([[0.0, 1.0], [30.0, 30.0]]))[:, 1]
    assert far > near
    assert_allclose(fitted.predict_proba(np.array([[300.0, 300.0]])), 0.5, atol=1e-4)  # far values are compressed
    assert_allclose(fitted.predict_proba(np.array([[1e9, 1e9]])), 0.5, atol=1e-9)


def test_loo_against_refits(moons):
    X, y = moons[0][:25], moons[1][:25]
    clf = GPClassifier(kernel=RBF(1.0, 4.0), optimizer=None).fit(X, y)
    refits = np.array([
        clone(clf).fit(np.delete(X, i, 0), np.delete(y, i)).predict_proba(X[i : i + 1])[0] for i in range(len(y))
    ])  # fmt: skip
    assert_allclose(clf.loo(), refits, atol=0.02)  # EP's cavities are not exact leave-one-out posteriors


# log evidence ---------------------------------------------------------------------------------------------------------


def test_log_evidence_at_theta_and_its_gradient(moons):
    clf = GPClassifier(likelihood=Logit(learn_bias=True), inference=EP(tol=1e-10)).fit(*moons[:2])
    theta = np.array([0.3, 0.5, 1.2, -0.4])
    value, gradient = clf.log_evidence(theta, eval_gradient=True)
    assert clf.log_evidence(theta) == pytest.approx(value, abs=1e-8)
    h = 1e-4
    numeric = [(clf.log_evidence(theta + h * e) - clf.log_evidence(theta - h * e)) / (2 * h) for e in np.eye(4)]
    assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="lengthscale\\[1\\], variance, bias"):
        clf.log_evidence(theta[:2])


def test_same_laplace_as_scikit_learn(moons):
    theirs = GaussianProcessClassifier(ConstantKernel(4.0) * SklearnRBF(0.7), optimizer=None).fit(*moons[:2])
    ours = GPClassifier(
        ConstantKernel(4.0) * SklearnRBF(0.7), likelihood="logit", inference="laplace", optimizer=None, calibrate=None
    ).fit(*moons[:2])
    # scikit-learn stops Newton's method when the objective gains less than 1e-10
    assert ours.log_evidence_ == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-6)
    _value, gradient = theirs.log_marginal_likelihood(np.log([4.0, 0.7]), eval_gradient=True)
    assert_allclose(ours.log_evidence(eval_gradient=True)[1], gradient[::-1], atol=1e-4)
    # its class probabilities use a five-term approximation of the logistic, good to about 1e-3
    assert_allclose(ours.predict_proba(moons[2]), theirs.predict_proba(moons[2]), atol=2e-3)


def test_optimizer_none_keeps_the_kernel(moons):
    kernel = RBF(0.5, 3.0)
    clf = GPClassifier(kernel=kernel, optimizer=None).fit(*moons[:2])
    assert clf.kernel_ == kernel
    assert clf.history_ == []


def test_fixed_parameters_stay(moons):
    clf = GPClassifier(kernel=(RBF(0.5, 3.0) + White(0.1)).fix("rbf.variance")).fit(*moons[:2])
    assert clf.kernel_.free("rbf.variance").theta[1] == pytest.approx(np.log(3.0))
    assert len(clf.kernel_.theta) == 2


def test_bias_is_learned_for_unbalanced_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 1))
    y = rng.uniform(size=150) < 0.05  # no structure except the base rate
    clf = GPClassifier(kernel=RBF(1.0, 1e-6).fix("variance", "lengthscale"), likelihood=Probit(learn_bias=True)).fit(X, y)
    assert_allclose(clf.predict_proba([[0.0]])[0, 1], y.mean(), atol=1e-3)


# scikit-learn manners -------------------------------------------------------------------------------------------------


def test_string_labels_and_frames(moons):
    frame = pd.DataFrame(moons[0], columns=["left", "right"])
    labels = np.array(["benign", "malignant"], dtype=object)[moons[1]]
    clf = GPClassifier().fit(frame, labels)
    assert_array_equal(clf.feature_names_in_, ["left", "right"])
    assert set(clf.predict(frame)) <= {"benign", "malignant"}
    assert_allclose(clf.predict_proba(frame), GPClassifier().fit(*moons[:2]).predict_proba(moons[0]))


@pytest.mark.parametrize("labels", [(False, True), (-1, 1), (3.0, 7.0), (2**60, 2**60 + 1)])
def test_any_labels(labels, moons):
    y = np.array(labels)[moons[1]]
    assert_array_equal(GPClassifier(optimizer=None).fit(moons[0], y).classes_, np.array(labels))


def test_sample_order_does_not_matter(moons):
    order = np.random.default_rng(1).permutation(80)
    a, b = GPClassifier().fit(*moons[:2]), GPClassifier().fit(moons[0][order], moons[1][order])
    # the two runs differ by rounding, which their common path hardly magnifies
    assert_allclose(a.predict_proba(moons[2]), b.predict_proba(moons[2]), atol=1e-6)


def test_runs_repeat_bit_for_bit(moons):
    one, two = (GPClassifier(n_restarts=2, random_state=7).fit(*moons[:2]) for _ in range(2))
    assert_array_equal(one.predict_proba(moons[2]), two.predict_proba(moons[2]))
    assert_array_equal(one.kernel_.theta, two.kernel_.theta)


def test_restarts_are_no_worse(moons):
    one = GPClassifier(priors=None).fit(*moons[:2])
    many = GPClassifier(priors=None, n_restarts=3, random_state=0).fit(*moons[:2])
    assert many.log_evidence_ >= one.log_evidence_ - 1e-9


def test_pipeline_search_and_cross_validation(moons):
    X, y = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), GPClassifier())
    assert cross_val_score(pipeline, X[:150], y[:150], cv=3).mean() > 0.9
    search = GridSearchCV(GPClassifier(optimizer=None), {"kernel": [RBF(0.01), RBF(1.0, 4.0)]}, cv=3)
    assert search.fit(*moons[:2]).best_params_["kernel"] == RBF(1.0, 4.0)


@pytest.mark.parametrize("through", [pickle, joblib], ids=["pickle", "joblib"])
def test_persistence(through, fitted, moons, tmp_path):
    path = tmp_path / "model"
    if through is joblib:
        joblib.dump(fitted, path)
        again = joblib.load(path)
    else:
        again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict_proba(moons[2]), fitted.predict_proba(moons[2]))


def test_clone_keeps_objects(moons):
    clf = GPClassifier(kernel=RBF([1.0, 2.0]), likelihood=Logit(bias=0.5), inference=KL(tol=1e-6), priors=Normal(0.0, 1.0))
    copy = clone(clf)
    assert copy.kernel == clf.kernel
    assert (copy.likelihood, copy.inference, copy.priors) == (clf.likelihood, clf.inference, clf.priors)
    copy.set_params(inference="laplace").fit(*moons[:2])
    assert isinstance(copy.inference_, Laplace)


def test_warm_start_goes_on_from_the_last_fit(moons):
    clf = GPClassifier(warm_start=True).fit(*moons[:2])
    end = clf.kernel_.theta
    clf.fit(*moons[:2])
    assert_allclose(clf.history_[0].theta, end)
    assert len(clf.history_) < 8


def test_warm_start_heeds_changed_settings(moons):
    clf = GPClassifier(kernel=RBF(1.0, 4.0), likelihood=Probit(learn_bias=True), warm_start=True).fit(*moons[:2])
    kernel, bias = clf.kernel_.theta, clf.likelihood_.theta
    clf.set_params(kernel=RBF(2.0, 3.0), optimizer=None).fit(*moons[:2])
    assert_allclose([*clf.kernel_.theta, *clf.likelihood_.theta], [np.log(2.0), np.log(3.0), *bias])  # the bias continues
    kernel = clf.set_params(optimizer="lbfgs").fit(*moons[:2]).kernel_.theta
    clf.set_params(likelihood=Logit(bias=0.5, learn_bias=True)).fit(*moons[:2])
    assert_allclose(clf.history_[0].theta, [*kernel, 0.5])
    assert isinstance(clf.likelihood_, Logit)
    kernel, bias = clf.kernel_.theta, clf.likelihood_.theta
    clf.set_params(kernel=RBF(2.0, 3.0)).fit(*moons[:2])  # an equal kernel does not count as a change
    assert_allclose(clf.history_[0].theta, [*kernel, *bias])


def test_a_search_that_is_cut_short_warns_at_the_callers_line(moons):
    with pytest.warns(ConvergenceWarning, match="limit of 1 iterations.*Raise max_iter") as caught:
        GPClassifier("rbf-ard + linear", max_iter=1).fit(*moons[:2])
    assert caught[0].filename == __file__


def test_fits_are_quiet_by_default(moons):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GPClassifier(likelihood=Probit(learn_bias=True), n_restarts=2, random_state=0).fit(*moons[:2])


def test_verbose_writes_a_line(moons, capsys):
    GPClassifier(verbose=1).fit(*moons[:2])
    told = capsys.readouterr().err
    assert "preparing the rows" in told
    assert "left" not in told  # no time is extrapolated from max_iter
    GPClassifier().fit(*moons[:2])
    assert capsys.readouterr().err == ""


# data that are hard ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_of_the_inputs_do_not_matter(unit, fitted, moons):
    clf = GPClassifier().fit(unit * moons[0], moons[1])
    assert_allclose(clf.predict_proba(unit * moons[2]), fitted.predict_proba(moons[2]), atol=1e-4)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_units_whose_squares_no_float_holds(unit, moons):
    usual, far = (GPClassifier(n_restarts=1, random_state=0).fit(u * moons[0], moons[1]) for u in (1.0, unit))
    assert_allclose(far.predict_proba(unit * moons[2]), usual.predict_proba(moons[2]), atol=1e-6)
    with pytest.raises(ValueError, match="Rescale the inputs"):
        GPClassifier(kernel=RBF([1.0, 1.0])).fit(1e200 * moons[0], moons[1])


@pytest.mark.parametrize("kernel", [None, RBF([1.0, 2.0]) + White(0.1), Linear()], ids=repr)
def test_a_far_row_leaves_the_others_alone(kernel, moons):
    clf = GPClassifier(kernel=kernel).fit(*moons[:2])
    with_far = np.vstack([moons[2], [[1e100, -1e100]]])
    p = clf.predict_proba(with_far)
    assert_allclose(p[:-1], clf.predict_proba(moons[2]), rtol=1e-12)
    assert np.all(np.isfinite(p))


def test_duplicates_and_constant_columns(moons):
    X = np.column_stack([moons[0], np.ones(80)])
    X, y = np.concatenate([X, X]), np.concatenate([moons[1], moons[1]])
    found = GPClassifier().fit(X, y).predict_proba(X[:10])
    weighted = GPClassifier().fit(X[:80], y[:80], sample_weight=np.full(80, 2.0)).predict_proba(X[:10])
    assert_allclose(found, weighted, rtol=1e-9)
    assert np.mean(found.argmax(1) == y[:10]) >= 0.8


def test_contradicting_duplicates_are_a_coin_flip():
    X = np.zeros((10, 1))
    clf = GPClassifier().fit(X, np.arange(10) % 2)
    assert_allclose(clf.predict_proba([[0.0]]), 0.5, atol=1e-6)


def test_one_row_per_class():
    clf = GPClassifier().fit([[0.0], [1.0]], ["a", "b"])
    assert_array_equal(clf.predict([[0.0], [1.0]]), ["a", "b"])
    assert_allclose(clf.predict_proba([[0.5]]), 0.5, atol=1e-6)


def test_constant_inputs_predict_base_rate_or_half():
    clf = GPClassifier(likelihood=Probit(learn_bias=True), priors=None).fit(np.ones((40, 2)), [0] * 30 + [1] * 10)
    assert_allclose(clf.predict_proba(np.ones((1, 2)))[0, 1], 0.25, atol=0.02)


def test_heaviside_shrugs_off_a_flipped_label():
    X = np.linspace(-2, 2, 31)[:, None]
    y = (X[:, 0] > 0).astype(int)
    y[2] = 1  # deep in the other class
    clf = GPClassifier(kernel=RBF(1.0, 4.0), likelihood=Heaviside(0.05), optimizer=None).fit(X, y)
    assert clf.predict(X[2:3]) == 0
    assert clf.predict_proba(X[2:3])[0, 0] > 0.8


# bad input ------------------------------------------------------------------------------------------------------------

GOOD = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[np.nan], [1.0]], [0, 1], "NaN"),
        ([[np.inf], [1.0]], [0, 1], "infinity"),
        ([0.0, 1.0], [0, 1], "2D array"),
        ([[0.0], [1.0]], [0, 1, 0], "inconsistent"),
        ([[0.0], [1.0]], [1, 1], "only one class"),
        (np.empty((0, 2)), [], "0 sample"),
        (np.empty((3, 0)), [0, 1, 0], "0 feature"),
        ([[0.0], [1.0]], [0.3, 1.7], "Unknown label type"),
        ([[10**400], [1]], [0, 1], "float"),
        ([["a"], ["b"]], [0, 1], "convert"),
        ([[0.0], [1.0]], None, "requires y"),
    ],
)
def test_bad_data(X, y, message):
    with pytest.raises(ValueError, match=message):
        GPClassifier().fit(X, y)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"inference": "epp"}, ValueError, "laplace, ep, tap"),
        ({"likelihood": "probitt"}, ValueError, "logit, probit"),
        ({"inference": EP}, TypeError, r"EP\(\)"),
        ({"likelihood": Probit}, TypeError, r"Probit\(\)"),
        ({"inference": 3}, TypeError, "inference"),
        ({"likelihood": Gaussian(0.1)}, TypeError, "real numbers"),
        ({"kernel": "rbff"}, ValueError, "did you mean 'rbf'"),
        ({"kernel": 3}, TypeError, "ernel"),
        ({"optimizer": "adam"}, ValueError, "lbfgs"),
        ({"n_restarts": -1}, ValueError, "n_restarts"),
        ({"max_iter": 0}, ValueError, "max_iter"),
        ({"inference": "kl", "likelihood": "heaviside"}, TypeError, "KL needs expected_log_prob"),
        ({"inference": "laplace", "likelihood": Heaviside()}, TypeError, "Likelihoods that do: Logit, Probit"),
        ({"priors": "strong"}, ValueError, "weak"),
        ({"priors": {"lengthscal": Normal(0.0, 1.0)}}, ValueError, "lengthscale\\[0\\], variance"),
        ({"kernel": RBF(lengthscale=[1.0, 2.0])}, ValueError, "lengthscale"),
        ({"kernel": RBF(1.0, 0.5), "priors": {"variance": Gamma(2, 1, of="log")}}, FloatingPointError, "Start the kernel"),
    ],
)
def test_bad_settings(settings, error, message):
    with pytest.raises(error, match=message):
        GPClassifier(**settings).fit(*GOOD)


def test_negative_lengthscale():
    with pytest.raises(ValueError, match="lengthscale"):
        RBF(lengthscale=-1.0)


def test_wrong_width_at_prediction(fitted):
    with pytest.raises(ValueError, match="features"):
        fitted.predict(np.zeros((1, 3)))


def test_three_classes_by_one_vs_rest():
    """The recommendation of the error message works."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) + np.repeat([[0, 0], [4, 0], [0, 4]], 20, axis=0)
    y = np.repeat(["a", "b", "c"], 20)
    assert OneVsRestClassifier(GPClassifier()).fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array(["a", None], object), r"label of row 2 \(counted from 1\) is missing"),
        (["a", np.nan], r"label of row 2 \(counted from 1\) is missing"),
        (np.array(["a", 1], object), r"different types: 'a' in row 1, but 1 in row 2 \(counted from 1\)"),
    ],
)
def test_labels_that_are_missing_or_of_different_types_are_named_by_their_row(labels, message):
    y = [labels[i % 2] for i in range(10)]
    with pytest.raises(ValueError, match=message):
        GPClassifier().fit(np.arange(10.0)[:, None], np.array(y, object))


def test_labels_that_are_objects_are_the_numbers_that_they_hold():
    X, y = np.arange(10.0)[:, None], np.arange(10) // 5
    objects = GPClassifier("rbf", optimizer=None).fit(X, y.astype(object))
    assert objects.classes_.dtype == y.dtype
    assert_array_equal(objects.predict(X), y)


@pytest.mark.parametrize("dtype", ["Int64", "UInt8", "boolean"])
def test_whole_numbers_and_booleans_of_pandas_stay_what_they_are(dtype):
    X, y = np.arange(10.0)[:, None], np.arange(10) // 5
    clf = GPClassifier("rbf", optimizer=None).fit(X, pd.Series(y.astype(bool) if dtype == "boolean" else y, dtype=dtype))
    assert clf.classes_.dtype.kind == {"Int64": "i", "UInt8": "u", "boolean": "b"}[dtype]
    assert_array_equal(clf.predict(X), y)


def test_classes_with_one_row_are_named_in_a_warning():
    X, y = np.arange(12.0)[:, None], np.repeat(["a", "b", "c"], [6, 5, 1])
    with pytest.warns(UserWarning, match="class 'c' has only one row") as caught:
        GPClassifier("rbf", optimizer=None).fit(X, y)
    assert [w.filename for w in caught] == [__file__]  # one warning, at the user's line
    with pytest.warns(UserWarning, match=r"2 of 3 classes \('b', 'c'\) have only one row"):
        GPClassifier("rbf", optimizer=None).fit(X[[0, 1, 2, 6, 11]], y[[0, 1, 2, 6, 11]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GPClassifier("rbf", optimizer=None).fit(X[:11], y[:11])
