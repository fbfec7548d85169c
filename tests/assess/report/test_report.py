"""The report: its contents, escaping of user data, and its behaviour in a real browser.

Set GPCLASS_SCREENSHOTS to a folder to keep the browser's screenshots there.
"""

import os
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.assess import FairProbabilities, fair_probabilities
from gpclass.assess.metrics import scores
from gpclass.assess.report import gather, write_report
from gpclass.assess.report.facts import describe
from gpclass.assess.report.hyperparameters import KernelComparison, KernelRow
from gpclass.assess.report.verdict import Remark, chance_calibration_error, judge
from gpclass.assess.report.words import number, percent
from gpclass.kernels import RBF, Linear

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
pd = pytest.importorskip("pandas")

SECTIONS = [
    "verdict", "data", "engines", "reliability", "calibration", "confusion", "kernels", "relevance", "evidence", "map",
    "uncertain", "labels",
]  # fmt: skip
HOSTILE = '<script>alert("x")</script>'


def split(bunch, seed=0):
    X = pd.DataFrame(bunch.data, columns=bunch.feature_names)
    X.index = [f"row {i}" for i in range(len(X))]
    return train_test_split(X, bunch.target_names[bunch.target], test_size=0.4, random_state=seed, stratify=bunch.target)


@pytest.fixture(scope="module")
def iris():
    X, X_test, y, y_test = split(load_iris())
    y = y.astype(object)
    y[4] = next(name for name in load_iris().target_names if name != y[4])  # a wrong label
    model = make_pipeline(StandardScaler(), GPClassifier(kernel=RBF([1.0] * 4))).fit(X, y)
    return model, X, y, X_test, y_test


@pytest.fixture(scope="module")
def iris_facts(iris):
    model, X, y, X_test, y_test = iris
    return gather(model, X_test, y_test, data=(X, y), engines=["laplace"], title="Iris")


@pytest.fixture(scope="module")
def iris_page(iris, tmp_path_factory):
    model, X, y, X_test, y_test = iris
    path = tmp_path_factory.mktemp("report") / "iris.html"
    assert write_report(model, X_test, y_test, path, data=(X, y), engines=["laplace"], title="Iris flowers") == path
    return path


class Outline(HTMLParser):
    """Collect tags with their attributes, and all text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "br", "image", "use", "path", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in ("image", "use", "path"):
            return
        assert self.open.pop() == tag, "tags are closed in order"

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)


# what it says -----------------------------------------------------------------------------------------------------------


def test_facts_are_those_of_the_model(iris, iris_facts):
    model, X, y, X_test, y_test = iris
    p = fair_probabilities(model, X_test, y_test).p  # a flower of the test rows equals one of the training rows
    assert_allclose(p, model.predict_proba(X_test), atol=0.02)
    assert iris_facts.scores == scores(y_test, p, y_train=y, classes=model.classes_).to_dict()
    assert iris_facts.n_train == 90
    assert iris_facts.n_test == 60
    assert iris_facts.test_counts == [20, 20, 20]
    assert_array_equal(iris_facts.confusion.sum(1), [20, 20, 20])
    predicted = model.predict(X_test)
    assert iris_facts.confusion[1, 2] == np.sum((y_test == "versicolor") & (predicted == "virginica"))
    assert {row.name for row in iris_facts.engines} == {"NestedEP", "Laplace"}
    assert_allclose(iris_facts.relevance.parts["RBF"], 1 / model[-1].kernel_.lengthscale)
    assert iris_facts.relevance.names == load_iris().feature_names
    petal = iris_facts.columns[2]
    assert (petal.name, petal.kind) == ("petal length (cm)", "number")
    assert_allclose([petal.mean, petal.high], [X.iloc[:, 2].mean(), X.iloc[:, 2].max()])


def test_rows_are_named_as_in_the_table(iris, iris_facts):
    model, X, y, X_test, y_test = iris
    p = fair_probabilities(model, X_test, y_test).p
    most = int(np.argmax(-(p * np.log(p)).sum(1)))
    assert iris_facts.uncertain[0].name == X_test.index[most]
    assert_allclose(iris_facts.uncertain[0].other_probability, p[most].max())
    suspect = iris_facts.check_train[0]
    assert suspect.name == X.index[4]  # the wrong label
    assert suspect.label == y[4]
    assert suspect.probability < 0.2
    wrong = {name for name, true, said in zip(X_test.index, y_test, model.predict(X_test), strict=True) if true != said}
    assert {row.name for row in iris_facts.check_test} == wrong


def test_evidence_is_drawn_around_what_was_learned(iris, iris_facts):
    model, *_ = iris
    found = iris_facts.evidence
    kernel = model[-1].kernel_
    centre = np.log(kernel.lengthscale).mean(), 0.5 * np.log(kernel.variance)
    assert_allclose(found.learned, centre)
    # the model itself is in the middle of the grid
    assert_allclose(found.surface.log_evidence[4, 4], model[-1].log_evidence_, atol=1e-4)
    assert found.several


def test_calibration_is_shown_before_and_after(iris, iris_facts):
    model, _, _, X_test, y_test = iris
    plain = GPClassifier(kernel=model[-1].kernel_, optimizer=None, calibrate=None)
    plain.fit(model[:-1].transform(iris[1]), iris[2])
    seen = fair_probabilities(model, X_test, y_test).seen
    assert_allclose(iris_facts.before[~seen], plain.predict_proba(model[:-1].transform(X_test))[~seen], atol=1e-6)
    assert iris_facts.scores_before == scores(y_test, iris_facts.before, iris[2], model.classes_).to_dict()
    assert abs(iris_facts.scores_before["nlpd"] - iris_facts.scores["nlpd"]) > 1e-4
    bare = GPClassifier(kernel=RBF(1.0), optimizer=None, calibrate=None).fit(iris[1].to_numpy(), iris[2])
    assert gather(bare, X_test.to_numpy(), y_test, engines=[]).before is None


def test_other_kernels_are_fitted_to_the_same_rows(iris, iris_facts):
    model, X, y, *_ = iris
    found = iris_facts.kernels
    own = next(row for row in found.rows if row.own)
    assert_allclose(own.log_evidence, model[-1].log_evidence_, atol=0.02)  # a second search from the first result
    alone = GPClassifier("rbf + linear").fit(model[:-1].transform(X), y)
    other = next(row for row in found.rows if row.name == "RBF + Linear")
    assert_allclose(other.log_evidence, alone.log_evidence_, rtol=1e-6)
    assert [row.log_evidence for row in found.rows] == sorted((row.log_evidence for row in found.rows), reverse=True)
    assert (found.engine, found.n_rows, found.of) == ("NestedEP", 90, 90)
    assert "RBF-ARD" in {row.name for row in found.rows}, "once, though the model has it too"
    assert len({row.name for row in found.rows}) == len(found.rows)


def test_what_the_comparison_of_kernels_says():
    own, other = KernelRow("RBF", -20.0, 0.3, own=True), KernelRow("Linear", -25.0, 0.4)
    assert "No kernel" in KernelComparison([own, other], 10, 10).words
    assert "no clear difference" in KernelComparison([replace(other, log_evidence=-19.0), own], 10, 10).words
    better = replace(other, log_evidence=-10.0, loo_nlpd=0.2)
    assert "Linear is higher by 10.0 nats: it is worth a try" in KernelComparison([better, own], 10, 10).words
    assert "better leave-one-out" in KernelComparison([replace(better, loo_nlpd=0.4), own], 10, 10).words


def test_stacked_kernels_are_shown_with_their_weights(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = GPClassifier(kernel="auto").fit(X[::2], y[::2])
    path = write_report(model, X[1::2], y[1::2], tmp_path / "stack.html", engines=[], kernels=[])
    text = path.read_text(encoding="utf-8")
    assert "Weights of the kernels" in text
    for member in model.members_:
        assert f"{100 * member.weight:.0f} %" in text
    assert "No other kernels were asked for." in text


def test_without_training_rows_the_model_brings_its_own():
    X, y = make_moons(90, noise=0.1, random_state=0)
    y[4] = 1 - y[4]
    model = make_pipeline(StandardScaler(), GPClassifier(kernel=RBF(0.7, 9.0), optimizer=None)).fit(X[:60], y[:60])
    given = gather(model, X[60:], y[60:], engines=["laplace"], data=(X[:60], y[:60]))
    kept = gather(model, X[60:], y[60:], engines=["laplace"])
    assert kept.n_train == 60
    assert (given.columns_of, kept.columns_of) == ("training rows", "test rows")
    for mine, theirs in zip(kept.engines, given.engines, strict=True):
        assert mine.name == theirs.name
        assert_allclose(mine.nlpd, theirs.nlpd)  # the other steps of the pipeline are the same
    assert kept.check_train == given.check_train
    assert kept.check_train[0].name == "4"


def test_engines_that_keep_no_rows(tmp_path):
    X, y = make_moons(90, noise=0.25, random_state=0)
    clf = GPClassifier(kernel=RBF(0.7, 9.0), inference="scalable-ep", optimizer=None, random_state=0).fit(X[:60], y[:60])
    facts = gather(clf, X[60:], y[60:])
    assert [row.name for row in facts.engines] == ["ScalableEP"]
    assert "not given" in facts.engines_words
    assert not facts.checked
    assert facts.evidence is None
    text = write_report(clf, X[60:], y[60:], tmp_path / "a.html").read_text(encoding="utf-8")
    assert "There is no map" in text
    with pytest.raises(ValueError, match="needs the training rows"):
        gather(clf, X[60:], y[60:], engines=["laplace"])
    full = gather(clf, X[60:], y[60:], data=(X[:60], y[:60]), engines=["laplace"])
    assert full.checked
    assert full.evidence.engine == "EP"
    assert "five folds" in full.check_train_words


def test_kernels_without_lengthscales(tmp_path):
    X, y = make_moons(60, noise=0.25, random_state=0)
    clf = GPClassifier(kernel=Linear(), optimizer=None).fit(X, y)
    facts = gather(clf, X, y, engines=[])
    assert facts.evidence is None
    assert "no free lengthscale" in facts.evidence_words
    assert "does not rank the inputs" in facts.relevance.words
    one = GPClassifier(kernel=RBF(0.7), optimizer=None).fit(X[:, :1], y)
    assert "There is no map" in write_report(one, X[:, :1], y, tmp_path / "b.html", engines=[]).read_text(encoding="utf-8")
    assert "one lengthscale for all inputs (0.7," in gather(one, X[:, :1], y, engines=[]).relevance.words


def test_columns_of_any_kind():
    assert describe("a", np.array(["x", "y", None, "x"], dtype=object)).kind == "2 levels"
    assert describe("a", np.array(["x", None], dtype=object)).missing == 1
    assert describe("a", np.array([True, False])).kind == "yes/no"
    assert describe("a", np.array([np.nan, np.nan])).kind == "empty"
    assert describe("a", np.array([1.0, np.nan, 3.0])).mean == 2
    assert describe("a", np.array([1.0, np.nan, 3.0])).missing == 1


def test_numbers_as_words():
    texts = [percent(value).replace("\u00a0", " ") for value in (0.0, 1e-9, 0.5, 1 - 1e-9, 1.0)]
    assert texts == ["0 %", "<0.1 %", "50.0 %", ">99.9 %", "100 %"]
    assert number(-1.23456) == "−1.235"
    assert number(float("nan")) == "–"
    assert number(float("inf")) == "∞"
    assert number(1e-5) == "1.00e−05"


# the verdict ------------------------------------------------------------------------------------------------------------


def fake(converged=True):
    from types import SimpleNamespace

    return SimpleNamespace(posterior_=SimpleNamespace(converged=converged), inference_=None)


def verdict_of(p, codes, loo=None, far=0, converged=True, seen=0, fair=True, train=None):
    """The first `seen` rows are training rows."""
    known = np.arange(len(p)) < seen
    judged = FairProbabilities(p, p, known, ~known | fair, 0)
    return judge(fake(converged), judged, codes, loo, [], far, None, len(p), train)


def honest(n, rng, sharpness=2.0):
    """True probabilities, and labels drawn from them."""
    p = 1 / (1 + np.exp(-sharpness * rng.normal(size=n)))
    return np.column_stack([1 - p, p]), (rng.random(n) < p).astype(int)


def test_true_probabilities_are_rarely_called_miscalibrated():
    rng = np.random.default_rng(0)
    called = [verdict_of(*honest(150, rng)).level != "good" for _ in range(30)]
    assert np.mean(called) <= 0.2  # one in twenty by design; more than 6 of 30 have probability 1 in 2000


def test_overconfidence_is_called_by_its_name():
    rng = np.random.default_rng(1)
    p, codes = honest(500, rng, 1.0)
    sharp = p**4 / (p**4).sum(1, keepdims=True)
    remark = next(r.text for r in verdict_of(sharp, codes).remarks if "calibration" in r.text)
    assert "overconfident" in remark
    dull = p**0.3 / (p**0.3).sum(1, keepdims=True)
    assert any("underconfident" in r.text for r in verdict_of(dull, codes).remarks)


def test_chance_shrinks_with_rows():
    rng = np.random.default_rng(2)
    small, large = (chance_calibration_error(honest(n, rng)[0]) for n in (50, 5000))
    assert large < small / 5


def test_what_the_verdict_warns_of():
    rng = np.random.default_rng(3)
    p, codes = honest(200, rng)
    assert verdict_of(p, codes).level == "good"
    assert verdict_of(p, codes, converged=False).level == "poor"
    assert verdict_of(p[:, ::-1], codes).level == "poor"  # worse than guessing
    assert any("far from the training data" in r.text and r.level == "care" for r in verdict_of(p, codes, far=30).remarks)
    assert any("same kind" in r.text for r in verdict_of(p, codes, loo=np.full(300, 0.999)).remarks)
    assert any("only 20 test rows" in r.text for r in verdict_of(p[:20], codes[:20]).remarks)


def test_skill_is_measured_against_the_training_frequencies():
    """Rows of one class have frequencies that no probabilities beat; those of training can be beaten, or not."""
    train, codes = np.repeat([0, 1], 50), np.ones(60, int)
    surer, wrong = np.tile([0.1, 0.9], (60, 1)), np.tile([0.6, 0.4], (60, 1))
    said = [remark.text for remark in verdict_of(surer, codes, train=train).remarks]
    assert not any("worse than the class frequencies" in text for text in said)
    assert any("worse than the class frequencies" in remark.text for remark in verdict_of(wrong, codes, train=train).remarks)
    (unknown,) = [remark for remark in verdict_of(surer, codes).remarks if "misclassified" in remark.text]
    assert unknown.level == "note"
    assert "one class only" in unknown.text


def test_the_verdict_and_the_score_agree_on_rows_of_one_class():
    X, y = make_moons(80, noise=0.2, random_state=0)
    clf = GPClassifier(kernel=RBF(1.0), optimizer=None).fit(X, y)
    some = np.flatnonzero(y == clf.classes_[0])[:20]
    facts = gather(clf, X[some] + 1e-3, y[some], engines=[])
    assert facts.scores["information_score"] > 0
    assert not any("worse than the class frequencies" in remark.text for remark in facts.verdict.remarks)


@pytest.mark.parametrize(
    ("worse", "level", "said"),
    [
        (1.5, "good", "matches the leave-one-out"),
        (2.5, "note", "worse than the leave-one-out estimate, but possibly by chance"),
        (-2.5, "note", "better than the leave-one-out estimate, but possibly by chance"),
        (3.5, "care", "much worse than the leave-one-out"),
        (-3.5, "good", "is better than the leave-one-out"),
    ],
)
def test_test_rows_match_leave_one_out_within_two_standard_errors(worse, level, said):
    rng = np.random.default_rng(4)
    p, codes = honest(100, rng)
    lost = -np.log(p[np.arange(100), codes])
    before = np.full(1000, lost.mean() - worse * lost.std() / 10)  # without a spread of its own
    (remark,) = [one for one in verdict_of(p, codes, loo=np.exp(-before)).remarks if "leave-one-out estimate" in one.text]
    assert remark.level == level
    assert said in remark.text


def test_a_note_does_not_change_the_verdict():
    rng = np.random.default_rng(4)
    p, codes = honest(200, rng)
    verdict = verdict_of(p, codes)
    assert replace(verdict, remarks=[*verdict.remarks, Remark("note", "")]).level == verdict.level == "good"


def test_training_rows_are_never_certified():
    """Whatever their probabilities, the best verdict for training rows is "with care"."""
    rng = np.random.default_rng(3)
    p, codes = honest(200, rng)
    assert verdict_of(p, codes).level == "good"
    assert verdict_of(p, codes, seen=5).level == "good"  # a few of the rows
    for seen in (20, 100, 200):
        verdict = verdict_of(p, codes, seen=seen)
        assert verdict.level == "care"
        assert f"{seen} of 200 rows were used for training" in verdict.remarks[0].text
        assert "leave-one-out" in verdict.remarks[0].text
    blind = verdict_of(p, codes, seen=200, fair=False)
    assert blind.level == "poor"
    assert "cannot show" in blind.headline
    # training rows give no evidence of a shift, and are not far from themselves
    said = " ".join(r.text for r in verdict_of(p, codes, loo=np.full(300, 0.999), seen=200).remarks)
    assert "same kind" not in said
    assert "far from" not in said


def leaky(engine):
    """A model, and training and new rows whose labels are noise: only memorisation can predict them."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(120, 2)), rng.integers(2, size=120)
    clf = GPClassifier(RBF(0.02, 25.0), inference=engine, optimizer=None, random_state=0)
    return clf.fit(X[:60], y[:60]), X, y


@pytest.mark.parametrize("engine", ["ep", "laplace", "lr", "ivm"])
def test_memory_is_not_mistaken_for_skill(engine):
    """All rows are far apart, so the other rows contain no information about a row that is left out."""
    clf, X, y = leaky(engine)
    assert np.mean(clf.predict(X[:60]) == y[:60]) > 0.95
    facts = gather(clf, X, y, engines=["laplace"])
    assert facts.judged.n_seen == 60
    assert facts.scores["nlpd"] > 0.6  # log 2 is the loss of guessing; memorisation would give half of that
    assert all(row.nlpd > 0.6 for row in facts.engines)
    assert facts.verdict.level != "good"
    assert np.isnan([row.spread for row in facts.uncertain if row.name in map(str, range(60))]).all()


def test_training_rows_are_set_aside_where_they_cannot_be_left_out(tmp_path):
    clf, X, y = leaky("scalable-ep")
    facts = gather(clf, X, y)
    assert (facts.n_test, facts.n_given, facts.judged.n_seen) == (60, 120, 0)
    assert "60 of 120 rows were used for training and are left out" in facts.verdict.remarks[0].text
    assert_allclose(facts.scores["error_rate"], np.mean(clf.predict(X[60:]) != y[60:]))
    blind = gather(clf, X[:60], y[:60])
    assert not blind.verdict.judged
    assert np.isnan(blind.engines[0].nlpd)
    text = write_report(clf, X[:60], y[:60], tmp_path / "a.html").read_text(encoding="utf-8")
    assert "cannot show how good the model is" in text
    assert "can be trusted" not in text


# the page ---------------------------------------------------------------------------------------------------------------


def test_page_has_all_sections_and_nothing_from_elsewhere(iris_page):
    text = iris_page.read_text(encoding="utf-8")
    outline = Outline(text)
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert [i for i in ids if i in SECTIONS] == SECTIONS
    assert len(ids) == len(set(ids)), "ids are unique, those of figures too"
    assert not outline.open or outline.open == ["html"], "all tags are closed"
    assert [tag for tag, _ in outline.tags].count("h1") == 1
    assert "Iris flowers" in outline.texts
    for _, attributes in outline.tags:
        for name in ("src", "href", "xlink:href"):
            if name in attributes:
                assert attributes[name].startswith(("#", "data:")), "the page needs no other file"
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text).replace("http-equiv", "")
    assert "<script" not in text


def test_figures_take_their_ink_from_the_page(iris_page):
    text = iris_page.read_text(encoding="utf-8")
    assert text.count('<svg class="figure"') == 6
    assert "#010203" not in text
    assert "currentColor" in text
    assert 'aria-label="Reliability diagram' in text
    for reference in set(re.findall(r'(?:url\(|href=")#([\w-]+)', text)) - set(SECTIONS):
        assert f'id="{reference}"' in text, "what figures refer to is there"


def test_nothing_of_the_data_becomes_markup(tmp_path):
    X, y = make_moons(50, noise=0.25, random_state=0)
    names = [HOSTILE, "</svg><img src=x onerror=alert(1)> $\\frac{"]
    frame = pd.DataFrame(X, columns=names, index=[f"{HOSTILE} & {i}" for i in range(50)])
    labels = np.array(["<b>no</b> {{ 7 * 7 }}", HOSTILE])[y]
    labels[3] = labels[0] if labels[3] != labels[0] else labels[1]
    clf = GPClassifier(kernel=RBF([0.7, 0.7], 9.0), optimizer=None).fit(frame, labels)
    title = HOSTILE + " \ud800 \u4e2d"
    text = write_report(clf, frame, labels, tmp_path / "h.html", engines=[], title=title).read_text(encoding="utf-8")
    outline = Outline(text)
    assert not {"script", "img", "b" * 2}.intersection(tag for tag, _ in outline.tags)
    assert [tag for tag, _ in outline.tags].count("b") == 5  # of the five tiles, none of them of labels
    assert not any(name.startswith("on") for _, attributes in outline.tags for name in attributes)
    assert "{{ 7 * 7 }}" in text  # no placeholder of a template is left
    assert "<b>no</b>" not in text


def test_test_rows_that_do_not_fit_are_refused(iris):
    model, X, y, X_test, y_test = iris
    with pytest.raises(ValueError, match=r"labels that are not among the classes .*: orchid"):
        gather(model, X_test, np.where(np.arange(60) == 3, "orchid", y_test))
    with pytest.raises(ValueError, match="X has 60 rows but y has 59 labels"):
        gather(model, X_test, y_test[:-1])
    with pytest.raises(ValueError, match="no test rows"):
        gather(model, X_test[:0], y_test[:0])
    with pytest.raises(ValueError, match="data holds other rows than the model was fitted to"):
        gather(model, X_test, y_test, data=(X, y[::-1]))
    with pytest.raises(TypeError, match="needs a GPClassifier"):
        gather(StandardScaler().fit(X), X_test, y_test)


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_without_jinja2_or_matplotlib_the_error_says_how_to_get_them(iris, monkeypatch, tmp_path, missing):
    model, _, _, X_test, y_test = iris
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf"Reports need {missing}: pip install gpclass\[plot\]"):
        write_report(model, X_test, y_test, tmp_path / "x.html")


# in a browser -----------------------------------------------------------------------------------------------------------


def keep(page, name):
    folder = os.environ.get("GPCLASS_SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.mark.parametrize(
    ("name", "width", "scheme"), [("report", 1100, "light"), ("report-dark", 1100, "dark"), ("report-phone", 390, "light")]
)
def test_in_chromium(browser, iris_page, name, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    complaints, asked = [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(iris_page.as_uri())
    assert not complaints
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    for section in SECTIONS:
        assert page.locator(f"#{section}").is_visible()
    assert page.locator("svg.figure").count() == 6
    for figure in page.locator("svg.figure").all():
        box = figure.bounding_box()
        assert box["width"] > 250
        assert box["height"] > 80
    # the page does not scroll sideways: wide tables have scroll bars of their own
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ink, paper = page.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
    assert contrast(ink, paper) > 7  # the strictest level (AAA) of the web accessibility guidelines
    label = page.locator("svg.figure text").first
    assert label.evaluate("node => getComputedStyle(node).fill") == ink
    keep(page, name)
    page.close()


def test_on_paper_everything_is_dark_on_white(browser, iris_page):
    page = browser.new_page(color_scheme="dark")
    page.goto(iris_page.as_uri())
    page.emulate_media(media="print", color_scheme="dark")
    ink, paper = page.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
    assert (ink, paper) == ("rgb(0, 0, 0)", "rgb(255, 255, 255)")
    assert not page.locator("nav").is_visible()
    assert len(page.pdf()) > 10_000
    page.close()


def contrast(one, other):
    """Contrast ratio of two colours rgb(r, g, b), as WCAG 2 defines it."""

    def luminance(colour):
        c = np.array([int(part) for part in re.findall(r"\d+", colour)[:3]]) / 255
        linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.slow
def test_two_classes_with_many_columns_within_a_minute(tmp_path):
    import time

    X, X_test, y, y_test = split(load_breast_cancer())
    model = make_pipeline(StandardScaler(), GPClassifier()).fit(X, y)
    began = time.perf_counter()
    path = write_report(model, X_test, y_test, tmp_path / "b.html", data=(X, y))
    assert time.perf_counter() - began < 60
    assert "dotted lines" in path.read_text(encoding="utf-8")
