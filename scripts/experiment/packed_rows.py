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

    def targets(self) -> list[tuple[str, int]]:
        """(dataset or mixture, length) of what the stages train on, each once."""
        return list(dict.fromkeys((stage.data, stage.sequence_length) for stage in self.experiment.stages.values()))

    def folders(self) -> list[Path]:
        """The folders of target `data`."""
        return [self.rows(name, length) for name, length in self.targets()]

    def mixed(self) -> list[Path]:
        """Those of `folders` that hold mixtures."""
        return [self.rows(name, length) for name, length in self.targets() if name in self.experiment.tokens.mix]

    def card_settings(self) -> dict:
        """The settings that the data cards use: those of the datasets, and the names of the folders of rows."""
        compose = {name: to_dict(settings) for name, settings in self.experiment.corpus.compose.items()}
        folders = {"packed": self.packed(), "mixed": self.mixed()}
        return {"compose": compose} | {kind: [folder.name for folder in paths] for kind, paths in folders.items()}

    def packed(self) -> list[Path]:
        """The folders of packed datasets, also of the parts of mixtures."""
        folders = []
        for name, length in self.targets():
            for part in self.datasets_of(name):
                folders.append(self.layout.shards(part, length))
        return list(dict.fromkeys(folders))
