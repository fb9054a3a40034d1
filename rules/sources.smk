# Pinned repositories → data/raw/{source}.tar.zst and its manifest. Where a DVC pointer is committed, it wins.

PULLED = [name for name in SOURCES if Path(f"data/raw/{name}.tar.zst.dvc").is_file()]
FETCHED = [name for name in SOURCES if name not in PULLED]


rule pull:
    input:
        pointer="data/raw/{source}.tar.zst.dvc",
    output:
        archive="data/raw/{source}.tar.zst",
        manifest="data/raw/{source}.json",
    log:
        "logs/sources/pull/{source}.log",
    wildcard_constraints:
        source=only(PULLED),
    conda:
        "../envs/stagecraft.yaml"
    resources:
        # the first of these jobs to come fetches what all need in one DVC call; no param, as it decides nothing else
        archives=" ".join(PULLED),
    params:
        code=fingerprint("scripts.sources.pull"),
    shell:
        "python -m scripts.sources.pull --source {wildcards.source:q} --all {resources.archives} 2>&1 | tee {log:q}"


rule fetch:
    output:
        archive="data/raw/{source}.tar.zst",
        manifest="data/raw/{source}.json",
    log:
        "logs/sources/fetch/{source}.log",
    wildcard_constraints:
        source=only(FETCHED),
    conda:
        "../envs/stagecraft.yaml"
    resources:
        network=1,
    params:
        source=lambda wildcards: as_json(
            SOURCES[wildcards.source].model_dump(include={"name", "kind", "location", "pin"})
        ),
        settings=to_json(EXPERIMENT.sources.fetch) if EXPERIMENT.sources else "",
        code=fingerprint("scripts.sources.fetch"),
    shell:
        "python -m scripts.sources.fetch --source {params.source:q} --settings {params.settings:q}"
        " --archive {output.archive:q} 2>&1 | tee {log:q}"
