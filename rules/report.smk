# Scores, training metrics and funnels → pictures, results/report.html and report.md, results/scores.csv, and, last,
# results/eval.json.

from scripts.experiment.layout import PICTURES


rule plots:
    input:
        evaluation=L.gate,
        filtered=[L.filtered(source) / MANIFEST for source in SOURCES],
        deduplicated=L.deduplicated / MANIFEST if SOURCES else [],
        splits=L.split / MANIFEST if SOURCES else [],
        metrics=[L.model(stage) / "metrics.jsonl" for stage in FLOW.stages],
    output:
        gates=report(L.picture("gates"), caption="captions/gates.rst", category="Evaluation"),
        scores=report(L.picture("scores"), caption="captions/scores.rst", category="Evaluation"),
        loss=report(L.picture("loss"), caption="captions/loss.rst", category="Training"),
        funnel=report(L.picture("funnel"), caption="captions/funnel.rst", category="Data"),
    log:
        L.log("report", "plots"),
    conda:
        "../envs/stagecraft.yaml"
    params:
        results=subpath(output.gates, ancestor=3),
        out=subpath(output.gates, parent=True),
        code=fingerprint("scripts.report.plots"),
    shell:
        "python -m scripts.report.plots --results {params.results:q} --out {params.out:q} 2>&1 | tee {log:q}"


rule page:
    input:
        evaluation=L.gate,
        pictures=[L.picture(name) for name in PICTURES],
        documents=FLOW.suite_files("items.jsonl.zst"),
        filtered=[L.filtered(source) / MANIFEST for source in SOURCES],
        deduplicated=L.deduplicated / MANIFEST if SOURCES else [],
        splits=L.split / MANIFEST if SOURCES else [],
        chats=big(*(split_file(L.dataset(name), "test") for name in FLOW.chat_datasets)),
        templates=["scripts/report/templates/page.html.j2", "scripts/report/templates/report.md.j2"],
    output:
        page=report(L.page, caption="captions/page.rst", category="Evaluation"),
        markdown=L.markdown,
    log:
        L.log("report", "page"),
    conda:
        "../envs/stagecraft.yaml"
    params:
        results=subpath(output.page, parent=True),
        code=fingerprint("scripts.report.page"),
    shell:
        "python -m scripts.report.page --results {params.results:q} 2>&1 | tee {log:q}"


rule scores:
    input:
        evaluation=L.gate,
    output:
        table=L.scores,
    log:
        L.log("report", "scores"),
    conda:
        "../envs/stagecraft.yaml"
    params:
        results=subpath(output.table, parent=True),
        code=fingerprint("scripts.report.scores"),
    shell:
        "python -m scripts.report.scores --results {params.results:q} 2>&1 | tee {log:q}"


# A rule of its own, so that a run which an unmet gate fails (evaluation.gate.fail) still keeps scores and page.
rule verdict:
    input:
        evaluation=L.gate,
        page=L.page,
        scores=L.scores,
    output:
        evaluation=L.evaluation,
    log:
        L.log("report", "verdict"),
    retries: 0  # a gate does not change its mind
    conda:
        "../envs/stagecraft.yaml"
    params:
        results=subpath(output.evaluation, parent=True),
        code=fingerprint("scripts.report.verdict"),
    shell:
        "python -m scripts.report.verdict --results {params.results:q} 2>&1 | tee {log:q}"
