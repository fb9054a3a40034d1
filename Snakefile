# stagecraft: raw code repositories to an evaluated code model. Everything:
#
#     snakemake --profile local results/own-code/eval.json

from snakemake.utils import min_version

min_version("9.27")


report: "rules/captions/workflow.rst"


include: "rules/common.smk"
include: "rules/sources.smk"
include: "rules/corpus.smk"
include: "rules/tokens.smk"
include: "rules/training.smk"
include: "rules/evaluation.smk"
include: "rules/report.smk"
include: "rules/release.smk"


from scripts.experiment.reruns.causes import record_codes, rule_modules
from scripts.experiment.load import check_owner
from scripts.hosts.invocation import check_targets
from scripts.hosts.job_graph import write_when_built


# Seconds each, or in need of a network: on a cluster they run beside Snakemake itself.
localrules:
    all,
    data,
    cards,
    pull,
    fetch,
    plans,
    plan,
    gate,
    page,
    verdict,


rule all:
    default_target: True
    input:
        [PATHS.evaluation, PATHS.page, PATHS.scores],


# Everything up to the shards. Run it alone after a change to filters or sources: where the shards come out
# identical, the next `results/eval.json` trains nothing.
rule data:
    input:
        PATHS.cards / "cards.json",
        [folder / MANIFEST for folder in VIEW.rows.folders()],


# What each stage will take in steps, tokens and memory, before it is queued.
rule plans:
    input:
        [PATHS.plan(stage) for stage in VIEW.stages],


if INVOCATION:
    try:
        check_targets(workflow, INVOCATION.targets)
        check_owner(EXPERIMENT, claim=INVOCATION.runs_jobs)
        write_when_built(workflow)
        if INVOCATION.runs_jobs:
            record_codes(rule_modules(), PATHS.code_records)  # by which `stagecraft why` names what changed since
    except UserError as error:
        sys.exit(f"error: {error}")
