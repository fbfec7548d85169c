"""Metrics against loops that follow the definitions, against scikit-learn, and in cases with known values."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from gpclass.assess.metrics import (
    brier,
    error_rate,
    expected_calibration_error,
    information_score,
    nlpd,
    ranked_probability_score,
    scores,
    tally,
)

ALL = [error_rate, nlpd, brier, expected_calibration_error, information_score]


def case(n_classes, n=60, seed=0):
    rng = np.random.default_rng(seed)
    classes = np.array(["ant", "bee", "cat", "dog"][:n_classes])
    y, y_train = rng.choice(classes, n), rng.choice(classes, 2 * n)
    return y, rng.dirichlet(np.ones(n_classes), n), y_train, classes


def by_loops(y, P, y_train, classes, n_bins):
    n, wrong, nats, squares, bits = len(y), 0, 0.0, 0.0, 0.0
    bins = [[0, 0.0, 0.0] for _ in range(n_bins)]
    for label, row in zip(y, P, strict=True):
        true, top = list(classes).index(label), int(np.argmax(row))
        wrong += top != true
        nats -= math.log(row[true]) / n
        squares += sum((row[c] - (c == true)) ** 2 for c in range(len(classes))) / n
        inside = next(b for b in range(n_bins) if row[top] <= (b + 1) / n_bins)
        bins[inside][0] += 1
        bins[inside][1] += top == true
        bins[inside][2] += row[top]
        bits += math.log2(row[true]) / n
    for c in classes:
        bits -= np.mean(y == c) * math.log2(np.mean(y_train == c))
    gap = sum(count / n * abs(hits / count - confidence / count) for count, hits, confidence in bins if count)
    return [wrong / n, nats, squares, gap, bits]


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("n_bins", [1, 7, 10])
def test_definitions_by_loops(n_classes, n_bins):
    y, P, y_train, classes = case(n_classes)
    got = scores(y, P, y_train=y_train, n_bins=n_bins)
    assert list(got.index) == [f.__name__ for f in ALL]
    assert_allclose(got, by_loops(y, P, y_train, classes, n_bins), rtol=1e-12)


def test_sums_of_parts_are_those_of_all_rows():
    y, P, _, classes = case(3)
    whole, none = tally(y, P, classes), tally(y[:0], P[:0], classes)
    parts = none + tally(y[:25], P[:25], classes) + tally(y[25:], P[25:], classes)
    for name in ("counts", "wrong", "log_p", "squares", "ranked", "gaps"):
        assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12, err_msg=name)
    assert_allclose(whole.scores()["brier"], brier(y, P), rtol=1e-12)


def test_ranked_probability_score_by_loops():
    y, P, _, classes = case(4)
    total = 0.0
    for label, row in zip(y, P, strict=True):
        true = list(classes).index(label)
        total += sum((sum(row[: k + 1]) - (true <= k)) ** 2 for k in range(3)) / len(y)
    assert_allclose(ranked_probability_score(y, P, classes), total, rtol=1e-12)
    assert_allclose(scores(y, P, classes=classes, ordered=True)["ranked_probability_score"], total, rtol=1e-12)
    # a certain prediction that is wrong by d categories costs d; columns are in the order of the classes
    certain = np.eye(4)[[0, 1, 2, 3]]
    assert_allclose([ranked_probability_score(["ant"], row[None], classes) for row in certain], [0, 1, 2, 3], atol=1e-15)
    assert ranked_probability_score(["ant"], certain[1:2], ["bee", "ant", "cat", "dog"]) == 0
    y, P, _, classes = case(2)
    assert_allclose(ranked_probability_score(y, P, classes), brier(y, P, classes) / 2, rtol=1e-12)


def test_paper_formula_for_two_classes():
    y, P, y_train, _ = case(2)
    sign, train = np.where(y == "bee", 1, -1), np.where(y_train == "bee", 1, -1)
    p = P[:, 1]
    B = -sum(np.mean(sign == s) * np.log2(np.mean(train == s)) for s in (1, -1))
    paper = B + np.sum((1 + sign) * np.log2(p) + (1 - sign) * np.log2(1 - p)) / (2 * len(y))
    assert_allclose(information_score(y, P, y_train), paper)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_agrees_with_sklearn(n_classes):
    y, P, _, classes = case(n_classes)
    assert_allclose(nlpd(y, P), log_loss(y, P, labels=classes))
    assert_allclose(error_rate(y, P), 1 - accuracy_score(y, classes[P.argmax(axis=1)]))
    if n_classes == 2:
        assert_allclose(brier(y, P), 2 * brier_score_loss(y, P[:, 1], pos_label="bee"))


def test_vector_is_probability_of_second_class():
    y, P, y_train, _ = case(2)
    assert_allclose(scores(y, P[:, 1], y_train), scores(y, P, y_train), rtol=1e-12)


def test_order_of_classes_is_order_of_columns():
    y, P, y_train, classes = case(3)
    turned = scores(y, P[:, ::-1], y_train, classes=classes[::-1])
    assert_allclose(turned, scores(y, P, y_train), rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_perfect_prediction_of_balanced_classes(n_classes):
    y = np.repeat(np.arange(n_classes), 5)
    got = scores(y, np.eye(n_classes)[y], y_train=y)
    assert_allclose(got, [0, 0, 0, 0, np.log2(n_classes)], atol=1e-15)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_base_rates_carry_no_information(n_classes):
    y, _, y_train, classes = case(n_classes)
    rates = np.array([np.mean(y_train == c) for c in classes])
    assert_allclose(information_score(y, np.tile(rates, (len(y), 1)), y_train), 0, atol=1e-12)


def test_without_training_labels_the_baseline_is_the_entropy_of_y():
    y, P, _, _ = case(3)
    assert information_score(y, P) == information_score(y, P, y_train=y)


def test_calibrated_by_construction():
    y, p = np.repeat([0, 1, 0, 1], [3, 1, 1, 3]), np.repeat([0.25, 0.75], 4)
    assert_allclose(expected_calibration_error(y, p), 0, atol=1e-15)
    assert_allclose(expected_calibration_error(y, 1 - p), 0.5)


def test_probability_zero_for_the_truth_is_infinite_not_nan():
    y, P = [0, 1, 1], [[1, 0], [1, 0], [0, 1]]  # pytest turns a RuntimeWarning into an error
    assert nlpd(y, P) == np.inf
    assert information_score(y, P, y_train=[0, 1]) == -np.inf
    assert information_score(y, P, y_train=[0, 0], classes=[0, 1]) == -np.inf
    assert brier(y, P) == pytest.approx(2 / 3)


def test_class_unseen_in_training_beats_the_baseline_without_limit():
    assert information_score([0, 1], [0.4, 0.6], y_train=[0, 0]) == np.inf


def test_class_absent_from_both_is_no_trouble():
    assert_allclose(information_score([0, 1], [[0.5, 0.5, 0], [0.5, 0.5, 0]], [0, 1], classes=[0, 1, 2]), 0)


def test_training_labels_complete_the_classes():
    P = np.full((2, 3), 1 / 3)
    assert_allclose(scores([0, 1], P, y_train=[0, 1, 2])["information_score"], 0, atol=1e-15)


def test_float32_probabilities_pass():
    y, P, _, _ = case(4)
    assert_allclose(nlpd(y, P.astype(np.float32)), nlpd(y, P), rtol=1e-5)


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize(
    ("y", "p", "classes", "message"),
    [
        ([0, 1, 1], [0.5, 0.5], None, "3 labels but p has 2 rows"),
        ([], [], None, "non-empty"),
        ([[0, 1]], [0.5, 0.5], None, r"\(1, 2\)"),
        ([0, 1], [0.5, 1.1], None, r"\[0, 1\].*1\.1"),
        ([0, 1], [0.5, np.nan], None, "nan"),
        ([0, 1], [[0.5, 0.4], [0.5, 0.5]], None, "sum to 1.*off by 0.1"),
        ([0, 1], [[1.0], [1.0]], None, "C > 1"),
        ([1, 1], [0.5, 0.5], None, r"2 classes but the data have labels \[1\].*classes="),
        ([0, 2], [0.5, 0.5], [0, 1], r"\[0, 1\]: 2"),
        ([0, 1], [0.5, 0.5], [0, 1, 2], "p is for 2 classes"),
        ([0, 1], [0.5, 0.5], [0, 0], "distinct"),
        (["0", "1"], [0.5, 0.5], [0, 1], "not among the classes"),
    ],
)
def test_errors_say_what_came(metric, y, p, classes, message):
    with pytest.raises(ValueError, match=message):
        metric(y, p, classes=classes)


def test_errors_of_single_arguments():
    with pytest.raises(ValueError, match="n_bins"):
        expected_calibration_error([0, 1], [0.2, 0.8], n_bins=0)
    with pytest.raises(ValueError, match="y_train has labels"):
        information_score([0, 1], [0.2, 0.8], y_train=[2], classes=[0, 1])
