"""No rerun is missed: each rule's fingerprint covers every function that its jobs execute in the tiny experiment."""

from scripts.experiment.optimizers import modules_of_others
from scripts.experiment.reruns.fingerprint import FOR_READERS, ROOT, path_of
from tests.experiment import proof


def test_every_function_that_a_rules_job_executes_is_in_its_fingerprint(finished):
    pairs = proof.executed(finished.root.parent / "trace")
    assert len({rule for _, rule in pairs}) >= 16
    assert len(pairs) > 400
    without_effect = {
        # executed in every program, while the settings' defaults are made: these are in each job's settings
        ("scripts/common/discovery.py", "constants_in"),
        ("scripts/languages/__init__.py", "languages"),
        ("scripts/languages/__init__.py", "default_extensions"),
        ("scripts/experiment/settings/corpus.py", "Split.check_after"),
        ("scripts/experiment/settings/record.py", "Record.refuse_unknown_keys"),
        # checks a setting of stages, which the gate reads with all others and does not use
        ("scripts/experiment/settings/record.py", "whole_or_share"),
    }
    for_readers = {str(path_of(module).relative_to(ROOT)) for module in FOR_READERS}
    not_covered = pairs - proof.covered()
    missed = {pair for pair in not_covered if pair[0] not in without_effect and pair[0][0] not in for_readers}
    assert missed == set()
    # the stages train with AdamW, so no function of another optimizer's module is part of their code
    others = {str(path_of(module).relative_to(ROOT)) for module in modules_of_others("adamw")}
    assert others and not [function for function, _ in pairs if function[0] in others]
