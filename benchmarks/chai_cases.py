"""The experiments of Chai 2012, one split at a time: what its tables and figures are made of.

Each function takes one data set and split and returns numbers to be stored. Differences from the paper: splits are random
(its own were not published); MF-MNP's hyperparameters maximise the mean-field bound (the paper's are a mean over importance
samples, by vbmp); and models M1 … M5 are compared by bounds of log Z (the paper's by sampling).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC, LinearSVC

import chai
import chai_sparse
from gpclass.inference import MeanFieldProbit, VariationalMNL
from gpclass.kernels import RBF, ClassCovariance, Correlated
from gpclass.kernels.class_covariance import FORMS
from gpclass.learning import Objective, maximise, resolve_priors
from gpclass.likelihoods import MultinomialProbit, Softmax
from gpclass.sampling import importance_sampling

VARIANCES = tuple(np.exp(np.arange(0.0, 5.1, 1.0)).tolist())  # figure 1
GUMBEL = np.pi**2 / 6  # variance of the noise that makes softmax. Section 9.2.1
SVM_C, SVM_WIDTHS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0), (0.1, 1.0, 5.0, 10.0, 15.0)  # section 9.4

Numbers = dict[str, Any]


def learned(X, y, kernel, likelihood, engine):
    """Kernel and fit where the engine's evidence is largest."""
    objective = Objective(X, y, kernel, likelihood, engine, resolve_priors(None, kernel.names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = maximise(objective, [objective.theta], max_iter=200)
        return search.best.kernel, objective.finish(search.best)


def ard(X) -> RBF:
    """(44): unit variance, a lengthscale for each input."""
    return RBF(np.full(X.shape[1], np.sqrt(X.shape[1])), 1.0).fix("variance")


def sampled(kernel, X, y, likelihood, fit, samples: int, seed: int):
    """Importance samples around the mean of a fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a heavy tail of the weights is stored as Pareto's k
        return importance_sampling(kernel(X), y, likelihood, start=np.array(fit.mean), n_samples=samples, random_state=seed)


def scored(log_p, y_test) -> Numbers:
    own = log_p[np.arange(len(y_test)), y_test]
    return {"errors": int(np.sum(log_p.argmax(1) != y_test)), "log_p": float(own.sum())}


def table_3(name: str, split: int, samples: int) -> dict[str, Numbers]:
    """Columns of table 3: log Z or its bound, errors, log p(y*); KL-MNL also with the lower bound (24)."""
    X, y, X_test, y_test = chai.prepare(name, split)
    C = chai.DATA[name]
    softmax, probit = Softmax(C), MultinomialProbit(C)
    columns: dict[str, Numbers] = {}

    def sampling(column, kernel, likelihood, fit, seed):
        drawn = sampled(kernel, X, y, likelihood, fit, samples, seed)
        log_p = drawn.log_class_probabilities(kernel(X, X_test), kernel.diag(X_test))
        columns[column] = {"log_Z": drawn.upper_bound, **scored(log_p, y_test), "pareto_k": float(drawn.pareto_k)}

    def variational(column, kernel, fit):
        errors, log_p, lower = chai.tested(kernel, fit, X, X_test, y_test)
        columns[column] = {"log_Z": fit.log_evidence, "errors": errors, "log_p": float(log_p), "log_p_24": float(lower)}

    kernel, fit = learned(X, y, ard(X), probit, MeanFieldProbit())
    log_p = fit.log_class_probabilities(kernel(X, X_test), kernel.diag(X_test))
    columns["MF-MNP"] = {"log_Z": fit.log_evidence, **scored(log_p, y_test)}
    sampling("MC-MNP", kernel, probit, fit, split)
    fit = VariationalMNL().fit(kernel(X), y, softmax)
    variational("KL-MNL at MF", kernel, fit)
    sampling("MC-MNL at MF", kernel, softmax, fit, split)
    scaled = RBF(kernel.lengthscale, GUMBEL)  # section 9.2.1: the correlations of probit
    fit = VariationalMNL().fit(scaled(X), y, softmax)
    columns["MC-MNL, variance π²/6"] = {"log_Z": sampled(scaled, X, y, softmax, fit, samples, split).upper_bound}
    kernel, fit = learned(X, y, ard(X), softmax, VariationalMNL())
    variational("KL-MNL", kernel, fit)
    sampling("MC-MNL", kernel, softmax, fit, split)
    return columns


def figure_1(name: str, split: int, samples: int) -> list[Numbers]:
    """log Z by sampling, log Z_B and log Z_h as the prior variance grows, at MF-MNP's lengthscales."""
    X, y, _, _ = chai.prepare(name, split)
    C = chai.DATA[name]
    kernel, _ = learned(X, y, ard(X), MultinomialProbit(C), MeanFieldProbit())
    points: list[Numbers] = []
    for variance in VARIANCES:
        wide = RBF(kernel.lengthscale, variance)
        fit = VariationalMNL().fit(wide(X), y, Softmax(C))
        drawn = sampled(wide, X, y, Softmax(C), fit, samples, split)
        values = {"log_Z": drawn.upper_bound, "log_Z_B": float(fit.jensen_bound()), "log_Z_h": fit.log_evidence}
        points.append({"variance": variance, **values, "pareto_k": float(drawn.pareto_k)})
    return points


def figure_2(name: str, split: int) -> dict[str, Numbers]:
    """Models M1 … M5 of the covariance between classes: bounds of log Z, errors, and that covariance (figures 3 and 4)."""
    X, y, X_test, y_test = chai.prepare(name, split)
    C = chai.DATA[name]
    plain, first = learned(X, y, RBF(np.sqrt(X.shape[1]), 4.0), Softmax(C), VariationalMNL())
    models: dict[str, Numbers] = {}
    for number, form in enumerate(FORMS, 1):
        kernel, fit = plain, first
        matrix = np.eye(C)
        if form != "identity":
            held = plain.fix("lengthscale", "variance")
            kernel, fit = learned(X, y, Correlated(held, ClassCovariance(C, form)), Softmax(C), VariationalMNL())
            matrix = kernel.classes.matrix
        errors, log_p, _ = chai.tested(kernel, fit, X, X_test, y_test)
        values = {"log_Z_h": fit.log_evidence, "log_Z_B": float(fit.jensen_bound()), "errors": errors, "log_p": float(log_p)}
        models[f"M{number}"] = {**values, "covariance": np.round(matrix, 5).tolist()}
    return models


def figure_5(split: int, last: int) -> Numbers:
    """Glass: log Z̃_h after each 25 inducing variables, chosen at random, the paper's way and the engine's; and of all."""
    found = chai_sparse.figure_5(split, last)
    sizes = list(range(chai_sparse.STEP, last + 1, chai_sparse.STEP))
    curves = {way: found[:-1, k].tolist() for k, way in enumerate(chai_sparse.ways())}
    return {"sizes": sizes, **curves, "full": float(found[-1, 0])}


def table_4(name: str, split: int) -> Numbers:
    """Errors of KL-MNL, lengthscale and variance learned."""
    errors, log_Z, variance = chai.table_4(name, split)
    return {"errors": int(errors), "log_Z_h": float(log_Z), "variance": float(variance)}


def table_5(name: str, split: int, splits: int) -> Numbers:
    """Errors and bounds with few inducing variables, chosen the paper's way and the engine's, and of the full model."""
    values = chai_sparse.table_5(name, split, splits)
    pairs = zip(("paper", "own", "full"), zip(values[0::2], values[1::2], strict=True), strict=True)
    return {way: {"errors": int(errors), "log_Z_h": float(log_Z)} for way, (errors, log_Z) in pairs}


# support vector machines ---------------------------------------------------------------------------------------------------


def features(K, columns):
    """Rows whose inner products are K and columns: with them a linear machine is one with the kernel."""
    values, vectors = np.linalg.eigh(K)
    keep = values > 1e-10 * values[-1]
    root = vectors[:, keep] / np.sqrt(values[keep])
    return K @ root, columns @ root


def one_against_one(K, y, columns, C):
    return SVC(C=C, kernel="precomputed").fit(K, y).predict(columns)


def crammer_singer(K, y, columns, C):
    Z, Z_test = features(K, columns)
    machine = LinearSVC(C=C, multi_class="crammer_singer", max_iter=2000, fit_intercept=False, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in the paper, learning that does not end is ended
        return machine.fit(Z, y).predict(Z_test)


SVM = {"one against one": one_against_one, "Crammer-Singer": crammer_singer}


def svm(name: str, split: int, kind: str) -> Numbers:
    """Errors of scikit-learn's machines; C and θ by five-fold cross validation on the paper's grid."""
    X, y, X_test, y_test = chai.prepare(name, split)
    machine = SVM[kind]
    least = min(np.unique(y, return_counts=True)[1])
    folds = list(StratifiedKFold(min(5, max(2, int(least))), shuffle=True, random_state=split).split(X, y))
    best = (np.inf, 0.0, 0.0)
    for width in SVM_WIDTHS:
        K = RBF(width, 1.0)(X)
        for C in SVM_C:
            wrong = [np.sum(machine(K[np.ix_(a, a)], y[a], K[np.ix_(b, a)], C) != y[b]) for a, b in folds]
            best = min(best, (float(np.sum(wrong)), C, width))
    _, C, width = best
    kernel = RBF(width, 1.0)
    wrong = machine(kernel(X), y, kernel(X_test, X), C) != y_test
    return {"errors": int(wrong.sum()), "C": C, "width": width}
