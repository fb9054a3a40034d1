# Datasets → their cards; scores, training metrics and funnels → results/report.html, results/scores.csv, and, last,
# results/eval.json.

from scripts.experiment.shards import PackedRows

ROWS = PackedRows(EXPERIMENT, PATHS)


rule cards:
    input:
        datasets=[PATHS.dataset(name) / MANIFEST for name in EXPERIMENT.corpus.compose],
        train=ancient_inputs(*(split_file(PATHS.dataset(name), "train") for name in EXPERIMENT.corpus.compose)),
        rows=[folder / MANIFEST for folder in (*ROWS.packed(), *ROWS.mixed())],
        filtered=SOURCE_FILES.filtered(SOURCES),
        corpus=[PATHS.deduplicated / MANIFEST, PATHS.split / MANIFEST] if SOURCES else [],
    output:
        cards=PATHS.cards / "cards.json",
        pages=[PATHS.cards / f"{name}.md" for name in EXPERIMENT.corpus.compose],
    log:
        PATHS.log("report", "cards"),
    conda:
        "../envs/stagecraft.yaml"
    params:
        given=by_file(
            *("--settings", as_json({"experiment": EXPERIMENT.experiment, **ROWS.card_settings()})),
            *("--sources", as_json({name: source.model_dump() for name, source in SOURCES.items()})),
        ),
        results=subpath(output.cards, ancestor=3),
        out=subpath(output.cards, parent=True),
        code=fingerprint("scripts.report.cards"),
    shell:
        "python -m scripts.report.cards --results {params.results:q} {params.given:q} --out {params.out:q} 2>&1 | tee {log:q}"


rule page:
    input:
        evaluation=PATHS.gate,
        metrics=[PATHS.model(stage) / "metrics.jsonl" for stage in EXPERIMENT.training.train],
        documents=VIEW.suite_files("items.jsonl.zst"),
        filtered=SOURCE_FILES.filtered(SOURCES),
        deduplicated=PATHS.deduplicated / MANIFEST if SOURCES else [],
        splits=PATHS.split / MANIFEST if SOURCES else [],
        cards=PATHS.cards / "cards.json",  # to which the page has a link
        template="scripts/report/content/page.html.j2",
    output:
        page=report(PATHS.page, caption="captions/page.rst", category="Evaluation"),
        scores=PATHS.scores,
    log:
        PATHS.log("report", "page"),
    conda:
        "../envs/stagecraft.yaml"
    params:
        results=subpath(output.page, parent=True),
        code=fingerprint("scripts.report.page"),
    shell:
        "python -m scripts.report.page --results {params.results:q} 2>&1 | tee {log:q}"


# A rule of its own, so that a run which an unmet gate fails (evaluation.gate.fail) still keeps scores and page.
rule verdict:
    input:
        evaluation=PATHS.gate,
        page=PATHS.page,
        scores=PATHS.scores,
    output:
        evaluation=PATHS.evaluation,
    log:
        PATHS.log("report", "verdict"),
    retries: 0  # a gate does not change its mind
    conda:
        "../envs/stagecraft.yaml"
    params:
        results=subpath(output.evaluation, parent=True),
        code=fingerprint("scripts.report.verdict"),
    shell:
        "python -m scripts.report.verdict --results {params.results:q} 2>&1 | tee {log:q}"
