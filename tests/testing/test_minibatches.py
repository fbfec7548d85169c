"""The checks of minibatches find faulty engines."""

from dataclasses import replace

import numpy as np
import pytest

from gpclass.likelihoods import Probit
from gpclass.sparse import SVGP, ScalableEP
from gpclass.testing.claims import tight
from gpclass.testing.engines import ordinary
from gpclass.testing.minibatches import check_minibatches


class Drifts(ScalableEP):
    """An engine whose new sites are slightly too strong."""

    def moved_sites(self, broadcast, message, sites):
        new = super().moved_sites(broadcast, message, sites)
        return {**new, "tau": 1.0001 * new["tau"]}


class KnowsItsNumber(SVGP):
    """An engine in which a part of a minibatch has too much weight."""

    def rule(self, likelihood, n_total, loose=False):
        rule = super().rule(likelihood, n_total, loose)

        def changed(at, y, sites):
            message = rule(at, y, sites)
            return replace(message, nu=message.nu + 1e-3 * np.eye(1)[0] * (len(y) < 4))

        return changed


SLIPS = {
    "drifts": (Drifts(), "a step on all rows from the fixed point: precisions"),
    "counts parts": (KnowsItsNumber(), "a minibatch in two parts, 0 rows seen before: precisions times means"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_kit_notices(slip):
    engine, message = SLIPS[slip]
    with pytest.raises(AssertionError, match=message):
        check_minibatches(tight(engine), Probit(), ordinary(engine, Probit()))
