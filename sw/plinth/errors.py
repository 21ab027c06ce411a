"""The one exception class for what a user can mend: a wrong file, flag, size or tool."""


class UserError(Exception):
    """One line that says where, what, and the remedy; the command line prints it and exits with 2."""
