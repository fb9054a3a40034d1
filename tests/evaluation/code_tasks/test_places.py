"""Where files of code are scored: what is left out, that places are all over it, and which characters they are."""

import pytest

from scripts.evaluation.code_tasks.places import left_out, places, spans
from scripts.experiment.settings.suites import Places

HEADS = {
    "python": (
        "#!/usr/bin/env python3\n# Copyright 2024 The Authors\n#\n# Licensed under the Apache License\n\n"
        '"""What this module does."""\n\nfrom os import (\n    path,\n    sep,\n)\nimport re as regex\n',
        ["", '"""What this module does."""', ""],
    ),
    "java": (
        "/*\n * Copyright (C) 2011 Google Inc.\n *\n\n * Licensed to nobody.\n */\npackage com.google.gson;\n\n"
        "import static java.util.Map.of;\nimport java.util.*;\n/** The documentation. */\n",
        ["", "/** The documentation. */"],
    ),
    "go": (
        '// Copyright 2020 The Go Authors. All rights reserved.\n\n// Package x does.\npackage x\n\nimport (\n\t"fmt"\n'
        '\t"os"\n)\n',
        ["", "// Package x does.", ""],
    ),
    "rust": ("// SPDX-License-Identifier: MIT\nuse std::{\n    fs,\n    io::Read,\n};\npub mod reader;\n", []),
    "typescript": ('import { a,\n  b } from "./x";\nimport type C from "c";\nexport * from "./y";\n', []),
    "c": ("/* (c) 1999 Somebody */\n#include <stdio.h>\n#pragma once\n#define LIMIT 3\n", ["#define LIMIT 3"]),
    "csharp": ("using System;\nusing static System.Math;\nnamespace A.B;\n", []),
    "ruby": ("# frozen_string: true\n\nrequire 'json'\nrequire_relative \"x/y\"\n", ["# frozen_string: true", ""]),
    "php": ("<?php\nuse App\\Models\\User;\n", ["<?php"]),
    "kotlin": ("package a.b\n\nimport kotlin.math.max\n", [""]),
}  # fmt: skip
# lines that look like imports, or speak of licences, and are code
CODE = [
    "    require(count > 0) { message }",
    "    using (var file = Open(path)) {",
    'used = "import os"',
    "    return license_of(path)  # copyright holders",
    "from_date = import_date",
    "    use_cache = True",
    "modules = {}",
    "included = include(x)",
]


@pytest.mark.parametrize("language", HEADS)
def test_licence_headers_and_imports_are_left_out_and_nothing_else(language):
    head, kept = HEADS[language]
    lines = [*head.splitlines(), *CODE]
    skipped = left_out(lines)
    assert [line for number, line in enumerate(lines) if number not in skipped] == [*kept, *CODE]


def test_a_header_without_a_licence_is_scored():
    lines = ["# Reads lines.", "# Returns them.", "", "x = 1"]
    assert left_out(lines) == set()


def test_places_lie_all_over_the_file_and_do_not_depend_on_other_files():
    text = "import os\n" + "".join(f"line{number} = {number}\n" for number in range(1, 400))
    settings, firsts = Places(per_file=3, lines=20), set()
    for name in range(60):
        found = places(text, f"s/{name}.py", settings)
        assert found == places(text, f"s/{name}.py", settings)
        assert [len(place) for place in found] == [20, 20, 20]
        for part, place in enumerate(found):
            assert part * 133 < place[0] and place[-1] <= (part + 1) * 133 + 1
            assert place == list(range(place[0], place[0] + 20))
        firsts.update(place[0] for place in found)
    assert len(firsts) > 100  # drawn by a hash, not from the beginning of each part


def test_a_short_file_is_scored_whole_and_one_of_imports_alone_nowhere():
    text = "import os\n\nx = 1\ny = 2\nz = 3\n"
    assert places(text, "s/a.py", Places(per_file=2, lines=20)) == [[2], [3, 4]]
    assert places("import os\nimport re\n", "s/a.py", Places()) == []
    assert places("", "s/a.py", Places()) == []


def test_spans_are_the_characters_of_the_lines_with_their_ends():
    text = "aé\nbb\nccc\ndddd\ne"
    assert [text[start:end] for start, end in spans(text, [[1, 2], [4]])] == ["bb\nccc\n", "e"]
    assert [text[start:end] for start, end in spans(text, [[0], [1]])] == ["aé\nbb\n"]
