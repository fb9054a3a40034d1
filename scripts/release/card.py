"""The files beside a released model's weights: its card, its notices, its checksums; and the check of all of them.

    write_papers(folder, evidence)        # README.md, NOTICE, evidence.json, SHA256SUMS
    check_release(folder)                 # a line for each thing that is wrong; [] where nothing is

`evidence.json` holds what a run's provenance says of the model; the card and the notices are functions of it and of
nothing else. So whoever gets a release can make them again and see whether anybody wrote something into them.
"""

import hashlib
import json
import shutil
from pathlib import Path

from scripts.common import manifest
from scripts.common.errors import UserError
from scripts.common.files import atomic, read_json, seal, sha256_file, write_json
from scripts.experiment.model_folder import check_weights
from scripts.experiment.reruns.provenance import SUFFIX
from scripts.report.content.rendering import escape

CARD, NOTICE, EVIDENCE, SUMS, CHECK = "README.md", "NOTICE", "evidence.json", "SHA256SUMS", "check.py"
PAPERS = (CARD, NOTICE, EVIDENCE, SUMS, CHECK)
CHANGES = "changes.diff"  # of the code that trained, where it was no commit's
CHAT = """\
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")
model = AutoModelForCausalLM.from_pretrained(".")
chat = [{"role": "user", "content": "Write a function that adds two numbers."}]
ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True, return_tensors="pt")
answer = model.generate(**ids, max_new_tokens=64, do_sample=False)
print(tokenizer.decode(answer[0, ids["input_ids"].shape[1] :], skip_special_tokens=True))
"""
TEXT = """\
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")
model = AutoModelForCausalLM.from_pretrained(".")
ids = tokenizer("def add(a, b):", return_tensors="pt")
answer = model.generate(**ids, max_new_tokens=64, do_sample=False)
print(tokenizer.decode(answer[0], skip_special_tokens=True))
"""
# what nobody can find out from the folder alone
UNCHECKED = (
    "that the scores are those of these weights: evaluate again with the data",
    "that the weights were trained on the sources that are named: train again from their pins",
    "that evidence.json and all that follows from it were not replaced together: compare its seal with the publisher's",
)


def number(value: float | None) -> str:
    if value is None:
        return "not measured"
    return f"{round(value, 12):.4g}"


def interval(value: list[float] | None) -> str:
    if value is None:
        return ""
    return f"{number(value[0])} to {number(value[1])}"


def table(head: list[str], rows: list[list]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(escape(cell) for cell in line)} |" for line in lines)


def metadata(evidence: dict) -> str:
    """The card's head as YAML, as Hugging Face's hub reads it."""
    from huggingface_hub import EvalResult, ModelCardData  # of all that import this module, only releases need it

    results = []
    for row in evidence["scores"]:
        results.append(
            EvalResult(
                task_type="text-generation",
                dataset_type=row["dataset"],
                dataset_name=row["dataset"],
                metric_type=row["metric"],
                metric_value=row["value"],
            )
        )
    return ModelCardData(
        license=evidence["licence"],
        library_name="transformers",
        pipeline_tag="text-generation",
        base_model=evidence["base"]["hub"] or None,
        datasets=sorted(evidence["datasets"]),
        model_name=evidence["name"],
        eval_results=results,
    ).to_yaml()


def card(evidence: dict) -> str:
    """README.md of a release."""
    stages, base = evidence["stages"], evidence["base"]
    parts = [f"---\n{metadata(evidence)}\n---\n"]
    parts += [f"# {evidence['name']}", f"Is the folder whole? `sha256sum -c {SUMS}` and `python3 {CHECK}` say so, and"
              " need nothing else."]  # fmt: skip
    parts.append(f"{base['words']}, trained in {len(stages)} stages by stagecraft. {verdict_of(evidence)}")
    if evidence["sentence"]:
        parts.append(evidence["sentence"])
    snippet = CHAT if evidence["has_chat_template"] else TEXT
    parts += ["## Use", f"```python\n{snippet}```"]
    if evidence["gguf"]:
        names = ", ".join(f"`{name}`" for name in evidence["gguf"])
        parts.append(f"For llama.cpp: {names}; for Ollama: `ollama create NAME -f Modelfile`.")
    parts += ["## What it was trained on", stage_table(stages), source_table(evidence), left_out(evidence)]
    parts += ["## Scores", scores(evidence)]
    parts += ["## Is this the model that was trained?", proofs(evidence)]
    parts += ["## Limits", limits(evidence), "## Make it again", again(evidence)]
    return "\n\n".join(parts) + "\n"


def verdict_of(evidence: dict) -> str:
    """What was decided and shown of this stage, and of no other."""
    sentences = ["No gate of its evaluation is about this stage."]
    if evidence["gates"]:
        sentences = [f"Its gates ({len(evidence['gates'])}): {evidence['verdict']}."]
    for direction in ("better", "worse"):
        rows = [row for row in evidence["comparisons"] if row["direction"] == direction]
        for against in dict.fromkeys(row["against"] for row in rows):
            shown = []
            for row in rows:
                if row["against"] == against:
                    ends = interval(row["interval"])
                    shown.append(f"{row['dataset']} {row['metric'].replace('_', ' ')} {row['value']:+.4f} ({ends})")
            sentences.append(f"Shown to be {direction} than {against}: {'; '.join(shown)}.")
    return " ".join(sentences)


def stage_table(stages: list[dict]) -> str:
    head = ["stage", "data", "method", "steps", "tokens", "learning rate"]
    rows = []
    for stage in stages:
        rows.append([stage[key] for key in ("name", "data", "method", "steps", "tokens", "learning_rate")])
    return table(head, rows)


def source_table(evidence: dict) -> str:
    rows = []
    for dataset, content in sorted(evidence["datasets"].items()):
        for name, source in sorted(content["sources"].items()):
            place = f"{source.get('kind', '')} {source.get('location', '')}".strip()
            rows.append(
                [dataset, name, place, source.get("pin", ""), source.get("licence", ""), f"{source['examples']:,}"]
            )
    return table(["dataset", "source", "location", "commit or sha256", "licence", "examples"], rows)


def left_out(evidence: dict) -> str:
    lines = []
    for dataset, content in sorted(evidence["datasets"].items()):
        counts = [f"{name} {count:,}" for name, count in content["funnel"].items() if count]
        lines.append(f"- {escape(dataset)}: {escape(', '.join(counts))}")
    return "From the files that were seen to the examples, and what was left out:\n\n" + "\n".join(lines)


def scores(evidence: dict) -> str:
    head = ["suite", "dataset", "metric", "better is", "value", f"{evidence['confidence']:.0%} interval"]
    head += ["base", *([evidence["origin"]] if evidence["origin"] != "base" else [])]
    better = {"above": "more", "below": "less"}
    rows = []
    for row in evidence["scores"]:
        values = [number(row["value"]), interval(row["interval"]), number(row["base"])]
        if evidence["origin"] != "base":
            values.append(number(row["before"]))
        rows.append([row["suite"], row["dataset"], row["metric"], better[row["better"]], *values])
    text = table(head, rows)
    if evidence["conditions"]:
        conditions = [[row["name"], number(row["value"]), interval(row["interval"])] for row in evidence["conditions"]]
        text += "\n\nBeside the cheap alternatives, in bits per byte of held-out code (less is better):\n\n"
        text += table(["condition", "bits per byte", f"{evidence['confidence']:.0%} interval"], conditions)
    return text


def proofs(evidence: dict) -> str:
    marks = {True: "yes", False: "no", None: "measured"}
    rows = [[row["name"], marks[row["holds"]], row["text"]] for row in evidence["proof"]]
    return table(["compared", "as trained", ""], rows)


def limits(evidence: dict) -> str:
    languages = ", ".join(sorted(evidence["languages"])) or "text"
    return (
        f"Trained on {languages} alone. It may write code that is wrong, or that stands word for word in its training"
        " data, under another's licence. Scores hold for the held-out part of these sources."
    )


def again(evidence: dict) -> str:
    commit, experiment = evidence["commit"] or "its commit", escape(evidence["experiment"])
    target = f"{evidence['results']}/release/{evidence['stage']}/manifest.json"
    changes = ""
    if evidence["changed"]:
        names = ", ".join(f"`{name}`" for name in evidence["changed"][:5])
        changes = f", apply `{CHANGES}` (the code was no commit's: {names} had changed)"
    return (
        f"Check out stagecraft at {commit}{changes}, with the experiment {experiment} (seed {evidence['seed']}), whose"
        f" settings `{EVIDENCE}` holds, and run `snakemake --profile local {target}`. The seal is `{seal(evidence)}`."
    )


def notice(evidence: dict) -> str:
    """NOTICE of a release: the licence of each source, and how many examples came from it."""
    lines = [f"{evidence['name']} was trained on these sources, each under its own licence:", ""]
    for dataset, content in sorted(evidence["datasets"].items()):
        for name, source in sorted(content["sources"].items()):
            place = " ".join(str(source.get(key, "")) for key in ("kind", "location", "pin")).strip()
            lines.append(f"{dataset}: {name} ({place}): {source.get('licence', 'not stated')}")
        for licence, counts in sorted(content["licences"].items()):
            lines.append(f"{dataset}: files under {licence}: {counts['examples']:,} examples")
    return "\n".join([*lines, "", f"Base model: {evidence['base']['words']}"]) + "\n"


def write_text(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_papers(folder: Path, evidence: dict) -> None:
    """Write card, notices, evidence and checksums of a folder that holds all else, and its manifest last."""
    shutil.copyfile(Path(__file__).with_name("check_folder.py"), folder / CHECK)
    write_json(folder / EVIDENCE, {"evidence": evidence, "sha256": seal(evidence)})
    evidence = read_json(folder / EVIDENCE)["evidence"]  # as whoever gets it reads it
    write_text(folder / CARD, card(evidence))
    write_text(folder / NOTICE, notice(evidence))
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    write_text(folder / SUMS, "".join(f"{sha256_file(folder / name)}  {name}\n" for name in names))
    manifest.write_manifest(folder, [*names, SUMS])


def check_release(folder: Path) -> list[str]:
    """What is wrong with a release, by its own files. Raises UserError: the folder is no release."""
    for name in PAPERS:
        if not (folder / name).is_file():
            raise UserError(f"{folder / name}: no such file; a release has {', '.join(PAPERS)}")
    wrong = wrong_sums(folder)
    try:
        written = read_json(folder / EVIDENCE)
        evidence = written["evidence"]
        if written["sha256"] != seal(evidence):
            wrong.append(f"{EVIDENCE}: its content is not what was sealed")
        for path, made in ((CARD, card(evidence)), (NOTICE, notice(evidence))):
            if (folder / path).read_bytes() != made.encode():
                wrong.append(f"{path}: not what follows from {EVIDENCE}")
        for name, digest in evidence["files"].items():
            if not (folder / name).is_file() or sha256_file(folder / name) != digest:
                wrong.append(f"{name}: not the file that {EVIDENCE} was made for")
        wrong += [f"{EVIDENCE}: {row['name']}: {row['text']}" for row in evidence["proof"] if row["holds"] is False]
    except (AttributeError, KeyError, TypeError, ValueError, UserError) as error:
        wrong.append(f"{EVIDENCE}: not what a release has ({type(error).__name__}: {error})")
    try:
        check_weights(folder)
    except (UserError, OSError) as error:
        wrong.append(str(error))
    return wrong


def wrong_sums(folder: Path) -> list[str]:
    """What SHA256SUMS, the manifest and the files of a release do not agree on."""
    wrong, sums = [], {}
    for line in (folder / SUMS).read_text(encoding="utf-8", errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        if name in sums or "/" in name:
            wrong.append(f"{SUMS}: {name}: there twice, or not in this folder")
        sums[name] = digest
    for name, digest in sums.items():
        if not (folder / name).is_file():
            wrong.append(f"{name}: missing")
        elif sha256_file(folder / name) != digest:
            wrong.append(f"{name}: its sha256 is not that of {SUMS}")
    beside = {SUMS, manifest.NAME}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and name not in sums and name not in beside and not name.endswith(SUFFIX):
            wrong.append(f"{name}: {SUMS} does not list it")
    try:
        listed = {name: file["sha256"] for name, file in read_json(folder / manifest.NAME)["files"].items()}
        summed = hashlib.sha256((folder / SUMS).read_bytes()).hexdigest()
        if listed != sums | {SUMS: summed}:
            wrong.append(f"{manifest.NAME}: does not agree with {SUMS}")
    except (AttributeError, KeyError, TypeError, UserError, OSError) as error:
        wrong.append(f"{manifest.NAME}: not the manifest of a release ({type(error).__name__})")
    return wrong


def print_check(folder: Path) -> None:
    """Check a release and print what is wrong, and what a folder alone cannot show. Raises UserError: something is
    wrong."""
    wrong = check_release(folder)
    for line in wrong:
        print(line)
    if wrong:
        raise UserError(f"{folder}: {len(wrong)} things are wrong; get the release again")
    content = json.loads((folder / EVIDENCE).read_text(encoding="utf-8"))
    print(f"{folder}: card, notices and checksums are those of seal {content['sha256']}")
    for line in UNCHECKED:
        print(f"not checked: {line}")
