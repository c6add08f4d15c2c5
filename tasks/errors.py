"""What a task raises when its data cannot be had or cannot be trusted."""


class DataError(Exception):
    """Missing, damaged or impossible data: one message that says what, where, and what is allowed or what to do.

    The runner prints the message alone and exits with code 2.
    """
