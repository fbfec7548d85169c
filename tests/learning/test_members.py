"""Averages over members follow their definitions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass import GPClassifier
from gpclass.inference import EP
from gpclass.kernels import RBF
from gpclass.learning import Member
from gpclass.learning.calibration import Calibration
from gpclass.learning.members import class_probability_std, latent, log_class_probabilities
from gpclass.likelihoods import Probit
from tests.problems import two_classes

# averages ---------------------------------------------------------------------------------------------------------------


def test_averages_follow_their_definitions():
    X, y = two_classes(50, noise=0.4)
    new = np.linspace(-2, 2, 8).reshape(4, 2)
    calibration = Calibration(0.5, 0.1)
    parts = [
        (0.7, RBF(0.5, 2.0), Calibration()),
        (0.3, RBF(2.0, 5.0), calibration),
    ]
    fits = [EP().fit(kernel(X), y, Probit()) for _, kernel, _ in parts]
    members = [Member(w, k, fit, X, c) for (w, k, c), fit in zip(parts, fits, strict=True)]
    moments = [fit.predict(k(X, new), k.diag(new)) for (_, k, _), fit in zip(parts, fits, strict=True)]
    logs = [fit.log_class_probabilities(k(X, new), k.diag(new)) for (_, k, _), fit in zip(parts, fits, strict=True)]
    p = [np.exp(logs[0]), np.exp(calibration.log_probabilities(logs[1]))]
    assert_allclose(np.exp(log_class_probabilities(members, new)), 0.7 * p[0] + 0.3 * p[1], rtol=1e-12)
    mean = 0.7 * moments[0][0] + 0.3 * moments[1][0]
    second = 0.7 * (moments[0][1] + moments[0][0] ** 2) + 0.3 * (moments[1][1] + moments[1][0] ** 2)
    assert_allclose(latent(members, new), (mean, second - mean**2), rtol=1e-9)
    spread = [fit.class_probability_std(k(X, new), k.diag(new)) for (_, k, _), fit in zip(parts, fits, strict=True)]
    spread[1] = calibration.std(spread[1], logs[1])
    whole = 0.7 * (spread[0] ** 2 + p[0] ** 2) + 0.3 * (spread[1] ** 2 + p[1] ** 2) - (0.7 * p[0] + 0.3 * p[1]) ** 2
    assert_allclose(class_probability_std(members, new, Calibration()), np.sqrt(whole), rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hyper": "integrate", "inference": "mcmc"}, "is a sampler"),
        ({"hyper": "integrate", "inference": "scalable-ep"}, "uses all rows"),
        ({"hyper": "integrate", "kernel": "auto"}, "choose one"),
        ({"hyper": "average"}, "hyper must be 'mode' or 'integrate'"),
    ],
)
def test_settings_that_do_not_go_together(settings, message):
    X, y = two_classes(20, noise=0.4)
    with pytest.raises(ValueError, match=message):
        GPClassifier(**settings).fit(X, y)


@pytest.mark.parametrize(
    ("settings", "message"), [({"kernel": "auto"}, "needs arrays"), ({"hyper": "integrate"}, "uses all rows")]
)
def test_streams_have_one_member(settings, message):
    X, y = two_classes(40, noise=0.4)
    with pytest.raises(ValueError, match=message):
        GPClassifier(inference="svgp", **settings).fit([(X[:20], y[:20]), (X[20:], y[20:])])
