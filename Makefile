# Every target sets up what it needs: `make demo` and `make test` work in a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint fuzz bench docs harden reproduce gpu-versions release browser kernels clean help

help:            ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	$(PIP) -e '.[dev,bench]'
	@touch $@

kernels:         # Numba recompiles a kernel when its own file changed, and does not know of the files that this one imports
	@for file in src/udtw/_kernels/cpu/*.py; do find src -name '*.nb[ic]' ! -newer $$file -delete; done

demo: $(VENV)/.installed kernels   ## average, classify, forecast and recognize in a few minutes (the first time it also compiles)
	$(BIN)/udtw demo

test: $(VENV)/.installed lint      ## lint, types and all tests (under 15 minutes on two cores)
	$(BIN)/python -m pytest -m 'not slow' -n 2 --dist loadfile

lint: $(VENV)/.installed           ## ruff (lint and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fuzz: $(VENV)/.installed           ## the slow tests: long randomised comparisons of all backends with enumeration, bounds checks, SIGKILLs
	$(BIN)/python -m pytest -m slow

bench: $(VENV)/.installed-bench kernels  ## speed and memory against other libraries, in one run
	$(BIN)/python -m benchmarks

docs: $(VENV)/.installed           ## the documentation site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

harden: $(VENV)/.installed         ## hours: fuzzing of every parser, SIGKILLs, mutants, load, known vulnerabilities
	$(PIP) -e '.[harden]'
	$(BIN)/python -m hardening.fuzz --count 100000
	UDTW_KILLS=60 $(BIN)/python -m pytest -m slow -rP tests/robustness/test_kills.py
	$(BIN)/python -m hardening.mutation --sample 500 --seed 0
	$(if $(SINCE),$(BIN)/python -m hardening.mutation --since $(SINCE) --sample 100)
	$(BIN)/python -m tests.explorer.load
	$(BIN)/python -m hardening.licenses
	$(BIN)/pip-audit -r constraints.txt --no-deps --disable-pip

reproduce: $(VENV)/.installed      ## an experiment by name: make reproduce NAME=ucr ARGS="--data-dir ~/ucr --jobs 2"
	$(BIN)/python -m experiments $(NAME) $(ARGS)

gpu-versions: $(VENV)/.installed   ## compile the GPU kernels with the Triton versions of several releases of torch
	$(BIN)/python -m hardening.gpu_versions

release: $(VENV)/.installed        ## wheel and sdist in dist/; the wheel, alone in an empty environment, runs the demo (DEMO_ARGS=--quick: tiny sizes)
	rm -rf dist build/release
	$(BIN)/python -m build --outdir dist
	$(PYTHON) -m venv build/release
	build/release/bin/pip install --quiet --disable-pip-version-check -c constraints.txt "$$(ls dist/*.whl)[cli]"
	cd build && release/bin/udtw --version && release/bin/udtw demo --out release/demo $(DEMO_ARGS)

browser:         ## Chromium for the tests of the explorer, from Debian's packages (as root), and axe-core in build/axe
	apt-get update -qq
	apt-get install -y -qq chromium chromium-driver
	npm install --silent --prefix build/axe axe-core

clean:           ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site
	find src -name '__pycache__' -prune -exec rm -rf {} +
