"""Documents and chats for tests of datasets."""

import hashlib
import random

from scripts.corpus.instruct.tasks import examples_of
from scripts.experiment.settings.corpus import InstructDataset

SEED = 42
CHAT = InstructDataset(kind="instruct", language="zh", tasks={"analysis": 1}, max_characters=1000)
PYTHON = '"""Reads all the tables."""\nimport os\n\n\ndef read(path):\n    return os.stat(path)\n'


def document(text, path="a.py", language="python", source="demo"):
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"text": text, "path": path, "source": source, "language": language, "sha256": digest}


def instruct_example(document, settings):
    made = examples_of(document, settings, SEED)
    return made if isinstance(made, str) else next(made)


def texts(count):
    for seed in range(count):
        rng = random.Random(seed)
        yield f"{seed}" + "".join(rng.choice("ab\r\n 中𝟙é👩\u200d<|endoftext|>") for _ in range(rng.randint(0, 60)))
