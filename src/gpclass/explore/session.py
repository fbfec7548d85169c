"""What is computed for one setting of the explorer, and the Python code that makes the same model.

A setting names a kernel, an engine and a likelihood, and has one lengthscale ℓ and one latent scale σ_f: common factors of
all lengthscales and variances of the kernel, whose ratios are those of the start or of the last search. Values are rounded
to the digits that the code shows, so that the code makes exactly the model on the page.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from ..assess.surface import CommonScales, fit_from, sample_rows
from ..choose import (
    as_likelihood,
    engine_for,
    engine_named,
    engine_names,
    engines_with_weights,
    likelihoods_of,
    n_latents_of,
)
from ..engines import Engine
from ..estimator import GPClassifier
from ..expressions import default_kernel, parse_kernel, rounded
from ..kernels import Kernel
from ..learning import TrainingRows
from ..learning.rows import observations
from ..likelihoods import Likelihood
from ..registry import name_of
from ..units import start_kernel
from .model import Model, Setting, Table
from .section import Section

REACH = 3.5  # range of ln ℓ and ln σ_f on either side of the start
AROUND = 1.0  # and at least this much on either side of learned values
KEPT = 6  # fits that are kept for warm starts, and models for questions about rows
ENGINES = ("ep", "nested-ep", "laplace", "independent-ep", "kl", "vb", "tap")  # these come first on the page
KERNELS = (
    "rbf",
    "rbf-ard",
    "matern32",
    "matern32-ard",
    "matern52",
    "matern52-ard",
    "rational-quadratic",
    "neural-network",
    "linear",
    "rbf + linear",
    "rbf-ard + linear",
)


class Session:
    """A table, the kernels that were learned from it, and the fits that others start from.

    Parameters
    ----------
    table : Table
        The rows.
    seed : int, default=0
        Seed of samples of rows and of searches.
    """

    def __init__(self, table: Table, seed: int = 0) -> None:
        self.table, self.seed = table, seed
        self.classes, self.codes = np.unique(table.y, return_inverse=True)
        self.learned: dict[str, Kernel] = {}  # kernels found by a search, by their text
        self.likelihoods: dict[str, Likelihood] = {}  # likelihoods with parameters, by name
        self._data: dict[tuple[int, str], tuple[TrainingRows, np.ndarray]] = {}
        self._starts: dict[tuple[str, str], Kernel] = {}
        self._sections: dict[tuple[int, int] | None, Section] = {}
        self._fits: OrderedDict[tuple, Any] = OrderedDict()
        self._models: OrderedDict[tuple, Model] = OrderedDict()
        self._lock = threading.Lock()  # of these two: previews and exact results are computed at the same time

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.table.X)

    # choices --------------------------------------------------------------------------------------------------------

    @cached_property
    def engines(self) -> dict[str, list[str]]:
        """The engines that use all rows, and the names of the likelihoods that each supports, the preferred one first."""
        C = len(self.classes)
        known = {name: made for name, made in likelihoods_of(C).items() if made.n_latents == n_latents_of("auto", C)}
        if C > 2 and all(isinstance(label, Real) for label in self.classes.tolist()):
            known |= likelihoods_of(C, "ordered categories")
        found: dict[str, list[str]] = {}
        for name in sorted(engine_names(), key=lambda name: _rank(name, ENGINES)):
            engine = engine_named(name)
            able = [k for k, made in known.items() if engine.serves(made)]
            if able and engine.design == "all rows" and not engine.draws:
                found[name] = sorted(able, key=lambda k: (known[k].ordered, _rank(k, engine.likelihood_names)))
        # engines for ordered categories only come last, so that the first one is what "auto" chooses
        return dict(sorted(found.items(), key=lambda pair: known[pair[1][0]].ordered))

    def first(self, kernel: str | None = None, engine: str = "auto", likelihood: str = "auto") -> Setting:
        """Return the setting that a page begins with.

        Raises a ValueError if names are not known, or the engine does not use all rows or not support the likelihood.
        """
        if engine == "auto":
            engine = self._automatic(likelihood)
        self._check(engine, likelihood)
        likelihood = self.engines[engine][0] if likelihood == "auto" else likelihood
        setting = Setting(kernel or default_kernel(self.table.X.shape[1]), engine, likelihood)
        return self.at_start(setting)

    def _automatic(self, likelihood: str) -> str:
        """Return the engine that "auto" chooses, or the first one for this likelihood if that does not use all rows."""
        able = [name for name, known in self.engines.items() if likelihood in ("auto", *known)]
        if likelihood == "auto":
            return able[0]
        usual = name_of(type(engine_for(as_likelihood(likelihood, len(self.classes)), self.n)))
        return usual if usual in able else able[0] if able else next(iter(self.engines))

    def _check(self, engine: str, likelihood: str) -> None:
        if engine not in self.engines:
            engine_named(engine)  # raises if there is no such engine
            raise ValueError(
                f"the explorer needs an engine that uses all rows and supports these {len(self.classes)} classes, not "
                f"{engine!r}: {', '.join(self.engines)}"
            )
        if likelihood != "auto" and likelihood not in self.engines[engine]:
            as_likelihood(likelihood, len(self.classes))  # raises if there is no such likelihood
            raise ValueError(f"{engine} does not support {likelihood!r} here; it supports {', '.join(self.engines[engine])}")

    def checked(self, setting: Setting) -> Setting:
        """Return the setting with a likelihood that the engine supports; raise a ValueError if it cannot be used."""
        self._check(setting.engine, "auto")
        if setting.likelihood not in self.engines[setting.engine]:
            setting = replace(setting, likelihood=self.engines[setting.engine][0])
        if setting.other is not None:
            self._check(setting.other, "auto")
        D = self.table.X.shape[1]
        if setting.plane is not None and (len(set(setting.plane)) != 2 or not all(0 <= d < D for d in setting.plane)):
            raise ValueError(f"the plane needs two different columns below {D}; got {list(setting.plane)}")
        if setting.row is not None and not 0 <= setting.row < self.n:
            raise ValueError(f"there is no row {setting.row}: there are {self.n}")
        low, high = self.ranges(setting.kernel)
        for name, value, least, most in zip(
            ("ln ℓ", "ln σ"), (setting.log_lengthscale, setting.log_scale), low, high, strict=True
        ):
            if not least - 1e-6 <= value <= most + 1e-6:
                raise ValueError(f"{name} = {value:.4g} is outside its range, {least:.4g} to {most:.4g}")
        return setting

    # kernels --------------------------------------------------------------------------------------------------------

    def start(self, text: str, engine: Engine | None = None) -> Kernel:
        """Return the kernel that a search starts from, in units of the rows as the engine takes them."""
        key = text, "none" if engine is None else engine.weights
        if key not in self._starts:
            if parse_kernel(text, 1).takes == "covariances":
                raise ValueError(f"the kernel {text!r} needs a covariance matrix, but a table has inputs")
            X = self._observations(self.n, engine)[0].X
            self._starts[key], _ = start_kernel(text, X, np.random.default_rng(self.seed))
        return self._starts[key]

    def scales(self, text: str) -> CommonScales:
        """Return the kernel that the sliders move: the learned one, or the start."""
        return CommonScales.of(self.learned.get(text) or self.start(text))

    def ranges(self, text: str) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the lowest and the highest (ln ℓ, ln σ_f) of the sliders."""
        start, here = np.array(CommonScales.of(self.start(text)).here), np.array(self.scales(text).here)
        low, high = np.minimum(start - REACH, here - AROUND), np.maximum(start + REACH, here + AROUND)
        return tuple(low.tolist()), tuple(high.tolist())

    def at_start(self, setting: Setting) -> Setting:
        """Return the setting with ℓ and σ_f of the learned kernel, or of the start."""
        ell, scale = self.scales(setting.kernel).here
        return replace(setting, log_lengthscale=ell, log_scale=scale)

    def kernel(self, setting: Setting, engine: Engine) -> Kernel:
        """Return the kernel of a setting for an engine. Its values are those that `code` shows."""
        scales = self.scales(setting.kernel)
        moved = rounded(scales.make(np.exp(setting.log_lengthscale), np.exp(2 * setting.log_scale)))
        values = {name: value for name, value in moved.settings().items() if not isinstance(value, bool)}
        return self.start(setting.kernel, engine).with_settings(**values)

    def reset(self, setting: Setting) -> Setting:
        """Forget what was learned for the kernel and the likelihood of a setting, and return the start."""
        self.learned.pop(setting.kernel, None)
        self.likelihoods.pop(setting.likelihood, None)
        return self.at_start(setting)

    def learn(self, setting: Setting) -> tuple[Setting, list[str]]:
        """Search for hyperparameters as `GPClassifier.fit` does; return the setting there, and warnings as sentences."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            model = GPClassifier(
                setting.kernel, setting.likelihood, setting.engine, calibrate=None, random_state=self.seed
            ).fit(self.table.X, self.table.y)
        self.learned[setting.kernel] = model.kernel_
        if len(model.likelihood_.theta):
            self.likelihoods[setting.likelihood] = model.likelihood_
        said = [" ".join(str(one.message).split()) for one in caught if issubclass(one.category, UserWarning)]
        return self.at_start(setting), list(dict.fromkeys(said))

    # models ---------------------------------------------------------------------------------------------------------

    def likelihood(self, setting: Setting, engine: str) -> tuple[str, Likelihood]:
        """Return the likelihood of a setting, or the preferred one of an engine that does not support it."""
        name = setting.likelihood if setting.likelihood in self.engines[engine] else self.engines[engine][0]
        if name not in self.likelihoods:
            made = as_likelihood(name, len(self.classes))
            variance = float(np.mean(self.start(setting.kernel).diag(self.table.X)))
            self.likelihoods[name] = made.starting_at(np.bincount(self.codes), variance)
        return name, self.likelihoods[name]

    def model(self, setting: Setting, engine: str, most: int | None = None, tol: float = 0.0) -> Model:
        """Return the fit of an engine.

        Parameters
        ----------
        setting : Setting
            The setting.
        engine : str
            Name of the engine.
        most : int, optional
            Number of rows, a fixed sample with the class proportions of all. By default all rows are used.
        tol : float, default=0.0
            The engine iterates to this tolerance, if it is larger than its own.

        Raises
        ------
        ArithmeticError
            If the engine fails.
        """
        made, most = engine_named(engine).loosened(tol), self.n if most is None else most
        name, likelihood = self.likelihood(setting, engine)
        kernel = self.kernel(setting, made)
        key = engine, name, most
        exact = key, kernel, likelihood, tol
        with self._lock:
            known, start = self._models.get(exact), self._fits.get(key)
        if known is not None:
            return replace(known, setting=setting)
        data, rows = self._observations(most, made)
        y = data.targets(likelihood.class_targets)
        fit, complaint = fit_from(made, kernel(data.X), y, likelihood, start)
        if fit is None:
            raise ArithmeticError(f"{engine} failed at this setting: {complaint}")
        model = Model(setting, made, kernel, likelihood, data, rows, fit, complaint)
        with self._lock:
            _keep(self._fits, key, fit)
            if most == self.n and not tol:
                _keep(self._models, exact, model)
        return model

    def _observations(self, most: int, engine: Engine | None) -> tuple[TrainingRows, np.ndarray]:
        """Return rows as the observations that an engine takes, or as they are, and their numbers."""
        key = most, "none" if engine is None else engine.weights
        if key not in self._data:
            rows = sample_rows(self.codes, most, self.seed)
            X, codes = np.asarray(self.table.X[rows], float), self.codes[rows]
            data = TrainingRows(X, codes)
            if engine is not None:
                data = observations(engine, X, codes, None, engines_with_weights)
            self._data[key] = data, rows
        return self._data[key]

    def section(self, plane: tuple[int, int] | None) -> Section:
        """Return the section of a decision map."""
        if plane not in self._sections:
            self._sections[plane] = Section.of(self.table.X, self.table.columns, plane)
        return self._sections[plane]


def _rank(name: str, names: Sequence[str]) -> int:
    return names.index(name) if name in names else len(names)


def _keep(cache: OrderedDict, key: Any, value: Any) -> None:
    """Put a value into a cache and drop the oldest ones."""
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > KEPT:
        cache.popitem(last=False)
