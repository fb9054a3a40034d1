# Model × suite → scores, then the gates over all of them. A suite that the experiment does not configure has no rule.

from scripts.evaluation.suites import abouts
from scripts.evaluation.suites.completion import CompletionTasks
from scripts.experiment.layout import SPLITS
from scripts.hosts.job_graph import rule_codes

SUITES = abouts()
LATER = -1  # than what a stage waits for: on a few cores evaluations would keep the next stage from starting
# On a CPU, two models side by side on a core each finish sooner than one after the other on two cores. Suite perplexity,
# the longest, takes two all the same: with one it would keep a stage, which needs both, from starting.
THREADS = {suite: 2 if MACHINE.gpus or SUITES[suite].two_cores else 1 for suite in VIEW.suites}
# nothing runs beside a suite that is timed: here it takes all cores, on Slurm the profile requests a whole node
THREADS |= {suite: 8 if PROFILE.slurm else workflow.cores for suite in VIEW.suites if SUITES[suite].whole_node}


for suite in [suite for suite in VIEW.suites if SUITES[suite].needs_gpu]:

    rule:
        name:
            suite
        input:
            model=lambda wildcards: str(PATHS.model(wildcards.model) / MANIFEST),
            datasets=[PATHS.dataset(name) / MANIFEST for name in VIEW.scored_datasets(suite)],
            data=ancient_inputs(
                *(split_file(PATHS.dataset(name), "test") for name in VIEW.scored_datasets(suite)),
                *(
                    split_file(PATHS.dataset(name), "train")
                    for name in (VIEW.retrieved if suite == "perplexity" else [])
                ),
            ),
            files=VIEW.prompt_files(suite),
        output:
            scores=PATHS.suite(suite, "{model}") / "scores.json",
            documents=PATHS.suite(suite, "{model}") / "items.jsonl.zst",
        log:
            PATHS.log("evaluation", suite, "{model}"),
        priority: LATER
        conda:
            "../envs/stagecraft.yaml"
        threads: THREADS[suite]
        resources:
            machine=str(PROFILE.machine),
        params:
            module=f"scripts.evaluation.suites.{suite}",
            model=subpath(input.model, parent=True),
            datasets=["--datasets", str(PATHS.dataset(""))] if VIEW.scored_datasets(suite) else [],
            tasks=["--tasks", VIEW.prompt_files(suite)[0]] if SUITES[suite].tasks else [],
            settings=to_json(VIEW.suites[suite]),
            plain=VIEW.plain_option if suite == "perplexity" else [],
            seed=["--seed", str(EXPERIMENT.seed)] if SUITES[suite].seeded else [],  # lm-eval draws by its own seeds
            out=subpath(output.scores, parent=True),
            code=fingerprint(f"scripts.evaluation.suites.{suite}"),
        shell:
            "python -m scripts.hosts.gpus --torch --machine {resources.machine:q} --count 1"
            " python -m {params.module:q} --model {params.model:q} {params.datasets:q} {params.tasks:q}"
            " --settings {params.settings:q} {params.plain:q} {params.seed:q} --out {params.out:q} 2>&1 | tee {log:q}"


if VIEW.pinned:

    rule problems:
        output:
            problems=PATHS.problems("{file}"),
        log:
            PATHS.log("evaluation", "problems", "{file}"),
        wildcard_constraints:
            file=one_of(VIEW.pinned),
        localrule: True
        conda:
            "../envs/stagecraft.yaml"
        resources:
            network=1,
            # no param: the commit alone decides the content, so the same commit of another copy reruns nothing
            location=lambda wildcards: VIEW.pinned[wildcards.file].git,
        params:
            settings=lambda wildcards: as_json(VIEW.pinned[wildcards.file].model_dump(include={"commit", "path"})),
            code=fingerprint("scripts.evaluation.problems"),
        shell:
            "python -m scripts.evaluation.problems --git={resources.location:q}"
            " --settings {params.settings:q} --out {output.problems:q} 2>&1 | tee {log:q}"


if completion := VIEW.suites.get("completion"):

    rule completion_tasks:
        input:
            manifests=[PATHS.dataset(name) / MANIFEST for name in sorted({*VIEW.trained_on, completion.dataset})],
            train=ancient_inputs(*(split_file(PATHS.dataset(name), "train") for name in VIEW.trained_on)),
            files=ancient_inputs(*(split_file(PATHS.dataset(completion.dataset), split) for split in SPLITS)),
        output:
            tasks=PATHS.tasks("completion_tasks") / "tasks.jsonl.zst",
            manifest=PATHS.tasks("completion_tasks") / MANIFEST,
        log:
            PATHS.log("evaluation", "completion_tasks"),
        priority: LATER
        conda:
            "../envs/stagecraft.yaml"
        params:
            datasets=lambda wildcards, input: str(Path(input.manifests[0]).parents[1]),
            train=VIEW.trained_on,
            settings=as_json(completion.model_dump(include=set(CompletionTasks.model_fields))),
            out=subpath(output.manifest, parent=True),
            code=fingerprint("scripts.evaluation.completion_tasks"),
        shell:
            "python -m scripts.evaluation.completion_tasks --datasets {params.datasets:q} --train {params.train:q}"
            " --settings {params.settings:q} --out {params.out:q} 2>&1 | tee {log:q}"


if human_ratings := VIEW.suites.get("human_ratings"):
    HUMAN_MODELS = ["base", *EXPERIMENT.training.train]

    rule human_ratings:
        input:
            scores=[PATHS.suite(human_ratings.of, model) / "scores.json" for model in HUMAN_MODELS],
            documents=[PATHS.suite(human_ratings.of, model) / "items.jsonl.zst" for model in HUMAN_MODELS],
            sheets=human_ratings.sheets,
        output:
            agreement=PATHS.agreement,
            sheet=PATHS.agreement.with_name("sheet.csv"),
            key=PATHS.agreement.with_name("key.json"),
            rated=[
                PATHS.suite("human_ratings", model) / file
                for model in (HUMAN_MODELS if human_ratings.sheets else [])
                for file in ("scores.json", "items.jsonl.zst")
            ],
        log:
            PATHS.log("evaluation", "human_ratings"),
        localrule: True
        conda:
            "../envs/stagecraft.yaml"
        params:
            suite=lambda wildcards, input: str(Path(input.scores[0]).parents[1]),
            models=HUMAN_MODELS,
            settings=to_json(human_ratings),
            seed=EXPERIMENT.seed,
            out=subpath(output.agreement, parent=True),
            code=fingerprint("scripts.evaluation.suites.human_ratings"),
        shell:
            "python -m scripts.evaluation.suites.human_ratings --suite {params.suite:q} --models {params.models:q}"
            " --settings {params.settings:q} --seed {params.seed:q} --out {params.out:q} 2>&1 | tee {log:q}"


if VIEW.prompts:

    rule contamination:
        input:
            manifests=[PATHS.dataset(name) / MANIFEST for name in sorted({*VIEW.trained_on, *VIEW.prompt_datasets})],
            train=ancient_inputs(*(split_file(PATHS.dataset(name), "train") for name in VIEW.trained_on)),
            test=ancient_inputs(*(split_file(PATHS.dataset(name), "test") for name in VIEW.prompt_datasets)),
            files=[file for suite in VIEW.prompts for file in VIEW.prompt_files(suite)],
        output:
            overlaps=PATHS.overlaps,
        log:
            PATHS.log("evaluation", "contamination"),
        priority: LATER
        conda:
            "../envs/stagecraft.yaml"
        params:
            datasets=lambda wildcards, input: str(Path(input.manifests[0]).parents[1]),
            train=VIEW.trained_on,
            settings=as_json({"suites": VIEW.prompts}),
            code=fingerprint("scripts.evaluation.contamination"),
        shell:
            "python -m scripts.evaluation.contamination --datasets {params.datasets:q} --train {params.train:q}"
            " --settings {params.settings:q} --out {output.overlaps:q} 2>&1 | tee {log:q}"


rule baselines:
    input:
        manifests=[
            PATHS.dataset(name) / MANIFEST for name in sorted({*VIEW.trained_on, *VIEW.scored_datasets("perplexity")})
        ],
        train=ancient_inputs(*(split_file(PATHS.dataset(name), "train") for name in VIEW.trained_on)),
        test=ancient_inputs(*(split_file(PATHS.dataset(name), "test") for name in VIEW.scored_datasets("perplexity"))),
    output:
        scores=PATHS.baselines / "scores.json",
        documents=PATHS.baselines / "items.jsonl.zst",
    log:
        PATHS.log("evaluation", "baselines"),
    priority: LATER
    conda:
        "../envs/stagecraft.yaml"
    params:
        datasets=lambda wildcards, input: str(Path(input.manifests[0]).parents[1]),
        train=VIEW.trained_on,
        settings=as_json(VIEW.suites["perplexity"].model_dump(include={"datasets", "documents", "places"})),
        out=subpath(output.scores, parent=True),
        code=fingerprint("scripts.evaluation.baselines"),
    shell:
        "python -m scripts.evaluation.baselines --datasets {params.datasets:q} --train {params.train:q}"
        " --settings {params.settings:q} --out {params.out:q} 2>&1 | tee {log:q}"


# by rule, what eval.json names as the code that made it
CODES = rule_codes(workflow.rules, [stage.optimizer for stage in VIEW.stages.values()])
CODES["evaluation.gate"] = fingerprint("scripts.evaluation.gate")


rule gate:
    input:
        scores=VIEW.suite_files("scores.json"),
        documents=VIEW.suite_files("items.jsonl.zst"),
        human_ratings=PATHS.agreement if "human_ratings" in VIEW.suites else [],
        baselines=[PATHS.baselines / "scores.json", PATHS.baselines / "items.jsonl.zst"],
        overlaps=PATHS.overlaps if VIEW.prompts else [],
        stages=[PATHS.model(stage) / f"{file}.json" for stage in VIEW.own_models for file in ("summary", "environment")],
        # recorded in eval.json as its inputs
        archives=SOURCE_FILES.fetched(SOURCES),
        filtered=SOURCE_FILES.filtered(SOURCES),
        corpus=[PATHS.deduplicated / MANIFEST, PATHS.split / MANIFEST] if SOURCES else [],
        datasets=[PATHS.dataset(name) / MANIFEST for name in EXPERIMENT.corpus.compose],
        tokenizer=PATHS.tokenizer / MANIFEST,
        shards=[VIEW.shards(stage) / MANIFEST for stage in EXPERIMENT.training.train],
        models=[PATHS.model(model) / MANIFEST for model in ("base", *VIEW.own_models)],
    output:
        evaluation=PATHS.gate,
    log:
        PATHS.log("evaluation", "gate"),
    conda:
        "../envs/stagecraft.yaml"
    params:
        given=by_file(
            *("--experiment", to_json(EXPERIMENT)),
            *("--sources", as_json({name: source.model_dump() for name, source in SOURCES.items()})),
            *("--codes", as_json(CODES)),
        ),
        code=CODES["evaluation.gate"],
    shell:
        "python -m scripts.evaluation.gate {params.given:q} --by-workflow --out {output.evaluation:q} 2>&1 | tee {log:q}"
