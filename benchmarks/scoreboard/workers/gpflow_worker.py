"""GPflow: variational Gaussian (VGP), robust-max with several classes, and SVGP on minibatches.

Its probit is kept away from 0 and 1 by 0.001, so that its bound can lie a little above that of others.
"""

import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import gpflow
import numpy as np
import tensorflow as tf
from common import serve, two_columns

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)


def kernel_of(lengthscale, variance):
    return gpflow.kernels.SquaredExponential(variance=variance, lengthscales=lengthscale)


def evidence(gamma, tolerance=1e-3, most=300):
    """Natural gradient steps until the bound gains less than `tolerance` nats, then one gradient in the hyperparameters."""

    def prepare(X, y, lengthscale, variance):
        data = X, (y > 0).astype(float).reshape(-1, 1)
        model = gpflow.models.VGP(data, kernel_of(lengthscale, variance), gpflow.likelihoods.Bernoulli())
        natural = gpflow.optimizers.NaturalGradient(gamma)
        start = model.q_mu.numpy(), model.q_sqrt.numpy()

        @tf.function
        def step():
            natural.minimize(model.training_loss, [(model.q_mu, model.q_sqrt)])
            return model.elbo()

        @tf.function
        def gradient():
            with tf.GradientTape() as tape:
                loss = model.training_loss()
            return -loss, tape.gradient(loss, model.kernel.trainable_variables)

        def reset():
            model.q_mu.assign(start[0])
            model.q_sqrt.assign(start[1])

        def evaluate():
            reset()
            before = -np.inf
            for _ in range(most):
                now = float(step())
                if abs(now - before) < tolerance:
                    break
                before = now
            else:
                raise ArithmeticError(f"no end within {most} natural gradient steps")
            return float(gradient()[0])

        step(), gradient()  # compiles
        return evaluate

    return prepare


def fit(X, y, lengthscale, variance):
    C = int(y.max()) + 1
    if C == 2:
        data, likelihood, latents = (X, y.astype(float).reshape(-1, 1)), gpflow.likelihoods.Bernoulli(), 1
    else:
        data, likelihood, latents = (X, y.reshape(-1, 1)), gpflow.likelihoods.MultiClass(C), C
    model = gpflow.models.VGP(data, kernel_of(lengthscale, variance), likelihood, num_latent_gps=latents)
    gpflow.optimizers.Scipy().minimize(model.training_loss, model.trainable_variables, options={"maxiter": 100})
    posterior = model.posterior()

    def predict(rows):
        mean, var = posterior.predict_f(rows)
        p = likelihood.predict_mean_and_var(rows, mean, var)[0].numpy()
        return two_columns(p) if C == 2 else p / p.sum(1, keepdims=True)

    return predict, float(model.elbo())


def curve(X, y, job):
    """SVGP with robust-max and Adam on minibatches."""
    C, rng = int(y.max()) + 1, np.random.default_rng(0)
    spent, began, marks = 0.0, time.process_time(), list(job["marks"])
    Z = X[rng.choice(len(X), job["inducing"], replace=False)].astype(float)
    kernel, likelihood = kernel_of(job["lengthscale"], job["variance"]), gpflow.likelihoods.MultiClass(C)
    model = gpflow.models.SVGP(kernel, likelihood, Z, num_latent_gps=C, num_data=len(X))
    adam = tf.keras.optimizers.Adam(0.01)

    @tf.function
    def step(rows, labels):
        with tf.GradientTape() as tape:
            loss = model.training_loss((rows, labels))
        adam.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))

    while True:
        chosen = rng.integers(len(X), size=job["batch"])
        step(tf.constant(X[chosen].astype(float)), tf.constant(y[chosen].reshape(-1, 1)))
        spent += time.process_time() - began
        if spent >= marks[0]:

            def predict(rows):
                p = model.predict_y(rows.astype(float))[0].numpy()
                return p / p.sum(1, keepdims=True)

            yield marks.pop(0), predict
        if not marks:
            return
        began = time.process_time()


if __name__ == "__main__":
    serve(
        ["gpflow", "tensorflow", "numpy"],
        {"VGP, probit, natural gradient 0.5": evidence(0.5), "VGP, probit, natural gradient 0.1": evidence(0.1)},
        {"VGP, L-BFGS": fit},
        {"SVGP, robust-max": curve},
    )
