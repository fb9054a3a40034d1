# ruff: noqa: E501
"""How well `stagecraft accept` tells harmless from harmful edits: 20 of each, on the samples that it replays.

    python -m benchmarks.bench_accept FOLDER [filter.alpha …]

FOLDER is a checkout under git in which the tiny experiment of tests/workflow/conftest.py has run to its end. Each edit is
made in a worktree of its commit; the sample of the job is replayed there and compared with the sample of the unedited
code, as `stagecraft accept` does. A line per edit, then the counts; a harmful edit that is accepted was missed.
"""

import os
import sys
from pathlib import Path

FILTER, QUALITY = "scripts/corpus/filter.py", "scripts/corpus/heuristics/quality.py"
TRAIN, ARGUMENTS = "scripts/training/train.py", "scripts/training/optimization/training_arguments.py"
TRAINER, PERPLEXITY = "scripts/training/engine/trainer.py", "scripts/evaluation/perplexity.py"

# job → (harmless, file, old, new)
EDITS = {
    "filter.alpha": [
        (True, FILTER, 'name[dot:] if dot > 0 else ""', '"" if dot <= 0 else name[dot:]'),
        (True, FILTER, 'name = path[path.rfind("/") + 1 :]', 'name = path.rpartition("/")[2]'),
        (True, FILTER, "if folder in settings.excluded_folders:", "if folder in set(settings.excluded_folders):"),
        (True, FILTER, "    raw, text = decode(bytes(content))", "    raw, text = decode(content.tobytes())"),
        (True, QUALITY, "    characters = len(text)\n", "    characters = text.__len__()\n"),
        (True, QUALITY, 'newlines = raw.count(b"\\n")', 'newlines = text.count("\\n")'),
        (True, QUALITY, 'max(map(len, text.split("\\n")))', 'max(len(line) for line in text.split("\\n"))'),
        (True, QUALITY, "while start >= 0:", "while start != -1:"),
        (True, QUALITY, "raw = raw.removeprefix(BOM)", "raw = raw[len(BOM) :] if raw.startswith(BOM) else raw"),
        (
            True,
            QUALITY,
            "sum(runs) > ENCODED_SHARE * characters",
            "ENCODED_SHARE * characters < sum(runs)",
        ),
        (True, QUALITY, "return lengths", "return list(lengths)"),
        (True, FILTER, "    progress.end()\n", "    del progress\n"),
        (False, FILTER, "    return raw, text\n", '    return raw, text.replace("\\t", " ")\n'),
        (
            False,
            FILTER,
            '"source": source, "language": language}',
            '"source": source, "language": str(language).upper()}',
        ),
        (False, FILTER, "hashlib.sha256(raw)", "hashlib.sha256(raw.strip())"),
        (False, QUALITY, "lines < settings.min_lines", "lines <= settings.min_lines"),
        (False, QUALITY, "mean > settings.max_mean_line_length", "mean > settings.max_mean_line_length / 2"),
        (False, QUALITY, "characters > settings.max_characters", "characters >= settings.max_characters"),
        (False, QUALITY, "share < settings.min_alphanumeric", "share < settings.min_alphanumeric * 1.01"),
        (False, QUALITY, "[:HEAD_LINES]).lower()", "[:HEAD_LINES])"),
        (False, QUALITY, 'lines = newlines + (not raw.endswith(b"\\n") and characters > 0)', "lines = newlines + 1"),
        (False, QUALITY, "max(runs) > ENCODED_RUN", "max(runs) > ENCODED_RUN * 2"),
        (False, QUALITY, "raw = raw.removeprefix(BOM)", "raw = bytes(raw)"),
        (False, FILTER, "result.keep(document, len(raw))", "result.keep(document, len(text))"),
    ],
    "train.pretrain": [
        (
            True,
            TRAINER,
            "{name: torch.stack([row[name] for row in rows]) for name in rows[0]}",
            "{name: torch.stack([row[name] for row in rows]) for name in list(rows[0])}",
        ),
        (
            True,
            TRAINER,
            'nats, tokens = self.accelerator.reduce(sums, "sum").tolist()',
            'both = self.accelerator.reduce(sums, "sum")\n        nats, tokens = both[0].item(), both[1].item()',
        ),
        (
            True,
            ARGUMENTS,
            "adam_beta1=settings.betas[0],\n        adam_beta2=settings.betas[1],",
            "adam_beta2=settings.betas[1],\n        adam_beta1=settings.betas[0],",
        ),
        (
            True,
            ARGUMENTS,
            'arguments = {"max_grad_norm": settings.clip, "warmup_steps": stage.warmup}',
            "arguments = dict(warmup_steps=stage.warmup, max_grad_norm=settings.clip)",
        ),
        (False, ARGUMENTS, "weight_decay=settings.weight_decay,", "weight_decay=settings.weight_decay * 1.001,"),
        (False, ARGUMENTS, "adam_epsilon=settings.eps,", "adam_epsilon=settings.eps * 2,"),
        (False, ARGUMENTS, "seed=seed,", "seed=seed + 1,"),
        (False, TRAINER, "min(rows or len(shards), len(shards))", "min(rows or len(shards), len(shards) - 1)"),
    ],
    "perplexity.sft": [
        (
            True,
            PERPLEXITY,
            '"perplexity": math.exp(nll / tokens),',
            '"perplexity": math.e ** 0 * math.exp(nll / tokens),',
        ),
        (True, PERPLEXITY, "    if not examples:\n", "    if len(examples) == 0:\n"),
        (True, PERPLEXITY, "items, scores = [], {}", "items, scores = list(), dict()"),
        (True, PERPLEXITY, "items += of_dataset", "items.extend(of_dataset)"),
        (False, PERPLEXITY, "nll / math.log(2) / size", "nll / math.log(2) / (size + 1)"),
        (False, PERPLEXITY, "pick_examples(path, settings.documents)", "pick_examples(path, settings.documents)[::-1]"),
        (False, PERPLEXITY, "settings.context, settings.stride,", "settings.context, settings.stride // 2,"),
        (False, PERPLEXITY, "math.exp(nll / tokens)", "math.exp(nll / (tokens + 1))"),
    ],
}


def main() -> None:
    root, *names = sys.argv[1:]
    os.chdir(root)
    from scripts.common.errors import UserError
    from scripts.experiment.replays.replay import differing, replay, worktree
    from scripts.experiment.replays.samples import sample_of
    from scripts.report.commands.why import dry_run, name_of

    workflow = dry_run("local", Path("config/tiny.yaml"))
    jobs = {name_of(job).replace(" ", "."): job for job in workflow.dag.jobs if job.output}
    counts = {(harmless, accepted): 0 for harmless in (True, False) for accepted in (True, False)}
    for name in names or EDITS:
        job = jobs[name]
        import json

        settings = json.loads(job.params.get("settings"))
        sample = sample_of(job.rule.name, job.shellcmd, list(map(str, job.input)), list(map(str, job.output)), settings)
        with worktree("HEAD", Path.cwd()) as folder:
            unedited = replay(sample, folder, Path.cwd())
        for harmless, file, old, new in EDITS[name]:
            with worktree("HEAD", Path.cwd()) as folder:
                text = (folder / file).read_text()
                assert old in text, f"{file}: no {old!r}"
                (folder / file).write_text(text.replace(old, new, 1))
                try:
                    lines = differing(unedited, replay(sample, folder, Path.cwd()))
                except UserError as error:
                    lines = [str(error)]
            counts[harmless, not lines] += 1
            kind, outcome = "harmless" if harmless else "harmful", "refused: " if lines else "accepted"
            print(f"{name}: {kind}: {new[:60]!r}: {outcome}{lines[0][:100] if lines else ''}", flush=True)
    print(f"harmless: {counts[True, True]} accepted, {counts[True, False]} refused", flush=True)
    print(f"harmful: {counts[False, False]} refused, {counts[False, True]} accepted (missed)", flush=True)


if __name__ == "__main__":
    main()
