"""Shipped sets, the reader on tiny files, OpenML by a stand-in (no network), and the papers' files where present."""

import os
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix
from sklearn import datasets as shipped

from gpclass import datasets
from gpclass.datasets import describe, load, names


def papers_file(name):
    file = Path(os.environ.get("GPCLASS_DATA") or "nowhere") / f"{name}.npz"
    if not file.exists():
        pytest.skip(f"needs {name}.npz in the folder named by GPCLASS_DATA")
    return file


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("GPCLASS_DATA", raising=False)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("GPCLASS_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def openml(monkeypatch, no_folder):
    """Replace fetch_openml: `openml(X, y, features)` sets its result, and returns the list of calls."""

    def answer(X, y, features):
        calls = []

        def fetch(**asked):
            calls.append(asked)
            return SimpleNamespace(data=np.array(X), target=np.array(y, dtype=object), feature_names=features)

        monkeypatch.setattr(shipped, "fetch_openml", fetch)
        return calls

    return answer


@pytest.mark.parametrize(
    ("name", "shape", "n_classes"),
    [
        ("wdbc", (569, 30), 2),
        ("breast_cancer", (569, 30), 2),
        ("digits", (1797, 64), 10),
        ("iris", (150, 4), 3),
        ("iris_fisher", (150, 4), 3),
        ("wine", (178, 13), 3),
    ],
)
def test_shipped_sets_need_no_folder(no_folder, name, shape, n_classes):
    data = load(name)
    assert data.X.shape == shape
    assert data.X.dtype == np.float64
    assert len(data.feature_names) == shape[1]
    assert len(data.class_names) == n_classes
    assert set(data.y) == set(data.class_names)
    assert data.source == "scikit-learn"


def test_labels_are_names_of_sklearns_codes(no_folder):
    data, bunch = load("wdbc"), shipped.load_breast_cancer()
    assert_array_equal(data.y == "benign", bunch.target == 1)


def test_uci_iris_differs_from_fishers_in_three_entries(no_folder):
    different = load("iris").X != load("iris_fisher").X
    assert_array_equal(np.argwhere(different), [[34, 3], [37, 1], [37, 2]])
    assert_array_equal(load("iris_fisher").X, shipped.load_iris().data)  # our change did not affect scikit-learn's array


def test_random_split_has_papers_sizes_and_every_row_once(no_folder):
    data = load("wine")
    X_train, y_train, X_test, y_test = data.split(seed=3)
    assert (len(y_train), len(y_test)) == (106, 72)
    rows = np.vstack([X_train, X_test])
    assert_array_equal(rows[np.lexsort(rows.T)], data.X[np.lexsort(data.X.T)])
    assert_array_equal(data.split(seed=3)[0], X_train)
    assert not np.array_equal(data.split(seed=4)[0], X_train)


def test_no_fixed_split_says_use_split(no_folder):
    assert not hasattr(load("wine"), "X_train")
    with pytest.raises(AttributeError, match=r"wine has no fixed split.*y_test.*split\(seed\)"):
        load("wine").y_test  # noqa: B018


def test_classes_keep_rows_names_and_share(no_folder):
    data = load("digits", classes=(8, "3"))
    assert data.class_names == ("8", "3")
    assert_array_equal(data.X, shipped.load_digits().data[np.isin(shipped.load_digits().target, [3, 8])])
    assert len(data.split()[1]) == round(0.75 * len(data.y))


@pytest.mark.parametrize("classes", [("3",), ("3", "3"), ("3", "ten")])
def test_bad_classes(no_folder, classes):
    with pytest.raises(ValueError, match="two or more different classes of digits, which has 0, 1"):
        load("digits", classes=classes)


def test_unknown_name_lists_names_and_guesses(no_folder):
    with pytest.raises(ValueError, match=r"'ionosfere'\. Did you mean 'ionosphere'\? There are: banana, .*wine\."):
        load("ionosfere")
    with pytest.raises(ValueError, match=r"'zzz'\. There are"):
        load("zzz")


def test_reads_table_without_split(folder):
    X = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.uint8)
    np.savez(folder / "crabs.npz", X=X, y=[0, 1, 0], class_names=["F", "M"], feature_names=["a", "b"])
    data = load("crabs")
    assert_array_equal(data.X, X.astype(float))
    assert data.X.dtype == np.float64
    assert data.y.tolist() == ["F", "M", "F"]
    assert data.feature_names == ("a", "b")
    assert data.class_names == ("F", "M")
    assert data.n_train is None
    assert data.source.endswith("crabs.npz")


def test_reads_fixed_split_and_keeps_it_under_classes(folder):
    arrays = {"X_train": [[0.0], [1.0], [2.0]], "y_train": [3, 5, 7], "X_test": [[3.0], [4.0]], "y_test": [7, 5]}
    np.savez(folder / "usps_resampled.npz", **arrays, class_names=[str(d) for d in range(10)])
    data = load("usps")
    assert data.name == "usps_resampled"
    assert data.feature_names == ("x0",)
    assert [part.ravel().tolist() for part in data.split(seed=9)] == [[0, 1, 2], ["3", "5", "7"], [3, 4], ["7", "5"]]
    two = load("usps", classes=(3, 5))
    parts = two.X_train, two.y_train, two.X_test, two.y_test
    assert [part.ravel().tolist() for part in parts] == [[0, 1], ["3", "5"], [4], ["5"]]
    assert np.shares_memory(data.X, data.X_train)  # MNIST is 440 MB: no second copy


def test_is_test_puts_training_rows_first(folder):
    arrays = {"X": [[0.0], [1.0], [2.0]], "y": [0, 1, 1], "is_test": [True, False, False]}
    np.savez(folder / "vowel.npz", **arrays, class_names=["a", "b"])
    data = load("vowel")
    assert data.X_train.ravel().tolist() == [1, 2]
    assert data.y_test.tolist() == ["a"]


def test_reads_users_own_files_and_regression(folder):
    np.savez(folder / "mine.npz", X=np.eye(3), y=[7, 8, 7])
    np.savez(folder / "heights.npz", X=np.eye(3), y=[0.1, 0.2, 0.3])
    assert {"mine", "heights", "sonar"} <= set(names())
    assert load("mine").class_names == ("7", "8")
    assert load("heights").class_names == ()
    assert load("heights").y.dtype == np.float64
    with pytest.raises(ValueError, match="regression"):
        load("heights", classes=(1, 2))


def test_incomplete_file_is_named(folder):
    np.savez(folder / "mine.npz", X_train=np.eye(2), y_train=[0, 1])
    with pytest.raises(ValueError, match=r"mine\.npz lacks X_test, y_test"):
        load("mine")


def test_openml_twin_drops_missing_rows_and_says_so(openml, capsys):
    calls = openml([[1, 2], [3, np.nan], [5, 6]], ["malignant", "benign", "benign"], ["a", "b"])
    data = load("breast")
    assert calls == [{"data_id": 15, "as_frame": False, "parser": "liac-arff"}]
    assert data.X.tolist() == [[1, 2], [5, 6]]
    assert data.y.tolist() == ["malignant", "benign"]
    assert data.class_names == ("benign", "malignant")
    assert "OpenML data id 15" in data.source
    assert "1 rows with missing values dropped" in data.source
    assert "fetching breast from OpenML data id 15, not the paper's own file" in capsys.readouterr().err


def test_openml_labels_are_translated_all_or_none(openml):
    openml(np.zeros((10, 1)), [str(d) for d in range(1, 11)], ["p"])
    assert load("usps_original").y.tolist() == [str(d) for d in range(10)]
    openml(np.zeros((10, 1)), [str(d) for d in range(10)], ["p"])
    assert load("usps_original").y.tolist() == [str(d) for d in range(10)]
    openml(np.zeros((2, 1)), ["Rock", "Mine"], ["p"])
    assert load("sonar").class_names == ("M", "R")


def test_openml_sparse_table(no_folder, monkeypatch):
    sparse = SimpleNamespace(data=csr_matrix(np.eye(2)), target=["b", "g"], feature_names=["u", "v"])
    monkeypatch.setattr(shipped, "fetch_openml", lambda **asked: sparse)
    assert_array_equal(load("ionosphere").X, np.eye(2))


def test_openml_columns_that_the_papers_dropped(openml):
    openml([[1, 2, 3]], ["hid"], ["Speaker_Number", "Sex", "Feature_0"])
    assert load("vowel").feature_names == ("Feature_0",)
    openml([[1, 2]], ["sky"], ["region-pixel-count", "vedge-mean"])
    assert load("segmentation").feature_names == ("vedge-mean",)


@pytest.mark.parametrize("error", [URLError("no route"), ValueError("Dataset with data_id 15 not found")])
def test_offline_error_names_all_that_was_tried(monkeypatch, no_folder, error):
    def fail(**asked):
        raise error

    monkeypatch.setattr(shipped, "fetch_openml", fail)
    everything = r"GPCLASS_DATA \(not set\); OpenML data id 15 \(.*breast\.npz"
    with pytest.raises(FileNotFoundError, match=everything) as caught:
        load("breast")
    assert caught.value.__cause__ is error


def test_set_without_twin_names_the_folder(folder):
    with pytest.raises(FileNotFoundError, match=r"no crabs\.npz in .*no similar set on OpenML.*Set GPCLASS_DATA"):
        load("crabs")


def test_describe_tells_where_each_would_come_from(folder):
    np.savez(folder / "sonar.npz", X=np.eye(2), y=[0, 1])
    np.savez(folder / "mine.npz", X=np.eye(2), y=[0, 1])
    line = {text.split()[0]: text for text in describe().splitlines()}
    assert set(line) == set(names()) | set(datasets.ALIASES)
    assert "GPCLASS_DATA" in line["sonar"]
    assert "GPCLASS_DATA" in line["mine"]
    assert "OpenML 15" in line["breast"]
    assert "not here" in line["crabs"]
    assert "scikit-learn" in line["iris"]


# training and test sizes of the papers; fixed splits and random ones alike
SIZES = {
    "breast": (300, 383), "crabs": (100, 100), "ionosphere": (200, 151), "pima": (350, 418), "sonar": (108, 100),
    "new_thyroid": (129, 86), "glass": (128, 86), "segmentation": (210, 2100), "satimage": (4435, 2000),
    "vowel": (528, 462), "usps_original": (7291, 2007), "ripley": (250, 1000), "banana": (400, 4900),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_papers_files_have_papers_sizes(name):
    papers_file(name)
    _, y_train, _, y_test = load(name).split()
    assert (len(y_train), len(y_test)) == SIZES[name]


def test_usps_3_and_5_is_that_of_nickisch_and_rasmussen():
    papers_file("usps_resampled")
    _, y_train, _, y_test = load("usps", classes=("3", "5")).split()
    assert (len(y_train), len(y_test)) == (767, 773)


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_shipped_copies_equal_the_papers_files(name):
    with np.load(papers_file(name)) as stored:
        assert_array_equal(load(name).X, stored["X"])
        assert_array_equal(np.unique(load(name).y, return_inverse=True)[1], stored["y"])
