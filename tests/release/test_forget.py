"""scripts/release/forget.py: what is left is, bit for bit, what a run makes that never had the source."""

import hashlib
import json
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.corpus.buckets import buckets
from scripts.corpus.clusters import clusters
from scripts.corpus.compose import compose
from scripts.corpus.deduplicate import deduplicate
from scripts.corpus.filter import filter_archive
from scripts.corpus.formats.filter_writer import funnel
from scripts.corpus.signatures import signatures
from scripts.corpus.split import split
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import Layout, raw_archive, raw_manifest
from scripts.experiment.load import load_experiment
from scripts.experiment.provenance import Provenance
from scripts.release.forget import PlannedJob, forget, without_row
from scripts.release.forgetting.lineage import made_from
from scripts.sources.archives.archive_members import Limits
from scripts.sources.archives.canonical_archive import pack_folder
from scripts.sources.tables.sources_table import read_sources
from scripts.tokens.pack import pack
from scripts.tokens.tokenizer import train
from tests.workflow.conftest import EXPERIMENT, row

HEADER = "name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\n"
LETTERS = str.maketrans("0123456789", "ghijklmnop")
MODULES = 24
SHARED = "".join(
    f"def shared_{number}(first, second):\n    return first * {number} + second\n\n\n" for number in range(9)
)


def write_source(name: str, folder: Path) -> None:
    """Files whose lines are the source's own, and one that all sources have."""
    folder.mkdir(parents=True)
    for number in range(MODULES):
        words = [
            hashlib.sha256(f"{name} {number} {line}".encode()).hexdigest().translate(LETTERS) for line in range(14)
        ]
        lines = [
            f"    value_{word[:6]} = compute_{word[6:12]}({name}_{word[12:18]}, offset={word[18:24]})" for word in words
        ]
        text = f'"""Module {number} of {name}."""\n\n\ndef {name}_{number}():\n' + "\n".join(lines) + "\n"
        (folder / f"module{number}.py").write_text(text)
    (folder / "shared.py").write_text(SHARED)


def make_data(view: ExperimentView, table: Path) -> None:
    """The data part of the workflow, in this process."""
    layout, corpus = view.layout, view.experiment.corpus
    sources = {source.name: source for source in read_sources(table)}
    for name in sources:
        with funnel(layout.filtered(name)) as result:
            archive = raw_archive(sources[name].raw_name)
            filter_archive(archive, name, corpus.filter, result)
    made, filtered = ExperimentView(view.experiment, sources, layout), layout.results / "corpus/filter"
    folders = [layout.signatures(shard) for shard in made.source_shards]
    for folder, names in zip(folders, made.source_shards.values(), strict=True):
        signatures(filtered, names, corpus.deduplicate, folder)
    groups = [layout.buckets(group) for group in made.bucket_groups]
    for number, folder in enumerate(groups):
        buckets(folders, number, len(groups), folder)
    clusters(filtered, list(sources), folders, groups, corpus.deduplicate, layout.clusters)
    with funnel(layout.deduplicated) as result:
        deduplicate(filtered, made.source_order, folders, layout.clusters, corpus.deduplicate, result)
    split(layout.deduplicated, corpus.split, layout.split)
    for name, settings in corpus.compose.items():
        compose(layout.split, settings, view.experiment.seed, layout.dataset(name))
    train([layout.split], view.experiment.tokens.tokenizer, layout.tokenizer)
    for name, stage in view.stages.items():
        pack(layout.dataset(stage.data), layout.tokenizer, stage.sequence_length, view.shards(name))


@pytest.fixture
def made(tmp_path, monkeypatch):
    """(view, table) of the data part with the sources alpha, beta and gamma; gamma is the one that will leave."""
    experiment = load_experiment(EXPERIMENT)
    monkeypatch.chdir(tmp_path)
    Path("config").mkdir()
    table, rows = Path("config/tiny.tsv"), HEADER
    for name in ("alpha", "beta", "gamma"):
        write_source(name, tmp_path / "sources" / name)
        rows += row(name, tmp_path / "sources" / name)
    table.write_text(rows)
    sources = {source.name: source for source in read_sources(table)}
    for source in sources.values():
        raw_archive("x").parent.mkdir(parents=True, exist_ok=True)
        facts = pack_folder(Path(source.location), raw_archive(source.raw_name), Limits())
        raw_manifest(source.raw_name).write_text(json.dumps(facts))
    view = ExperimentView(experiment, sources, Layout(Path("results")))
    make_data(view, table)
    return view, table


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def jobs() -> list[PlannedJob]:
    return [PlannedJob("deduplicate", 1.0), PlannedJob("train pretrain", 60.0)]


def test_the_remaining_files_equal_those_of_a_run_without_the_source_bit_for_bit(made, tmp_path):
    view, table = made
    checkpoint = view.layout.work("pretrain") / "0123/checkpoint-2"
    checkpoint.mkdir(parents=True)
    gamma = view.sources["gamma"]
    path = forget(view, gamma, table, jobs(), lambda: make_data(view, table))

    never = ExperimentView(
        view.experiment, {name: view.sources[name] for name in ("alpha", "beta")}, Layout(tmp_path / "never")
    )
    make_data(never, table)
    for folder in ("corpus", "tokens"):
        assert content(view.layout.results / folder) == content(tmp_path / "never" / folder)
    assert "gamma" not in table.read_text() and table.read_text().startswith(HEADER)
    assert not raw_archive(gamma.raw_name).exists() and not raw_manifest(gamma.raw_name).exists()
    assert raw_archive(view.sources["alpha"].raw_name).exists()
    assert not checkpoint.exists()

    certificate = json.loads(path.with_suffix(".json").read_text())
    assert certificate["archive"]["sha256"] == gamma.pin and gamma.pin in path.read_text()
    listed = {record["path"] for record in read_jsonl(path.with_name("documents.jsonl.zst"))}
    assert listed == {"shared.py", *(f"module{number}.py" for number in range(MODULES))}
    assert certificate["documents"] == MODULES + 1
    assert certificate["also_elsewhere"] == 1  # shared.py, which stays with alpha
    assert certificate["own_lines"] == MODULES * 14
    assert all(search["names"] and search["lines"] for search in certificate["before"])  # the search can see it
    assert [(search["names"], search["lines"]) for search in certificate["after"]] == [(0, 0), (0, 0)]
    assert not path.with_name("pending.json").exists()


def test_no_certificate_while_a_shard_still_holds_the_source(made):
    """As if the rerun had left the packed rows as they were; a second call, with a rerun that works, certifies."""
    view, table = made
    kept = content(view.layout.results / "tokens/pack")

    def half() -> None:
        make_data(view, table)
        for name, data in kept.items():
            (view.layout.results / "tokens/pack" / name).write_bytes(data)

    folder = view.layout.forgotten("gamma")
    with pytest.raises(UserError, match=r"code-128: still holds gamma: [1-9]"):
        forget(view, view.sources["gamma"], table, jobs(), half)
    assert not (folder / "certificate.json").exists() and raw_archive(view.sources["gamma"].raw_name).exists()
    with pytest.raises(UserError, match="still holds gamma"):
        forget(view, view.sources["gamma"], table, jobs(), lambda: None)
    assert forget(view, view.sources["gamma"], table, jobs(), lambda: make_data(view, table)).is_file()


def test_a_text_under_another_name_is_found_by_its_lines(made):
    """A shard whose list of names was changed: the tokens still say it."""
    view, table = made

    before = content(view.layout.results / "tokens")

    def renamed() -> None:
        make_data(view, table)
        for name, data in before.items():
            path = view.layout.results / "tokens" / name
            path.write_bytes(data.replace(b"gamma/", b"alpha/") if name.endswith("documents.txt") else data)

    with pytest.raises(UserError, match=r": still holds gamma: 0 documents by name, [1-9][0-9]* pieces by their text"):
        forget(view, view.sources["gamma"], table, jobs(), renamed)


def test_an_unknown_source_or_the_only_one_is_a_one_line_error(tmp_path):
    table = tmp_path / "sources.tsv"
    table.write_text(HEADER + "alpha\tpath\tx\ty\tpython\thigh\tMIT\n")
    with pytest.raises(UserError, match=r"beta: no such source in .*known: alpha"):
        without_row(table, "beta")
    with pytest.raises(UserError, match="alpha: the only source"):
        without_row(table, "alpha")


def test_published_results_are_followed_through_jobs_in_any_order():
    def job(inputs: str, outputs: str, beside: str = "") -> Provenance:
        files = [dict.fromkeys(names.split(), "") for names in (inputs, outputs, beside)]
        return Provenance("x", "", {}, [], "", *files, {}, 0.0, 1.0)

    archive = "data/raw/gamma-0123456789ab"
    jobs = [
        job("b", "c"),
        job("d", "e"),
        job(f"{archive}.json", "a"),
        job("a d", "b"),
        job(f"{archive}.json.dvc", f"{archive}.json {archive}.tar.zst"),
        job("data/raw/gamma-ray-0123456789ab.json", "f"),
    ]
    folder = Path("results/corpus/filter")
    shards = [
        job("fetched/0", "filtered/0", f"{folder}/gamma/documents.jsonl.zst {folder}/click/documents.jsonl.zst"),
        job("fetched/1", "filtered/1", f"{folder}/gamma-ray/documents.jsonl.zst"),
        job("filtered/0", "g"),
        job("filtered/1", "h"),
    ]
    assert made_from("gamma", shards, folder / "gamma") == {"filtered/0", "g", f"{folder}/gamma/documents.jsonl.zst"}
    assert made_from("gamma", jobs, Path("results/corpus/filter/gamma")) == {"a", "b", "c"}
