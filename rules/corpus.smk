# Archives → filtered, deduplicated, split, composed JSON lines. Rules depend on manifests, big files are `ancient`.

from scripts.corpus.formats.own_datasets import check_first_chats
from scripts.corpus.formats.record_readers import files_of
from scripts.experiment.layout import SPLITS


# What decides of a source how its archive is filtered. A licence that decides nothing is left to the table, so that a
# changed text there reruns nothing.
rule filter:
    input:
        manifest=lambda wildcards: SOURCE_FILES.fetched(SOURCE_FILES.shards[wildcards.shard]),
        archive=lambda wildcards: ancient_inputs(*SOURCE_FILES.archives(SOURCE_FILES.shards[wildcards.shard])),
        benchmarks=VIEW.decontaminated,
    output:
        manifest=PATHS.filtered("{shard}") / MANIFEST,
        documents=SOURCE_FILES.declared(PATHS.filtered("{shard}") / "documents.jsonl.zst"),
        rejects=SOURCE_FILES.declared(PATHS.filtered("{shard}") / "rejects.jsonl.zst"),
    log:
        PATHS.log("corpus", "filter", "{shard}"),
    wildcard_constraints:
        shard=one_of(SOURCE_FILES.shards),
    conda:
        "../envs/stagecraft.yaml"
    params:
        settings=to_json(EXPERIMENT.corpus.filter),
        sources=lambda wildcards: by_file(
            "--sources",
            *SOURCE_FILES.members(SOURCE_FILES.shards[wildcards.shard], bool(EXPERIMENT.corpus.filter.licences)),
        ),
        benchmarks=["--benchmarks", *VIEW.decontaminated] if VIEW.decontaminated else [],
        filtered=lambda wildcards: str(PATHS.filtered("x").parent),
        shard=[] if SOURCE_FILES.one_by_one else ["--shard", str(PATHS.filtered("{shard}"))],
        code=fingerprint("scripts.corpus.filter"),
    shell:
        "python -m scripts.corpus.filter {params.sources:q} {params.benchmarks:q} --settings {params.settings:q}"
        " --code {params.code:q} --filtered {params.filtered:q} {params.shard:q} 2>&1 | tee {log:q}"


# The folders of the signatures.
SIGNATURES = [PATHS.signatures(shard) for shard in VIEW.source_shards]


rule signatures:
    input:
        manifests=lambda wildcards: SOURCE_FILES.filtered(VIEW.source_shards[wildcards.shard]),
        documents=lambda wildcards: ancient_inputs(*SOURCE_FILES.documents(VIEW.source_shards[wildcards.shard])),
    output:
        manifest=PATHS.signatures("{shard}") / MANIFEST,
        digests=PATHS.signatures("{shard}") / "digests.npy",
        bands=PATHS.signatures("{shard}") / "bands.npy",
    log:
        PATHS.log("corpus", "signatures", "{shard}"),
    conda:
        "../envs/stagecraft.yaml"
    params:
        # of its input, so that no record holds it: it decides nothing
        filtered=lambda wildcards, input: str(Path(input.manifests[0]).parents[1]),
        sources=lambda wildcards: by_file("--sources", *VIEW.source_shards[wildcards.shard]),
        out=subpath(output.manifest, parent=True),
        code=fingerprint("scripts.corpus.signatures"),
    shell:
        "python -m scripts.corpus.signatures --filtered {params.filtered:q} {params.sources:q}"
        " --out {params.out:q} 2>&1 | tee {log:q}"


rule deduplicate:
    input:
        manifests=SOURCE_FILES.filtered(SOURCES),
        signatures=[folder / MANIFEST for folder in SIGNATURES],
        digests=ancient_inputs(*(folder / name for folder in SIGNATURES for name in ("digests.npy", "bands.npy"))),
        documents=ancient_inputs(*SOURCE_FILES.documents(SOURCES)),
    output:
        manifest=PATHS.deduplicated / MANIFEST,
        documents=PATHS.deduplicated / "documents.jsonl.zst",
        rejects=PATHS.deduplicated / "rejects.jsonl.zst",
    log:
        PATHS.log("corpus", "deduplicate"),
    conda:
        "../envs/stagecraft.yaml"
    params:
        # of its input, so that no record holds it: it decides nothing
        filtered=lambda wildcards, input: str(Path(input.manifests[0]).parents[1]),
        sources=by_file("--sources", *VIEW.source_order),
        signatures=list(map(str, SIGNATURES)),
        out=subpath(output.manifest, parent=True),
        code=fingerprint("scripts.corpus.deduplicate"),
    shell:
        "python -m scripts.corpus.deduplicate --filtered {params.filtered:q} {params.sources:q}"
        " --signatures {params.signatures:q} --out {params.out:q} 2>&1 | tee {log:q}"


rule split:
    input:
        manifest=PATHS.deduplicated / MANIFEST,
        documents=ancient_inputs(*(PATHS.deduplicated / name for name in ("documents.jsonl.zst", "rejects.jsonl.zst"))),
        dates=SOURCE_FILES.histories(VIEW.dated_sources),
        commits=ancient_inputs(*SOURCE_FILES.first_commits(VIEW.dated_sources)),
    output:
        manifest=PATHS.split / MANIFEST,
        splits=[split_file(PATHS.split, split) for split in SPLITS],
    log:
        PATHS.log("corpus", "split"),
    conda:
        "../envs/stagecraft.yaml"
    params:
        documents=subpath(input.manifest, parent=True),
        history=["--history", str(PATHS.history("x").parent)] if VIEW.dated_sources else [],
        settings=to_json(EXPERIMENT.corpus.split),
        out=subpath(output.manifest, parent=True),
        code=fingerprint("scripts.corpus.split"),
    shell:
        "python -m scripts.corpus.split --documents {params.documents:q} {params.history:q}"
        " --settings {params.settings:q} --out {params.out:q} 2>&1 | tee {log:q}"


# A dataset of chats or texts of the user's own reads these files instead of the split documents.
try:
    OWN_FILES = {
        name: [str(file) for path in VIEW.datasets[name].paths for file in files_of(path)] for name in VIEW.own_datasets
    }
    for name in VIEW.own_datasets if INVOCATION else []:
        check_first_chats(VIEW.datasets[name])
except UserError as error:
    sys.exit(f"error: {error}")


PARSERS = min(8, workflow.cores or 8)


rule compose:
    input:
        manifest=lambda wildcards: [] if wildcards.dataset in VIEW.own_datasets else str(PATHS.split / MANIFEST),
        splits=lambda wildcards: (
            []
            if wildcards.dataset in VIEW.own_datasets
            else ancient_inputs(*(split_file(PATHS.split, split) for split in SPLITS))
        ),
        own=lambda wildcards: OWN_FILES.get(wildcards.dataset, []),
    output:
        manifest=PATHS.dataset("{dataset}") / MANIFEST,
        splits=[split_file(PATHS.dataset("{dataset}"), split) for split in SPLITS],
    log:
        PATHS.log("corpus", "compose", "{dataset}"),
    conda:
        "../envs/stagecraft.yaml"
    # parsing takes nearly all of the time of chats
    threads: lambda wildcards: PARSERS if VIEW.datasets[wildcards.dataset].kind == "instruct" else 1
    params:
        splits=lambda wildcards: [] if wildcards.dataset in VIEW.own_datasets else ["--splits", str(PATHS.split)],
        settings=lambda wildcards: to_json(VIEW.datasets[wildcards.dataset]),
        seed=EXPERIMENT.seed,
        out=subpath(output.manifest, parent=True),
        code=fingerprint("scripts.corpus.compose"),
    shell:
        "python -m scripts.corpus.compose {params.splits:q}"
        " --settings {params.settings:q} --seed {params.seed:q} --threads {threads} --out {params.out:q} 2>&1 | tee {log:q}"
