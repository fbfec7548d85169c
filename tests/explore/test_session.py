"""The explorer without a server: figures equal those of GPClassifier, and its code creates the same model."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_moons

from gpclass import GPClassifier
from gpclass.assess import nlpd, suspicious_labels
from gpclass.assess.labels import doubtful
from gpclass.assess.plots.decision import plane_of
from gpclass.assess.surface import CommonScales, evidence_surface
from gpclass.explore import Session, Table
from gpclass.explore import panels as data_of
from gpclass.explore.code import code
from gpclass.explore.messages import setting_from
from gpclass.explore.pace import FIXED, GOAL, POWER, SLOW, Pace
from gpclass.explore.section import Section
from gpclass.kernels import RBF, Linear

TOL = 1e-6  # engines converge to moves of 1e-8 standard deviations or less; evidences have the square of that as error


def moons(n=90, repeated=6, seed=0):
    """Two classes; the last rows repeat earlier ones, some with the other label."""
    X, y = make_moons(n, noise=0.3, random_state=seed)
    again = np.arange(repeated)
    X, y = np.concatenate([X, X[again]]), np.concatenate([y, np.where(again % 3 == 2, 1 - y[again], y[again])])
    return Table(X, np.where(y, "moon", "sun"), ["left", "up"], [str(i + 1) for i in range(len(y))])


def iris():
    bunch = load_iris()
    rows = np.arange(0, 150, 2)
    return Table(bunch.data[rows], bunch.target[rows], bunch.feature_names, [str(i + 1) for i in rows])


@pytest.fixture(scope="module")
def two():
    return Session(moons())


@pytest.fixture(scope="module")
def three():
    return Session(iris())


def made_by(session, setting):
    """The classifier that the code of a setting creates."""
    names = {"X": session.table.X, "y": session.table.y}
    exec(code(session, setting), names)
    return names["model"]


def moved(session, kernel, engine, likelihood, calibrate=False):
    start = session.first(kernel, engine, likelihood)
    return replace(
        start, log_lengthscale=start.log_lengthscale - 0.4, log_scale=start.log_scale + 0.3, calibrate=calibrate
    )


@pytest.mark.parametrize("kernel", ["rbf", "matern32-ard", "rbf * linear + constant"])
@pytest.mark.parametrize("calibrate", [False, True])
def test_the_code_makes_the_model_on_the_page(two, kernel, calibrate):
    setting = moved(two, kernel, "ep", "probit", calibrate)
    model = two.model(setting, "ep")
    found, theirs = data_of.panel(two, model, 9, calibrated=True), made_by(two, setting)
    assert found["log_evidence"] == pytest.approx(theirs.log_evidence_, abs=TOL)
    assert found["nlpd"] == pytest.approx(nlpd(two.table.y, theirs.loo()), abs=TOL)
    assert_allclose(model.loo(model.applied), theirs.loo(), atol=TOL)
    points = two.section(None).points(9)
    assert_allclose(np.array(found["map"][0]) / 1000, theirs.predict_proba(points)[:, 1], atol=6e-4)  # in thousandths


def test_every_engine_with_every_likelihood_is_the_estimators(two):
    checked = 0
    for engine, names in two.engines.items():
        for name in names:
            setting = moved(two, "rbf", engine, name)
            try:
                model = two.model(setting, engine)
            except TypeError as error:  # repeated rows become weights, which some pairs and the estimator do not support
                with pytest.raises(TypeError, match=str(error)[:30]):
                    made_by(two, setting)
                continue
            theirs = made_by(two, setting)
            assert model.fit.log_evidence == pytest.approx(theirs.log_evidence_, abs=TOL), (engine, name)
            assert_allclose(model.loo(model.applied), theirs.loo(), atol=TOL)
            checked += 1
    assert checked >= 15


@pytest.mark.parametrize("engine", ["nested-ep", "laplace", "independent-ep"])
def test_several_classes(three, engine):
    setting = moved(three, "rbf", engine, "auto")
    found, theirs = data_of.panel(three, three.model(setting, engine), 5, calibrated=False), made_by(three, setting)
    assert found["log_evidence"] == pytest.approx(theirs.log_evidence_, abs=TOL)
    assert len(found["map"]) == 3
    assert_allclose(np.sum(found["map"], axis=0), 1000, atol=2)  # each of three is rounded


def test_thresholds_of_ordered_categories_are_in_the_code(three):
    setting = moved(three, "rbf", "ep", "ordinal")
    assert "Ordinal(thresholds=(" in code(three, setting)
    assert three.model(setting, "ep").fit.log_evidence == pytest.approx(made_by(three, setting).log_evidence_, abs=TOL)


def test_auto_is_the_estimators_choice(two, three):
    assert (two.first().engine, two.first().likelihood) == ("ep", "probit")
    assert (three.first().engine, three.first().likelihood) == ("nested-ep", "multinomial-probit")
    assert three.first(likelihood="softmax").engine == "variational-mnl"
    assert three.first(likelihood="ordinal").engine == "ep"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"engine": "svgp"}, "an engine that uses all rows"),
        ({"engine": "epp"}, "Did you mean 'ep'"),
        ({"likelihood": "softmax", "engine": "ep"}, "does not support 'softmax'"),
        ({"kernel": "rfb"}, "did you mean 'rbf'"),
        ({"kernel": "precomputed"}, "needs a covariance matrix"),
    ],
)
def test_unsuitable_choices_are_refused(two, asked, told):
    with pytest.raises(ValueError, match=told):
        two.first(**asked)


def test_warm_starts_end_where_cold_ones_do():
    warm, table = Session(moons()), moons()
    for step in np.linspace(-1, 1, 7):
        setting = replace(warm.first("rbf"), log_lengthscale=0.4 + step, log_scale=0.7 - step)
        for engine in ("ep", "laplace", "kl", "vb"):
            cold = Session(table).model(setting, engine)
            assert warm.model(setting, engine).fit.log_evidence == pytest.approx(cold.fit.log_evidence, abs=TOL)


def test_a_search_moves_the_sliders_to_what_the_estimator_learns():
    session = Session(iris())
    setting, notes = session.learn(session.first("rbf-ard", "laplace"))
    theirs = GPClassifier("rbf-ard", "softmax", "laplace", random_state=0).fit(session.table.X, session.table.y)
    here = CommonScales.of(theirs.kernel_).here
    assert_allclose((setting.log_lengthscale, setting.log_scale), here, atol=1e-8)
    found = session.model(setting, "laplace").fit.log_evidence
    assert found == pytest.approx(theirs.log_evidence_, abs=1e-4)  # six digits of each hyperparameter
    assert not notes
    start = session.reset(setting)
    assert start == session.first("rbf-ard", "laplace")


def test_common_scales_keep_ratios():
    kernel = RBF([1.0, 3.0], 2.0) + Linear(1.0, 0.5).fix("lengthscale")
    scales = CommonScales.of(kernel)
    ell, scale = scales.here
    assert scales.make(np.exp(ell), np.exp(2 * scale))(np.eye(2)) == pytest.approx(kernel(np.eye(2)))
    twice = scales.make(2 * np.exp(ell), 9 * np.exp(2 * scale))
    assert_allclose([*twice.leaves[0].lengthscale, twice.leaves[0].variance, twice.leaves[1].variance], [2, 6, 18, 4.5])
    assert CommonScales.of(Linear(1.0, 2.0).fix("lengthscale")).lengthscales == ()


def test_doubtful_rows_are_those_of_suspicious_labels(two):
    setting = moved(two, "rbf", "ep", "probit")
    model, theirs = two.model(setting, "ep"), doubtful(suspicious_labels(made_by(two, setting)))
    found = data_of.doubtful(two, model)
    assert found["rows"] == sorted(theirs.index.tolist())
    assert [one["row"] for one in found["listed"]] == theirs.index[: data_of.LISTED].tolist()
    first = data_of.row_details(two, model, int(theirs.index[0]))
    assert (first["doubtful"], first["rank"]) == (True, 1)
    assert first["loo"][first["label"]] == pytest.approx(theirs["probability"].iloc[0], abs=TOL)


def test_neighbours_have_the_largest_covariance(three):
    setting = moved(three, "rbf-ard", "laplace", "softmax")
    model = three.model(setting, "laplace")
    details, K = data_of.row_details(three, model, 7), model.kernel(three.table.X)
    order = [i for i in np.argsort(-K[7], kind="stable") if i != 7][: data_of.NEIGHBOURS]
    assert [one["row"] for one in details["neighbours"]] == order
    assert details["neighbours"][0]["near"] == pytest.approx(K[7, order[0]] / K[7, 7], rel=1e-3)
    assert details["name"] == "15"


def test_previews_use_some_rows_of_each_class(three):
    setting = moved(three, "rbf", "nested-ep", "auto")
    preview = three.model(setting, "nested-ep", most=30, tol=1e-3)
    assert len(preview.rows) == 30
    assert_array_equal(np.bincount(three.codes[preview.rows]), [10, 10, 10])
    assert preview.kernel == three.model(setting, "nested-ep").kernel, "in the units of all rows"
    assert data_of.panel(three, preview, 3, calibrated=False)["rows"] == 30


@pytest.mark.parametrize("inputs", [None, (2, 0)])
def test_points_of_the_map_lead_back_to_inputs(three, inputs):
    X = three.table.X
    section = Section.of(X, three.table.columns, inputs)
    points = section.points(6)
    assert points.shape == (36, 4)
    again = Section.of(X, three.table.columns, inputs).inputs(section.at)
    if inputs is None:  # principal components of standardised columns
        spread = (X - section.centre) / section.spread
        plane = plane_of(spread, three.table.columns)
        assert_allclose((again - section.centre) / section.spread, plane.points(plane.coordinates(spread)), atol=1e-12)
    else:
        assert_allclose(again[:, [2, 0]], X[:, [2, 0]], atol=1e-12)
        assert_allclose(again[:, [1, 3]], np.tile(X[:, [1, 3]].mean(0), (len(X), 1)), atol=1e-12)
    assert np.all((section.at > section.low) & (section.at < section.high))


def test_one_input_has_a_line():
    table = moons()
    session = Session(replace(table, X=table.X[:, :1], columns=["left"]))
    assert session.section(None).points(7).shape == (7, 1)
    assert session.section(None).described()["y"] is None
    found = data_of.panel(session, session.model(session.first(), "ep"), 7, calibrated=False)
    assert np.shape(found["map"]) == (1, 7)


def test_the_surface_is_that_of_assess(two, monkeypatch):
    monkeypatch.setattr(data_of, "GRIDS", (3, 4, 5))
    setting = two.first("rbf")
    *rough, last = list(data_of.surfaces(two, setting, lambda: True))
    assert len(rough) == data_of.GRIDS[0] + len(data_of.GRIDS) - 2, "each row of the first grid, and each whole grid"
    assert last["done"]
    axes = np.array(last["x"]), np.array(last["y"])
    kernel = CommonScales.of(two.start("rbf"))
    theirs = evidence_surface(two.table.X, two.table.y, kernel.make, log_lengthscales=axes[0], log_scales=axes[1])
    assert_allclose(np.array(last["z"]), theirs.log_evidence, rtol=1e-5)
    assert last["x"][0] <= setting.log_lengthscale <= last["x"][-1]


def test_the_surface_does_not_depend_on_the_sliders():
    session = Session(iris())
    first = session.first("rbf", "laplace")
    key = data_of.surface_key(session, first)
    assert data_of.surface_key(session, replace(first, log_scale=0.1, row=3, calibrate=True)) == key
    session.learned["rbf"] = session.start("rbf").with_theta(session.start("rbf").theta + 0.5)
    assert data_of.surface_key(session, first) == key, "one lengthscale has no ratios"
    ard = session.first("rbf-ard", "laplace")
    key = data_of.surface_key(session, ard)
    theta = session.start("rbf-ard").theta
    session.learned["rbf-ard"] = session.start("rbf-ard").with_theta(theta + np.arange(len(theta)) / 9)
    assert data_of.surface_key(session, ard) != key


def test_a_surface_ends_when_it_is_no_longer_wanted(two):
    answers = iter([True] * (2 * data_of.GRIDS[0] + 1) + [False])  # two rows of the coarse grid, and one point
    assert len(list(data_of.surfaces(two, two.first("rbf"), lambda: next(answers)))) == 2


def test_kernels_without_a_lengthscale_have_one_slider(two):
    setting = two.first("linear")
    assert data_of.sliders(two, setting)["moves"] == [False, True]
    assert "no free lengthscale" in next(data_of.surfaces(two, setting, lambda: True))["missing"]
    assert two.model(setting, "ep").fit.converged


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "needs a setting"),
        ({"nothing": 1}, "has no 'nothing'"),
        ({"log_scale": "1"}, "log_scale must be a number"),
        ({"log_scale": float("nan")}, "log_scale must be a number"),
        ({"log_scale": 99.0}, "outside its range"),
        ({"kernel": "__import__('os')"}, "is none of these"),
        ({"kernel": ""}, "kernel must be a name"),
        ({"engine": "svgp"}, "uses all rows"),
        ({"plane": [0, 0]}, "two different columns"),
        ({"plane": [0, "1"]}, "whole number"),
        ({"row": 1000}, "there is no row 1000"),
        ({"calibrate": 1}, "true or false"),
    ],
)
def test_settings_of_a_page_are_checked(two, given, told):
    with pytest.raises(ValueError, match=told):
        setting_from(given, two, two.first("rbf"))


def test_an_engine_keeps_its_likelihoods(two):
    first = two.first("rbf", "ep", "heaviside")
    assert setting_from({"engine": "laplace"}, two, first).likelihood == "probit"
    assert two.likelihood(replace(first, other="laplace"), "laplace")[0] == "probit"


def test_previews_use_as_many_rows_as_the_time_allows():
    pace = Pace(1000)

    def seconds():  # all rows would take twice the target time
        return FIXED + (2 * GOAL - FIXED) * (pace.rows("ep") / 1000) ** POWER

    for _ in range(5):
        pace.took("ep", seconds())
        pace.rested("ep")
    assert pace.rows("ep") == 700
    pace.took("ep", seconds())
    pace.took("ep", 4 * SLOW)
    assert pace.rows("ep") == 700, "one slow preview among quick ones was held up by something else"
    for _ in range(4):
        pace.took("ep", 4 * SLOW)
    assert pace.rows("ep") < 500
    assert Pace(30).rows("ep") == 30


def test_sampled_rows_are_reported():
    table = replace(moons(), total=5000, title="moons.csv")
    assert data_of.described(Session(table))["total"] == 5000
