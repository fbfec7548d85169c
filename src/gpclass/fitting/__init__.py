"""How a classifier is fitted: functions of the estimator, which read its settings and set its attributes.

arrays   rows in memory: labels and weights, the engine, one kernel or several
streams  rows that are read in minibatches, or that are in other processes
more     further rows of a fitted classifier (`partial_fit`)
problem  what the settings mean for the data: classes, engine, likelihood and the objective of learning
search   the search for hyperparameters by an engine or a sampler
outcome  what was learned as attributes of the estimator, and the calibration
"""
