"""Libraries of Java and Go that an experiment gives: programs and tests use them; what is missing is said before."""

import shutil
import subprocess
from dataclasses import replace

import pytest

from scripts.common.errors import UserError
from scripts.judge.judge import Judge
from scripts.judge.problem import Problem
from scripts.judge.sandbox.libraries import Libraries
from scripts.judge.sandbox.program import Limits
from scripts.judge.sandbox.toolchains import TOOLCHAINS, absent

pytestmark = pytest.mark.slow  # compilers

JAVA = Problem(
    "J/0",
    "java",
    "",
    "import java.util.*;\nimport org.javatuples.*;\n\nclass Problem {\n    public static long f(Pair p) {\n",
    "    }\n    public static void main(String[] args) {\n"
    "    if (f(new Pair(1L, 2L)) != 3L) throw new Error();\n    }\n}\n",
    "f",
    ("\n    }\n",),
)
GO = Problem(
    "G/0",
    "go",
    "",
    "func F(n int) int {\n",
    'func TestF(t *testing.T) {\n    if F(3) != twice.Of(3) { t.Errorf("wrong") }\n}\n',
    "F",
    (),
    None,
    'import (\n    "testing"\n    "example.org/numbers/twice"\n)\n',
)


def needs(language):
    if missing := absent(language):
        pytest.skip(f"needs {missing}: apt-get install {TOOLCHAINS[language].packages}")


@pytest.fixture
def jar(tmp_path):
    """A jar with a class like javatuples' Pair."""
    needs("java")
    (tmp_path / "Pair.java").write_text(
        "package org.javatuples;\nimport java.util.*;\n"
        "public class Pair implements Iterable<Object> {\n    public final long a, b;\n"
        "    public Pair(long a, long b) { this.a = a; this.b = b; }\n"
        "    public Iterator<Object> iterator() { return List.<Object>of(a, b).iterator(); }\n"
        "    public static Pair fromCollection(Collection<Long> all) {\n"
        "        Iterator<Long> each = all.iterator();\n        return new Pair(each.next(), each.next());\n    }\n}\n"
    )
    subprocess.run(["javac", "-d", tmp_path / "classes", tmp_path / "Pair.java"], check=True)
    return shutil.make_archive(str(tmp_path / "tuples"), "zip", tmp_path / "classes")


@pytest.fixture
def vendor(tmp_path):
    needs("go")
    package = tmp_path / "vendor/example.org/numbers/twice"
    package.mkdir(parents=True)
    (package / "twice.go").write_text("package twice\n\nfunc Of(n int) int { return 2 * n }\n")
    return tmp_path / "vendor"


def test_java_programs_and_tests_use_a_jar_and_a_missing_one_is_reported(sandbox, jar):
    limits = Limits(20, 512 << 20)
    judge = Judge(sandbox, limits, libraries=Libraries.from_settings([jar]))
    assert judge.missing(JAVA) == set()
    verdict = judge.judge(JAVA, f"{JAVA.head}        return p.a + p.b;\n    }}\n}}")
    assert verdict.outcome == "passed", verdict
    assert judge.judge(JAVA, f"{JAVA.head}        return new Pair(p.a, 7).b;\n    }}\n}}").outcome == "wrong"
    assert Judge(sandbox, limits).missing(JAVA) == {"org.javatuples.Pair"}
    unused = replace(
        JAVA, head=JAVA.head.replace("Pair p", "long p"), tests=JAVA.tests.replace("new Pair(1L, 2L)", "3L")
    )
    assert Judge(sandbox, limits).missing(unused) == set()


def test_go_programs_and_tests_use_a_vendor_folder_and_a_missing_one_is_reported(sandbox, vendor):
    limits = Limits(20, 512 << 20)
    judge = Judge(sandbox, limits, libraries=Libraries.from_settings([], str(vendor)))
    assert judge.missing(GO) == set()
    assert judge.judge(GO, f"{GO.head}    return twice.Of(n)\n}}").outcome == "passed"
    assert judge.judge(GO, f"{GO.head}    return twice.Of(n + 1)\n}}").outcome == "wrong"
    assert Judge(sandbox, limits).missing(GO) == {"example.org/numbers/twice"}


def test_a_path_that_is_no_library_is_a_one_line_error(tmp_path):
    (tmp_path / "x.jar").write_text("no jar")
    with pytest.raises(UserError, match=r"evaluation.code.jars: .*x.jar: not a jar"):
        Libraries.from_settings([str(tmp_path / "x.jar")])
    with pytest.raises(UserError, match=r"evaluation.code.go_vendor: .*: no Go package in it; `go mod vendor`"):
        Libraries.from_settings([], str(tmp_path))
