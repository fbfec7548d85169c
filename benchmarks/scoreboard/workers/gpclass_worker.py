"""gpclass."""

import itertools
import time
import warnings

import numpy as np
from common import serve
from sklearn.exceptions import ConvergenceWarning

from gpclass import GPClassifier
from gpclass.inference import EP, KL, Laplace
from gpclass.kernels import RBF, Linear
from gpclass.learning import Arrays, Training, begin_training
from gpclass.likelihoods import Logit, MultinomialProbit, Probit, Softmax
from gpclass.sparse import SVGP, ScalableEP


def evidence(engine, likelihood):
    def prepare(X, y, lengthscale, variance):
        kernel = RBF(lengthscale, variance)

        def evaluate():
            K = kernel(X)
            fit = engine.fit(K, y, likelihood)
            kernel.pullback(X, fit.evidence_gradient(), value=K)
            return fit.log_evidence

        return evaluate

    return prepare


def fit(linear=False, **settings):
    def run(X, y, lengthscale, variance):
        kernel = RBF(lengthscale, variance) + Linear() if linear else None  # whose start is the one given to the others
        model = GPClassifier(kernel, **settings).fit(X, y)
        return model.predict_proba, model.log_evidence_

    return run


def probabilities(model):
    return lambda rows: np.exp(model.log_class_probabilities(rows))


def curve(engine, likelihood):
    def train(X, y, job):
        X = X.astype(np.float32)
        training = Training(n_inducing=job["inducing"], batch_size=job["batch"])
        spent, began, marks = 0.0, time.process_time(), list(job["marks"])
        C = int(y.max()) + 1
        run, source = begin_training(Arrays(X, y), RBF(job["lengthscale"], job["variance"]), likelihood(C), engine, training)
        for epoch in itertools.count():
            for batch in source.batches(job["batch"], (0, epoch)):
                rate = training.learning_rate * (0.5 + 0.5 * np.cos(np.pi * min(1.0, spent / job["marks"][-1])))
                run.step(batch, rate=rate)
                spent += time.process_time() - began
                if spent >= marks[0]:
                    yield marks.pop(0), probabilities(run.current())
                if not marks:
                    return
                began = time.process_time()

    return train


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    serve(
        ["gpclass", "numpy", "scipy"],
        {
            "Laplace, logit": evidence(Laplace(), Logit()),
            "Laplace, probit": evidence(Laplace(), Probit()),
            "EP, probit": evidence(EP(), Probit()),
            "KL, probit": evidence(KL(), Probit()),
        },
        {
            "default": fit(),
            "RBF + linear": fit(linear=True),
            "Laplace": fit(inference="laplace"),
            "Laplace, logit": fit(inference="laplace", likelihood="logit"),
        },
        {"ScalableEP": curve(ScalableEP(), MultinomialProbit), "SVGP, softmax": curve(SVGP(), Softmax)},
    )
