# JSON lines → packed, tokenized shards. From scratch the tokenizer is learned from the corpus, else it is the base's.

from functools import partial

from scripts.tokens.packing.base_tokenizer import check_base_tokenizer, small_files

# Say no before a job is queued: a base without a chat template, or without the tokens of fill-in-the-middle, ends here.
# Of a hub model the files are seen once rule `base` is about to run (rules/training.smk).
BASE = EXPERIMENT.training.base


check_tokenizer = partial(
    check_base_tokenizer,
    datasets=EXPERIMENT.corpus.compose,
    used=FLOW.trained_on,
    template=BASE.chat_template,
)

try:
    if CALL and Path(BASE.model).is_dir():
        check_tokenizer(Path(BASE.model))
except UserError as error:
    sys.exit(f"error: {error}")


rule tokenizer:
    input:
        manifests=[folder / MANIFEST for folder in FLOW.tokenizer_texts],
        data=big(
            *(
                split_file(folder, "train") if FLOW.scratch else folder / "tokenizer.json"
                for folder in FLOW.tokenizer_texts
            )
        ),
    output:
        manifest=L.tokenizer / MANIFEST,
        tokenizer=L.tokenizer / "tokenizer.json",
    log:
        L.log("tokens", "tokenizer"),
    conda:
        "../envs/stagecraft.yaml"
    params:
        folders=[str(folder) for folder in FLOW.tokenizer_texts],
        # without settings the base's tokenizer is copied
        settings=["--settings", to_json(EXPERIMENT.tokens.tokenizer)] if FLOW.scratch else [],
        out=subpath(output.manifest, parent=True),
        code=fingerprint("scripts.tokens.tokenizer"),
    shell:
        "python -m scripts.tokens.tokenizer --from {params.folders:q}"
        " {params.settings:q} --out {params.out:q} 2>&1 | tee {log:q}"


rule pack:
    input:
        dataset=L.dataset("{dataset}") / MANIFEST,
        tokenizer=L.tokenizer / MANIFEST,
        data=big(
            *(split_file(L.dataset("{dataset}"), split) for split in PACKED_SPLITS), L.tokenizer / "tokenizer.json"
        ),
    output:
        manifest=L.shards("{dataset}", "{length}") / MANIFEST,
        shards=shard_files(L.shards("{dataset}", "{length}")),
    log:
        L.log("tokens", "pack", "{dataset}-{length}"),
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
