# JSON lines → packed, tokenized shards. From scratch the tokenizer is learned from the corpus, else it is the base's.

from functools import partial

from scripts.experiment.layout import PACKED_SPLITS, shard_files
from scripts.tokens.tokenization.base_tokenizer import check_base_tokenizer, small_files

# Say no before a job is queued: a base without a chat template, or without the tokens of fill-in-the-middle, ends here.
# Of a hub model the files are seen once rule `base` is about to run (rules/training.smk).
BASE = EXPERIMENT.training.base


check_tokenizer = partial(
    check_base_tokenizer,
    datasets=VIEW.datasets,
    used=VIEW.trained_on,
    template=BASE.chat_template,
)

try:
    if INVOCATION and Path(BASE.model).is_dir():
        check_tokenizer(Path(BASE.model))
except UserError as error:
    sys.exit(f"error: {error}")


rule tokenizer:
    input:
        manifests=[folder / MANIFEST for folder in VIEW.tokenizer_texts],
        data=ancient_inputs(
            *(
                split_file(folder, "train") if VIEW.scratch else folder / "tokenizer.json"
                for folder in VIEW.tokenizer_texts
            )
        ),
    output:
        manifest=PATHS.tokenizer / MANIFEST,
        tokenizer=PATHS.tokenizer / "tokenizer.json",
    log:
        PATHS.log("tokens", "tokenizer"),
    conda:
        "../envs/stagecraft.yaml"
    params:
        folders=[str(folder) for folder in VIEW.tokenizer_texts],
        # without settings the base's tokenizer is copied
        settings=["--settings", to_json(EXPERIMENT.tokens.tokenizer)] if VIEW.scratch else [],
        out=subpath(output.manifest, parent=True),
        code=fingerprint("scripts.tokens.tokenizer"),
    shell:
        "python -m scripts.tokens.tokenizer --from {params.folders:q}"
        " {params.settings:q} --out {params.out:q} 2>&1 | tee {log:q}"


rule pack:
    input:
        dataset=PATHS.dataset("{dataset}") / MANIFEST,
        tokenizer=PATHS.tokenizer / MANIFEST,
        data=ancient_inputs(
            *(split_file(PATHS.dataset("{dataset}"), split) for split in PACKED_SPLITS),
            PATHS.tokenizer / "tokenizer.json",
        ),
    output:
        manifest=PATHS.shards("{dataset}", "{length}") / MANIFEST,
        shards=shard_files(PATHS.shards("{dataset}", "{length}")),
    log:
        PATHS.log("tokens", "pack", "{dataset}-{length}"),
    conda:
        "../envs/stagecraft.yaml"
    params:
        dataset=subpath(input.dataset, parent=True),
        tokenizer=subpath(input.tokenizer, parent=True),
        out=subpath(output.manifest, parent=True),
        code=fingerprint("scripts.tokens.pack"),
    shell:
        "python -m scripts.tokens.pack --dataset {params.dataset:q} --tokenizer {params.tokenizer:q}"
        " --length {wildcards.length:q} --out {params.out:q} 2>&1 | tee {log:q}"


if EXPERIMENT.tokens.mix:

    rule mix:
        input:
            parts=lambda wildcards: [
                str(PATHS.shards(part, wildcards.length) / MANIFEST)
                for part in VIEW.rows.datasets_of(wildcards.mixture)
            ],
            data=lambda wildcards: ancient_inputs(
                *(
                    file
                    for part in VIEW.rows.datasets_of(wildcards.mixture)
                    for file in shard_files(PATHS.shards(part, wildcards.length))
                )
            ),
        output:
            manifest=PATHS.mixture("{mixture}", "{length}") / MANIFEST,
            shards=shard_files(PATHS.mixture("{mixture}", "{length}")),
        log:
            PATHS.log("tokens", "mix", "{mixture}-{length}"),
        conda:
            "../envs/stagecraft.yaml"
        params:
            parts=lambda wildcards: [
                str(PATHS.shards(part, wildcards.length)) for part in VIEW.rows.datasets_of(wildcards.mixture)
            ],
            settings=lambda wildcards: to_json(EXPERIMENT.tokens.mix[wildcards.mixture]),
            out=subpath(output.manifest, parent=True),
            code=fingerprint("scripts.tokens.mix"),
        shell:
            "python -m scripts.tokens.mix --parts {params.parts:q}"
            " --settings {params.settings:q} --out {params.out:q} 2>&1 | tee {log:q}"
