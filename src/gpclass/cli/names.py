"""Names of engines, likelihoods and kernels for help texts and shell completion.

They are repeated here because `choose` and `expressions` import NumPy. Tests compare the lists.
"""

ENGINES = (
    "laplace",
    "ep",
    "tap",
    "tap-naive",
    "kl",
    "vb",
    "fv",
    "lr",
    "nested-ep",
    "independent-ep",
    "quadrature-ep",
    "mean-field-probit",
    "variational-mnl",
    "ivm",
    "sparse-mnl",
    "scalable-ep",
    "coupled-scalable-ep",
    "stochastic-ep",
    "svgp",
    "gfitc",
    "mcmc",
)
SAMPLERS = ("mcmc",)  # engines that are samplers
LIKELIHOODS = ("probit", "logit", "softmax", "multinomial-probit", "robust-max", "ordinal")  # for classes
KERNELS = (
    "rbf",
    "rbf-ard",
    "matern32",
    "matern32-ard",
    "matern52",
    "matern52-ard",
    "rational-quadratic",
    "rational-quadratic-ard",
    "periodic",
    "periodic-ard",
    "linear",
    "linear-ard",
    "polynomial",
    "polynomial-ard",
    "neural-network",
    "tanimoto",
    "categorical",
    "categorical-ard",
    "constant",
    "white",
)
