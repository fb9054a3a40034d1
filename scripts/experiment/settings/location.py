"""Where a repository is, as a URL or a path: refused where it holds credentials, which logs and reports would show."""

import re
from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

# a user name is no secret for ssh, but is where tokens are given for https
USER = re.compile(r"^(?!ssh:)[a-z+]+://[^/?#]*@", re.IGNORECASE)
PASSWORD = re.compile(r"^(ssh://)?[^/@\s]*:[^/@\s]*@", re.IGNORECASE)
QUERY = re.compile(r"^[a-z+]+://[^?#]*[?#]", re.IGNORECASE)


def refuse_credentials(location: str) -> str:
    """`location` itself."""
    for pattern, part in ((USER, "a user name or token"), (PASSWORD, "a password"), (QUERY, "a query or fragment")):
        if pattern.search(location):
            raise PydanticCustomError(
                "credentials",
                "the URL has {part}, which logs and reports would show; give the plain URL, and the credentials to git:"
                " by a credential helper, ~/.netrc or GIT_CONFIG_* variables for https, by a key for ssh",
                {"part": part},
            )
    return location


def without_credentials(text: str) -> str:
    """`text` with what may be credentials in URLs replaced by `***`."""
    text = re.sub(r"(?<=://)[^/@\s]+@|[^/@\s]*:[^/@\s]+@", "***@", text)
    return re.sub(r"(://[^?#\s]*)[?#]\S*", r"\1***", text)


Location = Annotated[str, AfterValidator(refuse_credentials)]
