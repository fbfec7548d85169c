"""The catalogue of data sets: what each one is, its sizes in the papers, and where a similar set can be found.

[NR] Nickisch & Rasmussen 2008.  [C] Chai 2012.  [RJV] Riihimäki, Jylänki & Vehtari 2013.
[SLH] Seeger, Lawrence & Herbrich.  [V] Villacampa-Calvo 2017.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sklearn import datasets as shipped


@dataclass(frozen=True)
class Twin:
    """The OpenML set that replaces the paper's file if this is missing."""

    data_id: int
    note: str = "rows may be in another order"  # how it differs from the paper's file
    labels: dict[str, str] = field(default_factory=dict)  # OpenML's label -> ours, in the order of our classes
    keep: Callable[[str], bool] = lambda feature: True
    n_train: int | None = None  # size of the training part, if it comes first

    @property
    def source(self) -> str:
        """Description for `Dataset.source`."""
        return f"OpenML data id {self.data_id}, not the paper's own file: {self.note}"


@dataclass(frozen=True)
class Entry:
    """A data set of the catalogue."""

    about: str
    sizes: tuple[int, int] | None = None  # training and test sizes in a paper, if the split is random
    openml: Twin | None = None
    sklearn: Callable[[], Any] | None = None


def _uci_iris() -> Any:
    """Return scikit-learn's iris data with rows 35 and 38 as in the UCI table."""
    bunch = shipped.load_iris()
    bunch.data = bunch.data.copy()
    bunch.data[34, 3], bunch.data[37, 1], bunch.data[37, 2] = 0.1, 3.1, 1.5
    return bunch


ALIASES = {"usps": "usps_resampled", "breast_cancer": "wdbc"}

DIGIT_LABELS = {str(label): str(label - 1) for label in range(1, 11)}
SEGMENT_LABELS = {s: s.upper() for s in ("brickface", "cement", "foliage", "grass", "path", "sky", "window")}
GLASS_LABELS = {
    "build wind float": "building_float",
    "build wind non-float": "building_nonfloat",
    "vehic wind float": "vehicle_float",
    "containers": "containers",
    "tableware": "tableware",
    "headlamps": "headlamps",
}

CATALOGUE = {
    "wdbc": Entry("breast cancer, Wisconsin (diagnostic): 569 × 30, 2 classes", sklearn=shipped.load_breast_cancer),
    "digits": Entry("8 × 8 handwritten digits: 1797 × 64, 10 classes", sklearn=shipped.load_digits),
    "iris": Entry("iris, the UCI table: 150 × 4, 3 classes [C]", (90, 60), sklearn=_uci_iris),
    "iris_fisher": Entry("iris as in Fisher's article: 150 × 4, 3 classes", (90, 60), sklearn=shipped.load_iris),
    "wine": Entry("wine: 178 × 13, 3 classes [C, RJV, V]", (106, 72), sklearn=shipped.load_wine),
    "breast": Entry(
        "breast cancer, Wisconsin (original): 683 × 9, 2 classes [NR]",
        (300, 383),
        Twin(15, "it has 699 rows, 16 with missing values", {"benign": "benign", "malignant": "malignant"}),
    ),
    "crabs": Entry("sex of Leptograpsus crabs: 200 × 6, 2 classes [NR]", (100, 100)),
    "ionosphere": Entry("radar returns: 351 × 34, 2 classes [NR]", (200, 151), Twin(59)),
    "pima": Entry(
        "diabetes in Pima Indians: 768 × 8, 2 classes [NR]",
        (350, 418),
        Twin(37, labels={"tested_negative": "no_diabetes", "tested_positive": "diabetes"}),
    ),
    "sonar": Entry(
        "sonar, mines and rocks: 208 × 60, 2 classes [NR]", (108, 100), Twin(40, labels={"Mine": "M", "Rock": "R"})
    ),
    "usps_resampled": Entry("USPS digits, GPML's partition: 4649 + 4649 × 256, 10 classes [NR: 3 and 5; RJV: 3, 5, 7]"),
    "usps_original": Entry(
        "USPS digits: 7291 + 2007 × 256, 10 classes [SLH]",
        (7291, 2007),
        Twin(41082, "its table does not mark the training part, so splits are random", DIGIT_LABELS),
    ),
    "new_thyroid": Entry("thyroid: 215 × 5, 3 classes [C, RJV, V]", (129, 86)),
    "glass": Entry("glass: 214 × 9, 6 classes [C, RJV, V]", (128, 86), Twin(41, labels=GLASS_LABELS)),
    "tae": Entry(
        "teaching assistants: 151 × 5, 3 classes [RJV]",
        (136, 15),  # ten-fold
        Twin(48, "nominal inputs may be numbered otherwise", {"1": "low", "2": "medium", "3": "high"}),
    ),
    "segmentation": Entry(
        "image segments: 210 + 2100 × 18, 7 classes [RJV]",
        (210, 2100),
        Twin(
            36,
            "its table does not mark the training part, so splits are random",
            SEGMENT_LABELS,
            keep=lambda feature: "count" not in feature,  # constant
        ),
    ),
    "satimage": Entry(
        "Landsat pixels: 4435 + 2000 × 36, 6 classes [SLH, V]",
        (4435, 2000),
        Twin(182, "a few rows of 6435 are missing, the training part is not marked, classes are numbers"),
    ),
    "svmguide2": Entry("bioinformatics, LIBSVM's collection: 391 × 20, 3 classes [V]", (352, 39)),
    "vehicle": Entry(
        "vehicle silhouettes: 846 × 18, 4 classes [V]",
        (761, 85),
        Twin(54, labels={v: v for v in ("opel", "saab", "bus", "van")}),
    ),
    "vowel": Entry(
        "spoken vowels: 528 + 462 × 10, 11 classes, split by speaker [V: the first 6 classes]",
        (891, 99),
        Twin(307, "speakers are left out, so splits are random", keep=lambda feature: feature.startswith("Feature")),
    ),
    "mnist": Entry(
        "MNIST digits: 60000 + 10000 × 784, 10 classes [SLH, V]",
        openml=Twin(554, "the same images; the first 60000 rows are the training part", n_train=60000),
    ),
    "nycflights13": Entry("flights from New York, delays: 273853 × 8, 3 classes [replaces V's]", (263853, 10000)),
    "pumadyn32nm": Entry("robot arm, regression: 7168 + 1024 × 32 [SLH]"),
    "ripley": Entry("Ripley's synthetic data: 250 + 1000 × 2, 2 classes"),
    "banana": Entry(
        "banana: 400 + 4900 × 2, 2 classes",
        (400, 4900),
        Twin(1460, "the training part is not marked, so splits are random, and classes are called 1 and 2"),
    ),
}
