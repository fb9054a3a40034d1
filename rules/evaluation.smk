# Model × suite → scores, then the gates over all of them. A suite that the experiment does not configure has no rule.

MODELS = ["base", *STAGES]
# On a CPU two models side by side, a core each, are through sooner than one after the other on two cores.
THREADS = 2 if HOST["gpus"] else 1


rule perplexity:
    input:
        model=lambda wildcards: f"{model_folder(wildcards.model)}/manifest.json",
        datasets=test_manifests("perplexity"),
        data=big(*test_files("perplexity")),
    output:
        scores=f"{R}/evaluation/perplexity/{{model}}/scores.json",
        documents=f"{R}/evaluation/perplexity/{{model}}/items.jsonl.zst",
    log:
        f"{R}/logs/evaluation/perplexity/{{model}}.log",
    conda:
        "../envs/stagecraft.yaml"
    threads: THREADS
    resources:
        machine=str(MACHINE),
    params:
        datasets=lambda wildcards, input: str(Path(input.datasets[0]).parents[1]),
        settings=as_json(SUITES["perplexity"]),
        code=fingerprint("scripts.evaluation.perplexity"),
    shell:
        "python -m scripts.hosts.gpus --machine {resources.machine} --count 1"
        " python -m scripts.evaluation.perplexity --model $(dirname {input.model}) --datasets {params.datasets}"
        " --settings {params.settings:q} --out $(dirname {output.scores}) 2>&1 | tee {log}"


# qa and bleu ask the same chats, and differ in what they make of the answers
for suite in [name for name in ("qa", "bleu") if name in SUITES]:

    rule:
        name:
            suite
        input:
            model=lambda wildcards: f"{model_folder(wildcards.model)}/manifest.json",
            datasets=test_manifests(suite),
            data=big(*test_files(suite)),
        output:
            scores=f"{R}/evaluation/{suite}/{{model}}/scores.json",
            documents=f"{R}/evaluation/{suite}/{{model}}/items.jsonl.zst",
        log:
            f"{R}/logs/evaluation/{suite}/{{model}}.log",
        conda:
            "../envs/stagecraft.yaml"
        threads: THREADS
        resources:
            machine=str(MACHINE),
            engine=engine(suite),
        params:
            datasets=lambda wildcards, input: str(Path(input.datasets[0]).parents[1]),
            settings=as_json(SUITES[suite] | {"seed": EXPERIMENT["seed"]}),
            code=fingerprint(f"scripts.evaluation.{suite}"),
        shell:
            "python -m scripts.hosts.gpus --machine {resources.machine} --count 1"
            " python -m scripts.evaluation.{rule} --model $(dirname {input.model}) --datasets {params.datasets}"
            " --settings {params.settings:q} {resources.engine} --out $(dirname {output.scores}) 2>&1 | tee {log}"


if "keywords" in SUITES:

    rule keywords:
        input:
            model=lambda wildcards: f"{model_folder(wildcards.model)}/manifest.json",
            cases=SUITES["keywords"]["cases"],
        output:
            scores=f"{R}/evaluation/keywords/{{model}}/scores.json",
            documents=f"{R}/evaluation/keywords/{{model}}/items.jsonl.zst",
        log:
            f"{R}/logs/evaluation/keywords/{{model}}.log",
        conda:
            "../envs/stagecraft.yaml"
        threads: THREADS
        resources:
            machine=str(MACHINE),
            engine=engine("keywords"),
        params:
            settings=as_json(SUITES["keywords"] | {"seed": EXPERIMENT["seed"]}),
            code=fingerprint("scripts.evaluation.keywords"),
        shell:
            "python -m scripts.hosts.gpus --machine {resources.machine} --count 1"
            " python -m scripts.evaluation.keywords --model $(dirname {input.model})"
            " --settings {params.settings:q} {resources.engine} --out $(dirname {output.scores}) 2>&1 | tee {log}"


if "code" in SUITES:

    rule problems:
        output:
            problems=f"{R}/evaluation/problems/{{file}}",
        log:
            f"{R}/logs/evaluation/problems/{{file}}.log",
        wildcard_constraints:
            file=only(re.escape(name) for name in PINNED),
        conda:
            "../envs/stagecraft.yaml"
        resources:
            network=1,
        params:
            settings=lambda wildcards: as_json({key: PINNED[wildcards.file][key] for key in ("git", "commit", "path")}),
            code=fingerprint("scripts.evaluation.problems"),
        shell:
            "python -m scripts.evaluation.problems --settings {params.settings:q} --out {output.problems} 2>&1 | tee {log}"

    rule code:
        input:
            model=lambda wildcards: f"{model_folder(wildcards.model)}/manifest.json",
            benchmarks=[benchmark["path"] for benchmark in SUITES["code"]["benchmarks"]],
        output:
            scores=f"{R}/evaluation/code/{{model}}/scores.json",
            documents=f"{R}/evaluation/code/{{model}}/items.jsonl.zst",
        log:
            f"{R}/logs/evaluation/code/{{model}}.log",
        conda:
            "../envs/stagecraft.yaml"
        threads: 2
        resources:
            machine=str(MACHINE),
            engine=engine("code"),
        params:
            settings=as_json(SUITES["code"] | {"seed": EXPERIMENT["seed"]}),
            code=fingerprint("scripts.evaluation.code"),
        shell:
            "python -m scripts.hosts.gpus --machine {resources.machine} --count 1"
            " python -m scripts.evaluation.code --model $(dirname {input.model}) --settings {params.settings:q} {resources.engine}"
            " --out $(dirname {output.scores}) 2>&1 | tee {log}"


if "latency" in SUITES:

    rule latency:
        input:
            model=lambda wildcards: f"{model_folder(wildcards.model)}/manifest.json",
        output:
            scores=f"{R}/evaluation/latency/{{model}}/scores.json",
            runs=f"{R}/evaluation/latency/{{model}}/items.jsonl.zst",
        log:
            f"{R}/logs/evaluation/latency/{{model}}.log",
        conda:
            "../envs/stagecraft.yaml"
        # nothing beside it while it is timed: here it takes all cores, on Slurm the profile asks for a whole node
        threads: 8 if default_resource("slurm_partition") else workflow.cores
        resources:
            machine=str(MACHINE),
        params:
            settings=as_json(SUITES["latency"] | {"seed": EXPERIMENT["seed"]}),
            code=fingerprint("scripts.evaluation.latency"),
        shell:
            "python -m scripts.hosts.gpus --machine {resources.machine} --count 1"
            " python -m scripts.evaluation.latency --model $(dirname {input.model}) --settings {params.settings:q}"
            " --out $(dirname {output.scores}) 2>&1 | tee {log}"


if "human" in SUITES:

    # written whether or not anybody fills it; what is filled changes nothing here
    rule sheet:
        input:
            scores=expand(
                f"{R}/evaluation/{SUITES['human']['of']}/{{model}}/scores.json", model=SUITES["human"]["models"]
            ),
            documents=expand(
                f"{R}/evaluation/{SUITES['human']['of']}/{{model}}/items.jsonl.zst", model=SUITES["human"]["models"]
            ),
            template="scripts/evaluation/templates/sheet.html.j2",
        output:
            sheet=f"{R}/evaluation/sheet/sheet.csv",
            form=f"{R}/evaluation/sheet/sheet.html",
            key=f"{R}/evaluation/sheet/key.json",
        log:
            f"{R}/logs/evaluation/sheet.log",
        localrule: True
        conda:
            "../envs/stagecraft.yaml"
        params:
            suite=lambda wildcards, input: str(Path(input.scores[0]).parents[1]),
            settings=as_json(
                {key: SUITES["human"][key] for key in ("models", "datasets", "samples")} | {"seed": EXPERIMENT["seed"]}
            ),
            code=fingerprint("scripts.evaluation.sheet"),
        shell:
            "python -m scripts.evaluation.sheet --suite {params.suite} --settings {params.settings:q}"
            " --out $(dirname {output.key}) 2>&1 | tee {log}"

    rule human:
        input:
            key=f"{R}/evaluation/sheet/key.json",
            sheets=SUITES["human"]["sheets"],
        output:
            agreement=f"{R}/evaluation/human/agreement.json",
            scores=expand(
                f"{R}/evaluation/human/{{model}}/{{file}}",
                model=SUITES["human"]["models"] if SUITES["human"]["sheets"] else [],
                file=["scores.json", "items.jsonl.zst"],
            ),
        log:
            f"{R}/logs/evaluation/human.log",
        localrule: True
        conda:
            "../envs/stagecraft.yaml"
        params:
            code=fingerprint("scripts.evaluation.human"),
        shell:
            "python -m scripts.evaluation.human --key {input.key} --sheets {input.sheets:q}"
            " --out $(dirname {output.agreement}) 2>&1 | tee {log}"


if PROBLEMS:
    TRAINED_ON = sorted({stage["data"] for stage in STAGES.values()})
    PROMPT_DATASETS = sorted({dataset for prompts in PROBLEMS.values() for dataset in prompts.get("datasets", [])})

    rule contamination:
        input:
            manifests=[
                f"{R}/corpus/compose/{dataset}/manifest.json" for dataset in sorted({*TRAINED_ON, *PROMPT_DATASETS})
            ],
            train=big(*(f"{R}/corpus/compose/{dataset}/train.jsonl.zst" for dataset in TRAINED_ON)),
            test=big(*(f"{R}/corpus/compose/{dataset}/test.jsonl.zst" for dataset in PROMPT_DATASETS)),
            files=[file for suite in PROBLEMS for file in problem_files(SUITE_SETTINGS[suite])],
        output:
            overlaps=f"{R}/evaluation/contamination/overlaps.json",
        log:
            f"{R}/logs/evaluation/contamination.log",
        conda:
            "../envs/stagecraft.yaml"
        params:
            datasets=lambda wildcards, input: str(Path(input.manifests[0]).parents[1]),
            train=TRAINED_ON,
            settings=as_json(EXPERIMENT["evaluation"]["contamination"] | {"suites": PROBLEMS}),
            code=fingerprint("scripts.evaluation.contamination"),
        shell:
            "python -m scripts.evaluation.contamination --datasets {params.datasets} --train {params.train}"
            " --settings {params.settings:q} --out {output.overlaps} 2>&1 | tee {log}"


rule gate:
    input:
        scores=suite_files("scores.json"),
        documents=suite_files("items.jsonl.zst"),
        human=f"{R}/evaluation/human/agreement.json" if "human" in SUITES else [],
        overlaps=f"{R}/evaluation/contamination/overlaps.json" if PROBLEMS else [],
        stages=expand(f"{R}/training/train/{{stage}}/{{file}}.json", stage=STAGES, file=["summary", "environment"]),
        # what eval.json names as having made it
        archives=expand("data/raw/{source}.json", source=SOURCES),
        filtered=expand(f"{R}/corpus/filter/{{source}}/manifest.json", source=SOURCES),
        corpus=expand(f"{R}/corpus/{{rule}}/manifest.json", rule=["deduplicate", "split"] if SOURCES else []),
        datasets=expand(f"{R}/corpus/compose/{{dataset}}/manifest.json", dataset=DATASETS),
        tokenizer=f"{R}/tokens/tokenizer/manifest.json",
        shards=[shards(stage) for stage in STAGES],
        models=[f"{model_folder(model)}/manifest.json" for model in MODELS],
    output:
        evaluation=f"{R}/evaluation/gate/eval.json",
    log:
        f"{R}/logs/evaluation/gate.log",
    conda:
        "../envs/stagecraft.yaml"
    params:
        experiment=as_json({key: value for key, value in EXPERIMENT.items() if key != "report"}),
        sources=as_json({name: source.model_dump() for name, source in SOURCES.items()}),
        codes=as_json(CODES),
        code=fingerprint("scripts.evaluation.gate"),
    shell:
        "python -m scripts.evaluation.gate --experiment {params.experiment:q} --sources {params.sources:q}"
        " --codes {params.codes:q} --out {output.evaluation} 2>&1 | tee {log}"
