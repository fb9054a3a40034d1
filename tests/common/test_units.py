"""What belongs together: files with their tests, tasks of a file, repositories; for how many equal ones it counts."""

import numpy as np
import pytest

from scripts.common.units import clusters
from scripts.evaluation.results.intervals import effective_number, sums_by_cluster


@pytest.mark.parametrize(
    ("module", "test"),
    [
        ("net/src/pkg/cache.py", "net/tests/pkg/test_cache.py"),
        ("net/src/pkg/cache.py", "net/src/pkg/cache_test.py"),
        ("hugo/common/walk.go", "hugo/common/walk_test.go"),
        ("lang/src/main/java/a/Ranges.java", "lang/src/test/java/a/RangesTest.java"),
        ("lang/src/main/java/a/Ranges.java", "lang/src/test/java/a/TestRanges.java"),
        ("vue/src/patch.ts", "vue/__tests__/patch.spec.ts"),
        ("json/src/parse.cpp", "json/tests/parse_unittest.cpp"),
    ],
)
def test_a_module_and_its_test_are_one_cluster(module, test):
    assert clusters([test, "net/other.py", module], "file").tolist() == [0, 1, 0]


def test_a_test_belongs_to_the_module_of_its_name_that_is_nearest():
    ids = ["net/a/cache.py", "net/b/cache.py", "net/tests/b/test_cache.py"]
    assert clusters(ids, "file").tolist() == [0, 1, 1]


def test_tasks_of_a_file_are_one_cluster_and_so_are_files_of_a_repository_where_repositories_vary():
    ids = ["net/a.py:3-7", "net/a.py:90-90", "net/b.py", "hugo/c.go"]
    assert clusters(ids, "file").tolist() == [0, 0, 1, 2]
    assert clusters(ids, "repository").tolist() == [0, 0, 0, 1]
    assert clusters(["HumanEval/1", "HumanEval/2", "7"], "repository").tolist() == [0, 1, 2]


def test_sums_and_the_effective_number():
    columns = np.array([[1.0, 10], [2, 20], [4, 40]])
    assert sums_by_cluster(columns, np.array([1, 0, 1])).tolist() == [[2, 20], [5, 50]]
    assert effective_number(np.full(7, 3.0)) == pytest.approx(7)
    assert effective_number(np.array([62.0, *[38 / 11] * 11])) == pytest.approx(2.52, abs=0.01)  # one large file of 12
    assert effective_number(np.zeros(3)) == 0
