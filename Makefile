# Everything works on a fresh machine: each target first sets up .venv as far as it is not there yet.
#
#   make demo    learn to push a cube: plan the graph, run the plan, write the report
#   make test    the tests
#   make bench   the benchmarks; each prints one table and writes one JSON
#   make lint    ruff and mypy
#   make setup   only the set-up
#
# PYTHON=python3.12 chooses an interpreter; TESTS="tests/frontend -k rates" narrows the tests.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo test bench lint clean

PYTHON ?= $(shell scripts/find_python.sh)
BIN := .venv/bin
TESTS ?=
RUN := runs/demo-$(shell date +%Y%m%d-%H%M%S)

# A machine without an NVIDIA GPU gets the pinned CPU release of torch, any other the newest.
CONSTRAINTS := $(shell nvidia-smi -L >/dev/null 2>&1 || echo -c constraints-cpu.txt)

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

setup: .venv/installed
	@$(BIN)/python scripts/setup_maniskill.py

.venv/installed: pyproject.toml constraints-cpu.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS) --editable '.[all]'
	@touch $@

demo: setup
	$(BIN)/ebrl plan graphs/pushcube_ppo.py --cluster local -o plan.json
	$(BIN)/ebrl execute plan.json --steps 120000 --seconds 350 --logdir $(RUN)
	$(BIN)/ebrl report plan.json --run $(RUN) -o report.html

test: setup
	$(BIN)/python -m pytest $(TESTS)

bench: setup
	$(BIN)/python -m benchmarks.runtime
	if [ -f benchmarks/planner.py ]; then $(BIN)/python -m benchmarks.planner; fi

# Every check runs, so that one run tells everything.
lint: setup
	@status=0; for check in 'ruff check .' 'ruff format --check .' mypy; do \
	    echo "$$check"; $(BIN)/$$check || status=1; \
	done; exit $$status

clean:
	rm -rf .venv .peers runs plan.json report.html .mypy_cache .pytest_cache .ruff_cache .hypothesis
