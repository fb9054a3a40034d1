"""Rule history on a shard of several sources: what is current is kept, a failing source stops no other."""

import pytest

from scripts.common.errors import UserError
from scripts.common.manifest import read_manifest
from scripts.experiment.layout import FIRST_COMMITS
from scripts.sources.history import history, history_shard
from scripts.sources.tables.source import PinnedSource
from tests.sources.test_history import commit, git

pytestmark = pytest.mark.slow  # starts git many times


def pinned(folder):
    pin = git(folder, "rev-parse", "HEAD")
    return PinnedSource.model_construct(name=folder.name, kind="git", location=str(folder), pin=pin)


def test_each_folder_is_that_of_rule_history_and_only_what_changed_is_read_again(tmp_path):
    for name in ("click", "jinja"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q", "-b", "main")
        commit(tmp_path / name, 100, a_c=name)
    sources = [pinned(tmp_path / name) for name in ("click", "jinja")]
    folder, out = tmp_path / "results/history", tmp_path / "results/history/_0"
    dates = {source.name: folder / source.name / FIRST_COMMITS for source in sources}

    def read_again(code="0"):
        before = {name: path.stat().st_ino if path.exists() else None for name, path in dates.items()}
        history_shard(sources, code, folder, out)
        assert len(read_manifest(out)["files"]) == 4
        return {name for name, path in dates.items() if path.stat().st_ino != before[name]}

    assert read_again() == {"click", "jinja"}
    for source in sources:
        history(source, tmp_path / "alone" / source.name)
        assert dates[source.name].read_bytes() == (tmp_path / "alone" / source.name / FIRST_COMMITS).read_bytes()
    assert read_again() == set()
    commit(tmp_path / "jinja", 200, b_c="more")
    sources[1] = pinned(tmp_path / "jinja")
    assert read_again() == {"jinja"}
    dates["click"].write_bytes(dates["click"].read_bytes()[:-1])
    assert read_again() == {"click"}
    assert read_again(code="1") == {"click", "jinja"}

    commit(tmp_path / "jinja", 300, c_c="more")
    sources = [sources[0].model_copy(update={"pin": "0" * 40}), pinned(tmp_path / "jinja")]
    before = dates["jinja"].read_bytes()
    with pytest.raises(UserError, match=r"source click: .*0000"):
        history_shard(sources, "0", folder, out)
    assert dates["jinja"].read_bytes() != before
