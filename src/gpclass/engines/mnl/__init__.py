"""Chai's variational multinomial logit.

    dense         VariationalMNL: all latent values; classes may be correlated a priori
    sparse        SparseVariationalMNL: through inducing variables
    sparse_climb  the maximisation of its bound
    inducing_set  sets of inducing variables at rows, and their covariances
    selection     the choice of inducing variables
"""
