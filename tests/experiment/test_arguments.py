"""scripts/experiment/arguments.py: what a script reads from the file is what the rule gave."""

from pathlib import Path

from scripts.common.options import parser
from scripts.experiment.arguments import argument_file


def test_arguments_of_any_length_reach_a_script_unchanged_and_only_their_content_names_the_file(tmp_path):
    names = [f"source-{number}" for number in range(20_000)]
    words = ["--json", '{"a": "$(touch x); `y` \\"z\\" 中文"}', "--sources", *names]
    file = argument_file(tmp_path, *words)
    arguments = parser("")
    arguments.add_argument("--json")
    arguments.add_argument("--sources", nargs="+")
    parsed = arguments.parse_args([file])
    assert [parsed.json, parsed.sources] == [words[1], names]
    assert argument_file(tmp_path, *words) == file and len(list(tmp_path.iterdir())) == 1
    longer = argument_file(tmp_path, *words, "one-more", write=False)
    assert longer != file and not Path(longer.removeprefix("@")).exists()
