"""What the rules derive from an experiment: which datasets, stages, suites and files it has.

dag = ExperimentView(load_experiment(...), sources={"click": source}, layout=Layout(Path("results")))
dag.shards("sft")      # results/tokens/pack/instruct-4096
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from scripts.evaluation.suites import abouts, configured, problem_files, prompts_of, scored_models
from scripts.evaluation.suites import code as code_suite
from scripts.experiment.checks import dated_sources, decontaminated
from scripts.experiment.layout import MANIFEST, Layout
from scripts.experiment.model_folder import Shape, settings_of_base, shape_of_base
from scripts.experiment.settings.corpus import Dataset, OwnDataset
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.record import Record
from scripts.experiment.settings.suites import Benchmark
from scripts.experiment.settings.training import Stage, further_models, seeds_of_models, with_further_seeds
from scripts.experiment.shards import PackedRows, SourceFiles, source_shards
from scripts.licences.expressions import permissive


@dataclass(frozen=True)
class ExperimentView:
    """An experiment as the rules see it.

    Args:
        experiment: the checked settings.
        sources: the rows of the sources table by name; none where all datasets are the user's own.
        layout: where its results lie.
    """

    experiment: Experiment
    sources: dict[str, Record]
    layout: Layout

    @cached_property
    def stages(self) -> dict[str, Stage]:
        """The experiment's stages, then those of further seeds."""
        return with_further_seeds(self.experiment.stages)

    @cached_property
    def expanded(self) -> Experiment:
        """The experiment with a stage for each further seed beside its own."""
        training = self.experiment.training.model_copy(update={"train": self.stages})
        return self.experiment.model_copy(update={"training": training})

    @cached_property
    def datasets(self) -> dict[str, Dataset]:
        """The experiment's datasets."""
        return self.experiment.corpus.compose

    def seed(self, stage: str) -> int:
        """The seed that a stage is trained with."""
        return seeds_of_models(self.experiment.stages).get(stage, self.experiment.seed)

    @cached_property
    def models(self) -> list[str]:
        """The base and the model of every stage."""
        return ["base", *self.stages]

    @cached_property
    def own_models(self) -> list[str]:
        """The models of the experiment's own stages, of all their seeds."""
        return [*self.experiment.stages, *further_models(self.experiment.stages)]

    @property
    def scratch(self) -> bool:
        """Whether the base is made here, and its tokenizer learned from the corpus."""
        return self.experiment.training.base.model == "scratch"

    @cached_property
    def own_datasets(self) -> list[str]:
        """The datasets made from files of the user's own or from a hub, not from the sources."""
        return [name for name, dataset in self.datasets.items() if isinstance(dataset, OwnDataset)]

    @cached_property
    def source_order(self) -> list[str]:
        """The sources in the order in which duplicates are kept: high priority, permissive licence, then by name."""

        def rank(name: str) -> tuple:
            source = self.sources[name]
            return source.priority != "high", not permissive(source.licence), name

        return sorted(self.sources, key=rank)

    @cached_property
    def source_shards(self) -> dict[str, list[str]]:
        """The sources of each shard, both by name, so that another order of duplicates leaves them as they are."""
        return dict(sorted(source_shards(sorted(self.sources)).items(), key=lambda shard: int(shard[0])))

    @cached_property
    def source_files(self) -> SourceFiles:
        """The shards in which the sources are fetched and filtered, and their files."""
        return SourceFiles(self.sources, self.source_shards, self.layout)

    @cached_property
    def dated_sources(self) -> list[str]:
        """The sources whose history is read; raises UserError where one has none."""
        return dated_sources(self.experiment, self.sources)

    @cached_property
    def tokenizer_texts(self) -> list[Path]:
        """The folders that the tokenizer is learned from, or the base whose tokenizer is taken."""
        if not self.scratch:
            return [self.layout.model("base")]
        if self.sources:
            return [self.layout.split]
        return [self.layout.dataset(name) for name in sorted(self.experiment.corpus.compose)]

    @cached_property
    def base_folder(self) -> str:
        """The folder or GGUF file that holds the base model; empty where it is made here or comes from the hub."""
        base = self.experiment.training.base
        here = not self.scratch and base.package is None and Path(base.model).exists()
        return base.model if here else ""

    @cached_property
    def chat_template(self) -> list[str]:
        """The file of the chat template that the base is given, whose content decides."""
        template = self.experiment.training.base.chat_template
        if template in (None, "chatml"):
            return []
        return [template]

    @cached_property
    def base_settings(self) -> dict:
        """The settings that rule `base` uses; see `settings_of_base`."""
        return settings_of_base(self.experiment.training.base)

    @cached_property
    def shape(self) -> Shape | None:
        """The shape of the base for the plan of each stage; None where neither the experiment nor a folder gives it."""
        return shape_of_base(self.experiment.training.base, self.experiment.tokens.tokenizer.vocab_size)

    @property
    def rows(self) -> PackedRows:
        """The folders of packed rows."""
        return PackedRows(self.expanded, self.layout)

    def shards(self, stage: str) -> Path:
        """The folder of the packed rows that a stage trains on."""
        return self.rows.stage(stage)

    @cached_property
    def pinned(self) -> dict[str, Benchmark]:
        """The benchmarks out of a repository, by the name of their file: rule `problems` fetches them."""
        return code_suite.pinned(self.experiment.evaluation.code)

    @cached_property
    def suites(self) -> dict[str, Record]:
        """The configured suites with their settings; pinned benchmarks as the files that rule `problems` makes.

        Datasets are in the order of their names: another order of the experiment's keys must rerun nothing.
        """
        suites = configured(self.experiment.evaluation)
        for name, settings in suites.items():
            if getattr(settings, "datasets", None):
                suites[name] = settings.model_copy(update={"datasets": sorted(settings.datasets)})
        code = suites.get("code")
        if code:
            suites["code"] = code_suite.with_files(code, self.layout)
        return suites

    @property
    def retrieved(self) -> list[str]:
        """The datasets whose training split is searched for what resembles a held-out file."""
        retrieval = self.experiment.evaluation.perplexity.retrieval
        return retrieval.datasets if retrieval else []

    def plain_option(self, wildcards) -> list[str]:
        """`--plain` for a model that suite perplexity need not score after retrieval, too: all but the base and the
        stages that are trained on the team's code."""
        trained_on = set() if wildcards.model == "base" else self.rows.datasets_of(self.stages[wildcards.model].data)
        asked = wildcards.model == "base" or set(self.retrieved).intersection(trained_on)
        return ["--plain"] if self.retrieved and not asked else []

    @cached_property
    def prompts(self) -> dict[str, dict]:
        """Of the suites with prompts, the settings that decide the prompts."""
        return prompts_of(self.suites)

    def prompt_files(self, suite: str) -> list[str]:
        """The files of tasks, cases or problems of a suite; none where datasets give the prompts."""
        tasks = abouts()[suite].tasks
        if tasks:
            return [str(self.layout.tasks(tasks) / name) for name in ("tasks.jsonl.zst", MANIFEST)]
        return problem_files(suite, self.suites[suite])

    def scored_datasets(self, suite: str) -> list[str]:
        """The datasets whose test split a suite scores or takes its prompts from; none for a suite with files."""
        return getattr(self.suites[suite], "datasets", None) or []

    @cached_property
    def decontaminated(self) -> list[str]:
        """The files of problems that no document of the sources may share text with."""
        return decontaminated(self.experiment, self.suites)

    @cached_property
    def prompt_datasets(self) -> list[str]:
        return sorted(set().union(*map(self.scored_datasets, self.prompts)))

    @cached_property
    def trained_on(self) -> list[str]:
        """The datasets of the stages, those of their mixtures one by one."""
        return sorted(set().union(*(self.rows.datasets_of(stage.data) for stage in self.stages.values())))

    def suite_files(self, name: str) -> list[Path]:
        """The file of this name of each suite and each of the experiment's own models that it scores."""
        stages = self.experiment.stages
        scored = scored_models(self.experiment.evaluation, list(stages), further_models(stages))
        found = []
        for suite, models in scored.items():
            for model in models:
                found.append(self.layout.suite(suite, model) / name)
        return found
