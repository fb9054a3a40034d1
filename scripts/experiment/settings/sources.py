"""Settings of `sources`: the table of repositories."""

from pydantic import Field

from scripts.experiment.settings.record import Record


class Sources(Record):
    table: str = Field(description="Table of sources (TSV): name, kind, location, pin, language, priority, licence.")
