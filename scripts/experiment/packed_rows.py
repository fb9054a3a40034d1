"""The folders of packed rows, of datasets and of mixtures.

packed = PackedRows(experiment, Layout(Path("results")))
packed.stage("sft")             # results/tokens/mix/sft_mix-4096
packed.datasets_of("sft_mix")   # ["instruct", "general"]
"""

from dataclasses import dataclass
from pathlib import Path

from scripts.experiment.layout import Layout
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.record import to_dict
from scripts.experiment.settings.training import Stage

LENGTH = Stage.model_fields["sequence_length"].default


@dataclass(frozen=True)
class PackedRows:
    """The folders of packed rows of an experiment."""

    experiment: Experiment
    layout: Layout

    def datasets_of(self, name: str) -> list[str]:
        """The datasets of a mixture; for a dataset only itself."""
        mixture = self.experiment.tokens.mix.get(name)
        return list(mixture.parts) if mixture else [name]

    def stage(self, name: str) -> Path:
        """The folder that a stage trains on."""
        stage = self.experiment.stages[name]
        return self.rows(stage.data, stage.sequence_length)

    def rows(self, name: str, length: int) -> Path:
        """The folder of a dataset or a mixture at a length."""
        return (self.layout.mixture if name in self.experiment.tokens.mix else self.layout.shards)(name, length)

    def data_targets(self) -> list[tuple[str, int]]:
        """(dataset or mixture, length) of target `data`: those of the stages; without stages all, at each length."""
        experiment = self.experiment
        if experiment.training is not None:
            return list(dict.fromkeys((stage.data, stage.sequence_length) for stage in experiment.stages.values()))
        lengths = experiment.tokens.sequence_lengths or [LENGTH]
        found = []
        for name in [*experiment.corpus.compose, *experiment.tokens.mix]:
            for length in lengths:
                found.append((name, length))
        return found

    def folders(self) -> list[Path]:
        """The folders of target `data`."""
        return [self.rows(name, length) for name, length in self.data_targets()]

    def mixed(self) -> list[Path]:
        """Those of `folders` that hold mixtures."""
        return [self.rows(name, length) for name, length in self.data_targets() if name in self.experiment.tokens.mix]

    def card_settings(self) -> dict:
        """The settings that the data cards use: those of the datasets, and the names of the folders of rows."""
        compose = {name: to_dict(settings) for name, settings in self.experiment.corpus.compose.items()}
        folders = {"packed": self.packed(), "mixed": self.mixed()}
        return {"compose": compose} | {kind: [folder.name for folder in paths] for kind, paths in folders.items()}

    def packed(self) -> list[Path]:
        """The folders of packed datasets, also of the parts of mixtures."""
        folders = []
        for name, length in self.data_targets():
            for part in self.datasets_of(name):
                folders.append(self.layout.shards(part, length))
        return list(dict.fromkeys(folders))
