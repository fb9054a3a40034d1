# The main job and the tests, each with all set-up in it. `make eval` and `make test` are all a new clone needs.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PROFILE ?= local
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: eval test env lock lint format docs sources publish bench clean
.DEFAULT_GOAL := eval

eval: env ## the main job on the embedded default, then its verdict
	snakemake --profile $(PROFILE) results/eval.json --quiet rules
	@python -m scripts.report.page --results results --summary

test: env ## all tests
	pytest

env: .venv/.stagecraft ## the environment from the lock

# torch first and with pip: it alone may come from a folder of wheels (pip's find-links) as a build for this machine.
.venv/.stagecraft: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: $(PYTHON) is too old: Python >= 3.11 is needed")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet "$$(grep -o '^torch==[0-9.]*' requirements.lock)"
	$(BIN)/python -m pip install --quiet "$$(grep -o '^uv==[0-9.]*' requirements.lock)"
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --requirement requirements.lock
	touch $@

lock: env ## resolve pyproject.toml anew
	uv pip compile --upgrade --group dev pyproject.toml --output-file requirements.lock

lint: env ## format and lint, as CI does
	ruff format --check .
	ruff check .
	snakefmt --check Snakefile rules
	snakemake --lint --profile local

format: env ## put format right
	ruff format .
	ruff check --fix .
	snakefmt Snakefile rules

sources: env ## FROM=folder [TO=file]: a sources table from a tree priority/language/repository
	@python -m scripts.sources.table --from "$(or $(FROM),$(error FROM=folder is needed))" --out "$(or $(TO),config/my-sources.tsv)"

docs: env ## docs/configuration.md from the schemas
	python -m scripts.common.reference

publish: env ## raw archives and finished results to the DVC remote; EXPERIMENT=file names another experiment
	@python -m scripts.common.publish --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT))

bench: env ## speed, as ratios against named peers in the same run
	for bench in tests/benchmarks/bench_*.py; do python -m "tests.benchmarks.$$(basename "$$bench" .py)"; done

clean: ## all that was made, but the raw archives
	rm -rf results logs
