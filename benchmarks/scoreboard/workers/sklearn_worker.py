"""scikit-learn's GaussianProcessClassifier: Laplace's approximation, one against the rest with several classes."""

import warnings

from common import serve
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel


def evidence(X, y, lengthscale, variance):
    kernel = ConstantKernel(variance) * RBF(lengthscale)
    model = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y)
    return lambda: model.log_marginal_likelihood(kernel.theta, eval_gradient=True, clone_kernel=False)[0]


def fit(X, y, lengthscale, variance):
    model = GaussianProcessClassifier(ConstantKernel(variance) * RBF(lengthscale)).fit(X, y)
    return model.predict_proba, model.log_marginal_likelihood_value_ if y.max() == 1 else None


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    serve(["scikit-learn", "numpy", "scipy"], {"Laplace, logit": evidence}, {"Laplace, logit": fit})
