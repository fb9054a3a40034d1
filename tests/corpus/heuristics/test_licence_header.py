"""Licences: of a file's header and of its source, allowed or not, unknown told apart, carried to the datasets."""

from collections import Counter

import pytest

from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.corpus.compose import examples
from scripts.corpus.filter import filter_archive
from scripts.corpus.formats.filter_writer import DOCUMENTS, REJECTS, funnel
from scripts.corpus.heuristics.licence_header import licence_in
from scripts.experiment.settings.corpus import CodeDataset
from scripts.experiment.settings.filter import Filter
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


@pytest.mark.parametrize(
    ("header", "licence"),
    [
        (b"// SPDX-License-Identifier: MIT\n", "MIT"),
        (b"/* SPDX-License-Identifier: GPL-2.0-only WITH GCC-note */\n", "GPL-2.0-only WITH GCC-note"),
        (b"# SPDX-License-Identifier:  (MIT  OR Apache-2.0)\r\n", "(MIT OR Apache-2.0)"),
        (b"# SPDX-License-Identifier: MIT\n# SPDX-License-Identifier: 0BSD OR ISC\n", "MIT AND (0BSD OR ISC)"),
        (b"// SPDX-License-Identifier: MIT/Apache-2.0\n", "MIT OR Apache-2.0"),
        (b"// SPDX-License-Identifier: MIT //\n", None),
        (b"# SPDX-License-Identifier: `rm -rf /`; MIT AND\n" + APACHE, "Apache-2.0"),
        (APACHE, "Apache-2.0"),
        (GPL, "GPL-2.0-or-later"),
        (b"// under the GNU Lesser General Public License, version 2.1 only\n", "LGPL-2.1-only"),
        (b"// the GNU Affero General Public License v3\n", "AGPL-3.0-only"),
        (b"// Use of this source code is governed by a BSD-style\n// license\n", "BSD-3-Clause"),
        (b"# Permission is hereby granted, free of charge, to any\n# person obtaining a copy of\n", "MIT"),
        (b"/* This Source Code Form is subject to the terms of the\n * Mozilla Public License, v. 2.0. */", "MPL-2.0"),
        (b"// Company Inc. Proprietary and confidential.\n", "LicenseRef-Proprietary"),
        (b"# Copyright 2020, all rights reserved\n", None),
        (b"permission = 1\n", None),
        (b"", None),
        (b"\xff\xfe license \x00" * 999, None),
        (b"x = 1\n" * 1000 + APACHE, None),
    ],
)  # fmt: skip
def test_a_files_header_gives_its_licence_or_none(header, licence):
    assert licence_in(header + GOOD) == licence


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
