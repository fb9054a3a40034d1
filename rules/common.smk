# What all rules share: the checked experiment, the machine, where things lie. A user's mistake ends here, in one line.
import os
import sys
from pathlib import Path

if not Path.cwd().samefile(workflow.basedir):
    sys.exit(f"error: start snakemake in its checkout: `cd {workflow.basedir}` first; its paths count from there")
sys.path.insert(0, workflow.basedir)

from scripts.common.errors import UserError
from scripts.experiment.checks import check_dataset_sources
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.reruns.kept_fingerprints import fingerprint
from scripts.experiment.layout import MANIFEST, Layout, raw_archive, split_file
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import load_machine, read_yaml
from scripts.experiment.settings.record import as_json, to_json
from scripts.hosts.invocation import hold_results
from scripts.hosts.job_graph import make_lost
from scripts.hosts.profile import Profile
from scripts.hosts.provenance_records import keep_records_in_provenance
from scripts.hosts.start import ancient_inputs, argument_writer, one_of
from scripts.hosts.start import begin, set_shell
from scripts.sources.tables.sources_table import sources_of

set_shell(workflow, shell)

if not workflow.overwrite_configfiles:

    configfile: "config/config.yaml"


try:
    for path in workflow.configfiles:  # Snakemake takes the last of several equal keys
        read_yaml(Path(path))
    EXPERIMENT = load_experiment(config, " + ".join(os.path.relpath(path) for path in workflow.configfiles))
    PROFILE = Profile(workflow.resource_settings)
    MACHINE = load_machine(PROFILE.machine)
    SOURCES = {source.name: source for source in sources_of(EXPERIMENT)}
    PATHS = Layout(Path(EXPERIMENT.results))
    VIEW = ExperimentView(EXPERIMENT, SOURCES, PATHS)
    SOURCE_FILES = VIEW.source_files
    check_dataset_sources(EXPERIMENT, SOURCES)
    VIEW.dated_sources, VIEW.decontaminated  # refuse sources without a history, files that are not there
    keep_records_in_provenance(workflow)
    if INVOCATION := begin(workflow, PROFILE.slurm):
        if INVOCATION.runs_jobs and INVOCATION.locks and not INVOCATION.inner:
            hold_results(PATHS.run)
        make_lost(VIEW, INVOCATION)
    by_file = argument_writer(PATHS.arguments, INVOCATION)
except UserError as error:
    sys.exit(f"error: {error}")


wildcard_constraints:
    dataset=one_of(VIEW.datasets),
    mixture=one_of(EXPERIMENT.tokens.mix),
    stage=one_of(VIEW.stages),
    model=one_of(VIEW.models),
    length=r"\d+",
