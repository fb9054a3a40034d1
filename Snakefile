# stagecraft: raw code repositories to an evaluated code model. Everything:
#
#     snakemake --profile local results/eval.json


include: "rules/common.smk"
include: "rules/sources.smk"
include: "rules/corpus.smk"
include: "rules/tokens.smk"
include: "rules/training.smk"
include: "rules/evaluation.smk"
include: "rules/report.smk"


# Seconds each, or in need of a network: on a cluster they run beside Snakemake itself.
localrules:
    all,
    data,
    plans,
    pull,
    fetch,
    plan,
    gate,
    plots,
    page,
    scores,
    verdict,


rule all:
    default_target: True
    input:
        f"{R}/eval.json",
        f"{R}/report.html",
        f"{R}/scores.csv",


# Everything up to the shards. Run it alone after a change to filters or sources: where the shards come out
# identical, the next `results/eval.json` trains nothing.
rule data:
    input:
        [shards(stage) for stage in STAGES],


# What each stage will take in steps, tokens and memory, before it is queued.
rule plans:
    input:
        expand(f"{R}/training/plan/{{stage}}.json", stage=STAGES),
