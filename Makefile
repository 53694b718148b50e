# Every target sets up what it needs: `make demo` and `make test` work in a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint fuzz bench clean help

help:            ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	$(PIP) -e '.[dev,bench]'
	@touch $@

demo: $(VENV)/.installed           ## average, classify, forecast and recognise in a few minutes (the first time it also compiles)
	$(BIN)/udtw demo

test: $(VENV)/.installed lint      ## lint, types and all tests (under 15 minutes on two cores)
	$(BIN)/python -m pytest -m 'not slow' -n 2 --dist loadfile

lint: $(VENV)/.installed           ## ruff (lint and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fuzz: $(VENV)/.installed           ## long randomised comparison of all backends with enumeration
	$(BIN)/python -m pytest -m slow

bench: $(VENV)/.installed-bench    ## speed and memory against other libraries, in one run
	$(BIN)/python -m benchmarks

clean:           ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find src -name '__pycache__' -prune -exec rm -rf {} +
