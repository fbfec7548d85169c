"""Covariances of inducing pairs: derivatives in them against the covariances of all pairs, entry by entry."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.gaussian import InducingCovariance
from gpclass.gaussian.inducing_pairs import PairSums
from gpclass.numerics.separable import classes_of, combined, inputs_of

N, T, C = 5, 3, 3
INPUTS, CLASSES = np.array([0, 2, 1, 0, 2]), np.array([0, 0, 1, 2, 2])


def covariance(rng, form):
    """Random entries: the sums are linear in them, so they need not be those of a kernel."""
    lead = (C,) if form == "per class" else ()
    classes = np.eye(C) + 0.3 if form == "separable" else None
    parts = (rng.normal(size=(*lead, *shape)) for shape in ((T, T), (N, T), (N,)))
    uu, fu, diag = (combined(part, classes) for part in parts)
    return InducingCovariance(uu, fu, diag, INPUTS, CLASSES)


def pairs(K):
    """(s, s), (n, C, s) and (n, C, C) covariances of the pairs, one entry at a time."""
    between = np.eye(C) if classes_of(K.uu) is None else classes_of(K.uu)

    def entry(part, c, d, *at):
        inputs = inputs_of(part)
        own = inputs[c] if inputs.ndim > len(at) else inputs
        return own[at] * between[c, d]

    at = list(zip(INPUTS, CLASSES, strict=True))
    uu = np.array([[entry(K.uu, c, d, i, j) for j, d in at] for i, c in at])
    fu = np.array([[[entry(K.fu, c, d, i, j) for j, d in at] for c in range(C)] for i in range(N)])
    diag = np.array([[[entry(K.diag, c, d, i) for d in range(C)] for c in range(C)] for i in range(N)])
    return uu, fu, diag


def columns(K):
    """The variables that each class depends on: those of correlated classes."""
    return [np.arange(len(INPUTS)) if classes_of(K.uu) is not None else np.flatnonzero(c == CLASSES) for c in range(C)]


def contracted(K, G):
    """Σ G dK over all parts, where K is linear: along K itself, times two for a product of two factors."""
    total = 0.0
    for name in ("uu", "fu", "diag"):
        part, g = getattr(K, name), getattr(G, name)
        total += np.sum(inputs_of(g) * inputs_of(part))
        if classes_of(part) is not None:
            total += np.sum(classes_of(g) * classes_of(part))
    return total


@pytest.mark.parametrize("form", ["shared", "per class", "separable"])
def test_sums_are_the_adjoint_of_the_covariances_of_pairs(form):
    rng = np.random.default_rng(0)
    K = covariance(rng, form)
    uu, fu, diag = pairs(K)
    G_uu, G_fu, G_diag = rng.normal(size=uu.shape), rng.normal(size=fu.shape), rng.normal(size=diag.shape)
    if form != "separable":  # covariances between independent classes do not depend on K
        G_uu = G_uu * (CLASSES[:, None] == CLASSES)
        G_diag = G_diag * np.eye(C)
    own = columns(K)
    sums = PairSums(K, np.eye(C) if classes_of(K.uu) is None else classes_of(K.uu), own)
    sums.add_uu(G_uu)
    direct = np.sum(G_uu * uu) + np.sum(G_diag * diag)
    for rows in (slice(0, 2), slice(2, N)):
        for c in range(C):
            sums.add_fu(rows, c, G_fu[rows, c][:, own[c]])
            direct += np.sum((G_fu[rows, c] * fu[rows, c])[:, own[c]])
    sums.add_diag(G_diag)
    factors = 2 if form == "separable" else 1
    assert_allclose(contracted(K, sums.gradient()), factors * direct, rtol=1e-12)


def test_what_does_not_fit_is_refused():
    K = covariance(np.random.default_rng(0), "separable")
    assert_allclose(classes_of(K.checked(N, C).fu), np.eye(C) + 0.3)
    mixed = InducingCovariance(inputs_of(K.uu), K.fu, K.diag, INPUTS, CLASSES)
    with pytest.raises(TypeError, match="all arrays, or all Separable"):
        mixed.checked(N, C)
    with pytest.raises(ValueError, match=r"fu must be \(6, 3\)"):
        K.checked(N + 1, C)
    with pytest.raises(ValueError, match="occurs 2 times"):
        InducingCovariance(K.uu, K.fu, K.diag, np.zeros(2, int), np.zeros(2, int)).checked(N, C)
