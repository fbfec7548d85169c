"""Priors against scipy.stats, numerical integration and central differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad

from gpclass.learning.prior_choice import resolve_priors
from gpclass.learning.priors import Flat, Gamma, HalfStudentT, Normal, Relative, log_prior

# (prior, frozen scipy distribution of u, u = exp(power · theta)); power None marks u = theta
PRIORS = [
    (HalfStudentT(), stats.t(4, scale=10), 1.0),
    (HalfStudentT(df=2.5, scale=0.3, of="sqrt"), stats.t(2.5, scale=0.3), 0.5),
    (Normal(0.4, 1.7), stats.norm(0.4, 1.7), None),
    (Normal(1.0, 0.8, of="value"), stats.truncnorm(-1 / 0.8, np.inf, loc=1.0, scale=0.8), 1.0),
    (Normal(-1.0, 2.0, of="sqrt"), stats.truncnorm(0.5, np.inf, loc=-1.0, scale=2.0), 0.5),
    (Gamma(2.0, 0.5), stats.gamma(2.0, scale=2.0), 1.0),
    (Gamma(3.5, 4.0, of="sqrt"), stats.gamma(3.5, scale=0.25), 0.5),
]
THETA = np.linspace(-4, 4, 17)
every_prior = pytest.mark.parametrize(("prior", "dist", "power"), PRIORS, ids=[repr(row[0]) for row in PRIORS])


@every_prior
def test_value_is_scipys_times_the_jacobian(prior, dist, power):
    expected = dist.logpdf(THETA) if power is None else dist.logpdf(np.exp(power * THETA)) + power * THETA + np.log(power)
    fold = np.log(2) if isinstance(prior, HalfStudentT) else 0.0
    assert_allclose(prior.log_density(THETA)[0], expected + fold, rtol=1e-12, atol=1e-12)


@every_prior
def test_density_of_theta_integrates_to_one(prior, dist, power):
    mass, _ = quad(lambda t: np.exp(prior.log_density(t)[0]), -60, 60, points=[-5, 0, 5], limit=400)
    assert_allclose(mass, 1, atol=1e-8)  # quad's default is 1.5e-8


@every_prior
def test_slope_is_the_derivative(prior, dist, power):
    h = 1e-5
    difference = (prior.log_density(THETA + h)[0] - prior.log_density(THETA - h)[0]) / (2 * h)
    assert_allclose(prior.log_density(THETA)[1], difference, rtol=1e-6, atol=1e-8)  # h² × third derivative


@every_prior
@pytest.mark.parametrize("theta", [-50.0, 50.0])
def test_extremes_are_finite(prior, dist, power, theta):
    value, slope = prior.log_density(np.array([theta]))
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()


@every_prior
def test_absurd_theta_gives_no_nan(prior, dist, power):
    for part in prior.log_density(np.array([-1e4, 1e4])):
        assert not np.isnan(part).any()


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.5])
def test_gamma_on_the_log(shape):
    """A separate test, since the density is zero unless theta > 0."""
    prior, dist, theta, h = Gamma(shape, 2.0, of="log"), stats.gamma(shape, scale=0.5), np.linspace(0.1, 40, 17), 1e-6
    value, slope = prior.log_density(theta)
    assert_allclose(value, dist.logpdf(theta), rtol=1e-12, atol=1e-12)
    difference = (prior.log_density(theta + h)[0] - prior.log_density(theta - h)[0]) / (2 * h)
    assert_allclose(slope, difference, rtol=1e-6, atol=1e-7)  # h² × third derivative, and rounding of 80 / h
    mass, _ = quad(lambda t: np.exp(prior.log_density(t**2)[0]) * 2 * t, 0, 7)  # t² takes the root out of the density
    assert_allclose(mass, 1, atol=1e-8)
    for part, expected in zip(prior.log_density(np.array([-1e4, -1.0, 0.0])), (-np.inf, 0.0), strict=True):
        assert np.all(part == expected)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_weak_prior_in_units_whose_squares_no_float_holds(unit):
    names = ["lengthscale", "lengthscale[1]"]
    usual, far = (resolve_priors("weak", names, spread=u * np.array([3.0, 4.0])) for u in (1.0, unit))
    theta = np.array([0.3, 1.2])
    for at_one, at_unit in zip(log_prior(theta, usual), log_prior(theta + np.log(unit), far), strict=True):
        assert_allclose(at_unit, at_one, rtol=1e-10)  # a density of the log does not depend on the unit


def test_weak_prior_pushes_back_from_both_ends():
    _, slope = HalfStudentT().log_density(np.array([-30.0, 30.0]))
    assert_allclose(slope, [1, -4])  # the Jacobian below, u^-(df+1) with the Jacobian above


def test_normal_on_logs_is_lognormal():
    v = np.exp(THETA)
    lognormal = stats.lognorm(s=0.7, scale=2.0).logpdf(v) + THETA
    assert_allclose(Normal(np.log(2.0), 0.7).log_density(THETA)[0], lognormal)


NAMES = ["rbf.lengthscale[0]", "rbf.lengthscale[1]", "rbf.variance", "matern32.lengthscale", "alpha", "linear.bias"]


def test_weak_is_on_lengthscales_and_roots_of_variances():
    value, root, flat = HalfStudentT(), HalfStudentT(of="sqrt"), Flat()
    assert resolve_priors("weak", NAMES) == [value, value, root, value, flat, flat]
    assert resolve_priors("weak", ["noise_variance"]) == [root]


@pytest.mark.parametrize("nothing", [None, "none", Flat()])
def test_no_prior_adds_nothing(nothing):
    value, gradient = log_prior(np.arange(6.0), resolve_priors(nothing, NAMES))
    assert value == 0
    assert_allclose(gradient, 0)


def test_one_prior_serves_all():
    assert resolve_priors(Gamma(2, 1), NAMES) == [Gamma(2, 1)] * 6


def test_most_specific_name_wins():
    a, b, c = Normal(0, 1), Normal(0, 2), Normal(0, 3)
    priors = {"lengthscale": a, "lengthscale[1]": b, "rbf.lengthscale": c, "variance": "weak", "alpha": None}
    assert resolve_priors(priors, NAMES) == [c, c, HalfStudentT(of="sqrt"), a, Flat(), Flat()]
    assert resolve_priors({"lengthscale": a, "lengthscale[1]": b}, NAMES)[:4] == [a, b, Flat(), a]
    assert resolve_priors({"rbf.lengthscale": a, "rbf.lengthscale[1]": b}, NAMES)[:2] == [a, b]


def test_a_name_matches_whole_parts_only():
    with pytest.raises(ValueError, match=r"'scale'.*alpha"):
        resolve_priors({"scale": Flat()}, NAMES)


@pytest.mark.parametrize("key", ["lengthscales", "lengthscale[7]", "periodic.lengthscale", ""])
def test_unknown_name_lists_the_names(key):
    with pytest.raises(ValueError, match=r"rbf\.lengthscale\[0\], .*linear\.bias"):
        resolve_priors({key: Flat()}, NAMES)


def test_function_is_taken_as_it_is():
    priors = resolve_priors({"variance": lambda t: (-(t**2), -2 * t), "alpha": Normal(0, 1)}, NAMES)
    theta = np.arange(6.0)
    value, gradient = log_prior(theta, priors)
    assert_allclose(value, -4 + stats.norm.logpdf(4))
    assert_allclose(gradient, [0, 0, -4, 0, -4, 0])


def test_grouped_sum_equals_the_sum_one_by_one():
    priors = resolve_priors({"lengthscale": HalfStudentT(), "variance": Gamma(2, 1), "bias": Normal(0, 10)}, NAMES)
    theta = np.linspace(-2, 3, 6)
    parts = [prior.log_density(t) for prior, t in zip(priors, theta, strict=True)]
    value, gradient = log_prior(theta, priors)
    assert_allclose(value, sum(part[0] for part in parts))
    assert_allclose(gradient, [part[1] for part in parts])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: HalfStudentT(df=0), ValueError, "df > 0; got 0"),
        (lambda: Normal(0, -1), ValueError, "sd > 0"),
        (lambda: HalfStudentT(of="log"), ValueError, "'value', 'sqrt'"),
        (lambda: resolve_priors("strong", NAMES), ValueError, "'weak'"),
        (lambda: resolve_priors(3.0, NAMES), TypeError, "log_density"),
        (lambda: resolve_priors(HalfStudentT, NAMES), TypeError, "instance"),
        (lambda: log_prior(np.zeros(2), [Flat()]), ValueError, "1 priors"),
        (lambda: log_prior(np.zeros(2), resolve_priors(lambda t: t, ["a", "b"])), ValueError, "value, derivative"),
        (lambda: log_prior(np.zeros(2), resolve_priors(lambda t: (t.sum(), t), ["a", "b"])), ValueError, "of that shape"),
    ],
)
def test_errors_say_what_is_needed(make, error, message):
    with pytest.raises(error, match=message):
        make()


# joint priors ---------------------------------------------------------------------------------------------------------


def test_relative_is_a_density_of_mean_and_deviations():
    prior, rng = Relative(0.7, Normal(0.3, 1.2)), np.random.default_rng(0)
    theta = rng.normal(size=4)
    # theta is Gaussian: variance 0.7² along each deviation, and 1.2² for the mean, that is 4 · 1.2² along the unit vector
    ones = np.ones((4, 4)) / 4
    exact = stats.multivariate_normal(np.full(4, 0.3), 0.7**2 * (np.eye(4) - ones) + 4 * 1.2**2 * ones)
    value, slope = log_prior(theta, [prior] * 4)
    assert_allclose(value, exact.logpdf(theta), rtol=1e-12)
    h = 1e-6
    numeric = [
        (log_prior(theta + h * e, [prior] * 4)[0] - log_prior(theta - h * e, [prior] * 4)[0]) / (2 * h) for e in np.eye(4)
    ]
    assert_allclose(slope, numeric, atol=1e-8)  # rounding: 1e-15 / h


def test_relative_of_one_parameter_is_the_common_prior():
    assert_allclose(log_prior(np.array([0.4]), [Relative(0.5, Normal(0, 1))])[0], stats.norm.logpdf(0.4))


def test_each_vector_has_its_own_joint_prior_in_units_of_its_columns():
    names = ["rbf1.lengthscale[0]", "rbf1.lengthscale[1]", "rbf1.variance", "rbf2.lengthscale[0]", "rbf2.lengthscale[1]"]
    spread = np.array([1.0, 100.0])
    priors = resolve_priors({"lengthscale": Relative(0.5), "variance": "weak"}, names, spread)
    assert priors[0] is priors[1]
    assert priors[3] is priors[4]
    assert priors[0] is not priors[3]
    # lengthscales in proportion to the spread of their columns do not deviate, however different the two kernels are
    theta = np.array([np.log(2.0), np.log(200.0), 0.0, np.log(9.0), np.log(900.0)])
    slope = log_prior(theta, priors)[1]
    assert_allclose(slope[0], slope[1])
    assert_allclose(slope[3], slope[4])


def test_relative_needs_all_entries():
    with pytest.raises(ValueError, match="2 parameters together"):
        Relative(0.5, units=(1.0, 2.0)).log_density(np.zeros(3))
    with pytest.raises(ValueError, match="sd > 0"):
        Relative(0.0)


def test_entries_of_a_joint_prior_need_not_be_neighbours():
    joint, other = Relative(units=(1.0, 2.0, 3.0)), Normal(0.0, 1.0)
    theta = np.array([0.3, -0.5, 0.8, 0.1])
    value, gradient = log_prior(theta, [joint, other, joint, joint])
    together, slopes = joint.log_density(theta[[0, 2, 3]])
    alone, slope = other.log_density(theta[1:2])
    assert_allclose(value, together.sum() + alone.sum(), rtol=1e-14)
    assert_allclose(gradient, np.insert(slopes, 1, slope), rtol=1e-14)
