"""No rerun is missed: each rule's fingerprint covers every function that its jobs execute in the tiny experiment."""

from tests.experiment import proof


def test_every_function_that_a_rules_job_executes_is_in_its_fingerprint(finished):
    pairs = proof.executed(finished.root.parent / "trace")
    assert len({rule for _, rule in pairs}) >= 16
    assert len(pairs) > 400
    assert pairs - proof.covered() == set()
