# Everything a newcomer needs: `make demo` and `make test` make .venv, install convc into it, and run.

VENV := .venv
PY := $(VENV)/bin/python
PYTHON ?= $(or $(shell command -v python3.11),$(shell command -v python3))
# pip says nothing for half a minute where it is quiet, and a screenful where it is not: its packages, one a line.
# It compiles all of every package, which takes longer than the rest: what is used is compiled when it is imported.
PIP := $(PY) -u -m pip install --disable-pip-version-check --progress-bar off --no-compile
define INSTALL
@echo "== pip installs convc and what it needs into $(VENV)"
@{ $(PIP) --editable '.$(1)' || echo FAILED; } | while read -r word name rest; do \
  case "$$word" in \
    Collecting) echo "   $$name" ;; \
    Installing) case "$$name" in collected) echo "== and puts them in place" ;; esac ;; \
    FAILED) exit 1 ;; \
  esac; done
endef
WORKERS ?= 2

# One BLAS thread a process: small products stall on more, and the test workers fill the cores.
export OPENBLAS_NUM_THREADS ?= 1

# Where the environment forbids bytecode beside the sources, it is kept in build/: each of the hundreds of commands that
# the tests start would compile all its modules again.
ifneq ($(PYTHONDONTWRITEBYTECODE),)
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX ?= $(CURDIR)/build/pycache
endif

.DEFAULT_GOAL := help
.PHONY: help demo test slow bench versions docs lint clean

help:  ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-8s %s\n", $$1, $$2}'

demo: $(VENV)/.installed  ## compile six ResNet-50 layers, run their PTX text, compare; all is kept in build/demo
	$(PY) -m convc.cli.demo

test: $(VENV)/.installed-test  ## the test suite without its slow part
	$(PY) -m pytest -q -n $(WORKERS) --dist worksteal

slow: $(VENV)/.installed-test  ## the slow part of the test suite, and all random examples; SLOW="--for 600": ten minutes of it
	$(PY) -m pytest -q -n $(WORKERS) --dist worksteal -m "slow or hypothesis" $(SLOW)

bench: $(VENV)/.installed-test  ## speed and memory, against the budgets of benchmarks/budgets.toml; BENCH="network check": sections
	$(PY) -m benchmarks.run $(BENCH)

versions: | $(PY)  ## fresh environments: a quick suite with oldest and newest libraries, Python 3.11 to 3.14; programs with oldest and newest Triton
	$(PY) -m tests.versions.run $(VERSIONS)

docs: $(VENV)/.installed-docs $(VENV)/.installed-test  ## the pictures of convc/docs, and its pages as a site in build/site; a warning fails
	$(PY) -m pytest -q tests/docs/test_drawings.py --update-golden
	$(PY) -m sphinx -W --keep-going -q -b html -c tests/docs/site -d build/doctrees convc/docs build/site

lint: $(VENV)/.installed-test  ## ruff: rules and format; basedpyright: types
	$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m basedpyright

clean:  ## remove what make built (.venv stays)
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis

$(PY):
	@test -n "$(PYTHON)" || { echo "convc needs Python 3.11 or newer: none found; set PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "convc needs Python 3.11 or newer; $(PYTHON) is older: set PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "== $(PYTHON) makes $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(PY)
	$(call INSTALL)
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(PY)
	$(call INSTALL,[test])
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(PY)
	$(call INSTALL,[docs])
	@touch $@ $(VENV)/.installed
