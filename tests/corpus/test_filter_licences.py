"""Licences: of a file's header, its folder and its source; allowed or not, unknown told apart, carried to datasets."""

from collections import Counter

import pytest

from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.corpus.compose import examples
from scripts.corpus.filter import filter_archive
from scripts.corpus.formats.filter_writer import DOCUMENTS, REJECTS, funnel
from scripts.experiment.settings.corpus import CodeDataset, Filter
from tests.corpus.archives import GOOD, write_archive

APACHE = b"""/*
 * Licensed under the Apache License, Version 2.0 (the "License");
 * you may not use this file except in compliance with the License.
 */
"""
GPL = b"""# This program is free software; you can redistribute it and/or modify
# it under the terms of the GNU General Public License as published by
# the Free Software Foundation; either version 2 of the License, or
# (at your option) any later version.
"""


def filtered(folder, files, source_licence, **settings):
    archive = write_archive(folder, "demo", files)
    with funnel(folder / "out") as result:
        filter_archive(archive, "demo", Filter(**settings), result, licence=source_licence)
    return read_manifest(folder / "out"), *(list(read_jsonl(folder / "out" / name)) for name in (DOCUMENTS, REJECTS))


FILES = {"apache.py": APACHE.replace(b"*", b"#").replace(b"/", b"#") + GOOD, "gpl.py": GPL + GOOD, "plain.py": GOOD}


@pytest.mark.parametrize(
    ("allowed", "source", "kept", "reasons"),
    [
        (None, "NOASSERTION", ["apache.py", "gpl.py", "plain.py"], {}),
        (["permissive"], "MIT", ["apache.py", "plain.py"], {"licence": 1}),
        (["permissive"], "NOASSERTION", ["apache.py"], {"licence": 1, "licence_unknown": 1}),
        (["permissive"], "GPL-3.0-only OR MIT", ["apache.py", "plain.py"], {"licence": 1}),
        (["permissive", "NOASSERTION"], "NOASSERTION", ["apache.py", "plain.py"], {"licence": 1}),
        (["apache-2.0", "GPL-2.0-or-later"], "MIT", ["apache.py", "gpl.py"], {"licence": 1}),
        (["MIT"], "MIT AND Zlib", [], {"licence": 3}),
    ],
)
def test_only_allowed_licences_are_kept_and_unknown_ones_are_counted_separately(
    tmp_path, allowed, source, kept, reasons
):
    manifest, documents, rejects = filtered(tmp_path, FILES, source, licences=allowed)
    assert [document["path"] for document in documents] == kept and manifest["dropped"] == reasons
    assert manifest["seen"] == 3 == len(documents) + len(rejects)
    licence = {"apache.py": "Apache-2.0", "gpl.py": "GPL-2.0-or-later", "plain.py": source}
    assert all(document["licence"] == licence[document["path"]] for document in documents)
    assert all(reject["detail"] == licence[reject["path"]] for reject in rejects)
    assert sum(manifest["licences"].values()) == len(documents)
    made = list(examples(iter(documents), CodeDataset(kind="code"), 42, 1, Counter()))
    assert [example["licence"] for example in made] == [document["licence"] for document in documents]


ZLIB = b"""  This software is provided 'as-is', without any express or implied warranty.
  3. Altered source versions must be plainly marked as such.
"""
ELASTIC = b"Elastic License 2.0\n\nBy using the software, you agree to all of the terms.\n"
TREE = {
    "LICENSE": b"MIT License\n\nPermission is hereby granted, free of charge, to any person obtaining a copy\n",
    "a.py": GOOD,
    "libs/zlib/LICENSE.txt": ZLIB,
    "libs/zlib/deep/er/b.py": GOOD,
    "libs/zlib/gpl.py": GPL + GOOD,
    "x-pack/COPYING": ELASTIC,
    "x-pack/Aa.py": GOOD,
    "odd/LICENSE.md": b"You may look at this code on Tuesdays. Licensed to friends.\n",
    "odd/c.py": GOOD,
    "both/LICENSE-APACHE": b"Apache License\nVersion 2.0, January 2004\n",
    "both/LICENSE-MIT": b"Permission is hereby granted, free of charge, to any person obtaining a copy\n",
    "both/d.py": GOOD,
    "code/license.py": b"GPL = 3\n" + GOOD,
    "code/e.py": GOOD,
}


def test_a_file_has_the_licence_of_the_nearest_folder_with_a_licence_file(tmp_path):
    _, documents, _ = filtered(tmp_path, TREE, "NOASSERTION")
    assert {document["path"]: document["licence"] for document in documents if document["language"] == "python"} == {
        "a.py": "MIT",
        "libs/zlib/deep/er/b.py": "Zlib",
        "libs/zlib/gpl.py": "GPL-2.0-or-later",
        "x-pack/Aa.py": "LicenseRef-other",
        "odd/c.py": "LicenseRef-other",
        "both/d.py": "Apache-2.0 OR MIT",
        "code/license.py": "MIT",
        "code/e.py": "MIT",
    }


def test_permissive_keeps_none_of_the_folders_with_other_licences(tmp_path):
    manifest, documents, _ = filtered(tmp_path, TREE, "MIT", licences=["permissive"], extensions={".py": "python"})
    assert {document["path"].split("/")[0] for document in documents} == {"a.py", "libs", "both", "code"}
    assert manifest["dropped"] == {"extension": 6, "licence": 3}
