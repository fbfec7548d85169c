"""GPyTorch: variational Gaussian for two classes, Dirichlet regression for more, SVGP with softmax on minibatches."""

import time

import gpytorch
import numpy as np
import torch
from common import serve, two_columns
from gpytorch.variational import CholeskyVariationalDistribution, NaturalVariationalDistribution, VariationalStrategy

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)


def kernel_of(lengthscale, variance, batch=()):
    shape = torch.Size(batch)
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(batch_shape=shape), batch_shape=shape)
    kernel.outputscale, kernel.base_kernel.lengthscale = variance, lengthscale
    return kernel


class Variational(gpytorch.models.ApproximateGP):
    """Inducing points at the training rows, or elsewhere and learned; one latent function, or one for each class."""

    def __init__(self, Z, kernel, distribution, latents=None):
        batch = torch.Size([latents]) if latents else torch.Size()
        own = distribution(len(Z), batch_shape=batch)
        strategy = VariationalStrategy(self, Z, own, learn_inducing_locations=latents is not None)
        if latents:
            strategy = gpytorch.variational.IndependentMultitaskVariationalStrategy(strategy, latents)
        super().__init__(strategy)
        self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def evidence(X, y, lengthscale, variance, tolerance=1e-3, most=300):
    """Natural gradient steps until the bound gains less than `tolerance` nats, then the gradient in the hyperparameters."""
    X, labels = torch.from_numpy(X), torch.from_numpy((y > 0).astype(float))

    def evaluate():
        model = Variational(X, kernel_of(lengthscale, variance), NaturalVariationalDistribution)
        likelihood = gpytorch.likelihoods.BernoulliLikelihood()
        bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))
        optimizer = gpytorch.optim.NGD(model.variational_parameters(), num_data=len(X), lr=0.5)
        model.train()
        before = -np.inf
        for _ in range(most):
            optimizer.zero_grad()
            value = bound(model(X), labels)
            (-value).backward()  # brings the gradient in the hyperparameters too
            now = len(X) * float(value.detach())
            if abs(now - before) < tolerance:
                return now
            before = now
            optimizer.step()
        raise ArithmeticError(f"no end within {most} natural gradient steps")

    return evaluate


def fit_variational(steps):
    def run(X, y, lengthscale, variance):
        X, labels = torch.from_numpy(X), torch.from_numpy(y.astype(float))
        model = Variational(X, kernel_of(lengthscale, variance), CholeskyVariationalDistribution)
        likelihood = gpytorch.likelihoods.BernoulliLikelihood()
        bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))
        value = descend(model, steps, lambda: bound(model(X), labels))
        return in_blocks(lambda rows: two_columns(asked(model, likelihood, rows).mean.numpy())), len(X) * value

    return run


def fit_dirichlet(steps):
    def run(X, y, lengthscale, variance):
        X, C = torch.from_numpy(X), int(y.max()) + 1
        likelihood = gpytorch.likelihoods.DirichletClassificationLikelihood(torch.from_numpy(y), learn_additional_noise=True)

        class Exact(gpytorch.models.ExactGP):
            def __init__(self):
                super().__init__(X, likelihood.transformed_targets, likelihood)
                self.mean_module = gpytorch.means.ConstantMean(batch_shape=torch.Size([C]))
                self.covar_module = kernel_of(lengthscale, variance, (C,))

            def forward(self, x):
                return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

        model = Exact()
        bound = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        descend(model, steps, lambda: bound(model(X), likelihood.transformed_targets).sum())

        def predict(rows):
            model.eval()
            with torch.no_grad(), gpytorch.settings.fast_pred_var():
                latent = model(torch.from_numpy(rows))
                draws = latent.mean + latent.stddev * torch.randn(256, *latent.mean.shape)
            return torch.softmax(draws, 1).mean(0).T.numpy()  # as the library's own example does

        return in_blocks(predict), None  # its evidence is one of transformed labels

    return run


def descend(model, steps, bound) -> float:
    model.train()
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(steps):
        adam.zero_grad()
        value = bound()
        (-value).backward()
        adam.step()
    return float(value.detach())


def in_blocks(predict, size=1000):
    """Some rows at a time: the library works on their joint covariance."""
    return lambda rows: np.concatenate([predict(rows[i : i + size]) for i in range(0, len(rows), size)])


def asked(model, likelihood, rows):
    model.eval(), likelihood.eval()
    with torch.no_grad():
        return likelihood(model(torch.from_numpy(rows)))


def curve(X, y, job):
    C, rng = int(y.max()) + 1, np.random.default_rng(0)
    spent, began, marks = 0.0, time.process_time(), list(job["marks"])
    Z = torch.from_numpy(X[rng.choice(len(X), job["inducing"], replace=False)].astype(float))
    model = Variational(Z, kernel_of(job["lengthscale"], job["variance"]), CholeskyVariationalDistribution, latents=C)
    likelihood = gpytorch.likelihoods.SoftmaxLikelihood(num_classes=C, mixing_weights=False)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))
    model.train()
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    while True:
        chosen = rng.integers(len(X), size=job["batch"])
        adam.zero_grad()
        rows, labels = torch.from_numpy(X[chosen].astype(float)), torch.from_numpy(y[chosen])
        (-bound(model(rows), labels)).backward()
        adam.step()
        spent += time.process_time() - began
        if spent >= marks[0]:
            yield marks.pop(0), lambda rows: asked(model, likelihood, rows.astype(float)).probs.mean(0).numpy()
            model.train()
        if not marks:
            return
        began = time.process_time()


if __name__ == "__main__":
    serve(
        ["gpytorch", "torch", "numpy"],
        {"variational, probit, natural gradient 0.5": evidence},
        {
            "variational, probit, Adam, 200 steps": fit_variational(200),
            "Dirichlet regression, Adam, 50 steps": fit_dirichlet(50),
            "Dirichlet regression, Adam, 200 steps": fit_dirichlet(200),
        },
        {"SVGP, softmax": curve},
    )
