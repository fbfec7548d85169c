"""A changed number in a file is noticed by the predictions that it stores."""

import numpy as np
import pytest

import gpclass
from gpclass import ModelFileError
from gpclass.likelihoods import Probit

from .parts import NEW, altered, entries

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a few iterations must do


def test_a_changed_number_is_noticed(whole, tmp_path):
    def change(document):
        for parameter in entries(document, "Parameter"):
            parameter["with"]["values"] = {"tuple": [1.234 * value for value in parameter["with"]["values"]["tuple"]]}

    with pytest.raises(ModelFileError, match="differ from the stored ones"):
        gpclass.load(altered(whole, tmp_path / "a", change))


def test_probes_do_not_depend_on_integrals(whole, tmp_path, monkeypatch):
    """A later version with more accurate class probabilities can still read older files."""
    monkeypatch.setattr(Probit, "log_predictive", lambda self, y, mean, var: np.log(0.5) + 0.0 * mean)
    (tmp_path / "a").write_bytes(whole)
    assert np.all(gpclass.load(tmp_path / "a").predict_proba(NEW) == 0.5)
