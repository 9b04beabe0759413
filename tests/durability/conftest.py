"""Faults are counted as they are injected and survived; `make durability` prints the count."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest


@dataclass
class Fault:
    """One kind of fault: how often it was injected and survived, and how many bytes it lost."""

    injected: int = 0
    survived: int = 0
    lost: int = 0


@dataclass
class Faults:
    """Every kind of fault that was injected."""

    kinds: dict[str, Fault] = field(default_factory=dict)

    @contextmanager
    def inject(self, kind: str) -> Iterator[Fault]:
        """Wrap a fault and everything expected after it. The test adds the lost bytes to `lost`."""
        fault = self.kinds.setdefault(kind, Fault())
        fault.injected += 1
        yield fault
        fault.survived += 1


KEY: pytest.StashKey[Faults] = pytest.StashKey()


@pytest.fixture(scope="session")
def faults(request: pytest.FixtureRequest) -> Faults:
    return request.config.stash.setdefault(KEY, Faults())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    kinds_of_fault = config.stash.get(KEY, Faults()).kinds
    if not kinds_of_fault:
        return
    rows = [(kind, str(f.injected), str(f.survived), str(f.lost)) for kind, f in kinds_of_fault.items()]
    total = [sum(getattr(f, name) for f in kinds_of_fault.values()) for name in ("injected", "survived", "lost")]
    rows.append(("all", *(str(n) for n in total)))
    head = ("fault", "injected", "survived", "bytes lost")
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(4)]
    terminalreporter.section("durability")
    for row in (head, *rows):
        terminalreporter.write_line(
            "  ".join(c.ljust(w) if not i else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        )
    terminalreporter.write_line(f"faults injected {total[0]}, survived {total[1]}, bytes lost {total[2]}")
