"""docs/configuration.md says what the schemas say."""

from scripts.experiment.reference import PAGE, page


def test_the_page_is_the_one_generated_from_the_schemas():
    assert PAGE.read_text() == page(), "run `make docs`"


def test_every_setting_has_a_meaning_a_type_and_a_row_of_its_own():
    rows = [line.split(" | ") for line in page().splitlines() if line.startswith("| `")]
    assert len(rows) > 60
    assert all(len(row) == 4 and row[3].strip(" |") for row in rows)


def test_a_setting_of_several_kinds_has_one_row_which_names_them():
    rows = [line for line in page().splitlines() if line.startswith("| `corpus.compose.{name}.sources` ")]
    assert [row.split(" | ")[3].partition(":")[0] for row in rows] == ["Kinds `code`, `repository`, `instruct`"]
