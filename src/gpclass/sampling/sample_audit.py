"""Errors of inducing points and active sets, measured on a sample of the rows.

A model of many rows cannot be compared with its exact posterior, which is why it has inducing points. A sample of the rows
can: the engine of the model and a posterior of all rows of the sample are computed from the same rows, with the same
hyperparameters (and the same inducing inputs), and only the approximation differs. A posterior of more rows has more detail,
which the same inducing points must represent: on all rows the error may be larger than on the sample. So the sample has more
rows than the model has inducing points, if the reference can be computed with so many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..inference import EP, NestedEP
from ..inputs import more_inputs, row_fingerprints
from ..learning import InducingInputs, Member, Objective, learn, members
from ..learning.streams import codes as codes_of
from ..progress import phase
from ..sparse import ScalableEP
from .draws import HIGH_R_HAT, Draws
from .figures import DOUBTFUL, Figure, Figures, grade
from .hmc import HMC
from .target import generator

ENGINE_ROWS, SAMPLER_ROWS = 500, 200  # rows of the sample, if the reference is an engine or a sampler
ROWS_PER_INPUT = 2  # rows of the sample of an engine for each of many inducing points: fewer rows have a smaller error
MOST_ROWS = 2000  # of the sample: nested EP of six classes takes half a minute
MAX_COMPARED = 2000  # rows at which class probabilities are compared
MIN_COMPARED = 50  # rows outside of the sample, or unseen rows, that are enough for a comparison
EFFECTIVE_DRAWS = 400  # at which the sampler stops
NLPD_TOL = 0.01  # nats of NLPD that do not count as worse
GRADED_SHARE = 0.95  # of the rows; the largest error among these is graded


@dataclass(frozen=True)
class SampleScores:
    """SampleScores of one model on labelled rows."""

    error: float
    nlpd: float


@dataclass(frozen=True, repr=False)
class SampleAudit(Figures):
    """Comparison of an engine with a posterior of all rows, both on the same sample of rows.

    Attributes
    ----------
    engine, likelihood : str
        Class names.
    reference : str
        What the engine is compared with.
    n_points : int
        Number of rows of the sample.
    n_inputs : int
        Number of inducing points or active rows that the engine uses for them.
    n_compared : int
        Number of rows at which class probabilities are compared.
    compared_at : str
        What these rows are.
    probability_error_max, probability_error_most, probability_error_mean : float
        Largest error of the class probabilities, the largest in 95 % of the rows, and the mean.
    probability_noise : float
        Standard error of the reference, if it is a sampler.
    r_hat : float or None
        Largest R-hat of the reference, if it is a sampler.
    scores : dict of str to SampleScores
        SampleScores of the compared rows, if they have labels: of the "model", of its engine on the "sample", and of the
        "reference" on the sample.
    seen : bool
        Whether the model was trained on compared rows. Then its scores are too good, and so are those of its engine on the
        sample, whose inducing inputs were learned from these rows.
    n_trained : int or None
        Number of training rows of the model, if it is known.
    """

    engine: str
    likelihood: str
    reference: str
    n_points: int
    n_inputs: int
    n_compared: int
    compared_at: str
    probability_error_max: float
    probability_error_most: float
    probability_error_mean: float
    probability_noise: float
    r_hat: float | None
    scores: dict[str, SampleScores]
    seen: bool
    n_trained: int | None

    @property
    def subject(self) -> str:
        return f"{self.engine} with {self.likelihood}, {self.n_inputs} inputs for a sample of {self.n_points} rows"

    @property
    def verdict(self) -> str:
        if self.r_hat is not None and not self.r_hat < HIGH_R_HAT:
            return "no conclusion, because the sampler has not converged: raise its number of draws"
        judged = grade(self.probability_error_most, self.probability_noise)
        if judged == DOUBTFUL and self._scores_as_well:
            judged = "class probabilities are far from the exact posterior, but score no worse, because the hyperparameters "
            judged += "suit only the approximation"
        share, worst = f"{100 * GRADED_SHARE:.0f} %", f"{self.probability_error_most:.2g}"
        judged += f"; {share} of the rows are within {worst} of {self.reference}"
        return f"{judged}. {self.too_few}" if self.too_few else judged

    @property
    def too_few(self) -> str:
        """Why the sample cannot show the error of the model's inputs on all rows; empty if it can."""
        if self.n_points > self.n_inputs or self.n_trained == self.n_points:
            return ""
        inputs = f"as the engine has {self.n_inputs} inputs for a sample of {self.n_points} rows"
        return f"On all training rows the error may be larger, {inputs}"

    @property
    def _scores_as_well(self) -> bool:
        """Whether the engine predicts unseen rows as well as the reference does."""
        known = bool(self.scores) and not self.seen
        return known and self.scores["sample"].nlpd <= self.scores["reference"].nlpd + NLPD_TOL

    def rows(self) -> list[Figure]:
        noise = self.probability_noise or None
        share = f"{100 * GRADED_SHARE:.0f} %"
        figures: list[Figure] = [
            ("probability error, largest", self.probability_error_max, noise, self.compared_at),
            (f"probability error, {share}", self.probability_error_most, noise, "of these rows are below"),
            ("probability error, average", self.probability_error_mean, noise, ""),
        ]
        if self.r_hat is not None:
            figures.append(("sampler's R-hat", self.r_hat, None, f"should be below {HIGH_R_HAT}"))
        known = "the model" if self.n_trained is None else f"the model of {self.n_trained} rows"
        remarks = {
            "model": f"{known}{'; too good, because these rows are among them' * self.seen}",
            "sample": f"{self.engine} on the sample{'; too good, its inputs come from these rows' * self.seen}",
            "reference": self.reference,
        }
        for name, scores in self.scores.items():
            figures += [(f"error, {name}", scores.error, None, remarks[name]), (f"NLPD, {name}", scores.nlpd, None, "nats")]
        return figures


def audit_on_sample(model: Any, data: Any, X: Any = None, sampler: Any = None, random_state: Any = 0) -> SampleAudit:
    """Return the comparison of a fitted classifier's engine with a posterior of all rows of a sample; see `audit`."""
    rows, place = _labelled(model, data)
    rng, likelihood = generator(random_state), model.likelihood_
    engine, name = _reference(model, sampler, rng)
    sample = _stratified_sample(place, SAMPLER_ROWS if engine.draws else _engine_rows(model), rng)
    objective = Objective(rows[sample], likelihood.class_targets[place[sample]], model.kernel_, likelihood, engine, [])
    with phase(f"{type(model.inference_).__name__} on a sample of {len(sample)} rows"):
        own = _own_member(model, objective)
    with phase(f"{name} on a sample of {len(sample)} rows"):
        exact = _member(model, objective)
    at, labels, where = _compared(model, rows, place, sample, X, rng)
    with phase(f"class probabilities of {len(at)} rows"):
        p, (q, noise) = np.exp(own.log_class_probabilities(at)), _probabilities(exact, at, engine.draws)
        whole = np.exp(members.log_class_probabilities(model.members_, at))
    gap = np.abs(p - q).max(axis=1)
    each = {"model": whole, "sample": p, "reference": q}
    prints = getattr(model, "row_fingerprints_", None)
    return SampleAudit(
        engine=type(model.inference_).__name__,
        likelihood=type(likelihood).__name__,
        reference=name,
        n_points=len(sample),
        n_inputs=own.inputs.shape[-2],
        n_compared=len(at),
        compared_at=f"at {len(at)} {where}",
        probability_error_max=float(gap.max()),
        probability_error_most=float(np.quantile(gap, GRADED_SHARE)),
        probability_error_mean=float(np.abs(p - q).mean()),
        probability_noise=noise,
        r_hat=exact.posterior.worst_r_hat if engine.draws else None,
        scores={} if labels is None else {name: _scores(found, labels) for name, found in each.items()},
        seen=prints is not None and bool(np.any(np.isin(row_fingerprints(model, at), prints))),
        n_trained=getattr(model, "n_samples_seen_", None) if prints is None else len(prints),
    )


def _labelled(model: Any, data: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of `data` as the kernel takes them, and their class numbers."""
    name = type(model.inference_).__name__
    if data is None:
        raise TypeError(
            f"{name} does not keep its training rows, so audit needs rows with labels, from which it draws a sample: pass "
            "data=(X, y), the training rows or others like them (on the command line, a table after the model)"
        )
    if getattr(model, "covariances_", None) is not None:
        raise TypeError(f"audit of {name} needs rows of numbers, but the model has a matrix, objects or sparse rows")
    rows, y = more_inputs(model, data[0]), np.asarray(data[1])
    if len(rows) != len(y):
        raise ValueError(f"data has {len(rows)} rows but {len(y)} labels")
    return np.asarray(rows, float), codes_of(y, model.classes_)


def _reference(model: Any, sampler: Any, rng: np.random.Generator) -> tuple[Any, str]:
    """Return the engine that is compared with, and its name in words."""
    likelihood = model.likelihood_
    hmc = HMC(n_draws=1000, n_warmup=300, enough=EFFECTIVE_DRAWS, random_state=rng)
    for engine in [EP(), NestedEP(), hmc] if sampler is None else [sampler]:
        correlated = model.kernel_.separated[1] is None or engine.correlated
        if engine.serves(likelihood) and correlated:
            return engine, f"{type(engine).__name__} on all rows of the sample"
    if sampler is not None:
        sampler.check_likelihood(likelihood)
    # the error of the inducing points alone
    return ScalableEP(), "ScalableEP with all rows of the sample as inducing inputs"


def _engine_rows(model: Any) -> int:
    """Return the number of rows of the sample if the reference is an engine."""
    return int(np.clip(ROWS_PER_INPUT * model.inputs_.shape[-2], ENGINE_ROWS, MOST_ROWS))


def _stratified_sample(place: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return at most `count` row numbers, sorted, with the classes in the same proportions as in all rows."""
    if len(place) <= count:
        return np.arange(len(place))
    by_class = np.lexsort((rng.random(len(place)), place))
    return np.sort(by_class[np.linspace(0, len(place) - 1, count).astype(int)])


def _own_member(model: Any, objective: Objective) -> Member:
    """Return the posterior of the model's engine, with its hyperparameters, on the rows of the objective."""
    engine = model.inference_
    objective = replace(objective, engine=engine)
    if engine.design == "inducing inputs":
        return _at_inducing(objective, model.inputs_)
    if engine.design == "active rows":
        objective = replace(objective, engine=replace(engine, augment=None))
    if engine.design == "inducing pairs" and engine.inducing is not None:
        most = len(objective.X) * objective.likelihood.n_latents
        objective = replace(objective, engine=replace(engine, inducing=min(engine.inducing, most)))
    learned = learn(objective, [], 0)
    return Member(1.0, learned.kernel, learned.posterior, learned.inputs)


def _at_inducing(objective: Objective, inputs: np.ndarray) -> Member:
    """Return the posterior of an engine at given inducing inputs, (M, D) or (C, M, D)."""
    Z = inputs if inputs.ndim == 3 else inputs[None]
    found = replace(objective, design=InducingInputs(Z, np.ones(Z.shape[-1]), move=False)).fit(objective.theta)
    return Member(1.0, found.kernel, found.fit.without_rows(), inputs)


def _member(model: Any, objective: Objective) -> Member:
    """Return the posterior of the reference."""
    if objective.engine.design == "inducing inputs":
        return _at_inducing(objective, objective.X)
    found = objective.fit(objective.theta)
    return Member(1.0, found.kernel, found.fit, objective.X)


def _compared(model, rows, place, sample, X, rng) -> tuple[np.ndarray, np.ndarray | None, str]:
    """Return the rows at which probabilities are compared, their class numbers if known, and what they are."""
    if X is not None:
        return np.asarray(more_inputs(model, X), float)[:MAX_COMPARED], None, "rows of X"
    others = np.delete(np.arange(len(rows)), sample)
    if len(others) < MIN_COMPARED:
        return rows[sample], None, "rows, the sample itself"
    others = rng.permutation(others)
    prints = getattr(model, "row_fingerprints_", None)
    seen = np.zeros(len(others), bool) if prints is None else np.isin(row_fingerprints(model, rows[others]), prints)
    if np.sum(~seen) >= MIN_COMPARED:
        others = others[~seen]
        return rows[others[:MAX_COMPARED]], place[others[:MAX_COMPARED]], "rows outside of the sample, not used for training"
    return rows[others[:MAX_COMPARED]], place[others[:MAX_COMPARED]], "rows outside of the sample"


def _probabilities(member: Member, at: np.ndarray, draws: bool) -> tuple[np.ndarray, float]:
    """Return class probabilities, and their standard error if they come from draws."""
    if not draws:
        return np.exp(member.log_class_probabilities(at)), 0.0
    return sampled_probabilities(member.posterior, member.kernel(member.inputs, at), member.kernel.diag(at))


def sampled_probabilities(draws: Draws, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the sampler's class probabilities (m, C) and their largest standard error, from the spread of half chains."""
    parts = max(2, 2 * draws.n_chains)
    means, noises = [], []
    for p in draws._per_draw(Ks, kd):
        pieces = np.stack([part.mean(0) for part in np.array_split(p, parts)])
        means.append(p.mean(0))
        noises.append(pieces.std(0, ddof=1).max() / np.sqrt(parts))
    return np.concatenate(means), float(np.max(noises))


def _scores(p: np.ndarray, labels: np.ndarray) -> SampleScores:
    with np.errstate(divide="ignore"):
        nlpd = -float(np.mean(np.log(p[np.arange(len(labels)), labels])))
    return SampleScores(float(np.mean(p.argmax(axis=1) != labels)), nlpd)
