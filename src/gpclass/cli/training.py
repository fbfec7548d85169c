"""From data files to a fitted pipeline: as a table in this process, as a stream, or divided among workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from ..assess.models import classifier as on_encoded_rows
from ..choose import LARGEST_SIZE, engine_for, engine_named, engine_names, likelihoods_of, targets_of
from ..distributed.parts_of_files import file_parts, label_counts
from ..engines import Engine
from ..learning import files_of, table_files
from ..tables import (
    Findings,
    Reading,
    TableEncoder,
    TableError,
    csv_columns,
    read_table,
    read_tables,
    split_target,
    with_ids,
)
from .columns import Columns, names_not_there, row_numbers, target_by_number

MOST_CELLS = 10_000_000  # cells of several files up to which they are read as one table
CELL = 8  # approximate number of bytes of a cell in a text file
PATTERN = "*?["  # characters of patterns of file names
WHOLE = "--dates, --units, --skip-unlabelled, --merge-labels and --keep-labels"


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
        Options for the columns.
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
    header = _names_in(_first(data), columns.reading, unnamed=True) if columns.drop else []
    found.add(*names_not_there(columns, frame, header))
    if not columns.reading.header and columns.target not in frame.columns:
        found.add(target_by_number(frame, columns.target))
    found.report()
    if columns.id is not None:
        frame = with_ids(frame, columns.id)
    with found.collecting():
        X, y = split_target(frame, columns.target, columns.skip_unlabelled, columns.merge_labels)
    inputs = frame.drop(columns=columns.target, errors="ignore") if found.problems else X
    if columns.target in frame.columns and len(inputs.columns):
        counting = row_numbers(inputs, columns)
        found.add(*counting)
        with found.collecting():
            replace(columns, id=columns.id or next((p.column for p in counting), None)).encoder().fit(inputs)
    found.report()
    labels, counts = np.unique(y, return_counts=True)
    return Training(X, y, [str(name) for name in X.columns], _counts(labels, counts))


def _divided(data: Path, columns: Columns) -> Training:
    parts = file_parts(data, columns.target, columns.no_inputs, columns.reading)
    return Training(parts, None, list(parts.columns or ()), label_counts(parts))


def _streamed(data: Path, columns: Columns) -> Training:
    remedy = "use --workers 2, which divides the rows among processes and takes all columns"
    large = f"{data} has more than {MOST_CELLS} cells and is read as a stream of numbers"
    if columns.impute is not None:
        raise TableError(f"{large}, which does not support --impute: {remedy}")
    if columns.needs_whole or not columns.reading.is_usual:
        raise TableError(f"{large}, which options for reading tables do not support; use fewer files, or write them again")
    try:
        rows = table_files(data, columns.target, drop=columns.no_inputs)
    except TableError as error:
        raise TableError(f"{large}: {error}. Or {remedy}; or leave columns out with --drop") from error
    found = rows.look((0, 0))
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


def _first(data: Path) -> Path:
    return files_of(data)[0] if several_files(data) else data


def cells_in(data: Path) -> int:
    """Return the number of cells of all files; for text files an estimate from their sizes."""
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
    """Return the engine that learns the hyperparameters if GPClassifier has inference="auto"."""
    known = likelihoods_of(len(training.counts), targets_of(likelihood))
    usual = "probit" if len(training.counts) == 2 else "multinomial-probit"
    made = known.get(usual if likelihood == "auto" else likelihood)
    if made is None:
        raise ValueError(f"there is no likelihood {likelihood!r} for {len(training.counts)} classes: {', '.join(known)}")
    return engine_for(made, training.n_rows + (LARGEST_SIZE if training.y is None else 0))


def ordered_labels(categories: str, labels: Sequence[Any]) -> list[Any] | None:
    """Return the labels of an option such as "low,medium,high" as they are in the data, or None if it is empty."""
    known = {str(label): label for label in labels}
    names = [name.strip() for name in categories.split(",") if name.strip()]
    return [known.get(name, name) for name in names] or None
