# A stage's model → what others get: weights, card, notices, checksums. Only made where it is asked for:
#
#     stagecraft release sft            # or snakemake --profile a40 results/release/sft/manifest.json

if EXPERIMENT.release.gguf:
    try:
        for folder in (PATHS.model("base"), Path(BASE.model)):
            if (folder / "config.json").is_file():
                check_folder(folder)
                break
    except UserError as error:
        sys.exit(f"error: {error}")


rule release:
    input:
        model=lambda wildcards: str(PATHS.model(wildcards.stage) / MANIFEST),
        base=PATHS.model("base") / MANIFEST,
        evaluation=PATHS.evaluation,
        cards=PATHS.cards / "cards.json",
    output:
        manifest=PATHS.release("{stage}") / MANIFEST,
    log:
        PATHS.log("release", "release", "{stage}"),
    conda:
        "../envs/stagecraft.yaml"
    threads: 8 if PROFILE.slurm else workflow.cores
    params:
        model=subpath(input.model, parent=True),
        results=subpath(input.evaluation, parent=True),
        settings=to_json(EXPERIMENT.release),
        out=subpath(output.manifest, parent=True),
        code=fingerprint("scripts.release.release"),
    shell:
        "python -m scripts.release.release --stage {wildcards.stage:q} --model {params.model:q}"
        " --results {params.results:q} --settings {params.settings:q} --out {params.out:q} 2>&1 | tee {log:q}"
