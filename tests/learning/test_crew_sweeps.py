"""Settled sites of rows that are divided among shards: results are those of one process, whatever the partitions."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from gpclass.engines.inducing import swept_rows
from gpclass.engines.observations import Observed
from gpclass.kernels import RBF, PerClass
from gpclass.learning import crew_sweeps
from gpclass.learning.crew import LocalCrew, RowsLost, Shard, divided
from gpclass.learning.crew_sweeps import CrewInputs, CrewRows, RowsLostWarning, learn_settled, shelf_of
from gpclass.learning.inducing import InducingInputs, maximise_low_rank
from gpclass.learning.members import left_out
from gpclass.learning.objective import Objective
from gpclass.likelihoods import Logit, MultinomialProbit, Probit, RobustMax, Softmax
from gpclass.sparse import GFITC, SVGP, ScalableEP, StochasticEP

N, M = 90, 8
rng = np.random.default_rng(3)
X = rng.normal(size=(N, 2))
F = np.stack([X[:, 0], X[:, 1] ** 2 - 1, -X.sum(1)], axis=1) + 0.3 * rng.normal(size=(N, 3))
NAMES = np.array(["b", "a", "c"])  # labels in another order than sorted
Z = X[None, rng.choice(N, M, replace=False)]
WEIGHT = rng.uniform(0.4, 2.5, N)
PARTS = [  # sizes of the partitions, and their owners
    ([90], [0]),
    ([30, 30, 30], [0, 1, 2]),
    ([0, 1, 57, 0, 32], [0, 2, 1, 3, 2]),  # uneven, empty partitions, and a shard without rows
]


class Sent(LocalCrew):
    """A crew whose functions, arguments and results go through pickle, as if shards were other processes."""

    def each(self, function, *arguments):
        return [pickle.loads(pickle.dumps(f(shard, *args))) for shard in self.shards for f, args in [self._sent(function, arguments)]]

    @staticmethod
    def _sent(function, arguments):
        return pickle.loads(pickle.dumps((function, arguments)))


def problem(likelihood):
    """Class numbers and labels, for two classes or three."""
    place = (F[:, 0] > 0).astype(int) if likelihood.n_latents == 1 else F.argmax(1)
    return place, NAMES[: max(2, likelihood.n_latents)]


def crew_of(likelihood, parts, weight=None, kind=Sent):
    place, labels = problem(likelihood)
    made = divided(X, labels[place], *parts, weight)
    return kind(made.shards), labels


def objectives(kernel, likelihood, engine, parts, weight=None, move=True, inputs=Z):
    """The objective in one process and on a crew. The latter's own rows are only a few."""
    place, _ = problem(likelihood)
    y = likelihood.check_targets(likelihood.class_targets[place])
    whole = Objective(X, y if weight is None else Observed(y, weight), kernel, likelihood, engine, [])
    unit = np.array([1.0, 2.0])
    crew, labels = crew_of(likelihood, parts, weight)
    few = replace(whole, X=X[:9], y=y[:9], design=CrewInputs(inputs, unit, move, CrewRows(crew, labels)))
    return replace(whole, design=InducingInputs(inputs, unit, move)), few


CASES = [
    (GFITC(tol=1e-10), Probit(), False),
    (GFITC(tol=1e-10), MultinomialProbit(3), True),
    (ScalableEP(tol=1e-10), MultinomialProbit(3), False),
    (ScalableEP(tol=1e-10), Probit(bias=0.3), True),
    (ScalableEP(tol=1e-9), RobustMax(3, epsilon=0.05), False),
    (StochasticEP(tol=1e-10), MultinomialProbit(3), True),
    (SVGP(tol=1e-9), Logit(), True),
    (SVGP(tol=1e-9), Softmax(3), False),
    (SVGP(tol=1e-9), RobustMax(3, epsilon=0.05), False),  # begins with sweeps of EP
]


@pytest.mark.parametrize(("engine", "likelihood", "weighted"), CASES, ids=lambda case: type(case).__name__)
def test_fits_and_gradients_do_not_depend_on_the_partitions(engine, likelihood, weighted):
    for parts in PARTS[1:] if weighted else PARTS[2:]:
        one, many = objectives(RBF(0.9, 2.0), likelihood, engine, parts, WEIGHT if weighted else None)
        a, b = (objective.evaluate(objective.theta, tol=0.0) for objective in (one, many))
        assert a.fit.converged
        assert b.fit.converged
        assert_allclose(b.value, a.value, rtol=1e-9)
        assert_allclose(b.fit.posterior.mu, a.fit.posterior.mu, atol=1e-8)
        assert_allclose(b.fit.posterior.A_inv, a.fit.posterior.A_inv, atol=1e-8)
        assert_allclose(b.gradient, a.gradient, atol=1e-8 * N)
