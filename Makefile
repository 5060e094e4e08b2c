PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
SPARK := $(VENV)/.installed-spark
WEB := $(VENV)/.installed-web
LAPIS_DATA ?= ../shared/data
# Of make fuzz:
SECONDS ?= 60
export LAPIS_DATA

.PHONY: demo test test-all test-spark test-web web chromium site locks java lint format bench papers papers-page docs fuzz clean

demo: $(RUN)
	$(BIN)/lapis demo

test: $(DEV)
	$(BIN)/lapis warm
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --durations=25

test-all: $(DEV)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not spark and not web" --hypothesis-profile=nightly

# local[2], a local cluster of two workers, and a Spark Connect server, all on loopback.
test-spark: java $(SPARK)
	$(BIN)/python -m pytest -q -m "spark and not slow" --hypothesis-profile=spark -p no:randomly tests

java:
	@command -v java >/dev/null || test -x "$$JAVA_HOME/bin/java" || { \
	  echo "The tests on Spark need Java 17 or later, and there is none on this machine."; \
	  echo "Debian, Ubuntu: apt install openjdk-17-jre-headless    macOS: brew install openjdk@17"; \
	  echo "Elsewhere: https://adoptium.net; then put it on the path or set JAVA_HOME."; \
	  exit 1; }

# The page of the workbench, from web/ to src/lapis/web/dist.
web:
	@command -v npm >/dev/null || { \
	  echo "The page is built by node and npm, and there is none on this machine."; \
	  echo "Debian, Ubuntu: apt install nodejs npm    macOS: brew install node"; \
	  exit 1; }
	cd web && npm ci --no-fund --no-audit && npm run build

# The workbench: its server, hostile requests, and the page in a real browser.
test-web: chromium $(WEB) web
	$(BIN)/python -m pytest -q -m web -p no:randomly tests/web

chromium:
	@command -v chromium >/dev/null || { \
	  echo "installing chromium (apt)"; apt-get update -qq && apt-get install -y -qq chromium; }

lint: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m mypy

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

fuzz: $(DEV)
	$(BIN)/python tests/fuzz/fuzz_readers.py --seconds $(SECONDS)

bench: $(DEV)
	for script in benchmarks/*.py; do echo "== $$script"; PYTHONPATH=. $(BIN)/python $$script || exit 1; done

# Hours: runs the cells that have no record yet, each kept when it ends.
papers: $(DEV)
	$(BIN)/lapis warm
	$(BIN)/python -m benchmarks.papers.page --run

papers-page: $(DEV)
	$(BIN)/python -m benchmarks.papers.page

# The handbook in build/site: pages, API, charts. No warning, no broken link, no misspelt word.
site: $(DEV)
	$(BIN)/python docs/spelling.py
	$(BIN)/python -m sphinx -q -E -W --keep-going -b html -d build/doctrees docs build/site
	$(BIN)/python docs/check_site.py build/site

# Versions of dependencies that the tests run with, by uv (pip install uv).
locks: pyproject.toml requirements/test.in
	for pair in oldest:lowest-direct newest:highest; do \
	  name=$${pair%:*}; \
	  uv pip compile --no-header --no-annotate --universal --python-version 3.11 \
	    --resolution $${pair#*:} --extra er --extra frames --extra graph --extra plot --extra rdf --extra sklearn \
	    pyproject.toml requirements/test.in -o requirements/$$name.txt || exit 1; \
	  printf '# The %s versions that the tests run with; written by make locks.\n' $$name \
	    | cat - requirements/$$name.txt > requirements/.$$name && mv requirements/.$$name requirements/$$name.txt; \
	done

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

$(SPARK): $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev,spark]"
	touch $@ $(DEV) $(RUN)

$(WEB): $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test-web]"
	touch $@ $(DEV) $(RUN)

clean:
	rm -rf $(VENV) build dist web/node_modules src/lapis/web/dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
