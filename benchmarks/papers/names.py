"""Papers, tables and their titles. A table is named by its paper: "chai-4" is of "chai"."""

from __future__ import annotations

PAPERS = {
    "nickisch": "Nickisch & Rasmussen 2008",
    "riihimaki": "Riihimäki, Jylänki & Vehtari 2013",
    "chai": "Chai 2012",
    "seeger": "Seeger, Lawrence & Herbrich",
    "villacampa": "Villacampa-Calvo 2017",
}
TITLES = {
    "nickisch-1": "table 1: running times",
    "nickisch-3": "figures 3 to 5: two points",
    "nickisch-6": "figures 6 and 7: marginals of a posterior that is far from Gaussian",
    "nickisch-8": "figure 8: marginals of a posterior that is close to Gaussian",
    "nickisch-9": "figure 9: evidence, information and errors on USPS 3 against 5",
    "nickisch-10": "figure 10: the same for FV",
    "nickisch-11": "figure 11: the same on Sonar",
    "nickisch-12.3": "section 12.3: 96 trials",
    "nickisch-12.3-sizes": "section 12.3 in three sizes",
    "riihimaki-f1": "figure 1: tilted moments by inner EP and by quadrature",
    "riihimaki-1": "table 1: mean and largest differences from Gibbs sampling",
    "riihimaki-f5": "figures 5 and 6: class probabilities and marginals beside MCMC",
    "riihimaki-f7": "figure 7: evidence, predictive density and accuracy on USPS 3-5-7",
    "riihimaki-f8": "figure 8: convergence of EP and IEP",
    "riihimaki-5.5": "section 5.5, figures 9 and 10: predictions with learned hyperparameters",
    "riihimaki-f11": "figure 11: USPS with ten classes",
    "chai-3": "table 3 and section 9.2.1: approximations and sampling",
    "chai-4": "table 4: errors",
    "chai-4-svm": "table 4: support vector machines",
    "chai-5": "table 5 and figure 6: inducing variables",
    "chai-figure-1": "figure 1: bounds and prior variance",
    "chai-figure-2": "figures 2 to 4: covariances between classes",
    "chai-figure-5": "figure 5: active selection",
    "seeger-1": "table 1: USPS",
    "seeger-1-strategies": "section 6.1.1 and figure 1: strategies",
    "seeger-2": "table 2: MNIST",
    "seeger-3": "table 3: satimage",
    "seeger-4": "table 4: virtual informative vectors",
    "seeger-pumadyn": "section 6.3: pumadyn",
    "villacampa-6": "tables 6.2 and 6.3",
    "villacampa-figure-5.1": "figure 5.1: inner and outer updates",
    "villacampa-figure-6.1": "figure 6.1: where inducing points go",
    "villacampa-figure-6.2": "figure 6.2: satellite over time",
    "villacampa-mnist": "figures 6.3 and 6.4: MNIST",
    "villacampa-flights": "figures 6.3 and 6.4: flights",
    "villacampa-airline": "figure 6.3: two million made rows",
}


def paper_of(table: str) -> str:
    paper = table.split("-")[0]
    if paper not in PAPERS:
        raise ValueError(f"{table!r} is of no paper; papers are {', '.join(PAPERS)}")
    return paper


def title_of(table: str) -> str:
    return f"{PAPERS[paper_of(table)]}, {TITLES[table]}"
