"""GPClassifier on inducing points: streams, memory maps, later rows, checkpoints, errors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_moons

from gpclass import GPClassifier
from gpclass.choose import LARGEST_SIZE, engine_for
from gpclass.inference import EP, NestedEP
from gpclass.kernels import RBF, PerClass
from gpclass.learning import ImageShifts, csv_file
from gpclass.likelihoods import MultinomialProbit, Probit, Softmax
from gpclass.sparse import GFITC, IVM, SVGP, ScalableEP, StochasticEP

X2, y2 = make_moons(400, noise=0.25, random_state=0)
X3, y3 = load_iris(return_X_y=True)
X3 = (X3 - X3.mean(0)) / X3.std(0)
NAMES = np.array(["setosa", "versicolor", "virginica"])[y3]
QUICK = {"n_inducing": 15, "batch_size": 50, "epochs": 20}
HELD = {"kernel": RBF(0.7, 4.0), "optimizer": None, "random_state": 0}


def test_all_rows_as_inducing_points_are_expectation_propagation():
    X, y = X2[:60], y2[:60]
    full = GPClassifier(**HELD, inference=EP(tol=1e-10)).fit(X, y)
    engine = ScalableEP(n_inducing=60, jitter=1e-10, tol=1e-9)
    sparse = GPClassifier(**HELD, inference=engine).fit(X, y)
    # jitter of 1e-10 moves latent values by less than 1e-6, and so probabilities
    assert_allclose(sparse.predict_proba(X2), full.predict_proba(X2), atol=1e-5)
    assert_allclose(sparse.log_evidence_, full.log_evidence_, atol=1e-5)


@pytest.mark.parametrize("engine", [ScalableEP, StochasticEP, SVGP])
def test_streams_bring_labels_along(engine, tmp_path):
    pairs = [(X3[i::3], NAMES[i::3]) for i in range(3)]
    clf = GPClassifier(inference=engine(**QUICK), random_state=0)
    listed = clf.fit(pairs).predict_proba(X3)
    assert list(clf.classes_) == ["setosa", "versicolor", "virginica"]
    assert clf.n_features_in_ == 4
    assert clf.score(X3, NAMES) > 0.9
    again = clf.fit(lambda: iter(pairs)).predict_proba(X3)
    assert_allclose(again, listed, rtol=1e-12)
    path = tmp_path / "iris.csv"
    lines = [",".join(map(repr, map(float, x))) + "," + name for x, name in zip(X3, NAMES, strict=True)]
    path.write_text("\n".join(["a,b,c,d,species", *lines]))
    assert clf.fit(csv_file(path, "species", chunk=64)).score(X3, NAMES) > 0.9


def test_a_stream_of_two_classes_without_learning():
    clf = GPClassifier(**HELD, inference=ScalableEP(n_inducing=30, batch_size=50, epochs=10))
    streamed = clf.fit([(X2, y2)])
    assert streamed.kernel_ == HELD["kernel"]
    settled = GPClassifier(**HELD, inference=ScalableEP(n_inducing=30)).fit(X2, y2)
    assert np.max(np.abs(streamed.predict_proba(X2) - settled.predict_proba(X2))) < 0.05  # other inducing inputs


def test_streams_need_engines_that_take_minibatches():
    for engine in ("ep", "ivm", "gfitc"):
        with pytest.raises(TypeError, match="X is a stream of rows"):
            GPClassifier(inference=engine).fit([(X2, y2)])
    with pytest.raises(ValueError, match="only one class"):
        GPClassifier(inference="svgp").fit([(X2, np.zeros(400))])


def test_auto_takes_inducing_points_when_there_are_many_rows():
    assert isinstance(engine_for(Probit(), LARGEST_SIZE), EP)
    assert isinstance(engine_for(Probit(), LARGEST_SIZE + 1), ScalableEP)
    assert isinstance(engine_for(MultinomialProbit(7), LARGEST_SIZE // 2), NestedEP)  # eight factorisations of half the size
    assert isinstance(engine_for(MultinomialProbit(7), LARGEST_SIZE // 2 + 1), ScalableEP)
    assert isinstance(engine_for(Softmax(7), LARGEST_SIZE), SVGP)
    # as a stream, any number of them
    assert isinstance(GPClassifier("rbf", random_state=0, optimizer=None).fit([(X2[:40], y2[:40])]).inference_, ScalableEP)


def test_memory_maps_of_single_precision(tmp_path):
    X = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=np.float32, shape=X2.shape)
    X[:] = X2
    clf = GPClassifier(inference=ScalableEP(**QUICK, search="minibatches"), random_state=0)
    mapped = clf.fit(X, y2).predict_proba(X2)
    plain = clf.fit(X2.astype(np.float32), y2).predict_proba(X2)
    assert_allclose(mapped, plain, rtol=1e-12)
    assert_allclose(clf.fit(X2, y2).predict_proba(X2), plain, atol=0.02)  # rounding of inputs, over a whole training


@pytest.mark.slow_cases("StochasticEP")
@pytest.mark.parametrize(
    "engine",
    [ScalableEP(**QUICK), StochasticEP(**QUICK), SVGP(**QUICK), IVM(active=40)],
    ids=lambda engine: type(engine).__name__,
)
def test_rows_that_come_later(engine):
    clf = GPClassifier(inference=engine, random_state=0)
    clf.partial_fit(X3[:75], NAMES[:75], classes=np.unique(NAMES))  # two of the three classes
    assert list(clf.classes_) == list(np.unique(NAMES))
    before = clf.score(X3, NAMES)
    for part in np.split(np.random.default_rng(0).permutation(150), 3):
        assert clf.partial_fit(X3[part], NAMES[part]) is clf
    assert clf.score(X3, NAMES) > max(before, 0.9)
    if isinstance(engine, IVM):
        assert np.all(clf.active_indices_ < 75 + 150)
        assert len(clf.inputs_) == len(clf.active_indices_) <= 40 * 3
    with pytest.raises(ValueError, match="are unknown"):
        clf.partial_fit(X3[:5], ["rose"] * 5)
    with pytest.raises(ValueError, match="but the first call had"):
        clf.partial_fit(X3[:5], NAMES[:5], classes=["setosa", "rose"])
    assert clf.score(X3, NAMES) > 0.9  # errors have not changed it


def test_rows_that_come_later_count_as_those_before():
    """With fixed hyperparameters, half of the rows and then the other half is nearly EP on all rows."""
    engine = ScalableEP(n_inducing=40, batch_size=20)
    clf = GPClassifier(**HELD, inference=engine).fit(X2[:200], y2[:200])
    half = clf.predict_proba(X2)
    clf.partial_fit(X2[200:], y2[200:])
    whole = GPClassifier(**HELD, inference=ScalableEP(n_inducing=40)).fit(X2, y2).predict_proba(X2)
    # each later row was visited once, as in assumed-density filtering
    assert np.mean(np.abs(clf.predict_proba(X2) - whole)) < 0.4 * np.mean(np.abs(half - whole))


def test_rows_that_come_later_count_after_a_held_out_choice():
    """The model that was best on held-out rows was not trained on them."""
    engine = ScalableEP(**QUICK, search="minibatches", validation=0.2)
    clf = GPClassifier(inference=engine, random_state=0).fit(X2[:100], y2[:100])
    before = clf.predict_proba(X2)
    clf.partial_fit(X2[100:], y2[100:])
    assert not np.allclose(clf.predict_proba(X2), before, atol=1e-3)


@pytest.mark.parametrize(("engine", "known"), [(ScalableEP, False), (SVGP, True)])
def test_evidence_after_later_rows(engine, known):
    clf = GPClassifier(**HELD, inference=engine(n_inducing=40, batch_size=50)).fit(X2[:200], y2[:200])
    assert np.isfinite(clf.log_evidence_)
    clf.partial_fit(X2[200:], y2[200:])
    if known:  # an estimate from minibatches scaled to all rows, with other inducing inputs
        whole = GPClassifier(**HELD, inference=engine(n_inducing=40)).fit(X2, y2).log_evidence_
        assert abs(clf.log_evidence_ - whole) < 0.2 * abs(whole)
    else:
        assert np.isnan(clf.log_evidence_)


def test_partial_fit_is_there_where_it_makes_sense():
    assert not hasattr(GPClassifier(inference="ep"), "partial_fit")
    assert not hasattr(GPClassifier(inference=GFITC()), "partial_fit")
    assert hasattr(GPClassifier(inference="svgp"), "partial_fit")
    assert hasattr(GPClassifier(inference=IVM()), "partial_fit")


def test_a_run_is_taken_up_from_its_checkpoint(tmp_path):
    path = tmp_path / "run.npz"
    # a decaying rate would depend on the total number of passes
    settings = {"n_inducing": 15, "batch_size": 50, "search": "minibatches", "decay": False}
    whole = GPClassifier(inference=ScalableEP(**settings, epochs=6), random_state=0).fit(X2, y2)
    GPClassifier(inference=ScalableEP(**settings, epochs=3, checkpoint=path), random_state=0).fit(X2, y2)
    resumed = GPClassifier(inference=ScalableEP(**settings, epochs=6, checkpoint=path), random_state=0).fit(X2, y2)
    assert_allclose(resumed.predict_proba(X2), whole.predict_proba(X2), rtol=1e-10)
    with pytest.raises(ValueError, match="belongs to another run"):
        GPClassifier(inference=SVGP(checkpoint=path), random_state=0).fit(X2, y2)


def test_inducing_inputs_and_kernels_of_each_class():
    kernel = PerClass(*(RBF(1.5, 4.0) for _ in range(3)))
    own = GPClassifier(inference=ScalableEP(n_inducing=10, per_class=True), kernel=kernel, random_state=0, max_iter=8)
    with pytest.warns(UserWarning, match="limit of 8 iterations"):
        own.fit(X3, NAMES)
    assert own.inputs_.shape == (3, 10, 4)
    assert len({k.lengthscale for k in own.kernel_.kernels}) == 3
    assert own.score(X3, NAMES) > 0.9
    mean, cov = own.latent(X3)
    assert mean.shape == (150, 3)
    assert cov.shape == (150, 3, 3)
    assert own.predict_proba_std(X3).shape == (150, 3)


def test_too_many_inducing_points():
    with pytest.raises(ValueError, match="more than the 149 rows"):
        GPClassifier(inference=GFITC(n_inducing=151)).fit(X3, y3)
    assert GPClassifier(inference="gfitc", optimizer=None, kernel=RBF(1.5, 4.0)).fit(X3[:9], y3[:9] + [0, 0, 1] * 3)


def test_what_cannot_be_asked_without_rows():
    clf = GPClassifier(**HELD, inference=ScalableEP(n_inducing=20)).fit(X2, y2)
    for question in (clf.loo, clf.jensen_bound):
        with pytest.raises(AttributeError, match="keeps no training rows"):
            question()
    with pytest.raises(AttributeError, match="needs the training rows"):
        clf.log_evidence(clf.kernel_.theta)


def test_virtual_rows_of_the_active_set():
    rng = np.random.default_rng(0)
    images = np.zeros((60, 5, 5))
    y = np.arange(60) % 2
    for image, upright, at in zip(images, y, rng.integers(0, 5, size=60), strict=True):
        image[(slice(None), at) if upright else (at, slice(None))] = 1.0
    X = (images + 0.1 * rng.normal(size=images.shape)).reshape(60, 25)
    settings = {"kernel": RBF(2.0, 4.0), "optimizer": None}
    clf = GPClassifier(**settings, inference=IVM(active=20, augment=ImageShifts((5, 5)))).fit(X, y)
    plain = GPClassifier(**settings, inference=IVM(active=20)).fit(X, y)
    assert clf.inputs_.shape == (20, 25)
    copies = ~np.all(np.isclose(clf.inputs_, X[clf.active_indices_]), axis=1)
    assert np.any(copies)  # some of its active rows are shifted ones
    assert np.all(clf.active_indices_ < 60)
    assert not np.allclose(clf.predict_proba(X), plain.predict_proba(X))
    with pytest.raises(ValueError, match="augment must turn"):
        GPClassifier(**settings, inference=IVM(active=20, augment=lambda rows: rows)).fit(X, y)
