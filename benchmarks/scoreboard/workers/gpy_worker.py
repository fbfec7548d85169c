"""GPy: EP and Laplace with the probit likelihood; two classes."""

import GPy
from common import serve, two_columns
from GPy.inference.latent_function_inference import EP, Laplace


def nested():
    """EP is run to its end at every step of the search, not before it only."""
    return EP(ep_mode="nested")


def model_of(X, y, lengthscale, variance, inference):
    kernel = GPy.kern.RBF(X.shape[1], variance=variance, lengthscale=lengthscale)
    return GPy.core.GP(X, y.reshape(-1, 1), kernel, GPy.likelihoods.Bernoulli(), inference_method=inference())


def evidence(inference):
    def prepare(X, y, lengthscale, variance):
        labels = (y > 0).astype(float)
        # the constructor runs inference and gradients
        return lambda: model_of(X, labels, lengthscale, variance, inference).log_likelihood()

    return prepare


def fit(inference):
    def run(X, y, lengthscale, variance):
        model = model_of(X, y.astype(float), lengthscale, variance, inference)
        model.optimize(max_iters=100)
        return lambda rows: two_columns(model.predict(rows)[0]), model.log_likelihood()

    return run


if __name__ == "__main__":
    serve(
        ["GPy", "numpy", "scipy"],
        {"EP, probit": evidence(EP), "Laplace, probit": evidence(Laplace)},
        {"EP, probit": fit(EP), "EP nested, probit": fit(nested), "Laplace, probit": fit(Laplace)},
    )
