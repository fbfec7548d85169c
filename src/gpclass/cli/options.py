"""Arguments and options that several commands have."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from . import completion
from .names import ENGINES, KERNELS


class Impute(str, Enum):
    """Values of the option --impute."""

    median = "median"
    indicator = "indicator"


Data = Annotated[Path, typer.Argument(help="Table with a header: .csv, .tsv (also .gz) or .parquet.")]
Tables = Annotated[
    Path,
    typer.Argument(help='Table with a header: .csv, .tsv (also .gz) or .parquet; or several in a folder or "a-*.csv".'),
]
ModelFile = Annotated[Path, typer.Argument(help="A model file written by `gpclass fit`.")]
TargetColumn = Annotated[
    str, typer.Option("--target", "-t", help="Name of the column of labels.", autocompletion=completion.column)
]
OtherTarget = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        help="Name of the column of labels, if different from the training data.",
        autocompletion=completion.column,
    ),
]
Engine = Annotated[
    str, typer.Option("--engine", "-e", help=f"auto, {', '.join(ENGINES)}.", autocompletion=completion.engine)
]
Engines = Annotated[
    str | None,
    typer.Option("--engines", help="Names separated by commas, such as ep,laplace.", autocompletion=completion.engines),
]
Likelihood = Annotated[
    str,
    typer.Option(
        help="auto, probit, logit; softmax, multinomial-probit, robust-max; ordinal.", autocompletion=completion.likelihood
    ),
]
Categories = Annotated[
    str, typer.Option(help="All labels in their order, separated by commas, such as low,medium,high. By default sorted.")
]
KernelText = Annotated[
    str | None,
    typer.Option(
        "--kernel",
        "-k",
        help=f'Sums and products of kernels, such as "rbf-ard + linear": {", ".join(KERNELS)}.',
        autocompletion=completion.kernel,
    ),
]
ImputeOption = Annotated[
    Impute | None, typer.Option(help="Fill empty cells with medians of the training data. By default they are an error.")
]
Drop = Annotated[
    str, typer.Option(help="Columns to leave out, separated by commas.", autocompletion=completion.columns)
]
Id = Annotated[
    str | None,
    typer.Option(
        "--id",
        help="Column that identifies rows. It is not an input. It is shown with the line of the row.",
        autocompletion=completion.column,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Use the workers of a Dask scheduler, such as tcp://scheduler:8786."),
]
Workers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Start N worker processes on this machine and use them (Dask).")
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file of another kind.")]
Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of all random numbers.")]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors (and JSON).")]
