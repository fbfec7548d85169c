"""Engines on all rows: from a covariance matrix (n, n) and labels to a Gaussian posterior and its evidence.

    ep                  EP: moments of cavity × likelihood
    laplace             Laplace: curvature of log p(y | f) at the mode (coupled_laplace: several classes)
    tierney_kadane      class probabilities of Laplace as ratios of evidences
    kl                  KL: the Gaussian that is closest in KL(q‖p)
    vb                  VB: quadratic lower bounds of log p(y | f)
    tap                 TAP, TAPNaive: mean-field equations
    fv                  FV: the factorial distribution that is closest in KL(q‖p)
    label_regression    LabelRegression: labels as noisy function values
    nested_ep           NestedEP: EP on the contrasts of multinomial probit, classes coupled
    independent_ep      IndependentEP: EP with classes independent a posteriori
    quadrature_ep       QuadratureEP: either of the two, with tilted moments by quadrature
    mean_field          MeanFieldProbit: latent functions independent of the auxiliary variables
"""
