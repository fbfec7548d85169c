"""Chai's variational multinomial logit.

    dense       VariationalMNL: all latent values; classes may be correlated a priori
    sparse      SparseVariationalMNL: through inducing variables
    selection   the choice of inducing variables
"""
