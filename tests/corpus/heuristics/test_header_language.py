"""scripts/corpus/heuristics/header_language.py: C and C++ headers are told apart by what is in them."""

import importlib.util
import sysconfig
from pathlib import Path

import pytest

from scripts.corpus.filter import filter_archive
from scripts.corpus.formats.filter_writer import funnel
from scripts.corpus.heuristics.header_language import header_language
from scripts.experiment.settings.corpus import Filter
from tests.corpus.archives import GOOD, write_archive
from tests.corpus.test_filter import SOURCE, filtered

C = {
    "a guard for C++": '#ifdef __cplusplus\nextern "C" {\n#endif\nint f(void);\n#ifdef __cplusplus\n}\n#endif\n',
    "a class behind the guard": "#if defined(__cplusplus) && !defined(X)\nclass A { public: int a; };\n#else\nint a;\n"
    "#endif\n",
    "conditions in the guard": "#ifdef __cplusplus\n#if 1\nnamespace a {}\n#endif\ntemplate <class T> T f();\n#endif\n",
    "names that C++ keeps": "int class; struct s { int new, delete, private, template, this, virtual, namespace; };\n",
    "in a comment": "/* std::vector<int>, template <class T>\nclass A;\nprivate:\n*/\n// namespace a {\nint f(void);\n",
    "in a string": 'static const char *help = "std::string \\" class A { public:";\n#define Q \'"\'\nint f(void);\n',
    "bits, labels and shifts": "struct s { unsigned a : 1; };\nint f(int *a) { return a[0] & 1 << 2 ? 3 : 4; }\nend:\n",
    "nothing": "",
}
CPP = {
    "a class": "class A;\n",
    "a class for export": "class MY_EXPORT Widget : public Base {\n",
    "a namespace": "namespace a::b {\nint f();\n}\n",
    "a template": "  template<typename T> T f(T);\n",
    "a reference to std": "int f(std::string s);\n",
    "a header of C++": "#include <vector>\nint x;\n",
    "a section": "struct A {\n  private:\n  int a;\n};\n",
    "inheritance": "struct A : B { int a; };\n",
    "a scope": "void Widget::draw() {}\n",
    "a cast": "#define F(x) static_cast<int>(x)\n",
    "an operator": "bool operator==(A a, A b);\n",
    "a deleted function": "struct A { A() = delete; };\n",
    "an alias": "using Real = double;\n",
    "else of the guard": "#ifndef __cplusplus\n#error C++ only\n#endif\nclass A {};\n",
    "after the guard": '#ifdef __cplusplus\nextern "C" {\n#endif\nint a;\n#ifdef __cplusplus\n}\n#endif\nclass A;\n',
}


@pytest.mark.parametrize("name", [*C, *CPP])
def test_a_header_gets_the_language_that_a_reader_would_give_it(name):
    expected, source = ("c", C[name]) if name in C else ("cpp", CPP[name])
    assert header_language(source.encode()) == expected
    assert header_language(source.replace("\n", "\r\n").encode()) == expected


@pytest.mark.slow  # reads torch's headers
def test_the_headers_of_c_and_cpp_libraries_on_this_machine_are_told_apart():
    """CPython's headers are C; those of ATen are C++, also where they hold little more than macros."""
    c = [path.read_bytes() for path in Path(sysconfig.get_path("include")).rglob("*.h")]
    torch = Path(importlib.util.find_spec("torch").submodule_search_locations[0])
    cpp = [path.read_bytes() for path in (torch / "include/ATen/core").rglob("*.h")]
    assert len(c) > 50 and sum(header_language(source) == "cpp" for source in c) <= 0.02 * len(c)
    cpp = [source for source in cpp if b"{" in source]  # others only include
    assert len(cpp) > 50 and sum(header_language(source) == "c" for source in cpp) <= 0.06 * len(cpp)


def test_the_filter_decides_headers_by_content_and_keeps_all_extensions_of_cpp(tmp_path):
    names = ["x.c++", "x.cc", "x.cpp", "x.cxx", "x.h++", "x.hh", "x.hpp", "x.hxx", "x.inl", "x.ipp", "x.tpp"]
    files = dict.fromkeys(names, GOOD) | {"c.h": GOOD, "cpp.h": GOOD + b"class A;\n", "huge.h": b"class A;\n" * 200_000}
    archive = write_archive(tmp_path / "raw", "demo", dict(sorted(files.items())))
    manifest, documents, _ = filtered(archive, Filter(), tmp_path / "out")
    assert {d["path"]: d["language"] for d in documents} == dict.fromkeys([*names, "cpp.h"], "cpp") | {"c.h": "c"}
    assert manifest["languages"]["c"]["dropped"] == {"size": 1}
    always = Filter(extensions={".h": "cpp"})
    with funnel(tmp_path / "always") as result:
        filter_archive(archive, SOURCE, always, result)
    assert result.kept == {"cpp": 2}
