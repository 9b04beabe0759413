"""How long work tells its caller how far it is."""

from collections.abc import Callable

Progress = Callable[[int, int], None]  # done, of how many
