# Shards → one model folder per stage. The machine file only says where: it is no param, so it reruns nothing.

from scripts.training.model.nope import expand as layers_of
from scripts.training.plan import plan as plan_stage

BASE = EXPERIMENT["training"]["base"]
# how the stages are watched; like the machine it is no param
MONITORING = Path(f"config/monitoring/{EXPERIMENT['monitoring']}.yaml")
# the content of a base folder decides; a hub model is pinned by its revision
BASE_FILES = sorted(str(path) for path in Path(BASE["model"]).glob("*") if path.is_file()) if not SCRATCH else []

if SHAPE and SCRATCH:
    SHAPE = {**SHAPE, "vocab_size": EXPERIMENT["tokens"]["tokenizer"]["vocab_size"]}

# Say no before a job is queued: a layer that is not there, or a stage whose model states cannot fit, ends here.
try:
    load_monitoring(MONITORING)
    if SHAPE:
        layers_of(BASE["no_rope_layers"], SHAPE["num_hidden_layers"])
    for stage in STAGES:
        plan_stage(stage, STAGES[stage], SHAPE, HOST)
except UserError as error:
    sys.exit(f"error: {error}")


rule base:
    input:
        f"{R}/tokens/tokenizer/manifest.json" if SCRATCH else BASE_FILES,
    output:
        manifest=f"{R}/training/base/manifest.json",
        config=f"{R}/training/base/config.json",
        tokenizer=f"{R}/training/base/tokenizer.json",
    log:
        f"{R}/logs/training/base.log",
    conda:
        "../envs/stagecraft.yaml"
    params:
        settings=as_json(
            {**BASE, "seed": EXPERIMENT["seed"]} if SCRATCH else {k: v for k, v in BASE.items() if k != "shape"}
        ),
        tokenizer=lambda wildcards, input: f"--tokenizer {Path(input[0]).parent}" if SCRATCH else "",
        code=fingerprint("scripts.training.base"),
    shell:
        "python -m scripts.training.base {params.tokenizer}"
        " --settings {params.settings:q} --out $(dirname {output.manifest}) 2>&1 | tee {log}"


rule plan:
    input:
        shards=lambda wildcards: shards(wildcards.stage),
    output:
        plan=f"{R}/training/plan/{{stage}}.json",
    log:
        f"{R}/logs/training/plan/{{stage}}.log",
    conda:
        "../envs/stagecraft.yaml"
    resources:
        machine=str(MACHINE),
    params:
        settings=lambda wildcards: as_json({"stage": STAGES[wildcards.stage], "shape": SHAPE}),
        code=fingerprint("scripts.training.plan"),
    shell:
        "python -m scripts.training.plan --stage {wildcards.stage} --machine {resources.machine} --settings {params.settings:q}"
        " --shards $(dirname {input.shards}) --out {output.plan} 2>&1 | tee {log}"


# A stage whose folder holds an adapter; any other, full or merged, holds a plain model.
ADAPTERS = [name for name in STAGES if STAGES[name]["method"] == "lora" and not STAGES[name]["lora"]["merge"]]


rule train:
    input:
        origin=lambda wildcards: f"{model_folder(STAGES[wildcards.stage]['from'])}/manifest.json",
        shards=lambda wildcards: shards(wildcards.stage),
        data=lambda wildcards: big(*shard_files(wildcards.stage)),
    output:
        manifest=f"{R}/training/train/{{stage}}/manifest.json",
        model=f"{R}/training/train/{{stage}}/model.safetensors",
        metrics=f"{R}/training/train/{{stage}}/metrics.jsonl",
        summary=f"{R}/training/train/{{stage}}/summary.json",
        environment=f"{R}/training/train/{{stage}}/environment.json",
    log:
        f"{R}/logs/training/train/{{stage}}.log",
    wildcard_constraints:
        stage=only([name for name in STAGES if name not in ADAPTERS]),
    priority: 1  # evaluations wait for stages, not stages for evaluations
    conda:
        "../envs/stagecraft.yaml"
    threads: workflow.cores if HOST["gpus"] == 0 else 8
    resources:
        machine=str(MACHINE),
        monitoring=str(MONITORING),
    params:
        work=lambda wildcards, output: str(Path(output.manifest).parents[3] / "work/train" / wildcards.stage),
        settings=lambda wildcards: as_json({**STAGES[wildcards.stage], "seed": EXPERIMENT["seed"]}),
        code=fingerprint("scripts.training.train"),
    # a time limit's SIGTERM goes to every process of the job: shell and tee outlive it until the checkpoint is saved
    shell:
        "trap '' TERM; python -m scripts.training.launch --machine {resources.machine} --threads {threads} scripts.training.train"
        " --stage {wildcards.stage} --settings {params.settings:q} --code {params.code}"
        " --origin $(dirname {input.origin}) --shards $(dirname {input.shards})"
        " --monitoring {resources.monitoring} --work {params.work} --out $(dirname {output.manifest}) 2>&1 | tee {log}"


use rule train as train_adapter with:
    output:
        manifest=f"{R}/training/train/{{stage}}/manifest.json",
        model=f"{R}/training/train/{{stage}}/adapter_model.safetensors",
        metrics=f"{R}/training/train/{{stage}}/metrics.jsonl",
        summary=f"{R}/training/train/{{stage}}/summary.json",
        environment=f"{R}/training/train/{{stage}}/environment.json",
    wildcard_constraints:
        stage=only(ADAPTERS),
