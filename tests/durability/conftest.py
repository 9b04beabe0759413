"""Faults are counted as they are injected and handled; `make durability` writes the count into docs/reliability.md."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest


@dataclass
class Fault:
    """One kind of fault: how often it was injected, what came of it, and how many bytes were lost.

    `same`: the same result as without the fault. `told`: repaired or refused with a sentence. `different`: neither.
    """

    injected: int = 0
    same: int = 0
    told: int = 0
    different: int = 0
    tracebacks: int = 0
    lost: int = 0


@dataclass
class Faults:
    """Every kind of fault that was injected."""

    kinds: dict[str, Fault] = field(default_factory=dict)

    @contextmanager
    def inject(self, kind: str, told: bool = False) -> Iterator[Fault]:
        """Wrap a fault and everything expected after it; `told` if that is a sentence, not the same result.

        A test may instead count `told` itself, and it sets the lost bytes, `lost`.
        """
        fault = self.kinds.setdefault(kind, Fault())
        fault.injected += 1
        before = fault.told
        try:
            yield fault
        except AssertionError:
            fault.different += 1
            raise
        except BaseException:
            fault.tracebacks += 1
            raise
        else:
            fault.told += told
            fault.same += fault.told == before
        finally:
            self.write()

    def write(self) -> None:
        """Write the count so far, if `SCOB_FAULTS` names a file for it."""
        if report := os.environ.get("SCOB_FAULTS"):
            kinds = {kind: asdict(fault) for kind, fault in self.kinds.items()}
            Path(report).write_text(json.dumps(kinds, indent=1))


KEY: pytest.StashKey[Faults] = pytest.StashKey()


@pytest.fixture(scope="session")
def faults(request: pytest.FixtureRequest) -> Faults:
    return request.config.stash.setdefault(KEY, Faults())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the count."""
    kinds = config.stash.get(KEY, Faults()).kinds
    if not kinds:
        return
    terminalreporter.section("durability")
    width = max(map(len, kinds))
    for kind, fault in kinds.items():
        counts = (f"{name} {number}" for name, number in asdict(fault).items() if number)
        terminalreporter.write_line(f"{kind:{width}}  {', '.join(counts)}")
