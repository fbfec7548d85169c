# Every target makes what it needs: a virtual environment in .venv, with the package installed in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two test processes on two cores: one BLAS thread each
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test test-all lint docs bench peers tables tables-of-others speed clean

$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[plot,large,test,lint]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/python examples/compare_approximations.py

test: $(VENV)/.installed
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 -q

test-all: $(VENV)/.installed
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 -q -m "slow or not slow"

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	$(ONE_THREAD) $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

# gpclass beside other libraries, and each of its times beside the work that cannot be avoided; ten minutes or so.
# `make peers` makes the other libraries' environments, once.
bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks.scoreboard

peers: $(VENV)/.installed
	$(BIN)/python -m benchmarks.scoreboard.environments

# The papers' tables, reduced, in half an hour or so; `benchmarks/tables.py --full` takes a night
tables: $(VENV)/.installed
	$(BIN)/python benchmarks/tables.py

# What a user would use instead of gpclass, on 40 tables of real data; goes on where it was ended. An hour of one core or so.
tables-of-others: $(VENV)/.installed
	$(BIN)/python -m benchmarks.others

# In units of Cholesky factorisations and matrix products, against the goals
speed: $(VENV)/.installed
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/multiclass.py
	$(BIN)/python benchmarks/sampling.py
	$(BIN)/python benchmarks/shares.py

clean:
	rm -rf $(VENV) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache
