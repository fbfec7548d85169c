"""The audit: good approximations pass, bad ones do not, and its figures equal those of its parts."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.inference import EP, FV, KL, LabelRegression, Laplace
from gpclass.kernels import RBF
from gpclass.likelihoods import Logit, Probit
from gpclass.sampling import HMC, audit, orthant_evidence

from .problems import two_class_problem

K, Y = two_class_problem(n=25, variance=9.0)
QUICK = HMC(n_draws=600, n_warmup=300, random_state=0)


@pytest.fixture(scope="module")
def of_ep():
    return audit(EP().fit(K, Y, Probit()), sampler=QUICK)


def test_expectation_propagation_passes(of_ep):
    assert "can be trusted" in of_ep.verdict
    assert "good enough" in of_ep.verdict
    exact = orthant_evidence(K, Y)
    assert of_ep.sampled_log_evidence == pytest.approx(exact.log_evidence, abs=4 * exact.standard_error + 1e-3)
    assert abs(of_ep.evidence_error) < 0.1
    assert of_ep.kl_divergence > 0  # of EP's posterior from the true one
    assert of_ep.bound < of_ep.sampled_log_evidence
    assert of_ep.probability_error_max < 0.03
    assert of_ep.mean_error_max < 0.3
    assert of_ep.r_hat < 1.05


def test_divergence_is_smallest_for_kl(of_ep):
    of_kl = audit(KL().fit(K, Y, Probit()), sampler=QUICK)
    assert of_kl.kl_divergence < of_ep.kl_divergence  # KL minimises it
    assert of_kl.log_evidence == pytest.approx(of_kl.bound, abs=1e-6)


def test_label_regression_fails(of_ep):
    of_lr = audit(LabelRegression().fit(K, Y, Probit()), sampler=QUICK)
    assert "do not trust" in of_lr.verdict
    assert of_lr.probability_error_max > 3 * of_ep.probability_error_max
    assert of_lr.kl_divergence > 2 * of_ep.kl_divergence


def test_logit_is_annealed():
    report = audit(Laplace().fit(K, Y, Logit()), sampler=QUICK, n_temperatures=100)
    assert report.evidence_method == f"annealed from {'Laplace' if report.pareto_k < 0.7 else 'the prior'}"
    assert report.evidence_error < 0  # Laplace underestimates
    assert "annealed from EP" in repr(audit(EP().fit(K, Y, Logit()), sampler=QUICK, n_temperatures=100))


def test_posteriors_without_sites_are_audited_too():
    report = audit(FV().fit(K, Y, Logit()), sampler=QUICK, n_temperatures=100)
    assert report.evidence_method == "annealed from the prior"
    assert report.pareto_k is None
    assert "–" in repr(report)


def test_a_classifier_at_new_rows(of_ep):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    labels = np.where(X[:, 0] > 0, "b", "a")
    clf = GPClassifier(RBF(1.0, 4.0), optimizer=None).fit(X, labels)
    here, there = audit(clf, sampler=QUICK), audit(clf, rng.normal(size=(5, 2)), sampler=QUICK)
    assert here.log_evidence == there.log_evidence == clf.log_evidence_
    assert here.probability_error_max != there.probability_error_max
    assert there.probability_error_max < 0.03


@pytest.mark.parametrize("inference", ["nested-ep", "laplace"])
def test_several_classes(inference):
    X, y = load_iris(return_X_y=True)
    clf = GPClassifier(RBF(1.5, 20.0), inference=inference, optimizer=None).fit(X[::5], y[::5])
    report = audit(clf, X[1::10], sampler=HMC(n_draws=400, n_warmup=200, random_state=0), n_temperatures=200)
    assert report.evidence_method == ("orthant probability" if inference == "nested-ep" else "annealed from the prior")
    assert report.probability_error_max < (0.05 if inference == "nested-ep" else 0.4)
    assert report.evidence_error < 0.1  # neither is significantly too high
    assert report.bound is None
    assert "Audit of" in repr(report)


def test_a_pipeline():
    rng = np.random.default_rng(0)
    X = 100 * rng.normal(size=(30, 2))
    pipe = make_pipeline(StandardScaler(), GPClassifier(RBF(1.0, 4.0), optimizer=None)).fit(X, X[:, 0] > 0)
    piped = audit(pipe, X[:5], sampler=QUICK)
    direct = audit(pipe[-1], pipe[0].transform(X[:5]), sampler=QUICK)
    assert piped == direct


def test_it_reads_well(of_ep):
    text = repr(of_ep)
    assert text.startswith("Audit of EP with Probit on 25 points: ")
    assert all(len(line) < 160 for line in text.splitlines())
    frame = of_ep.to_frame()
    assert frame.loc["KL(q‖p)", "value"] == pytest.approx(of_ep.kl_divergence)
    assert list(frame.columns) == ["value", "error", "remark"]


def test_points_without_variance():
    x = np.array([[0.0], [1.0], [-1.0], [0.5], [2.0]])  # a linear kernel has zero variance at the origin
    fit = EP().fit(x @ x.T, np.array([1.0, 1, -1, 1, 1]), Probit())
    assert all(np.isfinite(value) for _, value, _, _ in audit(fit, sampler=QUICK).rows())


def test_errors():
    with pytest.raises(TypeError, match="audit takes"):
        audit("ep")
    with pytest.raises(ValueError, match="bare fit"):
        audit(EP().fit(K, Y, Probit()), np.zeros((2, 2)))
    X = np.random.default_rng(0).normal(size=(20, 2))
    clf = GPClassifier(RBF(), inference=HMC(n_draws=10, n_warmup=10), optimizer=None, random_state=0)
    with pytest.warns(ConvergenceWarning, match="never moved|R-hat"):
        clf.fit(X, X[:, 0] > 0)
    with pytest.raises(TypeError, match="fitted by sampling"):
        audit(clf)
    ep = GPClassifier(RBF(), optimizer=None).fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="expecting 2 features"):
        audit(ep, np.zeros((3, 5)))
