"""The loop around the samplers: reproducible, can be resumed and interrupted, and warns if draws are bad."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from gpclass.inference import EP
from gpclass.kernels import RBF
from gpclass.learning import Objective, resolve_priors
from gpclass.likelihoods import Heaviside, Logit, MultinomialProbit, Probit, Softmax
from gpclass.sampling import HMC, Draws, EllipticalSlice, Gibbs, ScaledMetropolis, effective_size, orthant_evidence
from gpclass.sampling.hmc import _HamiltonianWalk

from .problems import three_class_problem, two_class_problem

SHORT = {"n_draws": 40, "n_warmup": 40, "n_chains": 3, "random_state": 3}
ALL = [HMC, EllipticalSlice, Gibbs, ScaledMetropolis]


@pytest.fixture(autouse=True)
def _short_chains_disagree():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.mark.parametrize("sampler", ALL)
def test_repeatable(sampler):
    K, y = two_class_problem()
    first, second = (sampler(**SHORT).fit(K, y, Probit()) for _ in range(2))
    assert np.array_equal(first.latent, second.latent)
    other = sampler(**{**SHORT, "random_state": 4}).fit(K, y, Probit())
    assert not np.array_equal(first.latent, other.latent)


@pytest.mark.parametrize("sampler", ALL)
def test_a_resumed_chain_is_the_longer_one(sampler):
    K, y = two_class_problem()
    whole = sampler(**{**SHORT, "n_draws": 70}).fit(K, y, Probit())
    part = sampler(**SHORT).fit(K, y, Probit())
    resumed = sampler(**{**SHORT, "n_draws": 30}).fit(K, y, Probit(), start=part)
    assert np.array_equal(resumed.latent, whole.latent)
    assert np.array_equal(resumed.log_likelihood, whole.log_likelihood, equal_nan=True)
    assert part.n_draws == 40  # unchanged
    again = sampler(**{**SHORT, "n_draws": 30}).fit(K, y, Probit(), start=part)
    assert np.array_equal(again.latent, whole.latent)


def test_resuming_checks_what_it_resumes():
    K, y = two_class_problem()
    draws = HMC(**SHORT).fit(K, y, Probit())
    with pytest.raises(ValueError, match="same sampler"):
        EllipticalSlice(**SHORT).fit(K, y, Probit(), start=draws)
    with pytest.raises(ValueError, match="other labels"):
        HMC(**SHORT).fit(K, -y, Probit(), start=draws)
    with pytest.raises(ValueError, match="another K"):
        HMC(**SHORT).fit(1.01 * K, y, Probit(), start=draws)
    with pytest.raises(ValueError, match="drawn under Probit"):
        HMC(**SHORT).fit(K, y, Logit(), start=draws)


def test_starting_from_a_fit():
    K, y = two_class_problem(n=30, variance=25.0)
    fit = EP().fit(K, y, Probit())
    warm = EllipticalSlice(n_draws=1, n_warmup=0, n_chains=2000, random_state=0).fit(K, y, Probit(), start=fit)
    # one step from EP's posterior stays close to it, unlike the prior (mean zero)
    assert np.abs(warm.mean - fit.mean).max() < 0.5 * np.abs(fit.mean).max()
    with pytest.raises(TypeError, match="start"):
        HMC(**SHORT).fit(K, y, Probit(), start="prior")


@pytest.mark.parametrize("when", [1, 25])
def test_interruption_gives_what_there_is(monkeypatch, when):
    K, y = two_class_problem()
    step, count = _HamiltonianWalk.step, 0

    def interrupted(self):
        nonlocal count
        count += 1
        if count == SHORT["n_warmup"] + when:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(_HamiltonianWalk, "step", interrupted)
    if when == 1:
        with pytest.raises(KeyboardInterrupt):
            HMC(**SHORT).fit(K, y, Probit())
        return
    with pytest.warns(UserWarning, match="24 of 40"):
        draws = HMC(**SHORT).fit(K, y, Probit())
    assert draws.n_draws == 24
    monkeypatch.undo()
    whole = HMC(**SHORT).fit(K, y, Probit())
    assert np.array_equal(draws.latent, whole.latent[:, :24])


def test_progress_goes_to_stderr(capsys):
    K, y = two_class_problem()
    HMC(**SHORT, verbose=1).fit(K, y, Probit())
    captured = capsys.readouterr()
    assert "40 steps of warm-up and 40 draws" in captured.err
    assert captured.out == ""
    HMC(**SHORT).fit(K, y, Probit())
    assert capsys.readouterr().err == ""


def test_progress_in_a_log_file_is_a_line_now_and_then(capsys):
    K, y = two_class_problem()
    HMC(**{**SHORT, "n_draws": 400}, verbose=1).fit(K, y, Probit())
    # the first and the last line, and one for every 30 seconds of a slow machine
    assert 2 <= capsys.readouterr().err.count("\n") <= 4


def test_thinning_keeps_every_kth():
    K, y = two_class_problem()
    every = EllipticalSlice(**{**SHORT, "n_draws": 60}).fit(K, y, Probit())
    third = EllipticalSlice(**{**SHORT, "n_draws": 20, "thin": 3}).fit(K, y, Probit())
    assert np.array_equal(third.latent, every.latent[:, 2::3])


def test_a_chain_that_never_moves_warns():
    class Stuck(HMC):
        def begin(self, target, F, rng):
            walk = super().begin(target, F, rng)
            walk.step_size.freeze = lambda: None
            walk.step = lambda: np.zeros(F.shape[2])
            return walk

    K, y = two_class_problem()
    with pytest.warns(ConvergenceWarning, match="never moved"):
        Stuck(**SHORT).fit(K, y, Probit())


    with pytest.warns(ConvergenceWarning, match="never moved"):  # a single chain cannot disagree with others
        Stuck(**{**SHORT, "n_chains": 1}).fit(K, y, Probit())


def test_a_latent_value_without_variance_is_no_stuck_chain():
    x = np.array([[0.0], [1.0], [-1.0], [0.5]])  # a linear kernel has zero variance at the origin
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draws = Gibbs(n_draws=500, random_state=0).fit(x @ x.T, np.array([1.0, 1, -1, 1]), Probit())
    assert draws.converged


@pytest.mark.parametrize("n_warmup", [5, 12])
def test_a_short_warm_up_leaves_a_usable_step(n_warmup):
    K, y = two_class_problem()
    draws = HMC(**{**SHORT, "n_warmup": n_warmup}).fit(K, y, Probit())
    assert draws.acceptance.mean() > 0.4


def test_disagreeing_chains_warn():
    K, y = two_class_problem(n=40, variance=400.0)
    with pytest.warns(ConvergenceWarning, match="R-hat"):
        draws = EllipticalSlice(n_draws=50, n_warmup=0, random_state=0).fit(K, y, Probit())
    assert not draws.converged
    assert "R-hat" in repr(draws)


def test_draws_know_their_shapes():
    K, y = three_class_problem()
    draws = HMC(**SHORT).fit(K, y, Softmax(3))
    assert draws.latent.shape == (3, 40, 12, 3)
    assert draws.mean.shape == draws.var.shape == draws.r_hat.shape == draws.effective_size.shape == (12, 3)
    mean, cov = draws.predict(K[:, :4], np.diagonal(K)[:4])
    assert mean.shape == (4, 3)
    assert cov.shape == (4, 3, 3)
    # at a training point the prediction is the marginal itself
    assert mean == pytest.approx(draws.mean[:4], abs=1e-6)
    assert np.diagonal(cov, axis1=1, axis2=2) == pytest.approx(draws.var[:4], rel=1e-5)
    assert np.exp(draws.log_class_probabilities(K[:, :4], np.diagonal(K)[:4])).sum(1) == pytest.approx(np.ones(4))
    assert draws.loo().shape == (12,)
    with pytest.raises(AttributeError, match="annealed_importance"):
        _ = draws.log_evidence
    assert isinstance(draws, Draws)


def test_predictions_do_not_depend_on_the_batch():
    K, y = three_class_problem()
    draws = HMC(**SHORT).fit(K, y, Softmax(3))
    kd = np.diagonal(K)
    whole = draws.log_class_probabilities(K, kd)
    parts = np.concatenate([draws.log_class_probabilities(K[:, i : i + 1], kd[i : i + 1]) for i in range(len(y))])
    assert whole == pytest.approx(parts, abs=1e-8)  # roots of variances at training points, which are rounding errors


def test_leave_one_out_against_exact_evidence():
    # p(y_i | y_-i) = Z / Z_-i. Row 0 nearly contradicts its neighbours: its weights have a heavy tail
    K, y = two_class_problem(n=10)
    got = np.exp(HMC(n_draws=3000, random_state=0).fit(K, y, Probit()).loo())
    whole = orthant_evidence(K, y, Probit()).log_evidence
    for i in (0, 4, 9):
        rest = np.arange(10) != i
        without = orthant_evidence(K[np.ix_(rest, rest)], y[rest], Probit()).log_evidence
        assert got[i] == pytest.approx(np.exp(whole - without), abs=0.03)  # the error is at most 0.023 for six seeds


def test_errors_are_clear():
    K, y = two_class_problem()
    with pytest.raises(TypeError, match="HMC needs log_prob, which Heaviside does not offer"):
        HMC(**SHORT).fit(K, y, Heaviside())
    with pytest.raises(TypeError, match="draw_auxiliary"):
        Gibbs(**SHORT).fit(K, y, Logit())
    with pytest.raises(TypeError, match="an object"):
        HMC(**SHORT).fit(K, y, Probit)
    with pytest.raises(ValueError, match="not symmetric"):
        HMC(**SHORT).fit(np.triu(K), y, Probit())
    with pytest.raises(ValueError, match="NaN"):
        HMC(**SHORT).fit(np.where(K > 3, np.nan, K), y, Probit())
    with pytest.raises(ValueError, match="labels"):
        HMC(**SHORT).fit(K, y[:-1], Probit())
    with pytest.raises(ValueError, match="shape"):
        HMC(**SHORT).fit(np.stack([K, K]), y, Probit())
    with pytest.raises(ValueError, match="shape"):
        HMC(**SHORT).fit(np.stack([K, K]), np.zeros(15, int), MultinomialProbit(3))
    with pytest.raises(ValueError, match="from 0 to 2"):
        HMC(**SHORT).fit(K, np.full(15, 3), Softmax(3))
    with pytest.raises(np.linalg.LinAlgError, match="not a covariance matrix"):
        HMC(**SHORT).fit(K - 3 * np.eye(15), y, Probit())
    settings = {"n_draws": 0, "n_chains": 1.5, "thin": 0, "n_warmup": -1, "target_acceptance": 1.0, "max_leapfrogs": 0}
    for bad in ({name: value} for name, value in settings.items()):
        with pytest.raises(ValueError, match=next(iter(bad))):
            HMC(**{**SHORT, **bad}).fit(K, y, Probit())


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_extreme_scales(scale):
    K, y = two_class_problem()
    draws = HMC(**{**SHORT, "n_warmup": 200}).fit(scale * K, y, Probit())
    assert np.all(np.isfinite(draws.pooled))
    assert np.all(np.isfinite(draws.log_likelihood))


# enough ---------------------------------------------------------------------------------------------------------------


def test_drawing_stops_when_there_is_enough():
    K, y = two_class_problem()
    settings = {"n_draws": 1000, "n_warmup": 200, "random_state": 0}
    short, whole = HMC(**settings, enough=300).fit(K, y, Probit()), HMC(**settings).fit(K, y, Probit())
    assert 50 <= short.n_draws < 1000 == whole.n_draws
    assert short.least_effective_size >= 300
    assert short.worst_r_hat < 1.02
    assert np.array_equal(short.latent, whole.latent[:, : short.n_draws])  # the same chains, ended early
    assert HMC(**settings | {"n_draws": 70}, enough=1e6).fit(K, y, Probit()).n_draws == 70


def test_hyperparameters_count_among_what_must_be_enough():
    X = np.linspace(-2, 2, 12)[:, None]
    y = np.where(np.sin(9 * X[:, 0]) > 0, 1.0, -1.0)
    kernel = RBF()
    problem = Objective(X, y, kernel, Probit(), EP(), resolve_priors("weak", kernel.names))
    sampler = HMC(n_draws=400, n_warmup=80, n_chains=2, enough=15, random_state=0, sample_hyper=True)
    draws = sampler.fit_hyper(problem)
    assert draws.n_draws < 400
    assert effective_size(draws.theta).min() >= 15


@pytest.mark.parametrize("enough", [0, -1.0, float("nan")])
def test_enough_must_be_positive(enough):
    K, y = two_class_problem()
    with pytest.raises(ValueError, match="enough must be a positive number"):
        HMC(enough=enough).fit(K, y, Probit())
