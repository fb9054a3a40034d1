"""Methods that libraries call on our classes are part of them in every fingerprint, whoever names them."""

import ast
import importlib
import inspect

import pytest

from scripts.experiment.reruns import statements
from scripts.experiment.reruns.fingerprint import ROOT


@pytest.mark.slow
def test_no_method_of_a_librarys_class_that_ours_overrides_counts_only_where_it_is_named():
    overridden = []
    for path in sorted((ROOT / "scripts").rglob("*.py")):
        for node in ast.parse(path.read_bytes()).body:
            if not isinstance(node, ast.ClassDef) or not node.bases:
                continue
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            ours = getattr(importlib.import_module(name), node.name)
            bases = [base for base in inspect.getmro(ours)[1:] if not base.__module__.startswith("scripts.")]
            for member in statements.members_of(node):
                method = member.removeprefix(f"{node.name}.")
                overridden += [f"{name}.{member}" for base in bases if hasattr(base, method)]
    assert sorted(set(overridden)) == []
