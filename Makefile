# In a new clone run `make eval` for the main job or `make test` for the tests: both set up the environment first.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PROFILE ?= local
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: eval quick test soak smoke env lock lint format docs sources publish forget rehearse plan calibrate status why
.PHONY: accept ablate proof compare data-diff judge bench clean
.DEFAULT_GOAL := eval

# $(call known,VARIABLE,file,known values): end with one line if the file that VARIABLE names does not exist
known = [ -f '$(2)' ] || { echo "error: $(1)=$($(1)): no file $(2); known: $(3)" >&2; exit 1; }
PROFILES = $(filter-out default,$(notdir $(wildcard profiles/*)))
SIZES = $(notdir $(basename $(wildcard config/smoke/*.yaml)))

eval: env ## run the default experiment and print its verdict
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@snakemake --profile $(PROFILE) results/eval.json
	@python -m scripts.report.page --results results --summary

quick: env ## run the tests that need neither torch nor a workflow run (tests/quick.py lists them)
	pytest --quick --numprocesses 2 --dist loadfile --no-loadscope-reorder

# Two test files run at a time, as tests mostly wait. The quick tests run first, without torch: one that needs it fails.
test: env ## run all tests except the long ones
	pytest --quick --numprocesses 2 --dist loadfile --no-loadscope-reorder
	pytest --rest --numprocesses 2 --dist loadfile --no-loadscope-reorder

# These tests need system packages (docs/install.md). The table of kills is written to docs/soak.md.
soak: env ## run the long tests: kill -9 a real workflow 20 times, faults on a real Slurm
	KILLS=20 SOAK=docs/soak.md pytest -s tests/workflow/test_kills.py
	pytest -m soak

# The command is in the header of the file in config/smoke/. The only source is this repository, at its last commit.
smoke: env ## run a tiny version of an experiment on the CPU: EXPERIMENT=qwen2.5-7b-code, or another one of config/smoke/
	@$(call known,EXPERIMENT,config/smoke/$(or $(EXPERIMENT),NAME).yaml,$(SIZES))
	@mkdir -p results/smoke
	@printf 'name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\nstagecraft\tgit\t.\t%s\tpython\thigh\tMIT\n' \
	    "$$(git rev-parse HEAD)" > results/smoke/sources.tsv
	$$(sed -n 's/^#     //p' config/smoke/$(EXPERIMENT).yaml)
	@python -m scripts.report.page --results results/smoke/$(EXPERIMENT) --summary

env: .venv/.stagecraft ## install the environment from requirements.lock

# torch is installed first, with pip and without a hash, so that pip's find-links may provide a build for this machine. Every
# other package must have the hash in the lock. --no-deps: the lock has all packages, which `uv pip check` verifies.
.venv/.stagecraft: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: $(PYTHON) is too old: Python >= 3.11 is needed")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet "$$(grep -o 'torch == [0-9.]*' pyproject.toml)"
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement <(sed -n '/^uv==/,/[^\\]$$/p' requirements.lock)
	$(BIN)/uv pip install --quiet --compile-bytecode --no-deps --require-hashes --python $(BIN)/python --requirement requirements.lock
	$(BIN)/uv pip check --quiet --python $(BIN)/python
	! $(BIN)/python -m scripts.hosts.hardware || $(BIN)/uv pip install --quiet --python $(BIN)/python --group liger
	touch $@

lock: env ## resolve pyproject.toml again and write requirements.lock
	uv pip compile --upgrade --group dev pyproject.toml --output-file requirements.lock

lint: env ## check format and style, as CI does
	ruff format --check .
	ruff check .
	snakefmt --check Snakefile rules
	snakemake --lint --profile local

format: env ## format all files
	ruff format .
	ruff check --fix .
	snakefmt Snakefile rules

# Passed as environment variables, because a folder's name may contain quotes and `$`; `value` is the unexpanded text.
sources: export SOURCES_FROM = $(value FROM)
sources: export SOURCES_TO = $(or $(value TO),config/my-sources.tsv)
sources: env ## FROM=folder [TO=file]: write a table of sources from folders priority/language/repository
	$(if $(value FROM),,$(error FROM=folder is needed))
	@python -m scripts.sources.tables.from_folder --from="$$SOURCES_FROM" --out="$$SOURCES_TO"

docs: env ## write docs/configuration.md from the settings
	python -m scripts.experiment.reference

publish: env ## push raw archives and finished results to the DVC remote: PROFILE=, or EXPERIMENT=file
	@python -m scripts.release.publish --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT))

forget: env ## SOURCE=name: list what was made from a source and the jobs to run without it; APPLY=1 removes it; PROFILE=, or EXPERIMENT=file
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.release.forget --source "$(or $(SOURCE),$(error SOURCE=name is needed))" --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT)) $(if $(filter 1,$(APPLY)),--apply)

rehearse: env ## make all data, plan, then run 3 steps of each stage and 2 items of each suite with a tiny model: PROFILE=, or EXPERIMENT=file
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.report.commands.rehearse --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT))

plan: env ## print whether each stage fits, how long it takes and what it costs; needs no data: PROFILE=, or EXPERIMENT=file; ROWS=
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.training.planning.overview --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT)) $(if $(ROWS),--rows $(ROWS))

calibrate: env ## write measured speed and memory into the machine file, for the next plans: PROFILE=, or EXPERIMENT=file
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.training.planning.calibrate --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT))

status: env ## print the state of all jobs of an experiment: PROFILE=, or EXPERIMENT=file; RESULTS=folder; WATCH=seconds
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.report.commands.status --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT)) $(if $(RESULTS),--results $(RESULTS)) $(if $(WATCH),--watch $(WATCH))

why: env ## print why jobs would run: PROFILE=, or EXPERIMENT=file; or with A=results B=results, why two results differ
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.report.commands.why --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT)) $(if $(A),--a "$(A)") $(if $(B),--b "$(B)")

# Passed as an environment variable, because a reason may be any text.
accept: export ACCEPT_REASON = $(value REASON)
accept: env ## RULE=train.sft REASON="...": keep a result after a refactoring, if a replay with the old and the new code gives the same
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.report.commands.accept --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT)) --rule "$(or $(RULE),$(error RULE=train.sft is needed))" --reason "$$ACCEPT_REASON"

ablate: env ## train and score the arms of `ablate` and print the effect of each: PROFILE=, or EXPERIMENT=file
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.report.commands.ablate --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT))

# The sources are repositories made from two versions each of six packages of the package index.
proof: env ## measure whether a model knows the repository it was trained on, against a placebo: docs/your-repositories.md
	@python -m benchmarks.own_code.repositories --out results/own-code/repositories
	@snakemake --profile $(PROFILE) results/own-code/eval.json --configfile config/examples/own-code.yaml
	@python -m benchmarks.own_code.differences --results results/own-code --out results/own-code/differences

compare: env ## A=results B=results of another run: print what B gained and lost, problem by problem; OUT=folder
	@python -m scripts.report.commands.compare --a "$(or $(A),$(error A=folder is needed))" --b "$(or $(B),$(error B=folder is needed))" --out "$(or $(OUT),results/compare)"

data-diff: env ## A=revision B=revision, or results folders: print how their data differ; PROFILE=, or EXPERIMENT=file
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.report.commands.data_diff --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT)) --a="$(or $(A),$(error A=revision is needed))" --b="$(or $(B),$(error B=revision is needed))"

judge: env ## BENCHMARK=file GENERATIONS=file: judge programs that were generated before, problem by problem; OUT=folder, PACKAGES=environment
	@python -m scripts.evaluation.commands.judge --benchmark "$(or $(BENCHMARK),$(error BENCHMARK=file is needed))" --generations "$(or $(GENERATIONS),$(error GENERATIONS=file is needed))" --out "$(or $(OUT),results/judge)" $(if $(BASE),--base) $(if $(FORMAT),--format "$(FORMAT)") $(if $(PACKAGES),--python "$(PACKAGES)")

bench: env ## measure speed against other tools in the same run
	for bench in benchmarks/bench_*.py; do python -m "benchmarks.$$(basename "$$bench" .py)"; done

clean: ## remove all results, except the raw archives; prints sizes and asks first, unless FORCE=1
	@made=$$(ls -d results logs 2> /dev/null || true); \
	if [ -z "$$made" ]; then echo "nothing to remove"; exit; fi; \
	du --human-readable --total --max-depth 1 $$made; \
	if [ "$(FORCE)" != 1 ]; then \
	    read -r -p "Remove all of this, with every experiment and checkpoint? Type yes: " answer || true; \
	    [ "$${answer:-}" = yes ] || { echo "error: nothing was removed: the answer was not yes; FORCE=1 does not ask" >&2; exit 1; }; \
	fi; \
	rm -rf $$made
