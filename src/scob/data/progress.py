"""How a long task reports its progress."""

from collections.abc import Callable

Progress = Callable[[int, int], None]  # done, of how many
