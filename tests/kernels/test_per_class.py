"""A kernel for each class: values, derivatives, names, and a fit with them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass import GPClassifier
from gpclass.kernels import RBF, Linear, Matern52, PerClass
from gpclass.likelihoods import Softmax

rng = np.random.default_rng(0)
X, Z = rng.normal(size=(6, 2)), rng.normal(size=(4, 2))
K = PerClass(RBF([1.0, 2.0], 2.0), Matern52(0.7), RBF(1.0) + Linear())


def test_values():
    assert K(X).shape == (3, 6, 6)
    assert K(X, Z).shape == (3, 6, 4)
    assert_allclose(K(X)[1], Matern52(0.7)(X))
    assert_allclose(K.diag(X), np.stack([np.diagonal(k) for k in K(X)]))


def test_derivatives():
    h = 1e-6
    G, g = rng.normal(size=(3, 6, 4)), rng.normal(size=(3, 6))
    dtheta, dZ = K.pullback(X, Z, G, inputs=True)
    square = K.pullback(X, np.tile(G[:, :, :1], 6), value=K(X))
    for i, e in enumerate(h * np.eye(len(K.theta))):
        up, down = (K.with_theta(K.theta + s * e) for s in (1, -1))
        assert dtheta[i] == pytest.approx(np.sum(G * (up(X, Z) - down(X, Z))) / (2 * h), abs=1e-7)
        assert square[i] == pytest.approx(np.sum(G[:, :, :1] * (up(X) - down(X))) / (2 * h), abs=1e-7)
        on_diagonal = np.sum(g * (up.diag(X) - down.diag(X))) / (2 * h)
        assert K.pullback_diag(X, g)[i] == pytest.approx(on_diagonal, abs=1e-7)
    E = np.zeros_like(Z)
    E[2, 1] = h
    assert dZ[2, 1] == pytest.approx(np.sum(G * (K(X, Z + E) - K(X, Z - E))) / (2 * h), abs=1e-7)
    with pytest.raises(ValueError, match="one part for each of 3 classes"):
        K.pullback(X, np.eye(6))


def test_parameters():
    assert K.names[:3] == ["class0.lengthscale[0]", "class0.lengthscale[1]", "class0.variance"]
    assert K.bounds.shape == (len(K.theta), 2)
    assert K.with_theta(K.theta) == K
    assert hash(K.with_theta(K.theta)) == hash(K)
    held = PerClass(RBF(), RBF()).fix("class0.variance")
    assert held.names == ["class0.lengthscale", "class1.lengthscale", "class1.variance"]
    assert held.fix("lengthscale").names == ["class1.variance"]
    assert held.free("class0.variance") == PerClass(RBF(), RBF())
    for wrong in (lambda: PerClass(RBF()), lambda: PerClass(RBF(), 2), lambda: K + RBF()):
        with pytest.raises(TypeError):
            wrong()(X)
    with pytest.raises(ValueError, match="theta needs"):
        K.with_theta([1.0])


def test_fit():
    X = rng.normal(size=(45, 2))
    y = np.argmax(np.stack([np.sin(3 * X[:, 0]), X[:, 1], np.zeros(45)], axis=1), axis=1)
    clf = GPClassifier(kernel=PerClass(RBF(), RBF(), RBF())).fit(X, y)
    shared = GPClassifier(kernel=RBF()).fit(X, y)
    assert clf.log_evidence_ > shared.log_evidence_  # three lengthscales fit better than one
    assert len(set(np.round(clf.kernel_.theta, 3))) == 6
    softmax = GPClassifier(kernel=PerClass(RBF(), RBF(), RBF()), likelihood=Softmax(3)).fit(X, y)
    assert softmax.predict_proba_std(X[:3]).shape == (3, 3)
    with pytest.raises(ValueError, match="K must be"):
        GPClassifier(kernel=PerClass(RBF(), RBF())).fit(X, y)
