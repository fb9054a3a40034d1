# Scores, training metrics and funnels → pictures, results/report.html, and results/eval.json beside it.

PICTURES = {"funnel": "Data", "loss": "Training", "perplexity": "Evaluation", "gates": "Evaluation"}


rule plots:
    input:
        evaluation=f"{R}/evaluation/gate/eval.json",
        filtered=expand(f"{R}/corpus/filter/{{source}}/manifest.json", source=SOURCES),
        deduplicated=f"{R}/corpus/deduplicate/manifest.json",
        metrics=expand(f"{R}/training/train/{{stage}}/metrics.jsonl", stage=STAGES),
    output:
        # written out one by one: `report` wants a caption for each
        **{
            name: report(f"{R}/report/plots/{name}.svg", caption=f"captions/{name}.rst", category=category)
            for name, category in PICTURES.items()
        },
    log:
        f"{R}/logs/report/plots.log",
    conda:
        "../envs/stagecraft.yaml"
    params:
        code=fingerprint("scripts.report.plots"),
    shell:
        "python -m scripts.report.plots --results {R} --out {R}/report/plots 2>&1 | tee {log}"


rule page:
    input:
        evaluation=f"{R}/evaluation/gate/eval.json",
        pictures=expand(f"{R}/report/plots/{{name}}.svg", name=PICTURES),
        items=expand(f"{R}/evaluation/perplexity/{{model}}/items.jsonl.zst", model=MODELS),
        filtered=expand(f"{R}/corpus/filter/{{source}}/manifest.json", source=SOURCES),
    output:
        page=f"{R}/report.html",
        evaluation=f"{R}/eval.json",
    log:
        f"{R}/logs/report/page.log",
    conda:
        "../envs/stagecraft.yaml"
    params:
        code=fingerprint("scripts.report.page"),
    shell:
        "python -m scripts.report.page --results {R} 2>&1 | tee {log}"
