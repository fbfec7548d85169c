"""A demonstration of the command line on an included data set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from .. import datasets
from ..tables import write_table

NAME = "wine"
FILES = {"wine.csv": "table", "new.csv": "table", "wine.gpclass": "model", "out.csv": "table"}  # output files, their kinds


def as_frame(data: datasets.Dataset) -> tuple[pd.DataFrame, str]:
    """Return a data set as a table, and the name of its label column."""
    target = next(name for name in ("class", "label", "target") if name not in data.feature_names)
    frame = pd.DataFrame(data.X, columns=list(data.feature_names))
    whole = [name for name in frame if np.array_equal(frame[name], np.round(frame[name]))]
    return frame.astype(dict.fromkeys(whole, int)).assign(**{target: data.y}), target


def run(folder: Path, seed: int, say: Callable[[str], None], execute: Callable[..., None]) -> None:
    """Write two tables to `folder`, then execute compare, fit and predict on them."""
    frame, target = as_frame(datasets.load(NAME))
    order = np.random.default_rng(seed).permutation(len(frame))
    train, new, model, out = (folder / name for name in FILES)
    cut = round(0.7 * len(frame))
    write_table(frame.iloc[order[:cut]], train)
    write_table(frame.iloc[order[cut:]], new)
    rest = len(frame) - cut
    say(f"wine.csv has {cut} wines, each with 13 measurements and a label ({target}); new.csv has {rest} more wines.")

    say(f"\n$ gpclass compare wine.csv --target {target} --engines laplace,nested-ep")
    execute("compare", train, "--target", target, "--engines", "laplace,nested-ep", "--seed", seed)
    say(f"\n$ gpclass fit wine.csv --target {target} -o wine.gpclass")
    execute("fit", train, "--target", target, "-o", model, "--seed", seed, "--force")
    say("\n$ gpclass predict wine.gpclass new.csv -o out.csv")
    execute("predict", model, new, "-o", out, "--force")
    say("\nThe least certain rows of out.csv:")
    table = pd.read_csv(out)
    least = table.filter(like="p(").max(axis=1).sort_values().index[:4]
    say(table.loc[least].round(3).to_string(index=False))
