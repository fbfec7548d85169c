"""Stacked kernels: weights, files, settings."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import log_softmax

from gpclass import GPClassifier, load, save
from gpclass.learning.calibration import Calibration, LeftOut
from gpclass.learning.learned import Learned
from gpclass.learning.stack import PRIOR_ROWS, stacked, stacking_weights
from tests.problems import three_bands, two_classes

# stacking ---------------------------------------------------------------------------------------------------------------


def test_stacking_weights_maximise_their_objective():
    rng = np.random.default_rng(0)
    log_true = np.log(rng.beta([[2.0], [1.0], [3.0]], 1.0, size=(3, 40)))

    def loss(z):
        log_w = log_softmax(z)
        return -np.sum(np.logaddexp.reduce(log_w[:, None] + log_true, axis=0)) - PRIOR_ROWS * np.sum(log_w)

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-10})
    assert_allclose(stacking_weights(log_true), np.exp(log_softmax(best.x)), atol=1e-6)


def test_a_model_that_is_always_better_gets_nearly_all_weight():
    log_true = np.log(np.stack([np.full(200, 0.9), np.full(200, 0.5)]))
    weights = stacking_weights(log_true)
    assert weights[0] > 0.99
    assert_allclose(weights.sum(), 1.0, rtol=1e-12)


def test_fits_with_probabilities_of_fewer_rows_are_dropped():
    """An interrupted search on minibatches has those of its held-out rows only."""
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=40)
    kernels = ["short", "first", "second"]

    def learned(kernel, n):
        p = np.clip(np.where(codes == 1, 0.7, 0.3) + 0.2 * rng.normal(size=40), 0.05, 0.95)
        rows = LeftOut(np.log(np.stack([1 - p, p], axis=1))[:n], codes[:n])
        return Learned(None, kernel, None, np.zeros((1, 1)), [], 1, rows_left_out=lambda: rows)

    fits = [learned(kernel, n) for kernel, n in zip(kernels, (5, 40, 40), strict=True)]
    mixture, kept, _ = stacked(fits, calibrate=True)
    alone, kept_alone, _ = stacked(fits[1:], calibrate=True)
    assert kept == [i + 1 for i in kept_alone]
    assert [member.kernel for member in mixture.members] == [fits[i].kernel for i in kept]
    assert_allclose([m.weight for m in mixture.members], [m.weight for m in alone.members])


def test_fits_that_held_out_rows_check_are_compared_with_others_on_these_rows():
    rng = np.random.default_rng(0)
    codes, numbers = rng.integers(2, size=60), np.sort(rng.permutation(60)[:25])

    def rows(quality):
        p = np.clip(np.where(codes == 1, 0.5 + quality, 0.5 - quality) + 0.2 * rng.normal(size=60), 0.05, 0.95)
        return LeftOut(np.log(np.stack([1 - p, p], axis=1)), codes, rng.uniform(0.5, 2.0, 60))

    whole = [rows(0.2), rows(0.25), rows(0.15)]
    check = rows(0.2).some(numbers)
    assert_array_equal(check.codes, codes[numbers])

    def fits(*given):
        Z = np.zeros((1, 1))
        return [Learned(None, str(i), None, Z, [], 1, rows_left_out=lambda r=r: r) for i, r in enumerate(given)]

    checked = whole[1]._replace(check=check)
    mixture, kept, _ = stacked(fits(whole[0], checked, whole[2]), calibrate=True)
    calibrations = [Calibration.fitted(each) for each in (whole[0], checked, whole[2])]
    on_common = (whole[0].some(numbers), check, whole[2].some(numbers))
    calibrated = [
        each._replace(log_p=c.log_probabilities(each.log_p)) for each, c in zip(on_common, calibrations, strict=True)
    ]
    wanted, kept_of_wanted, _ = stacked(fits(*calibrated), calibrate=False)
    assert 1 in kept
    assert kept == kept_of_wanted
    assert_allclose([m.weight for m in mixture.members], [m.weight for m in wanted.members], rtol=1e-12)
    assert [m.calibration for m in mixture.members] == [calibrations[i] for i in kept]


@pytest.mark.parametrize("make", [two_classes, three_bands])
def test_kernel_auto(make, tmp_path):
    X, y = make(50)
    clf = GPClassifier("auto", random_state=0).fit(X, y)
    weights = np.array([member.weight for member in clf.members_])
    assert_allclose(weights.sum(), 1.0, rtol=1e-12)
    assert np.all(np.diff(weights) <= 0)
    assert clf.kernel_ is clf.members_[0].kernel
    new = X[:7] + 0.1
    own = [m.calibration.log_probabilities(m.ask("log_class_probabilities", new)) for m in clf.members_]
    assert_allclose(clf.predict_proba(new), np.tensordot(weights, np.exp(own), 1), rtol=1e-12)
    loo = [np.exp(m.calibration.log_probabilities(m.posterior.loo_log_class_probabilities())) for m in clf.members_]
    assert_allclose(clf.loo(), np.tensordot(weights, loo, 1), rtol=1e-12)
    codes = np.searchsorted(clf.classes_, y)
    assert_allclose(clf.calibration_.nlpd_after, -np.mean(np.log(clf.loo()[np.arange(len(y)), codes])), rtol=1e-9)
    save(clf, tmp_path / "m")
    again = load(tmp_path / "m")
    assert_allclose(again.predict_log_proba(new), clf.predict_log_proba(new), rtol=1e-9, atol=1e-12)
    assert_allclose(again.loo(), clf.loo(), rtol=1e-9, atol=1e-12)
    assert [str(m.kernel) for m in again.members_] == [str(m.kernel) for m in clf.members_]


def test_kernel_auto_without_calibration_and_with_inducing_points():
    X, y = two_classes(50, noise=0.4)
    plain = GPClassifier("auto", calibrate=None, random_state=0).fit(X, y)
    assert all(member.calibration.is_identity for member in plain.members_)
    sparse = GPClassifier("auto", inference="scalable-ep", random_state=0).fit(X, y)
    for clf in (plain, sparse):
        own = [m.calibration.log_probabilities(m.ask("log_class_probabilities", X)) for m in clf.members_]
        weights = [m.weight for m in clf.members_]
        assert_allclose(clf.predict_proba(X), np.tensordot(weights, np.exp(own), 1), rtol=1e-12)


def test_a_stack_is_not_updated():
    X, y = two_classes(40, noise=0.4)
    clf = GPClassifier("auto", inference="ivm", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="cannot continue"):
        clf.partial_fit(X[:3], y[:3])
