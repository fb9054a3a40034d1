"""The error that a user is told in one line, without a traceback."""


class UserError(Exception):
    """A user's mistake. The message is one line: the key or file, what is wrong, what would be right."""
