"""Predict the rows of tables."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...progress import begin, counted, rest
from ..application import app
from ..clusters import client_of
from ..console import EXIT_CODES, Output, command, facts, short_warnings
from ..options import Cluster, Force, Id, Json, ModelFile, Quiet, Tables, Workers
from ..reading_options import Given, reads_tables

if TYPE_CHECKING:
    from ..models import Asked, Standing


@app.command(epilog=EXIT_CODES)
@command
@reads_tables
def predict(
    model: ModelFile,
    data: Tables,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Table to write, or a folder (a name without extension). By default stdout."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Also write the columns of the input.")] = False,
    id: Id = None,
    cluster: Cluster = None,
    workers: Workers = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    *,
    given: Given,
) -> None:
    """Predict the rows of a table. The output has one row for each row of the table.

    row: line in the data file, header not counted. prediction: the most probable class. p(<label>): probability of each
    class. latent_variance: variance of the latent function (with three or more classes, of the differences between
    classes). variance_left: latent variance divided by prior variance, from 0 (determined by the training data) to 1
    (unknown). far: true if the row is far from all training rows, measured by the correlation under the kernel and
    compared with the distances between training rows; predictions there are unreliable. in_training: true if a training
    row has the same inputs. Predictions of such rows come from the model that has seen them; if the table has labels,
    they are scored by leave-one-out. It is empty if the model was fitted on a cluster: such models do not recognise
    training rows.

    Predictions of several files, and those by the workers of a cluster, are written to a folder: one file
    part-00000.parquet for each input file, or for each row group of a large Parquet file, with one more column, file. One
    part at a time is in memory. All workers must see the files and the folder under the same names.
    """
    begin(f"reading {model}")
    from ...tables import csv_text, write_table
    from .. import models, remedies, training
    from ..outputs import check_output

    out = Output(as_json, quiet)
    if training.several_files(data) or cluster or workers or (output is not None and not output.suffix):
        _predict_files(model, data, output, keep, models.Asked(id, None, given.reading), cluster, workers, force, out)
        return
    if output is not None:
        check_output(output, "table", [model, data], force)
    fitted = models.read_model(model)
    begin(f"reading {data}")
    with short_warnings(out):
        asked = models.Asked(id, None, given.reading, imputes=models.imputes(fitted))
        rows = remedies.diagnosed(lambda some: models.read_for(fitted, data, some), asked, given)
        begin(f"predictions of {len(rows.lines)} rows")
        labels = models.labels_if_any(fitted, rows.frame, out)
        judged, standing = models.judged_rows(fitted, rows, labels)
        table = models.predictions(fitted, rows, judged)
    shown = models.beside(rows, table) if keep else table
    if output is not None:
        begin(f"writing {output}")
        write_table(shown, output)
    found = table["prediction"].value_counts()
    outcome = _predicted(fitted, {k: int(found[k]) for k in found.index}, int(table["far"].sum()), standing)
    remark = models.seen_in_words(fitted, standing, scored=labels is not None and output is not None, listed=True)
    if output is None and not as_json:
        rest()
        print(csv_text(shown), end="")
        if remark:
            out.remark(f"note: {remark if standing.recognises else f'{models.IN_TRAINING} is {remark}'}")
        return
    if output is None:
        out.result({**outcome, "predictions": models.records(table)})
    else:
        told = facts(_predict_facts(outcome, remark, models.target_of(fitted), output))
        out.result({"output": str(output), **outcome}, told)


def _predict_files(
    model: Path,
    data: Path,
    output: Path | None,
    keep: bool,
    asked: Asked,
    cluster: str | None,
    workers: int | None,
    force: bool,
    out: Output,
) -> None:
    """Predict several files, or one on a cluster, and write a folder."""
    from ...tables import check_table_path
    from .. import folders, models

    if output is None or output.suffix:
        named = "" if output is None else f", but {output} has the extension of a file"
        raise ValueError(
            f"predictions of several files, and those of a cluster, are written to a folder: name it with -o{named}"
        )
    if cluster is not None:
        data, output = data.absolute(), output.absolute()  # its workers run in other folders
    jobs = folders.jobs_of(data, output, asked, keep)
    check_table_path(Path(jobs[0].output))
    folders.check_folder(output, [model], jobs, force)
    fitted = models.read_model(model)
    begin("predictions")
    with client_of(cluster, workers) as client, short_warnings(out), counted("files", len(jobs)) as files:
        folders.prepare_folder(output)
        done = folders.predict_files(fitted, jobs, client, files.advance)
        for text in done.warned:
            warnings.warn(text, UserWarning, stacklevel=1)
    if done.unscored:
        out.remark(f"not scored: {done.unscored}")
    elif done.standing.unlabelled:
        out.remark(f"note: {models.unscored_rows(done.standing.unlabelled, models.target_of(fitted))}")
    outcome = {**_predicted(fitted, done.predicted, done.far, done.standing), "files": len(jobs)}
    remark = models.seen_in_words(fitted, done.standing, scored=done.scored, listed=True)
    told = facts(_predict_facts(outcome, remark, models.target_of(fitted), output))
    out.result({"output": str(output), **outcome}, told)


def _predicted(fitted: Any, counts: dict[Any, int], far: int, standing: Standing) -> dict[str, Any]:
    """Return a summary of predictions: numbers of rows and scores. `counts` are those of the predicted classes."""
    predicted = {str(label): counts[label] for label in fitted.steps[-1][1].classes_.tolist() if label in counts}
    return {"rows": standing.rows, "predicted": predicted, "far": far, **standing.figures(fitted)}


def _predict_facts(outcome: dict[str, Any], remark: str, target: str, output: Path) -> list[tuple[str, str]]:
    from ..models import IN_TRAINING, scores_in_words

    told = [("rows", str(outcome["rows"]))]
    if "files" in outcome:
        told[0] = ("rows", f"{outcome['rows']} in {outcome['files']} file{'s' * (outcome['files'] > 1)}")
    told.append(("predicted", ", ".join(f"{k} {v}" for k, v in outcome["predicted"].items())))
    told.append(("far", f"{outcome['far']} {'row is' if outcome['far'] == 1 else 'rows are'} far from all training rows"))
    if remark:
        told.append((IN_TRAINING, remark))
    if "error" in outcome:
        told.append(("labels", f"{target} is in the table: {scores_in_words(outcome)}"))
    return [*told, ("output", str(output))]
