"""`stagecraft start`: from clones or chats to an experiment that loads, or one line."""

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import httpx2
import jsonschema
import pytest

from scripts.common.errors import UserError
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import Layout
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import read_yaml
from scripts.report.commands import proposal
from scripts.report.commands.clones import clones_below
from scripts.report.commands.start import start
from scripts.sources.tables.sources_table import read_sources

# of which the schema itself is checked in tests/experiment/test_reference.py, which takes as long as a whole test here
SCHEMA = jsonschema.Draft202012Validator(json.loads(Path("config/schema.json").read_text()))


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch) -> Path:
    """A checkout's settings, to which `start` may write, on a machine whose speed is the same each time."""
    folder = tmp_path / "checkout"
    for name in ("config", "profiles"):
        shutil.copytree(name, folder / name)
    for name in ("local", ".git"):
        (folder / name).symlink_to(Path(name).absolute())
    monkeypatch.chdir(folder)
    monkeypatch.setattr(proposal, "cpu_tflops", lambda precision: 0.05)
    monkeypatch.setattr("scripts.report.commands.this_host.own_gpus", list)
    return folder


def code(number: int) -> str:
    """A text that no filter drops, and no other one resembles."""
    return "".join(f"value_{number}_{line} = compute(first_{line}, second_{number})\n" for line in range(12))


def repository(folder: Path, files: int, suffix: str = ".py") -> Path:
    """A repository with one commit."""
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / f"file{number}{suffix}").write_text(code(number))
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    """Commit all that is in a folder, which becomes a repository if it is none."""
    git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message=all"], check=True)


def loaded(name: str) -> ExperimentView:
    content = read_yaml(Path(f"config/{name}.yaml"))
    SCHEMA.validate(content)  # by which an editor checks the file
    experiment = load_experiment(content, name)
    sources = read_sources(Path(experiment.sources)) if experiment.sources else []
    return ExperimentView(experiment, {source.name: source for source in sources}, Layout(Path(experiment.results)))


def test_clones_of_all_kinds_become_sources_of_one_experiment(tmp_path, capsys):
    repository(tmp_path / "mine/one", 40)
    two = repository(tmp_path / "elsewhere/two", 30, ".go")
    (two / "go.mod").write_text("module two\n")
    commit(two)
    subprocess.run(
        ["git", "clone", "--quiet", "--bare", tmp_path / "elsewhere/two", tmp_path / "mine/two.git"], check=True
    )
    mirror = tmp_path / "mine/deep/er/three.git"
    subprocess.run(["git", "clone", "--quiet", "--mirror", tmp_path / "elsewhere/two", mirror], check=True)
    start(tmp_path / "mine", "profiles/local")
    view = loaded("mine")
    assert view.experiment.corpus.compose["own"].sources == ["three", "one", "two"]
    assert view.sources["two"].language == "go" and view.sources["networkx"].kind == "sdist"
    assert set(view.experiment.corpus.filter.languages) == {"go", "python"}
    assert list(view.stages) == ["own", "control"] and view.experiment.results == "results/mine"
    assert view.experiment.evaluation.perplexity.retrieval.datasets == ["own"]
    assert len(Path("config/mine.yaml").read_text().splitlines()) <= 60
    gates = [gate.name for gate in view.experiment.evaluation.gate.gates]
    assert gates == ["fine-tuning helps on own code", "fine-tuning harms no other code"]
    said = capsys.readouterr().out
    assert " of 100 files are held out" in said and "warning" not in said
    assert "stage own reads" in said and "stagecraft try own --experiment mine" in said
    assert said.endswith("snakemake --profile local results/mine/eval.json --configfile config/mine.yaml\n")


@pytest.mark.parametrize(
    ("flags", "precision"), [("fma avx512f avx512_bf16", "bf16"), ("fp asimd bf16 i8mm", "bf16"), ("avx512f", "fp32")]
)
def test_a_stage_computes_in_what_the_processor_does(tmp_path, monkeypatch, flags, precision):
    repository(tmp_path / "one", 40)
    turns = [
        [{"role": "user", "content": f"why {n}?"}, {"role": "assistant", "content": "so " * 400}] for n in range(20)
    ]
    lines = [json.dumps({"messages": messages}) for messages in turns]
    (tmp_path / "chats.jsonl").write_text("\n".join(lines))
    read = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path, **how: flags if path.name == "cpuinfo" else read(path, **how))
    start(tmp_path / "one", "profiles/local")
    start(tmp_path / "chats.jsonl", "profiles/local")
    assert [loaded(name).stages[stage].precision for name, stage in (("one", "own"), ("chats", "chat"))] == [
        precision
    ] * 2


def test_clones_of_equal_names_are_numbered_and_the_other_code_keeps_its_own(tmp_path):
    for name in ("a/tool", "b/tool", "networkx"):
        repository(tmp_path / "config" / name, 15)
    start(tmp_path / "config", "profiles/local")  # no experiment `config`, which is the default
    view = loaded("mine")
    assert view.experiment.corpus.compose["own"].sources == ["tool", "tool-2", "networkx-2"]
    assert view.sources["networkx"].kind == "sdist"


def test_headers_count_for_the_language_of_the_files_beside_them(tmp_path):
    for name, ending in (("plain", ".c"), ("plus", ".cpp"), ("headers", ".h")):
        folder = tmp_path / "mine" / name
        folder.mkdir(parents=True)
        for number in range(20):
            (folder / f"file{number}{ending}").write_text(code(number))
            (folder / f"file{number}.h").write_text("class A {};\n" * (ending == ".cpp") + code(number + 100))
            (folder / f"more{number}.h").write_text("class B {};\n" * (ending == ".cpp") + code(number + 200))
        commit(folder)
    start(tmp_path / "mine", "profiles/local")
    view = loaded("mine")
    found = {name: view.sources[name].language for name in ("plain", "plus", "headers")}
    assert found == {"plain": "c", "plus": "cpp", "headers": "c"}
    assert set(view.experiment.corpus.filter.languages) == {"c", "cpp", "python"}


def test_few_files_are_warned_of_and_too_few_refused(tmp_path, capsys):
    start(repository(tmp_path / "small", 36), "profiles/local")
    assert "warning: fewer than 12 held-out files tell little; add repositories" in capsys.readouterr().out
    with pytest.raises(UserError, match="tiny: files of code: 3; at least 30 are needed to train and to hold some out"):
        start(repository(tmp_path / "tiny", 3), "profiles/local")
    assert not Path("config/tiny.yaml").exists() and not Path("config/tiny.tsv").exists()


def test_what_is_no_repository_or_has_no_commit_is_one_line(tmp_path):
    (tmp_path / "plain").mkdir()
    with pytest.raises(UserError, match="plain: no git repository in it; give a clone"):
        start(tmp_path / "plain", "profiles/local")
    for given in (tmp_path / "nowhere", Path("/dev/null")):
        with pytest.raises(UserError, match=f"{given}: no such file or folder"):
            start(given, "profiles/local")
    subprocess.run(["git", "init", "--quiet", tmp_path / "empty"], check=True)
    with pytest.raises(UserError, match="empty: no commit to pin: it has no commit yet"):
        start(tmp_path / "empty", "profiles/local")


def test_of_several_clones_those_that_cannot_be_read_are_left_out_and_named(tmp_path, capsys):
    repository(tmp_path / "mine/good", 40)
    subprocess.run(["git", "init", "--quiet", tmp_path / "mine/empty"], check=True)
    other = repository(tmp_path / "mine/other", 3)
    shutil.rmtree(other / ".git")
    subprocess.run(["git", "init", "--quiet", "--object-format=sha256", other], check=True)
    commit(other)
    start(tmp_path / "mine", "profiles/local")
    assert loaded("mine").experiment.corpus.compose["own"].sources == ["good"]
    left_out = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning: left out: ")]
    assert len(left_out) == 2 and "mine/empty: no commit to pin: it has no commit yet, or" in left_out[0]
    assert "mine/other: no commit to pin: its object format is SHA-256" in left_out[1]


def test_a_partial_clone_is_named_as_such(tmp_path):
    origin = repository(tmp_path / "origin", 40)
    subprocess.run(["git", "-C", origin, "config", "uploadpack.allowFilter", "true"], check=True)
    partial = tmp_path / "partial"
    url = f"file://{origin}"
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", "--filter=blob:none", url, partial], check=True)
    with pytest.raises(UserError, match="partial: no commit to pin: it is a partial clone; clone it whole"):
        start(partial, "profiles/local")


def test_a_clone_within_a_clone_and_a_link_are_not_taken(tmp_path):
    outer = repository(tmp_path / "all/outer", 1)
    repository(outer / "vendor/inner", 1)
    (tmp_path / "all/link").symlink_to(outer)
    assert clones_below(tmp_path / "all") == [outer]


@pytest.mark.parametrize("in_folder", [False, True])
def test_chats_become_an_experiment_of_their_own(tmp_path, capsys, in_folder):
    chats = tmp_path / "support.jsonl"
    if in_folder:
        chats = tmp_path / "support/a.jsonl"
        chats.parent.mkdir()
    turns = [
        [{"role": "user", "content": f"{number}?"}, {"role": "assistant", "content": "!"}] for number in range(130)
    ]
    lines = [json.dumps({"messages": messages}) for messages in turns]
    chats.write_text("\n".join([*lines, lines[0], "{}"]) + "\n")
    given = chats.parent if in_folder else chats
    start(given, "profiles/local")
    view = loaded("support")
    assert list(view.experiment.corpus.compose) == ["chats"] and view.experiment.sources is None
    assert view.experiment.training.train["chat"].origin == "base"
    assert "qa" in view.suites and "completion" not in view.suites
    said = capsys.readouterr().out
    assert f"{given}: 130 chats, left out: 1 duplicate, 1 no_messages\n" in said
    assert "about 13 of them are held out" in said and "warning: fewer" not in said


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "no chat to train on, left out: none; docs"),
        ("not json\n", "1: not JSON"),
        ('{"task_id": 1, "prompt": "def f():"}\n', "1: no `messages`"),
    ],
)
def test_a_file_without_chats_is_one_line_and_nothing_is_written(tmp_path, content, says):
    chats = tmp_path / "support.jsonl"
    chats.write_text(content)
    with pytest.raises(UserError, match=says):
        start(chats, "profiles/local")
    assert not Path("config/support.yaml").exists()


def test_nothing_that_is_there_is_overwritten(tmp_path):
    Path("config/mine.yaml").write_text("experiment: mine\n")
    with pytest.raises(UserError, match=r"config/mine.yaml: already there; --update moves it"):
        start(repository(tmp_path / "mine", 40), "profiles/local")
    assert Path("config/mine.yaml").read_text() == "experiment: mine\n"


@pytest.fixture
def base(tmp_path) -> Path:
    """A folder with no more of a Qwen2.5-Coder-7B than config.json and a tokenizer with its FIM tokens."""
    shape = {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28}
    shape |= {"num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 32768}
    config = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "tie_word_embeddings": False, **shape}
    folder = tmp_path / "coder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    tokens = ["<|endoftext|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]
    added = [{"id": 300 + number, "content": token, "special": True} for number, token in enumerate(tokens)]
    model = {"type": "BPE", "vocab": {chr(number): number for number in range(256)}, "merges": []}
    (folder / "tokenizer.json").write_text(json.dumps({"model": model, "added_tokens": added}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>"}))
    return folder


@pytest.mark.parametrize(("profile", "processes"), [("a40", 8), ("a40-dual", 2), ("a800", 4), ("rtx4090", 4)])
def test_a_base_of_7b_gets_numbers_of_the_profile_s_machine(tmp_path, base, capsys, profile, processes):
    repository(tmp_path / "mine", 400)
    start(tmp_path / "mine", f"profiles/{profile}", str(base), "8h", test=None)
    view = loaded("mine")
    own = view.stages["own"]
    assert own.precision == "bf16" and own.global_batch_size % processes == 0 and own.sequence_length == 4096
    assert own.learning_rate == "auto" and own.epochs == 1 and view.experiment.corpus.compose["own"].fim_rate == 0.5
    assert view.experiment.training.base.model == str(base) and view.experiment.training.base.package is None
    assert view.experiment.evaluation.perplexity.documents["own"] == 200 and view.shape.hidden_size == 3584
    said = capsys.readouterr().out
    assert "error" not in said and ", once, about " in said
    assert f"snakemake --profile {profile} results/mine/eval.json --configfile config/mine.yaml" in said


def test_without_a_profile_one_card_gets_a_machine_file_and_a_method_that_fits(tmp_path, base, capsys, monkeypatch):
    monkeypatch.setattr("scripts.report.commands.this_host.own_gpus", lambda: [("NVIDIA GeForce RTX 3090", 24.0)])
    repository(tmp_path / "mine", 100)
    start(tmp_path / "mine", None, str(base))
    machine = read_yaml(Path("config/machines/here.yaml"))
    assert machine["gpus"] == 1 and machine["gpu_memory_gib"] == 23.5 and machine["gpu_tflops"] == 71
    assert loaded("mine").stages["own"].method == "lora"
    said = capsys.readouterr().out
    assert "snakemake --profile here results/mine/eval.json" in said and "error" not in said
    start(tmp_path / "mine", "profiles/local", name="other")
    assert (
        "note: this host has 1 GPUs (NVIDIA GeForce RTX 3090), which profile local does not use"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"base": "nowhere/at/all"}, "--base nowhere/at/all: no such folder or .gguf file, and no name on the hub"),
        ({"base": "llm-x==1"}, "--base llm-x==1: a package needs `package`, `sha256` and `file` in the experiment"),
        ({"base": "Qwen/Qwen2.5-Coder-7B"}, "cannot be reached"),
        ({"hours": "soon"}, "--time soon: a number and a unit, as 30m, 8h or 2d"),
        ({"hours": "1s"}, "--time: too short for one step of 1,024 tokens"),
        ({"test": "nowhere"}, "--test nowhere: no such file or folder; give one in a clone, or a pattern"),
    ],
)
def test_what_cannot_be_started_is_one_line_and_nothing_is_written(tmp_path, monkeypatch, arguments, says):
    from huggingface_hub import HfApi

    def unreachable(*arguments, **named):
        raise httpx2.ConnectError("Name or service not known")

    monkeypatch.setattr(HfApi, "model_info", unreachable)
    repository(tmp_path / "mine", 60)
    with pytest.raises(UserError) as error:
        start(tmp_path / "mine", "profiles/local", **arguments)
    assert says in str(error.value) and "\n" not in str(error.value)
    assert not Path("config/mine.yaml").exists() and not Path("config/mine.tsv").exists()


def test_of_an_unknown_architecture_nothing_is_written(tmp_path, base):
    (base / "config.json").write_text('{"model_type": "mamba", "hidden_size": 64}')
    with pytest.raises(UserError, match="of an architecture that stagecraft cannot plan for"):
        start(repository(tmp_path / "mine", 60), "profiles/local", str(base))


def test_a_folder_of_a_clone_or_a_pattern_is_held_out(tmp_path):
    one = repository(tmp_path / "mine/one", 40)
    (one / "new").mkdir()
    shutil.copy(one / "file1.py", one / "new")
    commit(one)
    for name, test, expected in (
        ("a", one / "new", ["one/new/*"]),
        ("b", "tests/*", ["tests/*"]),
        ("c", one, ["one/*"]),
    ):
        start(tmp_path / "mine", "profiles/local", name=name, test=str(test))
        assert loaded(name).experiment.corpus.split.hold_out == expected


def test_an_update_moves_to_the_newest_commits_and_adds_clones(tmp_path, capsys):
    one = repository(tmp_path / "mine/one", 40)
    start(tmp_path / "mine", "profiles/local")
    before = loaded("mine").sources["one"].pin
    (one / "more.py").write_text(code(99))
    commit(one)
    two = repository(tmp_path / "mine/2048", 20, ".go")
    for number in range(20):
        comment = f"// 这是第{number}个文件，用来计算数值，并返回结果给调用者\n" * 8
        (two / f"more{number}.go").write_bytes((comment + code(number + 500)).encode("gbk"))
    commit(two)
    start(tmp_path / "mine", "profiles/local", newer=True)
    view = loaded("mine")
    assert view.sources["one"].pin != before and view.experiment.corpus.compose["own"].sources == ["one", "2048"]
    assert set(view.experiment.corpus.filter.languages) == {"go", "python"}
    assert view.experiment.corpus.filter.encodings == ["gbk"]
    assert "2048: added" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"--update: no config/none\.yaml"):
        start(tmp_path / "mine", "profiles/local", name="none", newer=True)


def test_what_the_filter_drops_converts_and_what_is_not_used_is_said(tmp_path, capsys):
    mine = tmp_path / "mine"
    repository(mine / "plain", 40)
    chinese = mine / "chinese"
    chinese.mkdir()
    for number in range(40):
        text = f"# 这是第{number}个文件，用来计算数值，并返回结果给调用者\n" * 8 + code(number + 500)
        (chinese / f"file{number}.py").write_bytes(text.encode("gbk"))
    for number in range(200):
        (chinese / "node_modules").mkdir(exist_ok=True)
        (chinese / f"node_modules/x{number}.js").write_text(code(number))
    commit(chinese)
    (mine / "plain/file0.py").write_text("changed = True\n")
    (mine / "without/src").mkdir(parents=True)
    (mine / "link").symlink_to(mine / "plain")
    start(mine, "profiles/local")
    view, said = loaded("mine"), capsys.readouterr().out
    assert view.experiment.corpus.filter.encodings == ["gbk"] and view.experiment.corpus.filter.languages == ["python"]
    assert "of 80 files are held out" in said and "converted 40 gbk" in said and "200 folder" in said
    assert "1 files with changes that are not committed, as file0.py: not used" in said
    assert f"not used: {mine}/without: no git repository in it" in said
    assert f"not used: {mine}/link: a symbolic link" in said


def test_questions_and_answers_are_read_by_columns_and_a_test_file_is_held_out(tmp_path, capsys):
    rows = [json.dumps({"question": f"what is {number}?", "answer": "a number " * 40}) for number in range(40)]
    (tmp_path / "faq.jsonl").write_text("\n".join(rows[:30]))
    (tmp_path / "test.jsonl").write_text("\n".join(rows[30:]))
    start(tmp_path / "faq.jsonl", "profiles/local", test=str(tmp_path / "test.jsonl"))
    chats = loaded("faq").experiment.corpus.compose["chats"]
    assert chats.columns == {"prompt": "question", "completion": "answer"} and chats.test_path.endswith("test.jsonl")
    (tmp_path / "one.jsonl").write_text(rows[0])
    with pytest.raises(UserError, match="1 chats leave none to score; add chats, or name a file of others by --test"):
        start(tmp_path / "one.jsonl", "profiles/local")


def test_of_a_base_on_the_hub_the_commit_and_the_shape_are_written(tmp_path, base, monkeypatch):
    from huggingface_hub import HfApi

    asked = []

    def info(api, name, revision, timeout):
        asked.append((name, revision))
        return SimpleNamespace(sha="c" * 40)

    monkeypatch.setattr(HfApi, "model_info", info)
    monkeypatch.setattr(proposal, "small_files", lambda settings: base)
    repository(tmp_path / "mine", 100)
    start(tmp_path / "mine", "profiles/a40", "Qwen/Qwen2.5-Coder-7B@main")
    found = loaded("mine").experiment.training.base
    assert asked == [("Qwen/Qwen2.5-Coder-7B", "main")]
    assert (found.model, found.revision, found.package) == ("Qwen/Qwen2.5-Coder-7B", "c" * 40, None)
    assert found.shape["hidden_size"] == 3584 and found.shape["vocab_size"] == 152064
