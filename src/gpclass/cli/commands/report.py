"""Write a report on a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...progress import begin
from ..application import app
from ..console import EXIT_CODES, Output, command, short_warnings
from ..options import Data, Engines, Force, Id, Json, ModelFile, OtherTarget, Quiet
from ..reading_options import Given, reads_tables


@app.command(epilog=EXIT_CODES)
@command
@reads_tables
def report(
    model: ModelFile,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    target: OtherTarget = None,
    train: Annotated[
        Path | None, typer.Option(help="The table that the model was fitted to, for a comparison of engines.")
    ] = None,
    engines: Engines = None,
    kernels: Annotated[
        str | None,
        typer.Option(help='Kernels to compare, separated by commas, such as "rbf,rbf-ard + linear". By default a few.'),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the report.")] = None,
    id: Id = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    *,
    given: Given,
) -> None:
    """Write a report on a model as one HTML file. The model is scored on a table of rows with labels.

    Training rows in the table are recognised and scored by leave-one-out; engines that do not offer leave-one-out are not
    scored on such rows. The report also compares engines and kernels, if the model keeps its training rows or --train names
    their table.
    """
    begin(f"reading {model}")
    from ...assess.report import write_report
    from .. import compare as comparing
    from .. import models, remedies
    from ..outputs import check_output

    out = Output(as_json, quiet)
    check_output(output, "report", [model, data, train], force)
    fitted = models.read_model(model)
    begin(f"reading {data}")
    how = models.Asked(id, target, given.reading, imputes=models.imputes(fitted))
    with short_warnings(out):
        rows = remedies.diagnosed(lambda some: models.read_for(fitted, data, some), how, given)
    labels, name = models.known_labels(fitted, rows.frame, target), models.target_of(fitted, target)
    if labels is None:
        raise ValueError(f"a report needs labels, but {data} has no column {name!r}; name another with --target")
    models.remark_missing(labels, out)
    rows, labels, y = rows.some(labels.there), labels.known, labels.y
    classifier = fitted.steps[-1][1]
    asked = len(y), len(classifier.classes_), classifier.likelihood
    names = None if engines is None else comparing.chosen_engines(engines, *asked)
    if names is not None and train is None:
        raise ValueError("--engines needs --train, the table that the model was fitted to")
    train_rows = None if train is None else models.training_rows(fitted, train, models.Asked(id, None, given.reading))
    texts = None if kernels is None else [text.strip() for text in kernels.split(",") if text.strip()]
    begin(f"report on {len(y)} rows")
    with short_warnings(out):
        X = rows.frame.drop(columns=name)
        write_report(fitted, X, y, output, data=train_rows, engines=names, kernels=texts, title=title)
        _, standing = models.judged_rows(fitted, rows, labels)
    figures = standing.figures(fitted)
    remark, size = models.seen_in_words(fitted, standing), output.stat().st_size
    remark = remark if standing.recognises else f"{models.IN_TRAINING}: {remark}"
    shown = [f"{output} ({size / 1024:.0f} kB)", *([remark] if remark else [])]
    out.result({"report": str(output), "rows": len(y), "bytes": size, **figures}, *shown)
