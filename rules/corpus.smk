# Archives → filtered, deduplicated, split, composed JSON lines. Rules depend on manifests, big files are `ancient`.

from scripts.corpus.formats.record_readers import files_of


rule filter:
    input:
        manifest="data/raw/{source}.json",
        archive=big("data/raw/{source}.tar.zst"),
    output:
        manifest=f"{R}/corpus/filter/{{source}}/manifest.json",
        documents=f"{R}/corpus/filter/{{source}}/documents.jsonl.zst",
        rejects=f"{R}/corpus/filter/{{source}}/rejects.jsonl.zst",
    log:
        f"{R}/logs/corpus/filter/{{source}}.log",
    conda:
        "../envs/stagecraft.yaml"
    params:
        licence=lambda wildcards: SOURCES[wildcards.source].licence,
        settings=as_json(EXPERIMENT["corpus"]["filter"]),
        code=fingerprint("scripts.corpus.filter"),
    shell:
        "python -m scripts.corpus.filter --archive {input.archive} --source {wildcards.source}"
        " --licence {params.licence:q} --settings {params.settings:q} --out $(dirname {output.manifest}) 2>&1 | tee {log}"


rule deduplicate:
    input:
        manifests=expand(f"{R}/corpus/filter/{{source}}/manifest.json", source=SOURCES),
        documents=big(*expand(f"{R}/corpus/filter/{{source}}/documents.jsonl.zst", source=SOURCES)),
    output:
        manifest=f"{R}/corpus/deduplicate/manifest.json",
        documents=f"{R}/corpus/deduplicate/documents.jsonl.zst",
        rejects=f"{R}/corpus/deduplicate/rejects.jsonl.zst",
    log:
        f"{R}/logs/corpus/deduplicate.log",
    conda:
        "../envs/stagecraft.yaml"
    params:
        # exact duplicates are kept in the first source in this order: high priority first, then by name
        sources=lambda wildcards: sorted(SOURCES, key=lambda name: (SOURCES[name].priority != "high", name)),
        filtered=lambda wildcards, input: str(Path(input.manifests[0]).parents[1]),
        code=fingerprint("scripts.corpus.deduplicate"),
    shell:
        "python -m scripts.corpus.deduplicate --filtered {params.filtered} --sources {params.sources}"
        " --out $(dirname {output.manifest}) 2>&1 | tee {log}"


rule split:
    input:
        manifest=f"{R}/corpus/deduplicate/manifest.json",
        documents=big(f"{R}/corpus/deduplicate/documents.jsonl.zst"),
    output:
        manifest=f"{R}/corpus/split/manifest.json",
        splits=expand(f"{R}/corpus/split/{{split}}.jsonl.zst", split=SPLITS),
    log:
        f"{R}/logs/corpus/split.log",
    conda:
        "../envs/stagecraft.yaml"
    params:
        settings=as_json(EXPERIMENT["corpus"]["split"]),
        code=fingerprint("scripts.corpus.split"),
    shell:
        "python -m scripts.corpus.split --documents $(dirname {input.manifest})"
        " --settings {params.settings:q} --out $(dirname {output.manifest}) 2>&1 | tee {log}"


# A dataset of chats or texts of the user's own reads these files instead of the split documents.
try:
    OWN_FILES = {
        name: [str(path) for path in files_of(Path(DATASETS[name]["path"]))] if "path" in DATASETS[name] else []
        for name in EXTERNAL
    }
except UserError as error:
    sys.exit(f"error: {error}")


rule compose:
    input:
        manifest=lambda wildcards: [] if wildcards.dataset in EXTERNAL else f"{R}/corpus/split/manifest.json",
        splits=lambda wildcards: (
            []
            if wildcards.dataset in EXTERNAL
            else big(*expand(f"{R}/corpus/split/{{split}}.jsonl.zst", split=SPLITS))
        ),
        own=lambda wildcards: OWN_FILES.get(wildcards.dataset, []),
    output:
        manifest=f"{R}/corpus/compose/{{dataset}}/manifest.json",
        splits=expand(f"{R}/corpus/compose/{{{{dataset}}}}/{{split}}.jsonl.zst", split=SPLITS),
    log:
        f"{R}/logs/corpus/compose/{{dataset}}.log",
    conda:
        "../envs/stagecraft.yaml"
    params:
        splits=lambda wildcards, input: f"--splits {Path(input.manifest).parent}" if input.manifest else "",
        settings=lambda wildcards: as_json(DATASETS[wildcards.dataset]),
        seed=EXPERIMENT["seed"],
        code=fingerprint("scripts.corpus.compose"),
    shell:
        "python -m scripts.corpus.compose {params.splits}"
        " --settings {params.settings:q} --seed {params.seed} --out $(dirname {output.manifest}) 2>&1 | tee {log}"
