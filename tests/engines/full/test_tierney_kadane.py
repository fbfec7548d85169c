"""Laplace(correction="tierney-kadane") against single extended fits and HMC; probabilities sum to one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.inference import Laplace
from gpclass.kernels import RBF
from gpclass.likelihoods import Logit, Probit, Softmax
from gpclass.sampling import HMC

TKP = Laplace(correction="tierney-kadane")


def problem(n=25, C=3, variance=4.0, seed=0, m=5):
    """X, y, and kernel matrices: K (n, n), Ks (n, m), kd (m,)."""
    rng = np.random.default_rng(seed)
    X, new = rng.normal(size=(n, 2)), 1.5 * rng.normal(size=(m, 2))
    y = np.argmax(X @ rng.normal(size=(2, C)) + 0.5 * rng.normal(size=(n, C)), axis=1)
    k = RBF(1.0, variance)
    return y, k(X), k(X, new), k.diag(new)


def one_by_one(K, y, Ks, kd, likelihood, labels):
    """The naive computation: C cold fits to n + 1 points for each new point; the fit without it cancels."""
    out = np.empty((Ks.shape[-1], len(labels)))
    for j, c in np.ndindex(out.shape):
        k, v = Ks[..., j], kd[..., j]
        larger = np.concatenate([np.concatenate([K, k[..., None]], -1), np.append(k, v[..., None], -1)[..., None, :]], -2)
        out[j, c] = Laplace().fit(larger, np.append(y, labels[c]), likelihood).log_evidence
    return out - np.logaddexp.reduce(out, axis=1, keepdims=True)


@pytest.mark.parametrize("variance", [0.1, 4.0, 400.0])
@pytest.mark.parametrize("C", [2, 3, 5])
def test_equals_extended_fits(variance, C):
    y, K, Ks, kd = problem(C=C, variance=variance)
    got = TKP.fit(K, y, Softmax(C)).log_class_probabilities(Ks, kd)
    # both modes are accurate to 1e-8 standard deviations, which enters the log determinant to first order
    assert_allclose(got, one_by_one(K, y, Ks, kd, Softmax(C), np.arange(C)), atol=1e-6)


@pytest.mark.parametrize("likelihood", [Logit(), Probit(), Logit(bias=0.7)])
@pytest.mark.parametrize("variance", [0.1, 4.0, 400.0])
def test_equals_extended_fits_for_two_classes(likelihood, variance):
    y, K, Ks, kd = problem(C=2, variance=variance)
    got = TKP.fit(K, 2.0 * y - 1, likelihood).log_class_probabilities(Ks, kd)
    assert_allclose(got, one_by_one(K, 2.0 * y - 1, Ks, kd, likelihood, (-1.0, 1.0)), atol=1e-6)


def test_softmax_of_two_classes_is_logit():
    y, K, Ks, kd = problem(C=2)
    two = TKP.fit(K, y, Softmax(2)).log_class_probabilities(Ks, kd)
    one = TKP.fit(2 * K, 2.0 * y - 1, Logit()).log_class_probabilities(2 * Ks, 2 * kd)
    assert_allclose(two, one, atol=1e-6)


def test_one_kernel_per_class():
    y, K, Ks, kd = problem()
    scales = np.array([1.0, 3.0, 0.3])
    each = scales[:, None, None] * K, scales[:, None, None] * Ks, scales[:, None] * kd
    got = TKP.fit(each[0], y, Softmax(3)).log_class_probabilities(each[1], each[2])
    assert_allclose(got, one_by_one(each[0], y, each[1], each[2], Softmax(3), range(3)), atol=1e-6)
    alike = TKP.fit(np.stack([K] * 3), y, Softmax(3)).log_class_probabilities(np.stack([Ks] * 3), np.stack([kd] * 3))
    assert_allclose(alike, TKP.fit(K, y, Softmax(3)).log_class_probabilities(Ks, kd), atol=1e-6)


@pytest.mark.quick_cases("0")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_closer_to_the_sampler_than_plain_laplace(seed):
    """If the prior is wide, the mode is far from the mean, and plain Laplace is underconfident."""
    y, K, Ks, kd = problem(n=20, variance=50.0, seed=seed, m=20)
    plain, corrected = Laplace().fit(K, y, Softmax(3)), TKP.fit(K, y, Softmax(3))
    truth = HMC(n_draws=1500, n_warmup=400, random_state=0).fit(K, y, Softmax(3))
    p, q, exact = (np.exp(a.log_class_probabilities(Ks, kd)) for a in (plain, corrected, truth))
    assert np.abs(q - exact).mean() < 0.6 * np.abs(p - exact).mean()
    assert np.abs(q - exact).max() < np.abs(p - exact).max()


def test_one_factorisation_is_enough(monkeypatch):
    """The modes are found with the training system, so that the engine factorises only once, for its evidence."""
    sweeps = []

    def recorded(engine, K, y, likelihood, start):
        fit = coupled_mode(engine, K, y, likelihood, start)
        sweeps.append(fit.n_iter)
        return fit

    from gpclass.engines.full import laplace

    coupled_mode = laplace.coupled_mode
    y, K, Ks, kd = problem(n=40, variance=10.0, m=10)
    fit = TKP.fit(K, y, Softmax(3))
    monkeypatch.setattr(laplace, "coupled_mode", recorded)
    fit.log_class_probabilities(Ks, kd)
    assert len(sweeps) == 30
    assert np.mean(sweeps) < 1.2 < fit.n_iter


def test_blocks_and_labels_do_not_matter(rows_at_a_time):
    y, K, Ks, kd = problem()
    fit = TKP.fit(K, y, Softmax(3))
    whole = fit.log_class_probabilities(Ks, kd)
    turn = np.array([2, 0, 1])
    relabelled = TKP.fit(K, turn[y], Softmax(3)).log_class_probabilities(Ks, kd)
    assert_allclose(relabelled[:, turn], whole, atol=1e-6)
    rows_at_a_time("gpclass.engines.full.tierney_kadane", 2)
    assert_allclose(fit.log_class_probabilities(Ks, kd), whole, atol=1e-6)


def test_points_that_coincide_or_are_far_away():
    y, K, _, _ = problem()
    at_data = TKP.fit(K, y, Softmax(3)).log_class_probabilities(K[:, :4], np.diagonal(K)[:4])
    assert_allclose(at_data, one_by_one(K, y, K[:, :4], np.diagonal(K)[:4], Softmax(3), range(3)), atol=1e-6)
    far = TKP.fit(K, y, Softmax(3)).log_class_probabilities(np.zeros((25, 2)), np.array([4.0, 0.0]))
    assert_allclose(far, np.log(1 / 3), atol=1e-8)
    none = TKP.fit(K, y, Softmax(3)).log_class_probabilities(np.zeros((25, 0)), np.zeros(0))
    assert none.shape == (0, 3)


def test_the_rest_of_the_fit_is_plain_laplace():
    y, K, Ks, kd = problem()
    plain, corrected = Laplace().fit(K, y, Softmax(3)), TKP.fit(K, y, Softmax(3))
    assert corrected.log_evidence == plain.log_evidence
    assert_allclose(corrected.evidence_gradient(), plain.evidence_gradient())
    for a, b in zip(corrected.predict(Ks, kd), plain.predict(Ks, kd), strict=True):
        assert_allclose(a, b)
    warm = TKP.fit(1.1 * K, y, Softmax(3), start=plain)
    assert warm.log_evidence == pytest.approx(Laplace().fit(1.1 * K, y, Softmax(3)).log_evidence, abs=1e-7)


def test_bad_input():
    with pytest.raises(ValueError, match='correction must be None or "tierney-kadane"'):
        Laplace(correction="edgeworth")
    y, K, Ks, kd = problem()
    with pytest.raises(ValueError, match="Ks must be"):
        TKP.fit(K, y, Softmax(3)).log_class_probabilities(Ks[:-1], kd)
    with pytest.raises(ValueError, match="Ks must be"):
        TKP.fit(K, y, Softmax(3)).log_class_probabilities(Ks, kd[:-1])
    with pytest.raises(ValueError, match="Ks must be"):
        TKP.fit(K, 2.0 * (y > 0) - 1, Logit()).log_class_probabilities(Ks, kd[:-1])
