# JSON lines → packed, tokenized shards. From scratch the tokenizer is learned from the corpus, else it is the base's.

if not SCRATCH:
    WORDS = [f"{R}/training/base"]
elif SOURCES:
    WORDS = [f"{R}/corpus/split"]
else:
    WORDS = [f"{R}/corpus/compose/{dataset}" for dataset in DATASETS]


rule tokenizer:
    input:
        manifests=[f"{folder}/manifest.json" for folder in WORDS],
        data=big(*[f"{folder}/{'train.jsonl.zst' if SCRATCH else 'tokenizer.json'}" for folder in WORDS]),
    output:
        manifest=f"{R}/tokens/tokenizer/manifest.json",
        tokenizer=f"{R}/tokens/tokenizer/tokenizer.json",
    log:
        f"{R}/logs/tokens/tokenizer.log",
    conda:
        "../envs/stagecraft.yaml"
    params:
        folders=WORDS,
        # without settings the base's tokenizer is copied
        settings=["--settings", as_json(EXPERIMENT["tokens"]["tokenizer"])] if SCRATCH else [],
        code=fingerprint("scripts.tokens.tokenizer"),
    shell:
        "python -m scripts.tokens.tokenizer --from {params.folders}"
        " {params.settings:q} --out $(dirname {output.manifest}) 2>&1 | tee {log}"


rule pack:
    input:
        dataset=f"{R}/corpus/compose/{{dataset}}/manifest.json",
        tokenizer=f"{R}/tokens/tokenizer/manifest.json",
        data=big(
            *expand(f"{R}/corpus/compose/{{{{dataset}}}}/{{split}}.jsonl.zst", split=SPLITS[:2]),
            f"{R}/tokens/tokenizer/tokenizer.json",
        ),
    output:
        manifest=f"{R}/tokens/pack/{{dataset}}-{{length}}/manifest.json",
        shards=expand(
            f"{R}/tokens/pack/{{{{dataset}}}}-{{{{length}}}}/{{split}}.{{file}}",
            split=SPLITS[:2],
            file=SHARD_FILES,
        ),
    log:
        f"{R}/logs/tokens/pack/{{dataset}}-{{length}}.log",
    conda:
        "../envs/stagecraft.yaml"
    params:
        code=fingerprint("scripts.tokens.pack"),
    shell:
        "python -m scripts.tokens.pack --dataset $(dirname {input.dataset}) --tokenizer $(dirname {input.tokenizer})"
        " --length {wildcards.length} --out $(dirname {output.manifest}) 2>&1 | tee {log}"
