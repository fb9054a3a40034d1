"""The errors that a user is told in one line, without a traceback."""


class UserError(Exception):
    """A user's mistake. The message is one line: the key or file, what is wrong, what would be right.

    The workflow does not try the job again: it would fail again.
    """


class MachineFault(UserError):
    """Something that the machine did, such as a rank that was killed: the workflow tries the job again."""


def error_line(error: UserError) -> str:
    """The line that a script ends with; by its beginning the workflow tells mistakes from faults."""
    return f"{'fault' if isinstance(error, MachineFault) else 'error'}: {error}"
