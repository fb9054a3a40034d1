# The main job and the tests, each with all set-up in it. `make eval` and `make test` are all a new clone needs.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PROFILE ?= local
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: eval quick test soak smoke env lock lint format docs sources publish forget rehearse plan calibrate status why
.PHONY: accept ablate proof compare data-diff judge bench clean
.DEFAULT_GOAL := eval

# $(call known,VARIABLE,its file,known values): one line and the end if the file is not there
known = [ -f '$(2)' ] || { echo "error: $(1)=$($(1)): no file $(2); known: $(3)" >&2; exit 1; }
PROFILES = $(filter-out default,$(notdir $(wildcard profiles/*)))
SIZES = $(notdir $(basename $(wildcard config/smoke/*.yaml)))

eval: env ## the main job on the embedded default, then its verdict
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@snakemake --profile $(PROFILE) results/eval.json
	@python -m scripts.report.page --results results --summary

quick: env ## the tests that need neither torch nor a DAG: tests/quick.py says which
	pytest --quick --numprocesses 2 --dist loadfile --no-loadscope-reorder

# Two files at a time, as they mostly wait. The quick ones first, without torch: those that need it fail here too.
test: env ## all tests but the long ones
	pytest --quick --numprocesses 2 --dist loadfile --no-loadscope-reorder
	pytest --rest --numprocesses 2 --dist loadfile --no-loadscope-reorder

# The tests need what CI installs; see docs/install.md. The table goes to docs/soak.md.
soak: env ## the long tests: kill -9 a real workflow 20 times, faults on a real Slurm
	KILLS=20 SOAK=docs/soak.md pytest -s tests/workflow/test_kills.py
	pytest -m soak

# The command stands in the file's header; sources are this repository itself, as it is committed.
smoke: env ## an experiment in tiny on the CPU: EXPERIMENT=qwen2.5-7b-code, or another one of config/smoke/
	@$(call known,EXPERIMENT,config/smoke/$(or $(EXPERIMENT),NAME).yaml,$(SIZES))
	@mkdir -p results/smoke
	@printf 'name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\nstagecraft\tgit\t.\t%s\tpython\thigh\tMIT\n' \
	    "$$(git rev-parse HEAD)" > results/smoke/sources.tsv
	$$(sed -n 's/^#     //p' config/smoke/$(EXPERIMENT).yaml)
	@python -m scripts.report.page --results results/smoke/$(EXPERIMENT) --summary

env: .venv/.stagecraft ## the environment from the lock

# torch first and with pip: it alone may come from a folder of wheels (pip's find-links) as a build for this machine.
# All else is refused where its hash is not the lock's. --no-deps: the lock is complete but for torch, as the check shows.
.venv/.stagecraft: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: $(PYTHON) is too old: Python >= 3.11 is needed")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet "$$(grep -o 'torch == [0-9.]*' pyproject.toml)"
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement <(sed -n '/^uv==/,/[^\\]$$/p' requirements.lock)
	$(BIN)/uv pip install --quiet --compile-bytecode --no-deps --require-hashes --python $(BIN)/python --requirement requirements.lock
	$(BIN)/uv pip check --quiet --python $(BIN)/python
	! $(BIN)/python -m scripts.hosts.hardware || $(BIN)/uv pip install --quiet --python $(BIN)/python --group liger
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

# By the environment, as a folder's name may hold quotes and `$`; `value` is the text as it was given.
sources: export SOURCES_FROM = $(value FROM)
sources: export SOURCES_TO = $(or $(value TO),config/my-sources.tsv)
sources: env ## FROM=folder [TO=file]: a sources table from a folder priority/language/repository
	$(if $(value FROM),,$(error FROM=folder is needed))
	@python -m scripts.sources.tables.from_folder --from="$$SOURCES_FROM" --out="$$SOURCES_TO"

docs: env ## docs/configuration.md from the schemas
	python -m scripts.experiment.reference

publish: env ## raw archives and finished results to the DVC remote; EXPERIMENT=file names another experiment
	@python -m scripts.release.publish --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT))

forget: env ## SOURCE=name: what contains a source, and what forgetting it costs; APPLY=1 does it; PROFILE=, or EXPERIMENT=file
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.release.forget --source "$(or $(SOURCE),$(error SOURCE=name is needed))" --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT)) $(if $(filter 1,$(APPLY)),--apply)

rehearse: env ## all data for real, the plan, then 3 steps of each stage and 2 items of each suite in small: PROFILE=, or EXPERIMENT=file
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.report.commands.rehearse --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT))

plan: env ## whether each stage fits, how long it takes, what it costs, before any data: PROFILE=, or EXPERIMENT=file; ROWS=
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.training.planning.overview --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT)) $(if $(ROWS),--rows $(ROWS))

calibrate: env ## keep a machine's measured speed and memory for its next plans: PROFILE=, or EXPERIMENT=file
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.training.planning.calibrate --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT))

status: env ## how far an experiment is: PROFILE=, or EXPERIMENT=file; RESULTS=folder; WATCH=seconds
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.report.commands.status --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT)) $(if $(RESULTS),--results $(RESULTS)) $(if $(WATCH),--watch $(WATCH))

why: env ## why jobs would run: PROFILE=, or EXPERIMENT=file; or A=results B=results: what made them differ
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.report.commands.why --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT)) $(if $(A),--a "$(A)") $(if $(B),--b "$(B)")

# By the environment, as a reason is any text.
accept: export ACCEPT_REASON = $(value REASON)
accept: env ## RULE=train.sft REASON="...": after a change of code that changes nothing, shown by a replay
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.report.commands.accept --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT)) --rule "$(or $(RULE),$(error RULE=train.sft is needed))" --reason "$$ACCEPT_REASON"

ablate: env ## what each arm of `ablate` did: trains and scores what is missing: PROFILE=, or EXPERIMENT=file
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.report.commands.ablate --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT))

# The sources are two versions each of six packages, as the package index has them, made into repositories with a history.
proof: env ## does it know our code? own repository against a placebo, with differences in differences: docs/your-repositories.md
	@python -m tests.benchmarks.own_code.repositories --out results/own-code/repositories
	@snakemake --profile $(PROFILE) results/own-code/eval.json --configfile config/examples/own-code.yaml
	@python -m tests.benchmarks.own_code.differences --results results/own-code --out results/own-code/differences

compare: env ## A=results B=results of another run: what B gained and lost, problem by problem; OUT=folder
	@python -m scripts.report.commands.compare --a "$(or $(A),$(error A=folder is needed))" --b "$(or $(B),$(error B=folder is needed))" --out "$(or $(OUT),results/compare)"

data-diff: env ## A=revision B=revision, or results folders: how their data differ; PROFILE=, or EXPERIMENT=file
	@$(call known,PROFILE,$(PROFILE)/config.yaml,$(PROFILES))
	@python -m scripts.report.commands.data_diff --profile $(PROFILE) $(if $(EXPERIMENT),--configfile $(EXPERIMENT)) --a="$(or $(A),$(error A=revision is needed))" --b="$(or $(B),$(error B=revision is needed))"

judge: env ## BENCHMARK=file GENERATIONS=file: judge programs that exist, problem by problem; OUT=folder
	@python -m scripts.evaluation.commands.judge --benchmark "$(or $(BENCHMARK),$(error BENCHMARK=file is needed))" --generations "$(or $(GENERATIONS),$(error GENERATIONS=file is needed))" --out "$(or $(OUT),results/judge)" $(if $(BASE),--base) $(if $(FORMAT),--format "$(FORMAT)")

bench: env ## speed, as ratios against named peers in the same run
	for bench in tests/benchmarks/bench_*.py; do python -m "tests.benchmarks.$$(basename "$$bench" .py)"; done

clean: ## all that was made, but the raw archives: lists sizes and asks first; FORCE=1 does not ask
	@made=$$(ls -d results logs 2> /dev/null || true); \
	if [ -z "$$made" ]; then echo "nothing to remove"; exit; fi; \
	du --human-readable --total --max-depth 1 $$made; \
	if [ "$(FORCE)" != 1 ]; then \
	    read -r -p "Remove all of this, with every experiment and checkpoint? Type yes: " answer || true; \
	    [ "$${answer:-}" = yes ] || { echo "error: nothing was removed: the answer was not yes; FORCE=1 does not ask" >&2; exit 1; }; \
	fi; \
	rm -rf $$made
