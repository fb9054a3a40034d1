# In a new clone run `make eval` for the main job or `make test` for the tests: both set up the environment first.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PROFILE ?= local
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help eval quick test soak gpu faults smoke env lock audit lint format docs bench clean
.DEFAULT_GOAL := eval

# $(call known,VARIABLE,file,known values): end with one line if the file that VARIABLE names does not exist
known = [ -f '$(2)' ] || { echo "error: $(1)=$($(1)): no file $(2); known: $(3)" >&2; exit 1; }
PROFILES = $(sort $(filter-out default,$(patsubst profiles/%/config.yaml,%,$(wildcard profiles/*/config.yaml))))
# as many files of tests at a time as there are cores, up to four: with one more, tests of several ranks take longer
WORKERS = --numprocesses logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder
SIZES = $(notdir $(basename $(wildcard config/smoke/*.yaml)))

help: ## print the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 10

eval: env ## run the default experiment and print its verdict
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@before=$$(stat --format %Y results/own-code/eval.json 2> /dev/null || true); \
	snakemake --profile $(PROFILE) results/own-code/eval.json --configfile config/config.yaml; \
	[ "$$before" != "$$(stat --format %Y results/own-code/eval.json)" ] || \
	    python -m scripts.report.page --results results/own-code --summary

quick: env ## run the tests that need neither torch nor a workflow run (tests/quick.py lists them)
	pytest --quick --minutes 10 $(WORKERS)

# The quick tests run first, without torch: one that needs it fails. Together they end after an hour at the latest, with
# the names of the tests that were running.
test: env ## run all tests except the long ones
	pytest --quick --minutes 10 $(WORKERS)
	pytest --rest --minutes 50 $(WORKERS)

# These tests need system packages (docs/quickstart.md). The table of kills is written to benchmarks/soak.md.
soak: env ## run the long tests: kill -9 a real workflow 20 times, faults on a real Slurm
	KILLS=20 SOAK=benchmarks/soak.md pytest -s tests/workflow/test_kills.py
	pytest -m soak

gpu: env ## run the tests that need a CUDA GPU of compute capability 8.0 or more
	pytest -m gpu

# These tests need system packages, too. Skipped ones count as not run.
faults: env ## plant every fault that was thought of and write the table to benchmarks/faults.md
	pytest -m fault --matrix=benchmarks/faults.md --minutes=50 $(WORKERS)

# The command is in the header of the file in config/smoke/. The only source is this repository, at its last commit.
smoke: env ## run a tiny version of an experiment on the CPU: EXPERIMENT=qwen2.5-7b-code, or another one of config/smoke/
	@$(call known,EXPERIMENT,config/smoke/$(or $(EXPERIMENT),NAME).yaml,$(SIZES))
	@mkdir -p results/smoke
	@printf 'name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\nstagecraft\tgit\t.\t%s\tpython\thigh\tMIT\n' \
	    "$$(git rev-parse HEAD)" > results/smoke/sources.tsv
	$$(sed -n 's/^#     //p' config/smoke/$(EXPERIMENT).yaml)
	@python -m scripts.report.page --results results/smoke/$(EXPERIMENT) --summary

# The name of the file that marks a whole environment holds a hash of what it was made from: a checkout that only
# writes requirements.lock anew, with the same content, installs nothing.
INSTALLED := .venv/installed-$(shell { cat requirements.lock; grep 'torch == ' pyproject.toml; } 2> /dev/null | cksum | cut -d ' ' -f 1)

env: $(INSTALLED) $(BIN)/stagecraft ## install the environment from requirements.lock, and the command `stagecraft`

# Both are started by the environment's Python, wherever it lies, with texts in UTF-8 whatever the user's locale is;
# `snakemake` looks at the experiment files first. What is imported is compiled once, as `env` compiles nothing.
$(BIN)/stagecraft: envs/launcher.py envs/checked_snakemake.py $(INSTALLED)
	@cp envs/launcher.py .venv/stagecraft.py
	@cp envs/checked_snakemake.py .venv/
	@for pair in stagecraft:stagecraft snakemake:checked_snakemake; do \
	    printf '#!/bin/sh\nhere=$$(dirname "$$(readlink -f "$$0")")\nexport PYTHONUTF8=1\nunset PYTHONDONTWRITEBYTECODE\nexec "$$here/python" "$$here/../%s.py" "$$@"\n' \
	        "$${pair#*:}" > $(BIN)/$${pair%:*}; \
	    chmod +x $(BIN)/$${pair%:*}; \
	done

# torch is installed first, with pip and without a hash, so that pip's find-links may provide a build for this machine. Every
# other package must have the hash in the lock. --no-deps: the lock has all packages, which `uv pip check` verifies.
# Nothing is compiled: all packages would take two cores 80 seconds, and Python compiles what is imported, once.
$(INSTALLED):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: $(PYTHON) is too old: Python >= 3.11 is needed")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile "$$(grep -o 'torch == [0-9.]*' pyproject.toml)"
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement <(sed -n '/^uv==/,/[^\\]$$/p' requirements.lock)
	$(BIN)/uv pip install --quiet --no-deps --require-hashes --python $(BIN)/python --requirement requirements.lock
	$(BIN)/uv pip check --quiet --python $(BIN)/python
	rm -f .venv/installed-*
	touch $@

lock: env ## resolve pyproject.toml again and write requirements.lock
	uv pip compile --upgrade --group dev pyproject.toml --output-file requirements.lock

# Not part of any other target: it asks PyPI about every package. --strict: a package that PyPI does not know is an error.
audit: env ## look for known vulnerabilities of the packages in requirements.lock; needs PyPI itself, not a mirror
	uv tool run pip-audit@2.10.1 --strict --disable-pip --requirement requirements.lock

lint: env ## check format and style, as CI does
	ruff format --check .
	ruff check .
	snakefmt --check Snakefile rules
	snakemake --lint --profile local

format: env ## format all files
	ruff format .
	ruff check --fix .
	snakefmt Snakefile rules

docs: env ## write config/README.md and the schemas from the settings, and the stored figures into the pages
	python -m scripts.experiment.reference
	python -m benchmarks.figures

bench: env ## measure speed against other tools in the same run
	for bench in benchmarks/bench_*.py; do python -m "benchmarks.$$(basename "$$bench" .py)"; done

clean: ## remove all results, except the raw archives; prints sizes and asks first, unless FORCE=1
	@made() { find -H results logs ! -path results ! -path results/README.md -prune "$$@" 2> /dev/null || true; }; \
	if [ -z "$$(made -print -quit)" ]; then echo "nothing to remove"; exit; fi; \
	du --human-readable --total --max-depth 1 $$(ls -d results logs 2> /dev/null); \
	if [ "$(FORCE)" != 1 ]; then \
	    read -r -p "Remove all of this, with every experiment and checkpoint? Type yes: " answer || true; \
	    [ "$${answer:-}" = yes ] || { echo "error: nothing was removed: the answer was not yes; FORCE=1 does not ask" >&2; exit 1; }; \
	fi; \
	made -exec rm -rf {} +
