"""What a path says: vendored, generated and built files are dropped, packages of such names are not."""

import pytest

from scripts.corpus.heuristics.paths import check_path
from scripts.corpus.heuristics.quality import Dropped
from scripts.experiment.settings.corpus import EXCLUDED, Filter


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("src/build/mod.rs", None),
        ("pkg/target/list.go", None),
        ("build/gen.py", None),
        ("lib/depsolver/a.c", None),
        ("vendored.py", None),
        ("src/generated_names.py", None),
        ("target/release/build/a/out/b.rs", "folder"),
        ("core/target/classes/A.java", "folder"),
        ("build/lib.linux-x86_64-3.11/a.py", "folder"),
        ("a/vendor/b.go", "folder"),
        ("deps/lua/src/lua.c", "folder"),
        ("Third_Party/zlib/a.c", "folder"),
        ("x/.venv/lib/a.py", "folder"),
        ("__MACOSX/._a.py", "folder"),
        ("web/node_modules/a/b.js", "folder"),
        ("demo.egg-info/a.py", "folder"),
        ("static/jquery.min.js", "generated"),
        ("string_to_string.go", None),  # what stringer writes says so in its first line
        ("api/service.pb.go", "generated"),
        ("api/service_pb2.py", "generated"),
        ("ui/Form.Designer.cs", "generated"),
        ("qt/moc_window.cpp", "generated"),
    ],
)
def test_a_path_is_dropped_for_the_expected_reason(path, reason):
    try:
        check_path(path, {name.lower() for name in EXCLUDED})
    except Dropped as drop:
        assert drop.reason == reason
    else:
        assert reason is None


def test_a_list_of_folders_adds_to_those_that_are_known_and_another_word_replaces_them():
    added = Filter(excluded_folders=["Examples"])
    assert "third_party" in added.unread_folders and "examples" in added.unread_folders
    assert Filter(only_excluded_folders=["Examples"]).unread_folders == {"examples"}
    assert Filter(excluded_folders=["a"], only_excluded_folders=[]).unread_folders == set()
    with pytest.raises(Dropped):
        check_path("third_party/x/a.py", added.unread_folders)
