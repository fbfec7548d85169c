"""From data files to a fitted pipeline: as a table in this process, as a stream, or divided among workers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from ..assess.models import classifier as on_encoded_rows
from ..choose import LARGE, engine_for, engine_named, engine_names, likelihoods_of, targets_of
from ..distributed.file_parts import file_parts, label_counts
from ..engines import Engine
from ..learning import files_of, table_files
from ..learning.streams import look
from ..spelling import closest, did_you_mean
from ..tables import (
    USUAL,
    Findings,
    Option,
    Problem,
    Reading,
    TableEncoder,
    TableError,
    csv_columns,
    read_table,
    read_tables,
    split_target,
    with_ids,
)
from .reading_options import joined, names_in, reading_options, with_reading_option

MOST_CELLS = 10_000_000  # cells of several files up to which they are read as one table
CELL = 8  # bytes of a cell in a text file, about
PATTERN = "*?["  # characters of patterns of file names
WHOLE = "--dates, --units, --skip-unlabelled and --merge-labels"
# names of columns of row numbers
ROWS = re.compile(r"Unnamed: \d+( \(\d+\))?|(row|line)?[ _]?(id|index|nr|no|number|names?)", re.IGNORECASE)
MANY = 10  # rows above which a column that counts them is no input


@dataclass(frozen=True)
class Columns:
    """What options say of the columns of a training table, and of the way in which it is read."""

    target: str
    drop: tuple[str, ...] = ()
    id: str | None = None
    impute: str | None = None
    dates: tuple[tuple[str, str | None], ...] = ()  # columns of dates with their formats, if these are given
    units: tuple[str, ...] = ()  # columns of numbers with a unit
    skip_unlabelled: bool = False
    merge_labels: bool = False
    reading: Reading = USUAL

    @staticmethod
    def of(
        target: str, drop: str = "", id: str | None = None, dates: str = "", units: str = "", **settings: Any
    ) -> Columns:
        """Return the columns that options name; `drop`, `dates` and `units` are names separated by commas."""
        names = tuple(dict.fromkeys(name.strip() for name in names_in(drop) if name.strip()))
        if target in names:
            raise TableError(f"{target!r} is the target and cannot be dropped")
        if id == target:
            raise TableError(f"{target!r} is the target and cannot be the id column")
        formats = tuple((name, form or None) for name, _, form in (text.partition("=") for text in names_in(dates)))
        dropped = tuple(name for name in names if name != id)
        return Columns(target, dropped, id, dates=formats, units=tuple(names_in(units)), **settings)

    @property
    def no_inputs(self) -> tuple[str, ...]:
        """The columns besides the labels that are not inputs."""
        return self.drop if self.id is None else (*self.drop, self.id)

    @property
    def needs_whole(self) -> bool:
        """Whether the rows must be one table in this process."""
        return bool(self.dates or self.units or self.changes_labels)

    @property
    def changes_labels(self) -> bool:
        """Whether labels are changed, or rows left out for them."""
        return self.skip_unlabelled or self.merge_labels

    def encoder(self) -> TableEncoder:
        """Return an encoder, not fitted, for the inputs."""
        formats: Any = dict(self.dates)
        return TableEncoder(self.impute, self.target, self.id, formats or None, list(self.units) or None)

    def options(self) -> dict[str, str | bool]:
        """Return the values of the options of the command line by name. Those that are not set are empty or false."""
        dates = [name if form is None else f"{name}={form}" for name, form in self.dates]
        return {
            "--target": self.target,
            "--drop": joined(self.drop),
            "--id": self.id or "",
            "--impute": self.impute or "",
            "--dates": joined(dates),
            "--units": joined(self.units),
            "--skip-unlabelled": self.skip_unlabelled,
            "--merge-labels": self.merge_labels,
            **reading_options(self.reading),
        }

    def with_option(self, option: Option) -> Columns:
        """Return these columns with one more option of the command line."""
        name, value, instead = option
        match name:
            case "--target":
                return replace(self, target=value)
            case "--impute":
                return replace(self, impute=value)
            case "--id" if self.id in (None, instead):
                return replace(self, id=value)
            case "--drop" | "--id":  # there is an id column already
                return replace(self, drop=_with(self.drop, value, instead), units=_without(self.units, value))
            case "--units":
                return replace(self, units=_with(self.units, value, instead))
            case "--dates":
                column, _, form = value.partition("=")
                old = [(n, f) for n, f in self.dates if n not in (column, instead)]
                return replace(self, dates=(*old, (column, form or None)))
            case "--skip-unlabelled":
                return replace(self, skip_unlabelled=True)
            case "--merge-labels":
                return replace(self, merge_labels=True)
        return replace(self, reading=with_reading_option(self.reading, option))


def _with(names: tuple[str, ...], name: str, instead: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*(n for n in names if n != instead), name]))


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(n for n in names if n != name)


@dataclass(frozen=True)
class Training:
    """The rows that a model is fitted to.

    Attributes
    ----------
    rows : DataFrame, TableFiles or Parts
        The inputs of a table; a stream of files; or the parts of files on a cluster.
    y : ndarray of shape (n,) or None
        The labels of a table. None if `rows` have them.
    names : list of str
        Names of the input columns.
    counts : dict
        Number of rows of each label, in sorted order.
    """

    rows: Any
    y: np.ndarray | None
    names: list[str]
    counts: dict[Any, int]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.counts.values())


def several_files(data: Path) -> bool:
    """Return whether `data` is a folder or a pattern, not the name of one file."""
    return data.is_dir() or (not data.exists() and any(character in str(data) for character in PATTERN))


# reading ------------------------------------------------------------------------------------------------------------------


def read_training(data: Path, columns: Columns, engine: str = "auto", client: Any = None) -> Training:
    """Return the training rows of a file, a folder or a pattern of files.

    With a Dask client, its workers read the files. Without one, several files with more than `MOST_CELLS` cells are a
    stream of numbers if the engine takes it, and everything else is read as one table.

    Parameters
    ----------
    data : Path
        A file, a folder or a pattern.
    columns : Columns
        What options say of the columns.
    engine : str
        Name of the engine.
    client : distributed.Client, optional
        The client.

    Raises
    ------
    TableError
        If the files cannot be used. The message names the file, the row and the column; `problems` has all of a table.
    """
    if client is not None:
        _check_engine(engine)
        if columns.needs_whole:
            raise TableError(f"{WHOLE} need all rows in one process: leave out --cluster and --workers")
        training = _divided(data, columns)
    elif several_files(data) and (engine == "auto" or engine_named(engine).minibatches) and cells_in(data) > MOST_CELLS:
        training = _streamed(data, columns)
    else:
        training = _as_table(data, columns)
    return _with_two_classes(training, columns.target)


def training_table(data: Path, columns: Columns) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the inputs and labels of a file, a folder or a pattern of files as one table.

    The index holds the name of each row: its line in the file, header not counted, the file if there are several, and its
    entry in the id column.
    """
    training = _with_two_classes(_as_table(data, columns), columns.target)
    assert training.y is not None, "a table has labels"
    return training.rows, training.y


def _with_two_classes(training: Training, target: str) -> Training:
    if len(training.counts) < 2:
        label = str(next(iter(training.counts)))
        raise TableError(f"the target {target!r} has only one class, {label!r}; at least two are needed")
    return training


def _check_engine(name: str) -> None:
    """Raise a ValueError if an engine cannot be fitted to rows that are divided among processes."""
    able = [known for known in engine_names() if _takes_parts(engine_named(known))]
    if name != "auto" and not _takes_parts(engine_named(name)):
        raise ValueError(
            f"{name} needs all rows in one process: leave out --cluster and --workers, or use --engine with one of "
            f"{', '.join(able)}"
        )


def _takes_parts(engine: Engine) -> bool:
    return engine.minibatches or engine.design in ("inducing inputs", "active rows")


def _as_table(data: Path, columns: Columns) -> Training:
    text = [] if columns.id is None else [columns.id]
    how: Any = {"text": text, "target": columns.target, "reading": columns.reading, "drop": columns.drop}
    frame = read_tables(files_of(data), **how) if several_files(data) else read_table(data, **how)
    found = Findings()
    found.add(*_names_not_there(data, frame, columns))
    if not columns.reading.header and columns.target not in frame.columns:
        found.add(_target_by_number(frame, columns.target))
    found.report()
    if columns.id is not None:
        frame = with_ids(frame, columns.id)
    with found.collecting():
        X, y = split_target(frame, columns.target, columns.skip_unlabelled, columns.merge_labels)
    inputs = frame.drop(columns=columns.target, errors="ignore") if found.problems else X
    if columns.target in frame.columns and len(inputs.columns):
        counting = _row_numbers(inputs, columns)
        found.add(*counting)
        with found.collecting():
            replace(columns, id=columns.id or next((p.column for p in counting), None)).encoder().fit(inputs)
    found.report()
    labels, counts = np.unique(y, return_counts=True)
    return Training(X, y, [str(name) for name in X.columns], _counts(labels, counts))


def _names_not_there(data: Path, frame: pd.DataFrame, columns: Columns) -> list[Problem]:
    """Return the problems of columns to drop that the table does not have."""
    if not columns.drop:
        return []
    names = list(frame.columns)
    first = files_of(data)[0] if several_files(data) else data
    known = {*names, *_names_in(first, columns.reading, unnamed=True)}
    problems = []
    for name in columns.drop:
        if name not in known:
            near = closest(name, names)
            text = f"there is no column {name!r} to drop.{did_you_mean(name, names)} There are {', '.join(map(repr, names))}"
            options = () if near is None else (Option("--drop", near, instead=name),)
            problems.append(Problem("column", text, options=options))
    return problems


def _target_by_number(frame: pd.DataFrame, target: str) -> Problem:
    """Return the problem of a target whose name is not known, since the file has no header."""
    classes = {name: frame[name].nunique() for name in frame.columns}
    ends = [name for name in (frame.columns[-1], frame.columns[0]) if 1 < classes[name] <= max(2, len(frame) // 4)]
    probable = (ends or [frame.columns[-1]])[0]
    text = f"without a header there is no column {target!r}; column {probable} has {classes[probable]} different values"
    advice = f"; is it the target (--target {probable})?"
    return Problem("target", text, advice=advice, options=(Option("--target", probable),))


def _row_numbers(inputs: pd.DataFrame, columns: Columns) -> list[Problem]:
    """Return the problems of inputs that are called like row numbers and count the rows."""
    problems = []
    n, taken = len(inputs), columns.id is not None
    for name in inputs.columns:
        values = inputs[name]
        counts = values.dtype.kind in "iu" and len(np.unique(np.diff(values))) == 1 and values.iloc[0] in (0, 1)
        if ROWS.fullmatch(str(name)) and n > MANY and counts and values.iloc[1] == values.iloc[0] + 1:
            option = Option("--drop" if taken else "--id", name)
            text = f"column {name!r} counts the rows, and would be an input"
            advice = f"; use it as row names (--id {name!r}), or leave it out (--drop {name!r})"
            problems.append(Problem("ids", text, (name,), advice, (option,), f"X.drop(columns={name!r})"))
            taken = True
    return problems


def _divided(data: Path, columns: Columns) -> Training:
    parts = file_parts(data, columns.target, columns.no_inputs, columns.reading)
    return Training(parts, None, list(parts.columns or ()), label_counts(parts))


def _streamed(data: Path, columns: Columns) -> Training:
    remedy = "use --workers 2, which divides the rows among processes and takes all columns"
    large = f"{data} has more than {MOST_CELLS} cells and is read as a stream of numbers"
    if columns.impute is not None:
        raise TableError(f"{large}, but --impute needs more: {remedy}")
    if columns.needs_whole or not columns.reading.is_usual:
        raise TableError(f"{large}, which options for reading tables are not for; use fewer files, or write them again")
    try:
        rows = table_files(data, columns.target, drop=columns.no_inputs)
    except TableError as error:
        raise TableError(f"{large}: {error}. Or {remedy}; or leave columns out with --drop") from error
    found = look(rows, (0, 0))
    names = _names_in(files_of(data)[0], columns.reading)
    inputs = [name for name in names if name not in (columns.target, *columns.no_inputs)]
    return Training(rows, None, inputs, _counts(found.labels, found.counts))


def _counts(labels: np.ndarray, counts: np.ndarray) -> dict[Any, int]:
    return dict(zip(labels.tolist(), counts.tolist(), strict=True))


def _names_in(path: Path, reading: Reading, unnamed: bool = False) -> list[str]:
    if path.suffix.lower() != ".parquet":
        return csv_columns(path, reading, unnamed)
    import pyarrow.parquet as parquet

    return [str(name) for name in parquet.read_schema(path).names]


def cells_in(data: Path) -> int:
    """Return the number of cells of all files: of text files about, by their sizes."""
    total = 0
    for path in files_of(data):
        if path.suffix.lower() == ".parquet":
            import pyarrow.parquet as parquet

            found = parquet.read_metadata(path)
            total += found.num_rows * found.num_columns
        else:
            total += path.stat().st_size // CELL
    return total


# fitting ------------------------------------------------------------------------------------------------------------------


def fitted(pipeline: Pipeline, training: Training) -> Pipeline:
    """Fit a pipeline of table encoder and classifier, and return it.

    A classifier that is fitted to a stream or to parts encodes columns itself. Its encoder then becomes that of the
    pipeline, so that models are the same however their rows were read.
    """
    if training.y is not None:
        return pipeline.fit(training.rows, training.y)
    encoder, classifier = pipeline.steps[0][1], pipeline.steps[-1][1]
    classifier.set_params(missing=encoder.impute or "error").fit(training.rows)
    own = classifier.encoder_
    made = TableEncoder.of_numbers(training.names) if own is None else own
    made.set_params(target=encoder.target, id=encoder.id)
    inner = on_encoded_rows(classifier).set_params(missing="error")
    inner.__dict__.pop("feature_names_in_", None)  # the encoder has them, and passes arrays
    return Pipeline([("table", made), ("model", inner)])


def engine_with_checkpoint(name: str, training: Training, likelihood: str, path: Path) -> Engine:
    """Return the engine of this name, which saves its run in a file.

    Raises a ValueError if the engine does not train on minibatches.
    """
    engine = _automatic(training, likelihood) if name == "auto" else engine_named(name)
    if not engine.minibatches:
        able = ", ".join(known for known in engine_names() if engine_named(known).minibatches)
        raise ValueError(
            f"--checkpoint needs an engine that trains on minibatches, but {type(engine).__name__} does not: use --engine "
            f"with one of {able}"
        )
    return replace(engine, checkpoint=path)  # type: ignore[type-var]


def _automatic(training: Training, likelihood: str) -> Engine:
    """Return the engine that GPClassifier takes for inference="auto"."""
    known = likelihoods_of(len(training.counts), targets_of(likelihood))
    usual = "probit" if len(training.counts) == 2 else "multinomial-probit"
    made = known.get(usual if likelihood == "auto" else likelihood)
    if made is None:
        raise ValueError(f"there is no likelihood {likelihood!r} for {len(training.counts)} classes: {', '.join(known)}")
    return engine_for(made, training.n_rows + (LARGE if training.y is None else 0))


def ordered_labels(categories: str, labels: Sequence[Any]) -> list[Any] | None:
    """Return the labels of an option such as "low,medium,high" as they are in the data, or None if it is empty."""
    known = {str(label): label for label in labels}
    names = [name.strip() for name in categories.split(",") if name.strip()]
    return [known.get(name, name) for name in names] or None
