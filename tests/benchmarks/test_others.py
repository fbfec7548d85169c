"""The benchmark against other methods: statistics of made-up numbers, the file, the tables. The methods are not needed."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.others import cells, methods, summary, tables
from benchmarks.others.cells import Cell

CELL = Cell("wine", "ours", 0, False, 100, 70, 13, 3, 0.2, 0.1, 0.05, 0.04, 0.03, 1.5, 0.5, "abc")
SETS = ("wine", "iris", "pima")


def made(losses: dict[tuple[str, str], list[float]]) -> list[Cell]:
    """Cells with the losses of each method and table, one for each split; NaN if there is none."""
    return [
        replace(CELL, method=method, table=name, split=split, nlpd=loss)
        for (method, name), row in losses.items()
        for split, loss in enumerate(row)
        if not np.isnan(loss)
    ]


# summary ------------------------------------------------------------------------------------------------------------------


def test_a_level_is_the_mean_where_all_splits_are_there():
    found = summary.values(made({("ours", "wine"): [0.2, 0.4], ("other", "wine"): [0.5, 0.3]}), "nlpd")
    level = summary.levels(found, "ours")
    assert_allclose(level["ours"]["wine"], 0.3)
    assert_allclose(level["other"]["wine"], 0.4)


def test_missing_splits_are_compared_in_pairs():
    # the second split is harder by 1.0 for both; a plain mean would call the other method better
    found = summary.values(made({("ours", "wine"): [0.2, 1.2], ("other", "wine"): [0.3], ("other", "iris"): [0.1]}), "nlpd")
    level = summary.levels(found, "ours")
    assert_allclose(level["other"]["wine"], 0.7 + 0.1)
    assert "iris" not in level["other"]  # nothing to compare with


def test_cells_that_failed_do_not_count():
    failed = replace(CELL, method="other", nlpd=np.nan, message="ValueError: no")
    assert "other" not in summary.values([CELL, failed], "nlpd")


def test_standard_errors_are_over_tables():
    mean, error = summary.mean_and_error([0.1, 0.2, 0.6])
    assert_allclose(mean, 0.3)
    assert_allclose(error, np.sqrt((0.04 + 0.01 + 0.09) / 2 / 3))
    assert np.isnan(summary.mean_and_error([0.1])[1])


def test_ranks_share_ties():
    level = {"a": {"wine": 0.1, "iris": 0.5}, "b": {"wine": 0.2, "iris": 0.5}, "c": {"iris": 0.7, "wine": 0.3}}
    assert summary.ranks(level) == {"a": (1 + 1.5) / 2, "b": (2 + 1.5) / 2, "c": 3.0}
    with pytest.raises(ValueError, match="different tables"):
        summary.ranks({**level, "d": {"wine": 0.1}})


def test_verdicts_need_two_standard_errors():
    ours = {name: {0: 0.2, 1: 0.4, 2: 0.3} for name in SETS}
    theirs = {
        "wine": {0: 0.1, 1: 0.3, 2: 0.2},  # always better by 0.1
        "iris": {0: 0.3, 1: 0.2, 2: 0.6},  # 0.1, -0.2, 0.3: within its error
        "pima": {0: 0.3, 1: 0.51, 2: 0.4},  # worse by nearly the same amount in each split
    }
    assert summary.verdicts(theirs, ours) == (1, 1)
    assert summary.verdicts({"wine": {0: 9.0, 1: 9.2}}, ours) == (0, 0)  # two splits with a tiny standard error


def test_the_report_has_both_groups_and_names_failures():
    ours = {("ours", "wine"): [0.2, 0.4], ("ours", "iris"): [0.1]}
    losses = {**ours, ("other", "wine"): [0.3, 0.6], ("other", "iris"): [0.05]}
    some = [replace(c, held_out=c.table == "iris") for c in made(losses)]
    failed = replace(CELL, method="broken", nlpd=np.nan, message="ValueError: no")
    text = summary.report([*some, failed], "ours", SETS)
    held, known, both = (text.split("\n## ")[i] for i in (1, 2, 3))
    assert held.startswith("Held-out tables")
    assert "-0.0500 ± nan" in held
    assert known.startswith("Tables of the papers")
    assert "+0.1500" in known
    # all: differences 0.15 and -0.05, so the mean is 0.05 and the standard error 0.1
    assert "+0.0500 ± 0.1000" in both
    assert "wine, split 0, broken: ValueError: no" in text
    with pytest.raises(ValueError, match=r"'theirs'.*there are ours, other"):
        summary.report(some, "theirs", SETS)


# scores -------------------------------------------------------------------------------------------------------------------


def test_calibration_error_by_chance():
    # one bin and confidence 0.8: the error is |hits/n - 0.8|, whose mean is that of a binomial variable
    n, share = 50, 0.8
    p = np.tile([share, 1 - share], (n, 1))
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    hits = np.arange(n + 1)
    log_pmf = log_factorial[n] - log_factorial - log_factorial[::-1] + hits * np.log(share) + (n - hits) * np.log(1 - share)
    expected = np.exp(log_pmf) @ np.abs(hits / n - share)
    draws = 4000
    # |hits/n - share| has a standard deviation below 0.0566, that of hits/n: four standard errors of the mean
    assert_allclose(cells.error_by_chance(p, draws), expected, atol=4 * 0.0566 / np.sqrt(draws))


def test_certain_forecasts_have_no_calibration_error_by_chance():
    assert cells.error_by_chance(np.eye(3)) == 0.0


def test_probabilities_of_zero_count_as_the_least():
    found = cells.scores(np.array([0, 1]), np.array([[1.0, 0.0], [1.0, 0.0]]), 2)
    assert_allclose(found["nlpd"], -np.log(cells.LEAST) / 2)
    assert found["error"] == 0.5
    assert found["brier"] == 1.0
    assert found["ece"] == 0.5


# cells --------------------------------------------------------------------------------------------------------------------


def test_cells_survive_a_file_and_replace_each_other(tmp_path):
    file = tmp_path / "new" / "others.csv"
    failed = replace(CELL, method="a, b", nlpd=np.nan, message='it said "no", twice')
    cells.keep(file, [CELL, failed])
    cells.keep(file, [replace(CELL, nlpd=0.25, held_out=True)])
    other, ours = cells.read(file)
    assert ours == replace(CELL, nlpd=0.25, held_out=True)
    assert np.isnan(other.nlpd)
    assert replace(other, nlpd=0.0) == replace(failed, nlpd=0.0)


def test_a_cell_is_measured_and_an_error_is_kept():
    table = tables.load("iris")
    cell = cells.measure(table, 0, "logistic", lambda d, C: LogisticRegression(max_iter=1000))
    train, test = table.split(0)
    p = LogisticRegression(max_iter=1000).fit(table.X[train], table.y[train]).predict_proba(table.X[test])
    assert_allclose(cell.nlpd, -np.mean(np.log(p[np.arange(len(test)), table.y[test]])))
    assert (cell.n_train, cell.n_test, cell.columns, cell.classes) == (90, 60, 4, 3)
    broken = cells.measure(table, 0, "broken", lambda d, C: LogisticRegression(C=-1.0))
    assert "InvalidParameterError" in broken.message
    assert np.isnan(broken.nlpd)


# tables -------------------------------------------------------------------------------------------------------------------


def test_splits_are_of_the_stated_sizes_and_apart():
    table = tables.load("digits")
    train, test = table.split(3)
    assert len(train) == 250
    assert len(test) == 1797 - 250
    assert not set(train) & set(test)
    assert_allclose(np.bincount(table.y[train]) / 250, np.bincount(table.y) / 1797, atol=1 / 250)
    assert not np.array_equal(table.split(0)[0], train)


def test_a_class_of_too_few_rows_raises():
    y = np.array([0] * 95 + [1] * 5)
    with pytest.raises(ValueError, match="a class with 3 training rows"):
        tables.Table("made up", np.zeros((100, 1)), y, False).split(0)


def test_text_columns_become_indicators_and_missing_rows_go():
    rows = [["1.5", "a", "x", "yes"], ["2", "b", "y", "no"], ["3", "c", "x", "no"], ["?", "a", "x", "no"]]
    X, labels = tables.from_text(rows)
    assert_allclose(X, [[1.5, 1, 0, 0, 0], [2, 0, 1, 0, 1], [3, 0, 0, 1, 0]])
    assert labels.tolist() == ["yes", "no", "no"]


# methods ------------------------------------------------------------------------------------------------------------------


def test_before_is_the_default_that_gpclass_had():
    from gpclass import GPClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = (X[:, 0] > 0).astype(int)
    model = methods.Before().fit(X, y)
    kernel = model.model_.kernel_
    assert type(kernel).__name__ == "RBF"
    again = methods.variant("GPClassifier(RBF(lengthscale=np.sqrt(d)), optimizer=None)")(2, 2).fit(X, y)
    assert isinstance(again[-1], GPClassifier)
    assert_allclose(again[-1].kernel_.lengthscale, np.sqrt(2))
