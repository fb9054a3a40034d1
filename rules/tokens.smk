# JSON lines → packed, tokenized shards. From scratch the tokenizer is learned from the corpus, else it is the base's.


rule tokenizer:
    input:
        manifest=f"{R}/corpus/split/manifest.json" if SCRATCH else f"{R}/training/base/manifest.json",
        data=big(f"{R}/corpus/split/train.jsonl.zst" if SCRATCH else f"{R}/training/base/tokenizer.json"),
    output:
        manifest=f"{R}/tokens/tokenizer/manifest.json",
        tokenizer=f"{R}/tokens/tokenizer/tokenizer.json",
    log:
        f"{R}/logs/tokens/tokenizer.log",
    conda:
        "../envs/stagecraft.yaml"
    params:
        settings=as_json(EXPERIMENT["tokens"]["tokenizer"] if SCRATCH else {}),
        code=fingerprint("scripts.tokens.tokenizer"),
    shell:
        "python -m scripts.tokens.tokenizer --from $(dirname {input.manifest})"
        " --settings {params.settings:q} --out $(dirname {output.manifest}) 2>&1 | tee {log}"


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
