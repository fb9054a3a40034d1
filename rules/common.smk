# What all rules share: the checked experiment, the machine, where things lie. A user's mistake ends here, in one line.
import os
import sys
from pathlib import Path

sys.path.insert(0, workflow.basedir)

from scripts.common.cli import UserError
from scripts.experiment.checks.datasets import check_dataset_sources
from scripts.experiment.dag import Dag
from scripts.experiment.kept_fingerprints import fingerprint
from scripts.experiment.layout import MANIFEST, Layout, raw_archive, split_file
from scripts.experiment.load import load_experiment
from scripts.experiment.provenance import restore
from scripts.experiment.settings.record import as_json, to_json
from scripts.experiment.source_shards import SourceFiles
from scripts.experiment.tested_sources import tested_sources
from scripts.hosts.missing import make_missing
from scripts.hosts.profile import Profile, checked_machine
from scripts.hosts.snakefile import ancient_inputs, argument_writer, one_of
from scripts.hosts.start import begin, set_shell
from scripts.sources.tables.sources_table import sources_of

set_shell(workflow, shell)

if not workflow.overwrite_configfiles:

    configfile: "config/config.yaml"


try:
    EXPERIMENT = load_experiment(config, " + ".join(os.path.relpath(path) for path in workflow.configfiles))
    PROFILE = Profile(workflow.resource_settings)
    MACHINE = checked_machine(PROFILE, EXPERIMENT)
    SOURCES = {source.name: source for source in sources_of(EXPERIMENT)}
    L = Layout(Path(EXPERIMENT.results))
    FLOW = Dag(EXPERIMENT, SOURCES, L)
    MADE = SourceFiles(SOURCES, FLOW.source_shards, L)
    TESTED = tested_sources(EXPERIMENT.evaluation.repository_tests, SOURCES)
    check_dataset_sources(FLOW.expanded, SOURCES)
    FLOW.dated_sources, FLOW.decontaminated  # refuse sources without a history, files that are not there
    if CALL := begin(workflow, PROFILE.slurm):
        restore(workflow, EXPERIMENT.results)  # what `dvc pull` got has records again, or is marked to be made again
        make_missing(FLOW, CALL)
    by_file = argument_writer(L.arguments, CALL)
except UserError as error:
    sys.exit(f"error: {error}")


wildcard_constraints:
    # very many sources are fetched and filtered in shards; a pattern of their names would take longer than the rest
    source=one_of([] if MADE.in_shards else SOURCES),
    shard=one_of(FLOW.source_shards),
    group=one_of(FLOW.bucket_groups),
    dataset=one_of(FLOW.datasets),
    mixture=one_of(FLOW.expanded.tokens.mix),
    stage=one_of(FLOW.stages),
    model=one_of(FLOW.models),
    length=r"\d+",
