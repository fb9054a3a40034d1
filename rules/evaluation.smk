# Model × suite → scores, then the gates over all of them.

MODELS = ["base", *STAGES]


rule perplexity:
    input:
        model=lambda wildcards: f"{model_folder(wildcards.model)}/manifest.json",
        datasets=expand(
            f"{R}/corpus/compose/{{dataset}}/manifest.json", dataset=EXPERIMENT["evaluation"]["perplexity"]["datasets"]
        ),
        data=big(
            *expand(
                f"{R}/corpus/compose/{{dataset}}/test.jsonl.zst",
                dataset=EXPERIMENT["evaluation"]["perplexity"]["datasets"],
            )
        ),
    output:
        scores=f"{R}/evaluation/perplexity/{{model}}/scores.json",
        documents=f"{R}/evaluation/perplexity/{{model}}/items.jsonl.zst",
    log:
        f"{R}/logs/evaluation/perplexity/{{model}}.log",
    conda:
        "../envs/stagecraft.yaml"
    threads: 2
    params:
        datasets=lambda wildcards, input: str(Path(input.datasets[0]).parents[1]),
        settings=as_json(EXPERIMENT["evaluation"]["perplexity"]),
        code=fingerprint("scripts.evaluation.perplexity"),
    shell:
        "python -m scripts.evaluation.perplexity --model $(dirname {input.model}) --datasets {params.datasets}"
        " --settings {params.settings:q} --out $(dirname {output.scores}) 2>&1 | tee {log}"


rule gate:
    input:
        scores=expand(f"{R}/evaluation/perplexity/{{model}}/scores.json", model=MODELS),
        documents=expand(f"{R}/evaluation/perplexity/{{model}}/items.jsonl.zst", model=MODELS),
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
        sources=as_json(SOURCES),
        codes=as_json(CODES),
        code=fingerprint("scripts.evaluation.gate"),
    shell:
        "python -m scripts.evaluation.gate --experiment {params.experiment:q} --sources {params.sources:q}"
        " --codes {params.codes:q} --out {output.evaluation} 2>&1 | tee {log}"
