"""The display of a fitted estimator in notebooks: learned values, and scikit-learn's own diagram."""

import re

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier, GPRegressor
from gpclass.sparse import SVGP

X, Y = make_moons(50, noise=0.25, random_state=0)


def facts(model):
    """The table of learned values, by name."""
    return dict(re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td>', model._repr_html_()))


@pytest.fixture(scope="module")
def clf():
    return GPClassifier(max_iter=5).fit(X, Y)


def test_a_fitted_classifier_shows_what_it_learned(clf):
    told = facts(clf)
    assert told["data"] == "50 rows, 2 inputs, 2 classes (0, 1)"
    assert told["engine"] == "EP"
    assert told["likelihood"].startswith("Probit(")
    assert told["kernel"] == str(clf.kernel_)
    assert told["lengthscales of Matern32"].startswith("x")
    assert told["log evidence"] == f"{clf.log_evidence_:.2f}"
    error = np.mean(clf.loo().argmax(axis=1) != Y)
    assert told["leave-one-out"].startswith(f"error {100 * error:.1f} %, NLPD {clf.calibration_.nlpd_after:.3f} nats")
    assert told["calibration"].startswith(f"temperature {clf.calibration_.temperature:.2f}")


def test_the_diagram_of_scikit_learn_follows(clf):
    page = clf._repr_mimebundle_()["text/html"]
    assert page.index("</table>") < page.index("sk-top-container")
    assert clf._repr_mimebundle_()["text/plain"] == repr(clf)
    assert "sk-top-container" in clf._repr_html_()
    with sklearn.config_context(display="text"):
        assert list(clf._repr_mimebundle_()) == ["text/plain"]
        assert not hasattr(clf, "_repr_html_")


def test_an_unfitted_estimator_is_shown_by_scikit_learn_alone(clf):
    for model in (clone(clf), GPRegressor()):
        assert "gpclass-learned" not in model._repr_html_()
        assert "sk-top-container" in model._repr_mimebundle_()["text/html"]


def test_a_pipeline_shows_its_diagram():
    model = make_pipeline(StandardScaler(), GPClassifier(optimizer=None))
    before = model._repr_html_()
    after = model.fit(X, Y)._repr_html_()
    for page in (before, after):
        assert "GPClassifier" in page
        assert "StandardScaler" in page
    assert "fitted" in after


def test_labels_and_names_of_columns_are_escaped():
    frame = pd.DataFrame(X, columns=["<b>width</b>", "a & b"])
    clf = GPClassifier(kernel="rbf-ard", max_iter=2).fit(frame, np.where(Y == 1, "<script>alert(1)</script>", "fine"))
    page = clf._learned_html()
    assert "<script" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "&lt;b&gt;width&lt;/b&gt; " in page
    assert "a &amp; b " in page


def test_weights_of_stacked_kernels():
    iris, kinds = load_iris(return_X_y=True)
    clf = GPClassifier(kernel="auto", max_iter=2).fit(iris[::4], kinds[::4])
    weights = [float(shown) for shown in re.findall(r">kernel of weight ([0-9.]+)<", clf._repr_html_())]
    assert len(weights) == len(clf.members_) > 1
    assert sum(weights) == pytest.approx(1, abs=0.02)  # two digits each
    assert facts(clf)["calibration"].startswith("of each kernel")


def test_training_on_minibatches_has_its_time():
    clf = GPClassifier(inference=SVGP(n_inducing=5, epochs=2), random_state=0).fit(X, Y)
    assert facts(clf)["training"] == f"{clf.history_[-1].seconds:.1f} s"
    assert "leave-one-out" not in facts(clf)


def test_many_classes_and_columns_are_counted():
    rng = np.random.default_rng(0)
    rows, codes = rng.standard_normal((60, 12)), np.arange(60) % 12
    told = facts(GPClassifier(kernel="rbf-ard", inference="laplace", optimizer=None).fit(rows, codes))
    assert told["data"].endswith("12 classes (0, 1, 2, 3, 4, 5, 6, 7, … 4 more)")
    assert "… 4 more" in told["lengthscales of RBF"]


def test_a_regressor_shows_what_it_learned():
    told = facts(GPRegressor(max_iter=3).fit(X, X[:, 0] + X[:, 1]))
    assert set(told) == {"data", "engine", "kernel", "noise variance", "log evidence"}
