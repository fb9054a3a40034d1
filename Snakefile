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


from scripts.experiment.code_records import record_codes, rule_modules
from scripts.hosts.invocation import check_targets


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
        L.evaluation,
        L.page,
        L.scores,


# Everything up to the shards. Run it alone after a change to filters or sources: where the shards come out
# identical, the next `results/eval.json` trains nothing.
rule data:
    input:
        [FLOW.shards(stage) / MANIFEST for stage in FLOW.stages],


# What each stage will take in steps, tokens and memory, before it is queued.
rule plans:
    input:
        [L.plan(stage) for stage in FLOW.stages],


if CALL:
    try:
        check_targets(workflow, CALL.targets)
        if CALL.runs_jobs:
            record_codes(rule_modules())  # by which `make why` names what changed since
    except UserError as error:
        sys.exit(f"error: {error}")
