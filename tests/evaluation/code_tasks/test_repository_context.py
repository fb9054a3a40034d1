"""Imports lead to files of the same repository, in each language; their texts stay within the budget."""

import pytest

from scripts.evaluation.code_tasks.repository_context import RepositoryPaths, repository_context


@pytest.mark.parametrize(
    ("language", "path", "text", "expected"),
    [
        ("python", "app/main.py", "import os\nfrom app.core import x\nfrom . import util\n", ["app/core/__init__.py"]),
        ("python", "app/main.py", "from .util import y\nimport app.main\n", ["app/util.py"]),
        ("python", "app/core/a.py", "from ..util import y\n", ["app/util.py"]),
        ("java", "src/org/x/A.java", "import java.util.List;\nimport org.x.B;\nclass A {}\n", ["src/org/x/B.java"]),
        ("go", "cmd/main.go", 'package main\nimport "example.org/m/pkg/text"\n', ["pkg/text/a.go", "pkg/text/b.go"]),
        (
            "rust",
            "src/main.rs",
            "use crate::net::{tcp, udp};\nuse crate::io::R;\n",
            ["src/net/mod.rs", "src/io.rs"],
        ),
        ("cpp", "a.cpp", '#include <vector>\n#include "base/b.h"\n', ["include/base/b.h"]),
    ],
)
def test_the_imported_files_of_the_repository_are_found(language, path, text, expected):
    files = ["app/main.py", "app/util.py", "app/core/__init__.py", "app/core/a.py"]
    files += ["src/org/x/A.java", "src/org/x/B.java", "src/org/y/B.java", "cmd/main.go", "pkg/text/a.go"]
    files += ["pkg/text/b.go", "pkg/other/c.go", "src/main.rs", "src/net/mod.rs", "src/io.rs"]
    files += ["include/base/b.h", "other/b.h", "a.cpp"]
    assert RepositoryPaths(files).imported_by(path, text, language) == expected


def test_context_ends_at_a_line_end_within_its_budget_and_is_empty_without_files():
    files = [("a.py", "one = 1\n" * 2), ("b.py", "two = 2\n" * 9), ("c.py", "three = 3\n")]
    assert repository_context(files, "d.py", "python", 40) == (
        "# a.py\none = 1\none = 1\n\n# b.py\ntwo = 2\ntwo = 2\ntwo = 2\n\n# d.py\n"
    )
    assert repository_context([], "d.py", "python", 40) == repository_context(files, "d.py", "go", 3) == ""
