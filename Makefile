# Thin on purpose: what is fresh or stale is decided by the stages themselves.
RECIPE ?= fotaq
K ?= 2
STRATEGY ?= model_average
QUICK ?=
SOURCE ?=
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do command -v $$p && break; done)
RUN = recipes/$(RECIPE)/run.sh --workers $(K) --strategy $(STRATEGY) $(if $(QUICK),--quick true) $(if $(SOURCE),--source $(SOURCE))

.PHONY: help setup demo test mutants lint format doctor plan bench results
.DEFAULT_GOAL := help

help:  ## this text
	@echo "make TARGET [RECIPE=fotaq] [K=2 workers] [STRATEGY=model_average] [QUICK=1] [SOURCE=package or file]"
	@grep -hE '^[a-zA-Z%-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /|/' | while IFS='|' read -r t d; do printf '  %-10s %s\n' "$$t" "$$d"; done
	@echo "stages: 0 prepare  1 features  2 lang  3 align  4 pretrain  5 train  6 decode  7 score  8 results"

.venv/.installed: pyproject.toml local/setup.sh
	@local/setup.sh "$(PYTHON)"

setup: .venv/.installed  ## make .venv with everything that the project needs

demo: setup  ## from audio to a WER table: recipe RECIPE on K workers (QUICK=1: a subset)
	@$(RUN)

test: setup  ## run all tests
	@.venv/bin/python -m pytest

mutants: setup  ## break the package on purpose, fault by fault: some test must fail
	@.venv/bin/python tests/mutants.py

stage-%: setup  ## one stage, by number or name
	@$(RUN) --stage $* --stop-stage $*

from-%: setup  ## a stage and all after it
	@$(RUN) --stage $*

to-%: setup  ## all stages up to one
	@$(RUN) --stop-stage $*

plan: setup  ## what `make demo` would do: fresh and stale stages
	@$(RUN) --plan true

results: setup  ## the table of results and its plots, from what is there
	@$(RUN) --stage results

doctor: setup  ## say what is broken and how to mend it
	@.venv/bin/asr-parallel doctor

bench: setup  ## measure speed against its targets
	@.venv/bin/python -m benchmarks

lint: setup  ## ruff and mypy
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy

format: setup  ## let ruff lay out the code
	@.venv/bin/ruff check --fix . ; .venv/bin/ruff format .
