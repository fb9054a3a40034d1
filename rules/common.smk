# What all rules share: the checked experiment, the machine, fingerprints. A user's mistake ends here, in one line.
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, workflow.basedir)
# Jobs find this environment's programs also where it was not activated.
shell.prefix(f"export PATH={Path(sys.executable).parent}:$PATH; ")

from scripts.experiment.suites import CHATS, PROMPTED, configured, problem_files, prompts_from, scored_models
from scripts.common.cli import UserError
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import load_machine, load_monitoring
from scripts.experiment.settings.record import to_dict
from scripts.experiment.fingerprint import fingerprint
from scripts.experiment.provenance import restore
from scripts.hosts.slurm import prepare, wait
from scripts.experiment.settings.corpus import OwnDataset
from scripts.sources.tables.sources_table import read_sources

if not workflow.overwrite_configfiles:

    configfile: "config/config.yaml"


def default_resource(name):
    """What the profile says of a resource of all jobs; None where it says nothing, or where there is no profile."""
    defaults = workflow.resource_settings.default_resources
    return defaults.get(name).raw if defaults else None


try:
    SETTINGS = load_experiment(config, " + ".join(os.path.relpath(path) for path in workflow.configfiles))
    EXPERIMENT = to_dict(SETTINGS)
    # `machine` is a default resource of the profile: resources say where, and never cause a rerun.
    MACHINE = Path(f"config/machines/{default_resource('machine') or 'local'}.yaml")
    HOST = to_dict(load_machine(MACHINE))
    # none where all datasets are the user's own: then nothing is fetched, filtered, deduplicated or split
    SOURCES = {}
    if "sources" in EXPERIMENT:
        SOURCES = {source.name: source for source in read_sources(Path(EXPERIMENT["sources"]["table"]))}
    for name, settings in EXPERIMENT["evaluation"].items():
        if settings.get("engine") == "vllm" and "vllm" not in HOST:
            raise UserError(f"{MACHINE}: vllm: required by evaluation.{name}.engine; the Python of vLLM's environment")
    prepare(workflow)
    # only a profile for Slurm names a partition; the executor itself is not known yet
    if default_resource("slurm_partition"):
        wait(workflow)
    # Published results that `dvc pull` brought get their records, or are marked to be made again.
    restore(workflow, EXPERIMENT["results"])
except UserError as error:
    sys.exit(f"error: {error}")

R = EXPERIMENT["results"]
# The suites that the experiment configures. Rule problems fetches pinned benchmark files to where `path` then says.
SUITE_SETTINGS = configured(SETTINGS.evaluation)
PINNED = {}
if code := SUITE_SETTINGS.get("code"):
    PINNED = {Path(one.path).name: to_dict(one) for one in code.benchmarks if one.git}
    benchmarks = [
        one.model_copy(update={"path": f"{R}/evaluation/problems/{Path(one.path).name}"}) if one.git else one
        for one in code.benchmarks
    ]
    SUITE_SETTINGS["code"] = code.model_copy(update={"benchmarks": benchmarks})
SUITES = {suite: to_dict(settings) for suite, settings in SUITE_SETTINGS.items()}
# Of the suites with prompts, the settings that decide the prompts.
PROBLEMS = {suite: prompts_from(SUITE_SETTINGS[suite]) for suite in PROMPTED if suite in SUITES}
# What eval.json names as the code that made it: a fingerprint per rule up to the gates.
CODES = {
    f"{area}.{rule}": fingerprint(f"scripts.{area}.{rule}")
    for area, rules in {
        "sources": ["pull", "fetch"],
        "corpus": ["filter", "deduplicate", "split", "compose"],
        "tokens": ["tokenizer", "pack"],
        "training": ["base", "train"],
        "evaluation": [*SUITES, *(["contamination"] if PROBLEMS else []), "gate"],
    }.items()
    for rule in rules
}
DATASETS = EXPERIMENT["corpus"]["compose"]
EXTERNAL = [name for name, dataset in SETTINGS.corpus.compose.items() if isinstance(dataset, OwnDataset)]
STAGES = EXPERIMENT["training"]["train"]
SHAPE = EXPERIMENT["training"]["base"].get("shape")
SCRATCH = EXPERIMENT["training"]["base"]["model"] == "scratch"
SHARD_FILES = ["tokens.bin", "flags.bin", "pieces.npy", "documents.txt"]
SPLITS = ["train", "validation", "test"]


wildcard_constraints:
    source="|".join(SOURCES) or "(?!)",
    dataset="|".join(DATASETS),
    stage="|".join(STAGES),
    model="|".join(["base", *STAGES]),
    length=r"\d+",


def as_json(value):
    """Settings as a rule's params hold them: exactly what the script is given, keys in one order."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def only(names):
    """A wildcard constraint that lets through these names; none of them lets nothing through."""
    return "|".join(names) or "(?!)"


def big(*paths):
    """Inputs that must exist but whose manifest says whether they changed."""
    return [ancient(path) for path in paths]


def shards(stage):
    """The manifest of the shards that a stage trains on."""
    return f"{R}/tokens/pack/{STAGES[stage]['data']}-{STAGES[stage]['sequence_length']}/manifest.json"


def shard_files(stage):
    """The big files beside that manifest."""
    names = [f"{split}.{file}" for split in SPLITS[:2] for file in SHARD_FILES]
    return [str(Path(shards(stage)).with_name(name)) for name in names]


def model_folder(name):
    """The folder of a stage's model, or of the base."""
    return f"{R}/training/base" if name == "base" else f"{R}/training/train/{name}"


def suite_files(name):
    """The file of this name of each suite and each model that it scores."""
    scored = scored_models(SETTINGS.evaluation, STAGES)
    return [f"{R}/evaluation/{suite}/{model}/{name}" for suite, models in scored.items() for model in models]


def engine(suite):
    """The option by which a suite's models write with vLLM. Where vLLM lies is no param, so it reruns nothing."""
    return f"--vllm {HOST['vllm']}" if SUITES[suite]["engine"] == "vllm" else ""


def test_manifests(suite):
    """The manifests of the datasets that a suite scores."""
    return [f"{R}/corpus/compose/{dataset}/manifest.json" for dataset in SUITES[suite]["datasets"]]


def test_files(suite):
    """The big files beside them."""
    return [str(Path(manifest).with_name("test.jsonl.zst")) for manifest in test_manifests(suite)]
