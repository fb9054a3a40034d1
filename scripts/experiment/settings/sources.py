"""Settings of `sources`: the table of repositories, and limits on what is fetched."""

from pydantic import Field

from scripts.experiment.settings.record import Number, Record


class Fetch(Record):
    """Limits on what an archive may hold; beyond them it is refused with the member's name."""

    max_members: int = Field(200_000, ge=1, description="Most members of one archive.")
    max_member_megabytes: Number = Field(256, gt=0, description="Largest single member (MB).")
    max_megabytes: Number = Field(4096, gt=0, description="Largest unpacked size of one archive (MB).")
    max_minutes: Number = Field(60, gt=0, description="Longest time that fetching one source may take (minutes).")


class Sources(Record):
    table: str = Field(description="Table of sources (TSV): name, kind, location, pin, language, priority, licence.")
    fetch: Fetch = Fetch()
