"""Medians of columns by counting over the parts of a table, which may be larger than memory."""

import pickle

import numpy as np
import pandas as pd
import pytest

from gpclass.tables import Part, TableEncoder, medians, scanned


@pytest.mark.parametrize("few", [1, 8, 1 << 14])
@pytest.mark.parametrize("kind", ["normal", "repeated", "signs", "spread", "two"])
@pytest.mark.parametrize("n", [1, 2, 999, 1000])
def test_medians_by_counting_are_exact(kind, n, few, monkeypatch):
    monkeypatch.setattr(medians, "FEW", few)
    rng = np.random.default_rng(n)
    x = {
        "normal": rng.normal(size=n),
        "repeated": rng.choice([-1.0, -0.0, 0.0, 1.0], n),
        "signs": rng.choice([-1, 1], n) * rng.random(n) * 1e-300,
        "spread": rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-300, 149, n),
        "two": np.repeat([1.0, 1.0 + 2**-52], [n // 2, n - n // 2]),
    }[kind]
    frame = pd.DataFrame({"x": x})
    cuts = np.split(np.arange(n), np.sort(rng.integers(0, n + 1, 4)))  # some parts may be empty
    parts = [Part(frame.iloc[part], f"part {k}") for k, part in enumerate(cuts)]
    sizes = []

    def total(function, *arguments):
        found = [function(part, *arguments) for part in parts]
        sizes.append(max(len(pickle.dumps(one)) for one in found))
        result = found[0]
        for one in found[1:]:
            result = result + one
        return result

    column = TableEncoder(impute="median").fit_parts(total).columns_[0]
    assert column.median == np.median(x)
    assert len(sizes) <= 3 + 7  # 64 bits, 12 in each pass, and rounding of the intervals
    assert total(scanned).n_rows == n
