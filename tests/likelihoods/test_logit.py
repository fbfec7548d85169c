"""Logit's Gaussian integrals against mpmath over mean in [-30, 30], var in [1e-6, 1e4], and against quadrature."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.likelihoods import Logit, Sigmoid

DIGITS = 20
POINTS = [
    (0.0, 1e-6), (30.0, 1e-6), (-30.0, 1e-6), (3.0, 0.3), (-30.0, 1.0), (30.0, 1.0), (5.0, 10.0), (-30.0, 59.0),
    (-30.0, 61.0), (-12.0, 100.0), (0.0, 1e4), (-30.0, 1e4), (30.0, 1e4),
]  # fmt: skip


def sig(f):
    return 1 / (1 + mp.exp(-f))


def breakpoints(mean, var, finer):
    """Edges of panels: around the Gaussian's centre, around zero, and around the mode of Gaussian × sigmoid."""
    mean, var = mp.mpf(mean), mp.mpf(var)
    sd = mp.sqrt(var)
    mode = mean  # of the tilted density: mode = mean + var sig(-mode), by bisection
    low, high = mean, mean + var
    for _ in range(60):
        mode = (low + high) / 2
        low, high = (mode, high) if mean + var * sig(-mode) > mode else (low, mode)
    width = 1 / mp.sqrt(1 / var + sig(mode) * sig(-mode))
    steps = [0, 1.3, 3.1, 6.2, 11, 16] if finer else [0, 1.7, 4, 8, 16]
    ends = mean - 16 * sd, mode + 16 * sd
    edges = [mean + s * k * sd for k in steps for s in (1, -1)] + [mode + s * k * width for k in steps for s in (1, -1)]
    near = [0, 1, 2.5, 5, 9, 16, 28, 50] if finer else [0, 2, 6, 14, 30, 60]  # poles are at ±iπ
    edges += [mp.mpf(s * k) for k in near for s in (1, -1)]
    return sorted({*(e for e in edges if ends[0] < e < ends[1]), *ends})


def integrals(mean, var, functions, finer=False):
    with mp.workdps(DIGITS):
        edges = breakpoints(mean, var, finer)
        scale = 1 / mp.sqrt(2 * mp.pi * var)
        bell = lambda f: mp.exp(-((f - mean) ** 2) / (2 * mp.mpf(var))) * scale  # noqa: E731
        return [mp.quad(lambda f, g=g: g(f) * bell(f), edges, method="gauss-legendre") for g in functions]


def tilted_truth(mean, var, finer=False):
    """log E[sig], and two derivatives of it in the mean: E[sig'] and E[sig''] over E[sig]."""
    slope = lambda f: sig(f) * sig(-f)  # noqa: E731
    mass, first, second = integrals(mean, var, (sig, slope, lambda f: slope(f) * (1 - 2 * sig(f))), finer)
    with mp.workdps(DIGITS):
        return mp.log(mass), first / mass, second / mass - (first / mass) ** 2


def expected_truth(mean, var, finer=False):
    log_sig = lambda f: -mp.log1p(mp.exp(-f))  # noqa: E731
    return integrals(mean, var, (log_sig, lambda f: sig(-f), lambda f: -sig(f) * sig(-f)), finer)


@pytest.mark.parametrize(("mean", "var"), [(0.0, 1e-6), (-30.0, 59.0), (-30.0, 1e4)])
@pytest.mark.parametrize("truth", [tilted_truth, expected_truth])
def test_truth_does_not_depend_on_its_panels(mean, var, truth):
    for one, other in zip(truth(mean, var), truth(mean, var, finer=True), strict=True):
        assert abs(one - other) < 1e-15 * abs(other)


@pytest.mark.parametrize(("mean", "var"), POINTS)
def test_tilted_moments(mean, var):
    value, d1, d2 = (float(t) for t in tilted_truth(mean, var))
    for y in (1.0, -1.0):
        answer = Logit().tilted_moments(np.array([y]), np.array([y * mean]), np.array([var]))
        got, got1, got2 = (part[0] for part in answer)
        # the mixture is good to 1e-14 of sig everywhere: absolute for what is near one, relative on the far left
        assert_allclose(got, value, rtol=1e-13, atol=2e-14)
        assert_allclose(y * got1, d1, rtol=1e-12, atol=2e-14)
        assert_allclose(got2, d2, rtol=1e-12, atol=2e-14)
        # relevant for engines: the tilted mean in units of sd, the tilted variance relative to var
        assert_allclose(np.sqrt(var) * y * got1, np.sqrt(var) * d1, rtol=1e-12, atol=1e-13)
        assert_allclose(1 + var * got2, 1 + var * d2, rtol=1e-12)


@pytest.mark.parametrize(("mean", "var"), POINTS)
def test_expected_log_prob(mean, var):
    truth = [float(t) for t in expected_truth(mean, var)]
    for y in (1.0, -1.0):
        value, slope, curvature = Logit().expected_log_prob(np.array([y]), np.array([y * mean]), np.array([var]))
        assert_allclose([value[0], y * slope[0], curvature[0]], truth, rtol=2e-13, atol=2e-14)  # the mixture's error


@pytest.mark.parametrize("z", [-800.0, -40.0, -1e-3, 0.0, 40.0, 800.0])
def test_log_prob_far_out(z):
    with mp.workdps(30):
        p = sig(mp.mpf(z))
        wrong = 1 / (1 + mp.exp(mp.mpf(z)))
        truth = [float(t) for t in (-mp.log1p(mp.exp(-mp.mpf(z))), wrong, -p * wrong, p * wrong * (p - wrong))]
    for y in (1.0, -1.0):
        value, slope, curvature = Logit(bias=0.5).log_prob(y, np.array([y * z - 0.5]))
        third = Logit(bias=0.5).log_prob_third(y, np.array([y * z - 0.5]))
        assert_allclose([value[0], y * slope[0], curvature[0], y * third[0]], truth, rtol=1e-12)  # y z ± 0.5 rounds


MEANS, VARS = (a.ravel() for a in np.meshgrid(np.linspace(-12, 12, 13), [0.0, 1e-4, 0.1, 1.0, 1.5, 10.0, 100.0]))


@pytest.mark.parametrize("y", [1.0, -1.0])
@pytest.mark.parametrize("question", ["tilted_moments", "expected_log_prob"])
def test_closed_forms_against_default_quadrature(y, question):
    likelihood = Logit(bias=0.3)
    near = np.abs(MEANS + 0.3) <= 4 * np.sqrt(VARS) + 4  # a default tail probability is known to absolute accuracy
    args = np.full(near.sum(), y), MEANS[near], VARS[near]
    closed, default = getattr(Logit, question)(likelihood, *args), getattr(Sigmoid, question)(likelihood, *args)
    for got, second in zip(closed, default, strict=True):
        assert_allclose(got, second, rtol=1e-9, atol=1e-12)  # 1e-13 of the mass, which is 1e-4 for a wrong label


def test_predictive_std_against_default_quadrature():
    for likelihood in (Logit(), Logit(bias=-1.0)):
        got, second = likelihood.predictive_std(MEANS, VARS), Sigmoid.predictive_std(likelihood, MEANS, VARS)
        assert_allclose(got, second, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("mean", [-3.0, 0.0, 0.5, 25.0])
def test_predictive_std_of_a_narrow_latent(mean):
    # delta method: sd × slope, with a relative correction of order var
    sd = np.array([0.0, 1e-8, 1e-5])
    slope = np.exp(-np.logaddexp(0, mean) - np.logaddexp(0, -mean))
    assert_allclose(Logit().predictive_std(np.full(3, mean), sd**2), sd * slope, rtol=1e-5, atol=1e-14)


def test_bound_is_smooth_where_its_series_takes_over():
    edge = 1e-2  # logit._bound_width
    touch = edge * np.array([[1 - 1e-12], [1 + 1e-12]])
    left, right = (Logit().bound(1.0, t) for t in touch)
    assert_allclose(left, right, rtol=1e-13, atol=1e-13)  # 17 t⁶/80640 is left out
    for t in (0.5 * edge, 0.999 * edge, 1.001 * edge, 3 * edge, 1.0, 30.0):
        with mp.workdps(30):
            width = lambda x: mp.tanh(x / 2) / (4 * x)  # noqa: E731
            # all of t from the mean, or all from the variance: curvature -2λ - 2tλ', or -2λ
            truth = [float(-2 * width(t) - 2 * t * mp.diff(width, t)), float(-2 * width(mp.mpf(t)))]
        got = Logit().bound_curvature(1.0, np.array([t, 0.0]), np.array([0.0, t * t]))
        assert_allclose(got, truth, rtol=1e-9, atol=1e-15)
