"""How a classifier is fitted: functions of the estimator, which read its settings and set its attributes.

arrays   rows in memory: labels and weights, the engine, one kernel or several
streams  rows that are read in minibatches, or that are in other processes
more     further rows of a fitted classifier (`partial_fit`)
problem  classes, engine, likelihood and the objective of learning, from settings and data
search   the search for hyperparameters by an engine or a sampler
outcome  the fitted attributes of the estimator, and the calibration
"""
