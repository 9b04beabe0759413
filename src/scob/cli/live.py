"""A run on the terminal: a bar that moves with every step, a bar for every other part, and one line per epoch."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from scob.cli.console import err, escape
from scob.cli.time_left import TimeLeft, clock_text
from scob.launch import launch
from scob.training import events


class Left(ProgressColumn):
    """The time left, counted down from what was known at the last update."""

    def render(self, task: Task) -> Text:
        end = None if task.finished else task.fields.get("end")
        text = "" if end is None else f"{clock_text(max(1.0, end - time.monotonic()))} left"
        return Text(text, style="cyan", no_wrap=True)


def bars() -> Progress:
    """An empty display on stderr, for the bars of one run or of several at once; only a terminal shows it."""
    return Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),  # not to the edge: the ^C that a terminal echoes must not begin a new line
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        Left(),
        TextColumn("{task.fields[facts]}"),
        console=err,
        transient=True,
        redirect_stdout=False,
        disable=not (launch().first and err.is_terminal),
    )


class Live:
    """A listener that draws a run's events on stderr, among those of other runs if it is given their display."""

    def __init__(self, title: str, display: Progress | None = None) -> None:
        self.title = title
        self.first = launch().first
        self.shared = display is not None
        self.bar = display or bars()
        self.task: TaskID | None = None
        self.part: TaskID | None = None
        self.part_name = ""
        self.part_began = 0.0
        self.left = TimeLeft()
        self.expected: float | None = None  # when the run was expected to end, by time.monotonic()
        if self.shared:
            self._show_part("starting")

    def __enter__(self) -> Self:
        self._show_part("starting")
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Leave the terminal as it was."""
        self.bar.stop()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the bars while something is printed to stdout."""
        self.bar.stop()
        yield
        self.bar.start()

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.Working(what, done, total, unit):
                self._show_part(what, done, total, unit)
            case events.ContinuedFrom():
                self._say(escape(_continued(event)))
            case events.CheckpointDamaged(message):
                self._say(f"[yellow]using an older checkpoint:[/] {escape(message)}")
            case events.ReadTrueMasks(segmented, images):
                self._say(f"{segmented:,} of {images:,} images have a segmentation; the others use CAMs")
            case events.Note(message):
                self._say(escape(message))
            case events.StopRequested():
                self._say("[yellow]finishing this step, then saving; Ctrl+C again stops now[/]")
            case events.Started(step, steps):
                self._hide_part()
                self.left = TimeLeft(expected=self.expected)
                self.task = self.bar.add_task(
                    escape(self.title),
                    total=steps,
                    completed=step,
                    count=_of(step, steps, "steps"),
                    facts="",
                    end=None,
                )
            case events.StepTaken(step, steps, settled) if self.task is not None:
                self._hide_part()
                self.left.step(settled)
                end = _end(self.left.seconds(steps - step))
                self.bar.update(self.task, completed=step, total=steps, count=_of(step, steps, "steps"), end=end)
            case events.StepLogged() if self.task is not None:
                losses = " ".join(f"{name} {value:.3f}" for name, value in event.losses.items())
                self.bar.update(self.task, facts=f"{event.images_per_second:.0f} images/s  {losses}")
            case events.EpochMeasured():
                self.left.evaluated()
                self._hide_part()
                self.epoch(event)
            case events.RunEnds():
                self._hide_part()
                if self.task is not None:
                    self.bar.remove_task(self.task)
                    self.task = None

    def epoch(self, event: events.EpochMeasured) -> None:
        """Show what was measured after an epoch."""
        self._say(measured_text(event))

    def _show_part(self, what: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        """A bar for a part of the work other than training; without a total it only shows that something happens."""
        name = f"{self.title}: {what}" if self.shared else what
        if self.part is None or self.part_name != name:
            self._hide_part()
            self.part_name = name
            self.part = self.bar.add_task(escape(name), total=total or None, count="", facts="", end=None)
            self.part_began = time.monotonic()
        if total:
            pace = (time.monotonic() - self.part_began) / done if done else None
            end = None if pace is None else _end(pace * (total - done))
            self.bar.update(self.part, completed=done, total=total, count=_of(done, total, unit), end=end)

    def _hide_part(self) -> None:
        if self.part is not None:
            self.bar.remove_task(self.part)
            self.part = None

    def _say(self, text: str) -> None:
        self.bar.console.print(f"[dim]{escape(self.title)}:[/] {text}", highlight=False)


def measured_text(event: events.EpochMeasured) -> str:
    """'epoch 1/4  mAP 61.23  2.0 s'."""
    measured = (
        f"{name} {value:.2f}" for name, value in event.measured.items() if name.startswith("mAP") and value is not None
    )
    return "  ".join((f"epoch {event.epoch + 1}/{event.epochs}", *measured, f"{event.seconds:.1f} s"))


def _end(left: float | None) -> float | None:
    """When so many seconds will be over; None if that is not known."""
    return None if left is None else time.monotonic() + left


def _of(done: int, total: int, what: str) -> str:
    return f"{done:,}/{total:,} {what}"


def _continued(event: events.ContinuedFrom) -> str:
    text = f"continuing from the model: {len(event.kept)} classes kept"
    for word, names in {"new": event.new, "dropped": event.dropped}.items():
        text += f"; {word}: {', '.join(names[:10])}{', ...' if len(names) > 10 else ''}" if names else ""
    return text
