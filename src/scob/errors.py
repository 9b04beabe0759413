"""The one exception a person is meant to read: what was wrong, where, and what to do about it."""


class UserError(Exception):
    """Something the user can mend. The CLI prints its message as one sentence and exits with code 2."""
