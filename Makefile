PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
LAPIS_DATA ?= ../shared/data
export LAPIS_DATA

.PHONY: demo test test-all lint format bench docs fuzz clean

demo: $(RUN)
	$(BIN)/lapis demo

test: $(DEV)
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

test-all: $(DEV)
	$(BIN)/python -m pytest -q -n 2 -m "slow or not slow"

lint: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m mypy

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

fuzz: $(DEV)
	$(BIN)/python tests/fuzz/fuzz_parser.py --seconds 60

bench: $(DEV)
	for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

docs: $(DEV)
	$(BIN)/python docs/tables.py
	$(BIN)/python -m pytest -q docs

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(RUN): $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(DEV): $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@ $(RUN)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
