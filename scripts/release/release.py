"""Write a trained model as others get it, prove that it is the one that was trained, and write its card.

    python -m scripts.release.release --stage own --model results/training/train/own --results results \\
        --settings '{"gguf": ["q8_0"]}' --out results/release/own

The folder holds plain safetensors (an adapter is merged into its base), tokenizer, chat template, generation config, if
asked for GGUF files and a Modelfile, and the papers of card.py. Nothing is published where a comparison of proof.py
fails. What the card says is read from the results of the run, whose eval.json must be there.
"""

import logging
import re
import shutil
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
from transformers.utils import logging as transformers_logging

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import new_folder_beside, publish_files, read_json, read_jsonl, sha256_file, write_json
from scripts.common.manifest import NAME, read_manifest
from scripts.common.options import command
from scripts.evaluation.generation.examples import chat_text, pick_examples, shortened, split_chat, text_of
from scripts.evaluation.results.gates import verdict
from scripts.evaluation.suites import suites_of
from scripts.experiment.layout import Layout, split_file
from scripts.experiment.model_folder import description
from scripts.experiment.settings.training import Release
from scripts.release.card import CHANGES, write_papers, write_text
from scripts.release.gguf_file import modelfile, write_gguf
from scripts.release.proof import Samples, failed, prove
from scripts.tokens.tokenization.encoder import Encoder
from scripts.training.model.loading import load_model

TEXTS, CHATS, COMPLETIONS, DOCUMENTS = 10_000, 1000, 12, 12  # that are compared, at most
CHARACTERS = 700  # of each document
PIECE = 400  # characters of a text


def write_model(model: Path, settings: Release, out: Path) -> None:
    """Write weights, config, tokenizer and generation config; the files that name end tokens agree.

    An adapter is merged in float32 and rounded once. A stage on texts alone has its base's end tokens; the token that
    ended its documents is added to them.
    """
    transformers_logging.disable_progress_bar()
    loaded = load_model(model, "auto" if settings.precision == "auto" else torch.float32)
    if settings.precision == "bf16":
        loaded = loaded.to(torch.bfloat16)
    loaded.save_pretrained(out)
    for name in read_manifest(model)["files"]:
        weights = name.endswith((".safetensors", ".index.json")) or name.startswith("adapter_")
        if not weights and name not in ("config.json", "gguf.json"):
            shutil.copyfile(model / name, out / name)
    generation = read_json(out / "generation_config.json")
    known = generation.get("eos_token_id")
    ends = known if isinstance(known, list) else [known]
    ends = [end for end in dict.fromkeys([*ends, Encoder(model).end]) if end is not None]
    for name in ("generation_config.json", "config.json"):
        write_json(out / name, read_json(out / name) | {"eos_token_id": ends})


def chain_of(stage: str, stages: dict[str, dict]) -> list[str]:
    """The stages from the base up to this one."""
    chain = [stage]
    while stages[chain[0]]["from"] in stages:
        chain.insert(0, stages[chain[0]]["from"])
    return chain


def datasets_of(experiment: dict, chain: list[str]) -> list[str]:
    """The datasets that these stages were trained on."""
    found = {}
    for stage in chain:
        data = experiment["training"]["train"][stage]["data"]
        mixture = experiment["tokens"].get("mix", {}).get(data)
        found |= dict.fromkeys(mixture["parts"] if mixture else [data])
    return list(found)


def pieces_of(datasets: list[Path]) -> list[str]:
    """At most `TEXTS` parts of documents, as many of each dataset."""
    pieces = []
    for folder in datasets:
        of_dataset = []
        for split in ("test", "train"):
            for example in read_jsonl(split_file(folder, split)):
                text = chat_text(example["messages"]) if "messages" in example else text_of(example)
                of_dataset += [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
                if len(of_dataset) * len(datasets) >= TEXTS:
                    break
        pieces += of_dataset[: TEXTS // len(datasets)]
    return pieces


def samples_of(layout: Layout, model: str, datasets: list[str], scored: dict) -> Samples:
    """What the model is compared on: texts and chats of the datasets, greedy completions and documents of the suites.
    `scored`: `evaluation` of the experiment."""
    folders = [layout.dataset(name) for name in datasets]
    chats, by_id = [], {}
    for name, folder in zip(datasets, folders, strict=True):
        for example in read_jsonl(split_file(folder, "test")):
            if "messages" in example:
                chats.append(example["messages"])
                by_id[name, example["id"]] = example["messages"]
    completions = []
    for suite in ("qa", "bleu"):  # a stranger's `generate` does not heal the prompts of `completion`
        settings = scored.get(suite)
        items = layout.suite(suite, model) / "items.jsonl.zst"
        if not settings or settings.get("temperature") or settings.get("few_shot") or not items.is_file():
            continue
        for item in read_jsonl(items):
            whole = by_id.get((item["dataset"], item["id"]))
            if whole is None:
                continue  # of a dataset that this model was not trained on
            prompt = split_chat({"messages": whole})[0]
            penalty = settings.get("repetition_penalty", 1.0)
            completions.append((prompt, item["written"][0], settings["max_new_tokens"], penalty))
    documents = []
    for folder in folders:
        documents += shortened(pick_examples(split_file(folder, "test"), DOCUMENTS), CHARACTERS)
    return Samples(pieces_of(folders), chats[:CHATS], completions[:COMPLETIONS], documents[:DOCUMENTS])


def score_rows(evaluation: dict, model: str) -> list[dict]:
    """Each metric of each suite and dataset, over all languages, beside the base's."""
    measured, rows = suites_of(evaluation["inputs"]["experiment"]["evaluation"]), []
    origin = evaluation["inputs"]["experiment"]["training"]["train"][model]["from"]
    for suite, datasets in evaluation["scores"][model].items():
        for dataset, languages in datasets.items():
            base, before = (
                evaluation["scores"].get(name, {}).get(suite, {}).get(dataset, {}).get("all", {})
                for name in ("base", origin)
            )
            for metric, found in languages["all"].items():
                if isinstance(found, dict) and found["value"] is not None:
                    about = {"suite": suite, "dataset": dataset, "metric": metric, "value": found["value"]}
                    about["better"] = measured[suite].metrics[metric].better
                    about["before"] = before.get(metric, {}).get("value")
                    rows.append(about | {"interval": found["interval"], "base": base.get(metric, {}).get("value")})
    return rows


def evidence_of(layout: Layout, stage: str, settings: Release, model: Path, folder: Path) -> dict:
    """All that the card says, but for the proof, from the results of the run."""
    evaluation, cards = read_json(layout.evaluation), read_json(layout.cards / "cards.json")
    experiment = evaluation["inputs"]["experiment"]
    train, question = experiment["training"]["train"], evaluation["question"]
    chain = chain_of(stage, train)
    datasets = datasets_of(experiment, chain)
    summaries = {name: evaluation["stages"][name]["summary"] for name in chain}
    kept = ("kind", "examples", "sources", "licences", "languages", "funnel")
    base = experiment["training"]["base"]
    hub = base["model"] if base.get("revision") else None
    of_stage = [gate for gate in evaluation["gates"] if gate["model"] == stage]
    return {
        "name": f"{experiment['experiment']}-{stage}",
        "experiment": experiment["experiment"],
        "results": experiment["results"],
        "stage": stage,
        "seed": experiment["seed"],
        "licence": settings.licence,
        "settings": experiment,
        "commit": evaluation["stages"][stage]["environment"]["git_commit"],
        "changed": changed_files(evaluation["stages"][stage]["environment"].get("git_diff") or ""),
        "origin": train[stage]["from"],
        "versions": evaluation["inputs"]["versions"],
        "confidence": evaluation["confidence"],
        "gates": of_stage,
        "verdict": verdict([gate["outcome"] for gate in of_stage]),
        "comparisons": shown_of(evaluation, stage),
        "sentence": question["sentence"] if question and question["model"] == stage else "",
        "conditions": question["conditions"] if question and question["model"] == stage else [],
        "base": {"words": description(base), "hub": hub, "files": evaluation["inputs"]["models"]["base"]},
        "trained": evaluation["inputs"]["models"][stage],
        "stages": [stage_facts(name, train[name], summaries[name]) for name in chain],
        "datasets": {name: {key: cards[name][key] for key in kept} for name in datasets},
        "languages": sorted({language for name in datasets for language in cards[name]["languages"]}),
        "scores": score_rows(evaluation, stage),
        "has_chat_template": (folder / "chat_template.jinja").is_file(),
        "gguf": sorted(path.name for path in folder.glob("*.gguf")),
    }


def changed_files(diff: str) -> list[str]:
    """The files that a diff of git's changes."""
    return re.findall(r"^diff --git a/(.+) b/", diff, re.MULTILINE)


def shown_of(evaluation: dict, stage: str) -> list[dict]:
    """What is shown of a stage beside the base and the stage before it, over all languages."""
    keys = ("against", "dataset", "metric", "value", "interval", "direction")
    rows = []
    for row in evaluation["comparisons"]:
        if row["model"] == stage and row["language"] == "all" and row["direction"] in ("better", "worse"):
            rows.append({key: row[key] for key in keys})
    return rows


def stage_facts(name: str, settings: dict, summary: dict) -> dict:
    facts = {"name": name, "data": settings["data"], "method": settings.get("method", "full")}
    return facts | {key: summary[key] for key in ("steps", "tokens", "learning_rate", "global_batch_size")}


def release(stage: str, model: Path, results: Path, settings: Release, out: Path) -> dict:
    """Write the folder `out` and return its manifest. Raises UserError: a comparison with the trained model fails, or
    llama.cpp cannot run such a model."""
    layout = Layout(results)
    evaluation = read_json(layout.evaluation)
    experiment = evaluation["inputs"]["experiment"]
    with new_folder_beside(out) as folder:
        write_model(model, settings, folder)
        files = []
        for kind in settings.gguf:
            files.append(f"{experiment['experiment']}-{stage}-{kind}.gguf".replace(" ", "-"))
            write_gguf(folder, folder / files[-1], kind)
            logging.info(f"release: wrote {files[-1]}")
        if files:
            encoder, render = Encoder(folder), None
            if encoder.chats.source:
                render = partial(encoder.chats.compiled.render, add_generation_prompt=True)
            ends = [token for token in ("<|im_end|>", "<|endoftext|>") if token in encoder.controls]
            write_text(folder / "Modelfile", modelfile(files[-1], ends, render))
        datasets = datasets_of(experiment, chain_of(stage, experiment["training"]["train"]))
        samples = samples_of(layout, stage, datasets, experiment["evaluation"])
        lines = prove(model, folder, samples, files, evaluation["confidence"])
        for line in lines:
            logging.info(f"release: {line.name}: {line.text}")
        wrong = failed(lines)
        if wrong:
            raise UserError(
                f"release: {stage}: {wrong[0].name}: {wrong[0].text}; this is not the model that was trained"
            )
        diff = evaluation["stages"][stage]["environment"].get("git_diff")
        if diff:
            write_text(folder / CHANGES, diff)
        evidence = evidence_of(layout, stage, settings, model, folder)
        hashed = {path.name: sha256_file(path) for path in sorted(folder.iterdir())}
        write_papers(folder, evidence | {"proof": [asdict(line) for line in lines], "files": hashed})
        if out.exists():
            shutil.rmtree(out)
        publish_files(folder, out, last=NAME)
    return read_json(out / NAME)


if __name__ == "__main__":
    run(command(release))
