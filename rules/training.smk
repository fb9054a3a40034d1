# Shards → one model folder per stage. The machine file only says where: it is no param, so it reruns nothing.

from scripts.experiment.bookkeeping import determining
from scripts.experiment.machine_files import MONITORING, load_monitoring
from scripts.hosts.hardware import check_gpu_driver
from scripts.hosts.profile import STAGES, stage_threads, uses_vllm
from scripts.training.engine.pruning import remove_published
from scripts.training.model.nope import expand_layers
from scripts.training.plan import plan as plan_stage
from scripts.training.planning.kernels import installed_kernels, kernels_line, least_capability

# how the stages are watched; like the machine it is no param
WATCH = MONITORING / f"{EXPERIMENT.monitoring}.yaml"

# Say no before a job is queued: a layer that is not there, or a stage whose model states cannot fit, ends here.
try:
    load_monitoring(WATCH)
    if FLOW.shape:
        expand_layers(EXPERIMENT.training.base.no_rope_layers, FLOW.shape.num_hidden_layers)
    for name, stage in FLOW.stages.items():
        plan_stage(name, stage, FLOW.shape, MACHINE)
    BASE_SETTINGS = FLOW.base_settings
except UserError as error:
    sys.exit(f"error: {error}")

# The jobs whose torch must be able to use a GPU, which vLLM does in its own environment.
GPU_RULES = {*STAGES, *(name for name, suite in FLOW.suites.items() if not uses_vllm(suite))}


# Checked before the first job, or they would fail after all data work. On Slurm jobs run on other hosts than this, so
# each one checks again (scripts/training/launch.py, scripts/hosts/gpus.py).
onstart:
    if BASE.revision and any(job.rule.name == "base" for job in workflow.dag.needrun_jobs()):
        try:
            if folder := small_files(BASE):
                check_tokenizer(folder)
        except UserError as error:
            sys.exit(f"error: {error}")
    if MACHINE.gpus and any(job.rule.name in GPU_RULES for job in workflow.dag.needrun_jobs()):
        try:
            note = check_gpu_driver(str(PROFILE.machine), elsewhere=PROFILE.slurm)
        except UserError as error:
            sys.exit(f"error: {error}")
        if note:
            print(note, file=sys.stderr)
        if any(job.rule.name in STAGES for job in workflow.dag.needrun_jobs()):
            print(
                kernels_line(MACHINE, FLOW.stages.values(), least_capability(), installed_kernels()),
                file=sys.stderr,
            )


# From here on no kill can make these stages run again.
onsuccess:
    for stage in FLOW.stages:
        for line in remove_published(L.work(stage), L.model(stage)):
            print(line, file=sys.stderr)


rule base:
    input:
        L.tokenizer / MANIFEST if FLOW.scratch else FLOW.chat_template,
    output:
        manifest=L.model("base") / MANIFEST,
        config=L.model("base") / "config.json",
        tokenizer=L.model("base") / "tokenizer.json",
    log:
        L.log("training", "base"),
    conda:
        "../envs/stagecraft.yaml"
    resources:
        # no param: the content of a folder is one, so the same model at another path reruns nothing
        folder=FLOW.base_folder,
    params:
        settings=as_json(BASE_SETTINGS),
        scratch=["--tokenizer", str(L.tokenizer), "--seed", str(EXPERIMENT.seed)] if FLOW.scratch else [],
        out=subpath(output.manifest, parent=True),
        code=fingerprint("scripts.training.base"),
    shell:
        "python -m scripts.training.base {params.scratch:q}"
        " --settings {params.settings:q} --folder={resources.folder:q} --out {params.out:q} 2>&1 | tee {log:q}"


rule plan:
    input:
        shards=lambda wildcards: str(FLOW.shards(wildcards.stage) / MANIFEST),
    output:
        plan=L.plan("{stage}"),
    log:
        L.log("training", "plan", "{stage}"),
    conda:
        "../envs/stagecraft.yaml"
    resources:
        machine=str(PROFILE.machine),
    params:
        shards=subpath(input.shards, parent=True),
        settings=lambda wildcards: to_json(FLOW.stages[wildcards.stage]),
        shape=["--shape", to_json(FLOW.shape)] if FLOW.shape else [],
        code=fingerprint("scripts.training.plan"),
    shell:
        "python -m scripts.training.plan --stage {wildcards.stage:q} --machine {resources.machine:q}"
        " --settings {params.settings:q} {params.shape:q} --shards {params.shards:q}"
        " --out {output.plan:q} 2>&1 | tee {log:q}"


rule train:
    input:
        origin=lambda wildcards: str(L.model(FLOW.stages[wildcards.stage].origin) / MANIFEST),
        shards=lambda wildcards: str(FLOW.shards(wildcards.stage) / MANIFEST),
        data=lambda wildcards: big(*shard_files(FLOW.shards(wildcards.stage))),
    output:
        manifest=L.model("{stage}") / MANIFEST,
        model=L.model("{stage}") / "model.safetensors",
        metrics=L.model("{stage}") / "metrics.jsonl",
        summary=L.model("{stage}") / "summary.json",
        environment=L.model("{stage}") / "environment.json",
    log:
        L.log("training", "train", "{stage}"),
    wildcard_constraints:
        stage=only([name for name in FLOW.stages if name not in FLOW.adapters]),
    priority: 1  # evaluations wait for stages, not stages for evaluations
    conda:
        "../envs/stagecraft.yaml"
    threads: stage_threads(MACHINE, workflow.cores)
    resources:
        machine=str(PROFILE.machine),
        monitoring=str(WATCH),
        # no params: how often a stage logs and saves cannot change its weights
        log_steps=lambda wildcards: FLOW.stages[wildcards.stage].log_steps,
        save_steps=lambda wildcards: FLOW.stages[wildcards.stage].save_steps,
        keep_checkpoints=lambda wildcards: FLOW.stages[wildcards.stage].keep_checkpoints,
    params:
        origin=subpath(input.origin, parent=True),
        shards=subpath(input.shards, parent=True),
        work=lambda wildcards: str(L.work(wildcards.stage)),
        settings=lambda wildcards: as_json(determining(FLOW.stages[wildcards.stage])),
        seed=EXPERIMENT.seed,
        out=subpath(output.manifest, parent=True),
        code=fingerprint("scripts.training.train"),
    # a time limit's SIGTERM goes to every process of the job: shell and tee outlive it until the checkpoint is saved
    shell:
        "trap '' TERM; python -m scripts.training.launch --machine {resources.machine:q} --threads {threads}"
        " scripts.training.train --stage {wildcards.stage:q} --settings {params.settings:q} --seed {params.seed:q}"
        " --log-steps {resources.log_steps:q} --save-steps {resources.save_steps:q}"
        " --keep-checkpoints {resources.keep_checkpoints:q}"
        " --code {params.code:q} --origin {params.origin:q} --shards {params.shards:q} --monitoring {resources.monitoring:q}"
        " --work {params.work:q} --out {params.out:q} 2>&1 | tee {log:q}"


use rule train as train_adapter with:
    output:
        manifest=L.model("{stage}") / MANIFEST,
        model=L.model("{stage}") / "adapter_model.safetensors",
        metrics=L.model("{stage}") / "metrics.jsonl",
        summary=L.model("{stage}") / "summary.json",
        environment=L.model("{stage}") / "environment.json",
    wildcard_constraints:
        stage=only(FLOW.adapters),
