# Pinned repositories → an archive and its manifest in data/raw. Where DVC pointers are committed, they win. An archive has
# its pin in its name: another pin is another file, for which no pointer stands. The archives of more than 512 sources are
# made in shards.

from scripts.experiment.layout import FIRST_COMMITS, fetched_shard, history_shard, is_published, raw_manifest

ARCHIVES = {} if SOURCE_FILES.in_shards else {source.raw_name: source for source in SOURCES.values()}
PULLED = [name for name in ARCHIVES if is_published(name)]


rule pull:
    input:
        pointers=[f"{raw_archive('{archive}')}.dvc", f"{raw_manifest('{archive}')}.dvc"],
    output:
        archive=raw_archive("{archive}"),
        manifest=raw_manifest("{archive}"),
    log:
        PATHS.log("sources", "pull", "{archive}"),
    wildcard_constraints:
        archive=one_of(PULLED),
    conda:
        "../envs/stagecraft.yaml"
    resources:
        # the first of these jobs to come fetches what all need in one DVC call; no param, as it decides nothing else
        archives=by_file("--all", *PULLED),
    params:
        kind=lambda wildcards: ARCHIVES[wildcards.archive].kind,
        pin=lambda wildcards: ARCHIVES[wildcards.archive].pin,
        code=fingerprint("scripts.sources.pull"),
    shell:
        "python -m scripts.sources.pull --name {wildcards.archive:q} --kind {params.kind:q} --pin {params.pin:q}"
        " {resources.archives:q} 2>&1 | tee {log:q}"


rule fetch:
    output:
        archive=raw_archive("{archive}"),
        manifest=raw_manifest("{archive}"),
    log:
        PATHS.log("sources", "fetch", "{archive}"),
    wildcard_constraints:
        archive=one_of([name for name in ARCHIVES if name not in PULLED]),
    conda:
        "../envs/stagecraft.yaml"
    resources:
        network=1,
        # no param: the pin alone decides the content, so the same pin at another location reruns nothing
        location=lambda wildcards: ARCHIVES[wildcards.archive].location,
        minutes=str(EXPERIMENT.sources.fetch.max_minutes) if EXPERIMENT.sources else "",
    params:
        source=lambda wildcards: as_json(ARCHIVES[wildcards.archive].model_dump(include={"name", "kind", "pin"})),
        settings=as_json(EXPERIMENT.sources.fetch.model_dump(exclude={"max_minutes"})) if EXPERIMENT.sources else "",
        code=fingerprint("scripts.sources.fetch"),
    shell:
        "python -m scripts.sources.fetch --source {params.source:q} --location={resources.location:q}"
        " --settings {params.settings:q} --max-minutes {resources.minutes:q} --archive {output.archive:q} 2>&1 | tee {log:q}"


if SOURCE_FILES.in_shards:

    rule fetch_shard:
        output:
            manifest=fetched_shard(PATHS, "{shard}") / MANIFEST,
        log:
            PATHS.log("sources", "fetch_shard", "{shard}"),
        conda:
            "../envs/stagecraft.yaml"
        resources:
            network=1,
            # no params, as in rule fetch
            locations=lambda wildcards: by_file(
                "--locations", *(each.location for each in SOURCE_FILES.members(wildcards.shard))
            ),
            minutes=str(EXPERIMENT.sources.fetch.max_minutes),
        params:
            sources=lambda wildcards: by_file(
                "--sources",
                *(as_json(each.model_dump(include={"name", "kind", "pin"})) for each in SOURCE_FILES.members(wildcards.shard)),
            ),
            settings=as_json(EXPERIMENT.sources.fetch.model_dump(exclude={"max_minutes"})),
            out=subpath(output.manifest, parent=True),
            code=fingerprint("scripts.sources.fetch_shard"),
        shell:
            "python -m scripts.sources.fetch_shard {params.sources:q} {resources.locations:q}"
            " --settings {params.settings:q} --max-minutes {resources.minutes:q} --out {params.out:q} 2>&1 | tee {log:q}"


# Only for a split by time, as archives hold no history.
rule history:
    output:
        manifest=PATHS.history("{source}") / MANIFEST,
        commits=PATHS.history("{source}") / FIRST_COMMITS,
    log:
        PATHS.log("sources", "history", "{source}"),
    wildcard_constraints:
        source=one_of([] if SOURCE_FILES.in_shards else VIEW.dated_sources),
    conda:
        "../envs/stagecraft.yaml"
    resources:
        network=1,
        location=lambda wildcards: SOURCES[wildcards.source].location,
        minutes=str(EXPERIMENT.sources.fetch.max_minutes) if EXPERIMENT.sources else "",
    params:
        source=lambda wildcards: as_json(SOURCES[wildcards.source].model_dump(include={"name", "kind", "pin"})),
        out=subpath(output.manifest, parent=True),
        code=fingerprint("scripts.sources.history"),
    shell:
        "python -m scripts.sources.history --source {params.source:q} --location={resources.location:q}"
        " --max-minutes {resources.minutes:q} --out {params.out:q} 2>&1 | tee {log:q}"


if SOURCE_FILES.in_shards:

    rule history_shard:
        output:
            manifest=history_shard(PATHS, "{shard}") / MANIFEST,
        log:
            PATHS.log("sources", "history_shard", "{shard}"),
        conda:
            "../envs/stagecraft.yaml"
        resources:
            network=1,
            locations=lambda wildcards: by_file(
                "--locations", *(each.location for each in SOURCE_FILES.members(wildcards.shard))
            ),
            minutes=str(EXPERIMENT.sources.fetch.max_minutes),
        params:
            sources=lambda wildcards: by_file(
                "--sources",
                *(as_json(each.model_dump(include={"name", "kind", "pin"})) for each in SOURCE_FILES.members(wildcards.shard)),
            ),
            history=lambda wildcards: str(PATHS.history("x").parent),
            out=subpath(output.manifest, parent=True),
            code=fingerprint("scripts.sources.history_shard"),
        shell:
            "python -m scripts.sources.history_shard {params.sources:q} {resources.locations:q}"
            " --max-minutes {resources.minutes:q} --code {params.code:q} --history {params.history:q} --out {params.out:q}"
            " 2>&1 | tee {log:q}"
