# Scores, training metrics and funnels → pictures, results/report.html and report.md, results/scores.csv, and, last,
# results/eval.json.

PICTURES = ["gates", "scores", "loss", "funnel"]
CHAT_DATASETS = [name for name in SUITES["perplexity"]["datasets"] if DATASETS[name]["kind"] in CHATS]


rule plots:
    input:
        evaluation=f"{R}/evaluation/gate/eval.json",
        filtered=expand(f"{R}/corpus/filter/{{source}}/manifest.json", source=SOURCES),
        deduplicated=f"{R}/corpus/deduplicate/manifest.json" if SOURCES else [],
        splits=f"{R}/corpus/split/manifest.json" if SOURCES else [],
        metrics=expand(f"{R}/training/train/{{stage}}/metrics.jsonl", stage=STAGES),
    output:
        gates=report(f"{R}/report/plots/gates.svg", caption="captions/gates.rst", category="Evaluation"),
        scores=report(f"{R}/report/plots/scores.svg", caption="captions/scores.rst", category="Evaluation"),
        loss=report(f"{R}/report/plots/loss.svg", caption="captions/loss.rst", category="Training"),
        funnel=report(f"{R}/report/plots/funnel.svg", caption="captions/funnel.rst", category="Data"),
    log:
        f"{R}/logs/report/plots.log",
    conda:
        "../envs/stagecraft.yaml"
    params:
        results=lambda wildcards, output: str(Path(output.gates).parents[2]),
        code=fingerprint("scripts.report.plots"),
    shell:
        "python -m scripts.report.plots --results {params.results} --out $(dirname {output.gates}) 2>&1 | tee {log}"


rule page:
    input:
        evaluation=f"{R}/evaluation/gate/eval.json",
        pictures=expand(f"{R}/report/plots/{{name}}.svg", name=PICTURES),
        documents=suite_files("items.jsonl.zst"),
        filtered=expand(f"{R}/corpus/filter/{{source}}/manifest.json", source=SOURCES),
        deduplicated=f"{R}/corpus/deduplicate/manifest.json" if SOURCES else [],
        splits=f"{R}/corpus/split/manifest.json" if SOURCES else [],
        chats=big(*expand(f"{R}/corpus/compose/{{dataset}}/test.jsonl.zst", dataset=CHAT_DATASETS)),
        templates=["scripts/report/templates/page.html.j2", "scripts/report/templates/report.md.j2"],
    output:
        page=report(f"{R}/report.html", caption="captions/page.rst", category="Evaluation"),
        markdown=f"{R}/report.md",
    log:
        f"{R}/logs/report/page.log",
    conda:
        "../envs/stagecraft.yaml"
    params:
        code=fingerprint("scripts.report.page"),
    shell:
        "python -m scripts.report.page --results $(dirname {output.page}) 2>&1 | tee {log}"


rule scores:
    input:
        evaluation=f"{R}/evaluation/gate/eval.json",
    output:
        table=f"{R}/scores.csv",
    log:
        f"{R}/logs/report/scores.log",
    conda:
        "../envs/stagecraft.yaml"
    params:
        code=fingerprint("scripts.report.scores"),
    shell:
        "python -m scripts.report.scores --results $(dirname {output.table}) 2>&1 | tee {log}"


# A rule of its own, so that a run which an unmet gate fails (evaluation.gate.fail) still keeps scores and page.
rule verdict:
    input:
        evaluation=f"{R}/evaluation/gate/eval.json",
        page=f"{R}/report.html",
        scores=f"{R}/scores.csv",
    output:
        evaluation=f"{R}/eval.json",
    log:
        f"{R}/logs/report/verdict.log",
    retries: 0  # a gate does not change its mind
    conda:
        "../envs/stagecraft.yaml"
    params:
        code=fingerprint("scripts.report.verdict"),
    shell:
        "python -m scripts.report.verdict --results $(dirname {output.evaluation}) 2>&1 | tee {log}"
