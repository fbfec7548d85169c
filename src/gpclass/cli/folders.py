"""Predictions of several files, or of one by the workers of a cluster: a folder with one Parquet file for each part."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from sklearn.pipeline import Pipeline

from ..distributed.clusters import results_of
from ..distributed.parts_of_files import FilePiece, file_pieces, read_piece
from ..tables import TableError, write_table
from . import models

FILE = "file"  # column with the name of the file of each row
OUTPUT = re.compile(r"part-\d{5,}\.parquet")


class Job(NamedTuple):
    """One part: what is read, and where its predictions go."""

    piece: FilePiece
    output: str
    asked: models.Asked  # how tables are read, and the column that identifies rows
    keep: bool  # whether the columns of the input are written too


@dataclass(frozen=True)
class Done:
    """A summary of the predictions of one part; those of all parts are added."""

    predicted: Counter  # rows of each predicted class
    far: int
    standing: models.Standing
    unscored: str = ""  # why rows are not scored, although there are labels
    warned: tuple[str, ...] = ()

    def __add__(self, other: Done) -> Done:
        warned = tuple(dict.fromkeys([*self.warned, *other.warned]))
        sums = self.predicted + other.predicted, self.far + other.far, self.standing + other.standing
        unscored = self.unscored or other.unscored
        if self.standing.rows and other.standing.rows and self.scored != other.scored:
            unscored = unscored or "some of the files have no labels"
        return Done(*sums, unscored, warned)

    @property
    def scored(self) -> bool:
        """Whether the rows have labels."""
        return self.standing.tally is not None


def predict_files(
    model: Pipeline, jobs: list[Job], client: Any = None, advance: Callable[[], None] = lambda: None
) -> Done:
    """Predict all parts and write their tables; return numbers of rows and sums of scores.

    Each part is read, predicted and written by one worker of the client, or by this process if there is none. `advance` is
    called after each part.
    """
    done = []
    try:
        for result in results_of(client, predicted, jobs, model):
            done.append(result)
            advance()
    except TableError as error:
        raise TableError(f"{error} ({_so_far(jobs, len(done))})") from error
    total = reduce(add, done)
    if not total.standing.rows:
        raise TableError("the files have no rows")
    return total


def _so_far(jobs: list[Job], count: int) -> str:
    folder = Path(jobs[0].output).parent
    return f"{count} of {len(jobs)} files in {folder} were written" if count else "nothing was written"


def jobs_of(data: Path, folder: Path, asked: models.Asked, keep: bool) -> list[Job]:
    """Return the parts of a file, a folder or a pattern. Their outputs are part-00000.parquet and so on."""
    pieces = file_pieces(data)
    return [Job(piece, str(folder / f"part-{k:05d}.parquet"), asked, keep) for k, piece in enumerate(pieces)]


def check_folder(folder: Path, inputs: list[Path], jobs: list[Job], force: bool) -> None:
    """Raise an error if predictions cannot be written to a folder without losing something else.

    With `force` a folder may contain files. Those of earlier predictions are replaced, all others stay.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(20, "This is a file, a folder was expected", str(folder))
    if not folder.parent.is_dir():
        raise FileNotFoundError(2, "There is no such folder", str(folder.parent))
    sources = [*inputs, *(Path(job.piece.path) for job in jobs)]
    if any(source.resolve().parent == folder.resolve() for source in sources):
        raise ValueError(f"the output {folder} contains input files; name another folder")
    if folder.exists() and any(folder.iterdir()) and not force:
        raise ValueError(f"the folder {folder} is not empty; name another output, or replace its predictions with --force")


def prepare_folder(folder: Path) -> None:
    """Create the folder, and remove earlier predictions from it: old and new ones must not be mixed."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if OUTPUT.fullmatch(path.name):
            path.unlink()


def predicted(job: Job, model: Pipeline) -> Done:
    """Predict and write one part. Of a part without rows nothing is written."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            frame = read_piece(job.piece, text=models.text_columns(model, job.asked.id), reading=job.asked.reading)
            if not len(frame):
                return Done(Counter(), 0, models.Standing(0, True, 0, 0, None))
            table, done = _predicted(job, model, frame)
        except TableError as error:
            name = job.piece.path
            raise (error if name in str(error) else error.about(name)) from error
    write_table(table, job.output)
    told = [f"{job.piece.path}: {some.message}" for some in caught if issubclass(some.category, UserWarning)]
    return Done(done.predicted, done.far, done.standing, done.unscored, tuple(told))


def _predicted(job: Job, model: Pipeline, frame: pd.DataFrame) -> tuple[pd.DataFrame, Done]:
    rows = models.rows_of(model, frame, job.asked.id)
    labels, unscored = None, ""
    try:
        labels = models.known_labels(model, rows.frame)
    except ValueError as error:
        unscored = f"{job.piece.path}: {error}"
    judged, standing = models.judged_rows(model, rows, labels)
    table = models.predictions(model, rows, judged)
    done = Done(Counter(table["prediction"].tolist()), int(table["far"].sum()), standing, unscored)
    shown = models.beside(rows, table) if job.keep else table
    shown.insert(0, f"{FILE} (predicted)" if FILE in shown.columns else FILE, job.piece.path)
    return shown, done
