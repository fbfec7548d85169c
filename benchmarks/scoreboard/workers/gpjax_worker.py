"""GPJax: variational Gaussian in dual parameters, inducing points at the training rows; two classes.

Its probit is kept away from 0 and 1 by 0.001, so that its bound can lie a little above that of others.
"""

import equinox as eqx
import gpjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import paramax
from common import serve, two_columns
from gpjax.natural_gradients import natural_gradient_step, partition_variational

jax.config.update("jax_enable_x64", True)


def loss(family, data):
    return -gpjax.objectives.dual_elbo(family, data)


def family_of(X, lengthscale, variance):
    kernel = gpjax.kernels.RBF(lengthscale=lengthscale, variance=variance)
    prior = gpjax.gps.Prior(mean_function=gpjax.mean_functions.Zero(), kernel=kernel)
    return gpjax.variational_families.DualVariationalGaussian(prior * gpjax.likelihoods.Bernoulli(), jnp.asarray(X))


def data_of(X, y):
    return gpjax.Dataset(X=jnp.asarray(X), y=jnp.asarray((y > 0).astype(float)).reshape(-1, 1))


def evidence(X, y, lengthscale, variance, tolerance=1e-3, most=300):
    """Natural gradient steps until the bound gains less than `tolerance` nats, then the gradient in the hyperparameters."""
    data = data_of(X, y)
    start, hyper = partition_variational(family_of(X, lengthscale, variance))

    @eqx.filter_jit
    def step(variational, hyper):
        return natural_gradient_step(variational, hyper, data, loss, jnp.asarray(0.5))

    @eqx.filter_jit
    def gradient(hyper, variational):
        return eqx.filter_value_and_grad(lambda h: loss(eqx.combine(variational, h), data))(hyper)

    def evaluate():
        variational, before = start, np.inf
        for _ in range(most):
            variational, value = step(variational, hyper)
            if abs(before - float(value)) < tolerance:
                break
            before = float(value)
        else:
            raise ArithmeticError(f"no end within {most} natural gradient steps")
        value, slope = gradient(hyper, variational)
        jax.block_until_ready(slope)
        return -float(value)

    jax.block_until_ready((step(start, hyper), gradient(hyper, start)))  # compiles
    return evaluate


def fit(steps):
    """Natural gradient steps and steps of Adam in turn; inducing points stay where the rows are."""

    def run(X, y, lengthscale, variance):
        data = data_of(X, y)
        start = family_of(X, lengthscale, variance)
        start = eqx.tree_at(lambda f: f.inducing_inputs, start, replace_fn=paramax.non_trainable)
        adam, rates = optax.adam(0.05), {"natgrad_lr": 0.5, "num_iters": steps}
        family, history = gpjax.fit_natgrads(
            model=start, objective=loss, train_data=data, optim=adam, verbose=False, **rates
        )

        @jax.jit
        def probabilities(rows):
            latent = family.condition(data)(rows, covariance="diagonal")
            return family.model.likelihood(latent).mean

        def predict(rows):
            blocks = [probabilities(jnp.asarray(rows[i : i + 1000])) for i in range(0, len(rows), 1000)]
            return two_columns(np.concatenate([np.asarray(p).reshape(-1) for p in blocks]))

        return predict, -float(history[-1])

    return run


if __name__ == "__main__":
    serve(
        ["gpjax", "jax", "numpy"],
        {"variational, probit, natural gradient 0.5": evidence},
        {"variational, probit, Adam, 300 steps": fit(300)},
    )
