"""What a repository says of its files outside of them: the nearest statement of a licence wins; linguist is obeyed."""

import json
import tarfile
from pathlib import Path

import pytest
import zstandard

from scripts.common.files import read_jsonl, sha256_file
from scripts.corpus.filter import filter_archive
from scripts.corpus.formats.filter_writer import DOCUMENTS, REJECTS, funnel
from scripts.corpus.heuristics.paths import Declarations
from scripts.experiment.settings.corpus import Filter

FIELD = Path(__file__).parents[4] / "shared/data/field/reuse"
CODE = "def written(by, hand):\n    return by + hand\n" * 6
TOML = """
version = 1
[[annotations]]
path = ["gen/**", "one/*.py"]
SPDX-License-Identifier = "LGPL-2.1-only"
[[annotations]]
path = "gen/free.py"
SPDX-License-Identifier = ["MIT", "Zlib"]
"""
DEP5 = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: old/*
 src/dep*.py
Copyright: 2026 the authors
License: GPL-3.0-only

Files: old/kept/*
License: ISC
"""


def filtered(tmp_path, files: dict[str, str]) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """(path → licence of the kept files, path → (reason, detail) of the others)."""
    (tmp_path / "tree").mkdir()
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, text in sorted(files.items()):
            path = tmp_path / "tree" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            archive.add(path, name)
    raw = (tmp_path / "a.tar").read_bytes()
    (tmp_path / "a.tar.zst").write_bytes(zstandard.compress(raw))
    about = {"sha256": sha256_file(tmp_path / "a.tar"), "files": len(files), "bytes": len(raw)}
    (tmp_path / "a.json").write_text(json.dumps(about))
    with funnel(tmp_path / "out") as result:
        settings = Filter(languages=["python"], min_characters=1, min_lines=1)
        filter_archive(tmp_path / "a.tar.zst", "a", settings, result)
    kept = {document["path"]: document["licence"] for document in read_jsonl(tmp_path / "out" / DOCUMENTS)}
    rejects = read_jsonl(tmp_path / "out" / REJECTS)
    return kept, {reject["path"]: (reject["reason"], reject["detail"]) for reject in rejects}


def test_the_nearest_statement_of_a_licence_wins(tmp_path):
    tag = "# SPDX-License-Identifier: GPL-3.0-only\n"
    files = {
        "LICENSE": "SPDX-License-Identifier: MIT\n",
        "REUSE.toml": TOML,
        ".reuse/dep5": DEP5,
        "root.py": CODE,
        "foot.py": f"{CODE}\n\n{tag}",
        "middle.py": f"{CODE}{tag}{CODE}",
        "text.py": f'{CODE}TAG = "SPDX-License-Identifier: GPL-3.0-only"\n',
        "beside.py": CODE,
        "beside.py.license": "SPDX-License-Identifier: GPL-3.0-only\n",
        "both.py": f"# SPDX-License-Identifier: MIT\n{CODE}",
        "both.py.license": "SPDX-License-Identifier: Apache-2.0\n",
        "gen/a/b.py": CODE,
        "gen/free.py": CODE,
        "gen/own.py": f"# SPDX-License-Identifier: ISC\n{CODE}",
        "one/a.py": CODE,
        "one/deep/a.py": CODE,
        "old/a/b.py": CODE,
        "old/kept/a.py": CODE,
        "src/dep5.py": CODE,
    }
    kept, _ = filtered(tmp_path, files)
    assert kept == {
        "root.py": "MIT",
        "foot.py": "GPL-3.0-only",
        "middle.py": "GPL-3.0-only",
        "text.py": "MIT",
        "beside.py": "GPL-3.0-only",
        "both.py": "Apache-2.0",
        "gen/a/b.py": "LGPL-2.1-only",
        "gen/free.py": "MIT AND Zlib",
        "gen/own.py": "ISC",
        "one/a.py": "LGPL-2.1-only",
        "one/deep/a.py": "MIT",
        "old/a/b.py": "GPL-3.0-only",
        "old/kept/a.py": "ISC",
        "src/dep5.py": "GPL-3.0-only",
    }


def test_what_linguist_is_told_is_obeyed(tmp_path):
    files = {
        ".gitattributes": "# comment\n*.gen.py linguist-generated\n"
        "api/** linguist-generated=true -diff\n/lib linguist-vendored\n"
        "api/own.py -linguist-generated\nlib/ours/*.py linguist-vendored=false\n",
        "sub/.gitattributes": "made.py linguist-generated\n",
        **dict.fromkeys(("a.gen.py", "x/b.gen.py", "api/v1/c.py", "api/own.py", "lib/d.py", "lib/ours/e.py"), CODE),
        **dict.fromkeys(("sub/made.py", "sub/deep/made.py", "made.py", "x/lib/f.py"), CODE),
    }
    kept, dropped = filtered(tmp_path, files)
    assert set(kept) == {"api/own.py", "lib/ours/e.py", "made.py", "x/lib/f.py"}
    assert dropped["x/b.gen.py"] == ("generated", ".gitattributes says linguist-generated")
    assert dropped["lib/d.py"] == ("folder", ".gitattributes says linguist-vendored")
    assert dropped["sub/deep/made.py"][0] == "generated"


@pytest.mark.parametrize("text", ["", "not = toml = 3", 'annotations = "x"', "[[annotations]]\nx = 1", "\x00\xff"])
def test_a_damaged_table_says_nothing(text):
    declared = Declarations.of({"REUSE.toml": text, ".reuse/dep5": text, ".gitattributes": text, "a.py.license": text})
    assert declared.licence("a.py") is None and declared.attribute("a.py") is None


@pytest.mark.skipif(not FIELD.is_dir(), reason="needs shared/data/field, which lies beside the checkout")
def test_a_repository_in_reuses_form(tmp_path):
    files = {str(path.relative_to(FIELD)): path.read_text() for path in FIELD.rglob("*") if path.is_file()}
    kept, _ = filtered(tmp_path, files)
    assert kept.pop("src/root.py") == "MIT"
    assert kept == dict.fromkeys(("src/dep5.py", "src/foot.py", "src/sidecar.py"), "GPL-3.0-only")
