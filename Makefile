# Every target makes what it needs: a virtual environment in .venv, with the package installed in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two test processes on two cores: one BLAS thread each
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
# Each process takes half of the tests in their order, so that fixtures of a module are made once; test files are compiled once
PYTEST := -m pytest -n 2 --dist worksteal -q

.PHONY: demo test test-all test-oldest lint docs bench peers tables tables-of-others speed clean

$(VENV)/.installed: pyproject.toml
	@echo "installing gpclass and its dependencies into $(VENV): a minute or two, once"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[plot,large,test,lint]"
	touch $@

demo: $(VENV)/.installed
	@echo "comparing eight approximations on one data set: half a minute or so"
	$(BIN)/python examples/compare_approximations.py

test: $(VENV)/.installed
	$(ONE_THREAD) PYTHONDONTWRITEBYTECODE= $(BIN)/python $(PYTEST)

test-all: $(VENV)/.installed
	$(ONE_THREAD) PYTHONDONTWRITEBYTECODE= $(BIN)/python $(PYTEST) -m "slow or not slow"

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/mypy

# Runs the code of the pages; pages whose code has not changed are reused as long as the package has not changed
docs: $(VENV)/.installed-docs
	@echo "building docs/_build/html and running its pages: about two minutes of processor time, a few seconds if nothing has changed"
	$(ONE_THREAD) $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python docs/check_pages.py docs/_build/html

$(VENV)/.installed-docs: $(VENV)/.installed
	@echo "installing what the documentation needs into $(VENV): half a minute, once"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	touch $@

# The quick tests with the oldest versions of the dependencies that pyproject.toml allows; needs Python 3.10 or 3.11
test-oldest: .venv-oldest/.installed
	$(ONE_THREAD) PYTHONDONTWRITEBYTECODE= .venv-oldest/bin/python $(PYTEST)

.venv-oldest/.installed: pyproject.toml tests/oldest.txt
	@echo "installing the oldest supported dependencies into .venv-oldest: a minute or two, once"
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --constraint tests/oldest.txt --editable ".[plot,large,test]"
	touch $@

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
	rm -rf $(VENV) .venv-oldest build dist docs/_build .pytest_cache .mypy_cache .ruff_cache
