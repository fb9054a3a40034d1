"""Settings of `sources`: the table of repositories, and limits on what is fetched."""

from pydantic import Field

from scripts.experiment.settings.record import Number, Record


class Fetch(Record):
    """Limits on an archive's content. An archive that has too many members or too much in all is refused, with a line
    that names the member."""

    max_members: int = Field(200_000, ge=1, description="Maximum number of members of an archive.")
    max_member_megabytes: Number = Field(
        256, gt=0, description="Maximum size of one member (MB); larger ones are left out and counted as rejects."
    )
    max_megabytes: Number = Field(4096, gt=0, description="Maximum unpacked size of an archive (MB).")
    max_minutes: Number = Field(60, gt=0, description="Maximum time for fetching one source (minutes).")


class Sources(Record):
    table: str = Field(description="Table of sources (TSV): name, kind, location, pin, language, priority, licence.")
    fetch: Fetch = Fetch()
