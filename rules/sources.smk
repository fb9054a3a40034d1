# Pinned repositories → an archive and its manifest in data/raw. Where DVC pointers are committed, they win. An archive has
# its pin in its name: another pin is another file, for which no pointer stands. A job fetches a shard of the sources: one
# source up to 512, some dozens of more, whose archives no rule declares.

from scripts.experiment.layout import FIRST_COMMITS, is_published, raw_manifest

PULLED = [name for name in SOURCE_FILES.fetch_shards if is_published(name)]
ONE_ARCHIVE = {"archive": raw_archive("{shard}"), "manifest": raw_manifest("{shard}")}


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
        archives=by_file("--names", *PULLED),
    params:
        kind=lambda wildcards: SOURCES[SOURCE_FILES.fetch_shards[wildcards.archive][0]].kind,
        pin=lambda wildcards: SOURCES[SOURCE_FILES.fetch_shards[wildcards.archive][0]].pin,
        code=fingerprint("scripts.sources.pull"),
    shell:
        "python -m scripts.sources.pull --name {wildcards.archive:q} --kind {params.kind:q} --pin {params.pin:q}"
        " {resources.archives:q} 2>&1 | tee {log:q}"


rule fetch:
    output:
        **(ONE_ARCHIVE if SOURCE_FILES.one_by_one else {"manifest": PATHS.fetched("{shard}") / MANIFEST}),
    log:
        PATHS.log("sources", "fetch", "{shard}"),
    wildcard_constraints:
        shard=one_of([name for name in SOURCE_FILES.fetch_shards if name not in PULLED]),
    conda:
        "../envs/stagecraft.yaml"
    resources:
        network=1,
        # no params: the pin alone decides the content, so the same pin at another location reruns nothing
        locations=lambda wildcards: by_file(
            "--locations", *SOURCE_FILES.locations(SOURCE_FILES.fetch_shards[wildcards.shard])
        ),
    params:
        sources=lambda wildcards: by_file("--sources", *SOURCE_FILES.pins(SOURCE_FILES.fetch_shards[wildcards.shard])),
        shard=[] if SOURCE_FILES.one_by_one else ["--shard", str(PATHS.fetched("{shard}"))],
        code=fingerprint("scripts.sources.fetch"),
    shell:
        "python -m scripts.sources.fetch {params.sources:q} {resources.locations:q} {params.shard:q} 2>&1 | tee {log:q}"


# Only for a split by time, as archives hold no history.
if VIEW.dated_sources:

    rule history:
        output:
            manifest=PATHS.history("{shard}") / MANIFEST,
            commits=SOURCE_FILES.declared(PATHS.history("{shard}") / FIRST_COMMITS),
        log:
            PATHS.log("sources", "history", "{shard}"),
        wildcard_constraints:
            shard=one_of(SOURCE_FILES.shards_of(VIEW.dated_sources)),
        localrule: True
        conda:
            "../envs/stagecraft.yaml"
        resources:
            network=1,
            locations=lambda wildcards: by_file(
                "--locations", *SOURCE_FILES.locations(SOURCE_FILES.shards[wildcards.shard])
            ),
        params:
            sources=lambda wildcards: by_file("--sources", *SOURCE_FILES.pins(SOURCE_FILES.shards[wildcards.shard])),
            history=lambda wildcards: str(PATHS.history("x").parent),
            shard=[] if SOURCE_FILES.one_by_one else ["--shard", str(PATHS.history("{shard}"))],
            code=fingerprint("scripts.sources.history"),
        shell:
            "python -m scripts.sources.history {params.sources:q} {resources.locations:q}"
            " --code {params.code:q} --history {params.history:q} {params.shard:q}"
            " 2>&1 | tee {log:q}"
