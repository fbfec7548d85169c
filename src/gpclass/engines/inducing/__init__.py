"""Engines on inducing points, with classes independent a posteriori.

    engine          LowRankEngine, their base class: a rule, and what belongs to it
    sweep           sweeps over all rows at fixed hyperparameters, and InducingFit
    swept_rows      the rows of one process during sweeps: their sites, past sweeps, and what they add to sums
    mixer           the choice of the next sites of all rows, from sums over all processes
    messages        rules applied to rows block by block, derivatives of the evidence, cavities
    step            a step on a minibatch, as two pure functions
    scalable_ep     ScalableEP: EP with sites of rank one
    stochastic_ep   StochasticEP: EP with tied sites; memory does not depend on the number of rows
    svgp            SVGP: variational, natural gradients
    gfitc           GFITC: EP with FITC's prior, all rows at once
    training        settings of learning
"""
