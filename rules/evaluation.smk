# Model × suite → scores, then the gates over all of them. A suite that the experiment does not configure has no rule.

from scripts.experiment.layout import SPLITS
from scripts.experiment.replays.evidence_files import evidence_files
from scripts.experiment.settings.evaluation import CompletionTasks
from scripts.experiment.settings.record import to_dict
from scripts.experiment.settings.repository_tasks import RepositoryTasks
from scripts.hosts.profile import uses_vllm, vllm_option

# On a CPU, two models side by side on a core each finish sooner than one after the other on two cores.
THREADS = {suite: 2 if MACHINE.gpus else 1 for suite in FLOW.suites}
THREADS["code"] = 2
WITH_TASKS = ("completion", "repository_tests")  # suites whose tasks a rule of their own makes
TESTED_ARCHIVES = {name: raw_archive(source.raw_name) for name, source in TESTED.items()}
# nothing runs beside latency while it is timed: here it takes all cores, on Slurm the profile requests a whole node
THREADS["latency"] = 8 if PROFILE.slurm else workflow.cores


for suite in [suite for suite in FLOW.suites if suite != "human"]:

    rule:
        name:
            suite
        input:
            model=lambda wildcards: str(L.model(wildcards.model) / MANIFEST),
            datasets=[L.dataset(name) / MANIFEST for name in FLOW.scored_datasets(suite)],
            data=ancient_inputs(*(split_file(L.dataset(name), "test") for name in FLOW.scored_datasets(suite))),
            files=FLOW.prompt_files(suite),
            archives=ancient_inputs(*MADE.archives(TESTED)) if suite == "repository_tests" else [],
        output:
            scores=L.suite(suite, "{model}") / "scores.json",
            documents=L.suite(suite, "{model}") / "items.jsonl.zst",
        log:
            L.log("evaluation", suite, "{model}"),
        conda:
            "../envs/stagecraft.yaml"
        threads: THREADS[suite]
        resources:
            machine=str(PROFILE.machine),
            # where vLLM lies is no param, so it reruns nothing
            engine=vllm_option(FLOW.suites[suite], MACHINE),
        params:
            module=f"scripts.evaluation.{suite}",
            check=[] if uses_vllm(FLOW.suites[suite]) else ["--torch"],
            model=subpath(input.model, parent=True),
            datasets=["--datasets", str(L.dataset(""))] if FLOW.scored_datasets(suite) else [],
            tasks=["--tasks", FLOW.prompt_files(suite)[0]] if suite in WITH_TASKS else [],
            settings=to_json(FLOW.suites[suite]),
            # perplexity draws nothing, lm-eval by its own seeds
            seed=[] if suite in ("perplexity", "lm_eval") else ["--seed", str(EXPERIMENT.seed)],
            out=subpath(output.scores, parent=True),
            code=fingerprint(f"scripts.evaluation.{suite}"),
        shell:
            "python -m scripts.hosts.gpus {params.check:q} --machine {resources.machine:q} --count 1"
            " python -m {params.module:q} --model {params.model:q} {params.datasets:q} {params.tasks:q}"
            " --settings {params.settings:q} {params.seed:q} {resources.engine} --out {params.out:q} 2>&1 | tee {log:q}"


if FLOW.pinned:

    rule problems:
        output:
            problems=L.problems("{file}"),
        log:
            L.log("evaluation", "problems", "{file}"),
        wildcard_constraints:
            file=one_of(FLOW.pinned),
        conda:
            "../envs/stagecraft.yaml"
        resources:
            network=1,
            # no param: the commit alone decides the content, so the same commit of another copy reruns nothing
            location=lambda wildcards: FLOW.pinned[wildcards.file].git,
        params:
            settings=lambda wildcards: as_json(FLOW.pinned[wildcards.file].model_dump(include={"commit", "path"})),
            code=fingerprint("scripts.evaluation.problems"),
        shell:
            "python -m scripts.evaluation.problems --git={resources.location:q}"
            " --settings {params.settings:q} --out {output.problems:q} 2>&1 | tee {log:q}"


if completion := FLOW.suites.get("completion"):

    rule completion_tasks:
        input:
            manifests=[L.dataset(name) / MANIFEST for name in sorted({*FLOW.trained_on, completion.dataset})],
            train=ancient_inputs(*(split_file(L.dataset(name), "train") for name in FLOW.trained_on)),
            files=ancient_inputs(*(split_file(L.dataset(completion.dataset), split) for split in SPLITS)),
        output:
            tasks=L.completion_tasks / "tasks.jsonl.zst",
            manifest=L.completion_tasks / MANIFEST,
        log:
            L.log("evaluation", "completion_tasks"),
        conda:
            "../envs/stagecraft.yaml"
        params:
            datasets=lambda wildcards, input: str(Path(input.manifests[0]).parents[1]),
            train=FLOW.trained_on,
            settings=as_json(completion.model_dump(include=set(CompletionTasks.model_fields))),
            out=subpath(output.manifest, parent=True),
            code=fingerprint("scripts.evaluation.completion_tasks"),
        shell:
            "python -m scripts.evaluation.completion_tasks --datasets {params.datasets:q} --train {params.train:q}"
            " --settings {params.settings:q} --out {params.out:q} 2>&1 | tee {log:q}"


if tests := FLOW.suites.get("repository_tests"):

    rule repository_tasks:
        input:
            manifests=[L.dataset(name) / MANIFEST for name in FLOW.trained_on],
            train=ancient_inputs(*(split_file(L.dataset(name), "train") for name in FLOW.trained_on)),
            raw=MADE.fetched(TESTED),
            archives=ancient_inputs(*MADE.archives(TESTED)),
        output:
            tasks=L.repository_tasks / "tasks.jsonl.zst",
            manifest=L.repository_tasks / MANIFEST,
        log:
            L.log("evaluation", "repository_tasks"),
        conda:
            "../envs/stagecraft.yaml"
        params:
            archives=by_file("--archives", *(f"{name}={archive}" for name, archive in TESTED_ARCHIVES.items())),
            datasets=str(L.dataset("")),
            train=FLOW.trained_on,
            settings=as_json(tests.model_dump(include=set(RepositoryTasks.model_fields) - {"sources"})),
            out=subpath(output.manifest, parent=True),
            code=fingerprint("scripts.evaluation.repository_tasks"),
        shell:
            "python -m scripts.evaluation.repository_tasks {params.archives:q} --datasets {params.datasets:q}"
            " --train {params.train:q} --settings {params.settings:q} --out {params.out:q} 2>&1 | tee {log:q}"


if human := FLOW.suites.get("human"):

    # written whether or not anybody fills it; filled sheets do not change it
    rule sheet:
        input:
            scores=[L.suite(human.of, model) / "scores.json" for model in human.models],
            documents=[L.suite(human.of, model) / "items.jsonl.zst" for model in human.models],
            template="scripts/evaluation/templates/sheet.html.j2",
        output:
            sheet=L.sheet / "sheet.csv",
            form=L.sheet / "sheet.html",
            key=L.sheet / "key.json",
        log:
            L.log("evaluation", "sheet"),
        localrule: True
        conda:
            "../envs/stagecraft.yaml"
        params:
            suite=lambda wildcards, input: str(Path(input.scores[0]).parents[1]),
            settings=as_json(human.model_dump(include={"of", "models", "datasets", "samples"})),
            seed=EXPERIMENT.seed,
            out=subpath(output.key, parent=True),
            code=fingerprint("scripts.evaluation.sheet"),
        shell:
            "python -m scripts.evaluation.sheet --suite {params.suite:q} --settings {params.settings:q}"
            " --seed {params.seed:q} --out {params.out:q} 2>&1 | tee {log:q}"

    rule human:
        input:
            key=L.sheet / "key.json",
            sheets=human.sheets,
        output:
            agreement=L.agreement,
            scores=[
                L.suite("human", model) / file
                for model in (human.models if human.sheets else [])
                for file in ("scores.json", "items.jsonl.zst")
            ],
        log:
            L.log("evaluation", "human"),
        localrule: True
        conda:
            "../envs/stagecraft.yaml"
        params:
            out=subpath(output.agreement, parent=True),
            code=fingerprint("scripts.evaluation.human"),
        shell:
            "python -m scripts.evaluation.human --key {input.key:q} --sheets {input.sheets:q}"
            " --out {params.out:q} 2>&1 | tee {log:q}"


if FLOW.prompts:

    rule contamination:
        input:
            manifests=[L.dataset(name) / MANIFEST for name in sorted({*FLOW.trained_on, *FLOW.prompt_datasets})],
            train=ancient_inputs(*(split_file(L.dataset(name), "train") for name in FLOW.trained_on)),
            test=ancient_inputs(*(split_file(L.dataset(name), "test") for name in FLOW.prompt_datasets)),
            files=[file for suite in FLOW.prompts for file in FLOW.prompt_files(suite)],
        output:
            overlaps=L.overlaps,
        log:
            L.log("evaluation", "contamination"),
        conda:
            "../envs/stagecraft.yaml"
        params:
            datasets=lambda wildcards, input: str(Path(input.manifests[0]).parents[1]),
            train=FLOW.trained_on,
            settings=as_json(to_dict(EXPERIMENT.evaluation.contamination) | {"suites": FLOW.prompts}),
            code=fingerprint("scripts.evaluation.contamination"),
        shell:
            "python -m scripts.evaluation.contamination --datasets {params.datasets:q} --train {params.train:q}"
            " --settings {params.settings:q} --out {output.overlaps:q} 2>&1 | tee {log:q}"


rule gate:
    input:
        scores=FLOW.suite_files("scores.json"),
        documents=FLOW.suite_files("items.jsonl.zst"),
        human=L.agreement if "human" in FLOW.suites else [],
        overlaps=L.overlaps if FLOW.prompts else [],
        stages=[L.model(stage) / f"{file}.json" for stage in FLOW.own_models for file in ("summary", "environment")],
        # recorded in eval.json as its inputs
        archives=MADE.fetched(SOURCES),
        filtered=MADE.filtered(SOURCES),
        corpus=[L.deduplicated / MANIFEST, L.split / MANIFEST] if SOURCES else [],
        datasets=[L.dataset(name) / MANIFEST for name in EXPERIMENT.corpus.compose],
        tokenizer=L.tokenizer / MANIFEST,
        shards=[FLOW.shards(stage) / MANIFEST for stage in EXPERIMENT.training.train],
        models=[L.model(model) / MANIFEST for model in ("base", *FLOW.own_models)],
        accepted=evidence_files(FLOW),
    output:
        evaluation=L.gate,
    log:
        L.log("evaluation", "gate"),
    conda:
        "../envs/stagecraft.yaml"
    params:
        given=by_file(
            *("--experiment", to_json(EXPERIMENT)),
            *("--sources", as_json({name: source.model_dump() for name, source in SOURCES.items()})),
            *("--codes", as_json(FLOW.codes)),
        ),
        code=fingerprint("scripts.evaluation.gate"),
    shell:
        "python -m scripts.evaluation.gate {params.given:q} --out {output.evaluation:q} 2>&1 | tee {log:q}"
