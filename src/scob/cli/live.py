"""A run on the terminal: a bar with the losses, images per second and time left, and one line per epoch."""

from types import TracebackType

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from scob.cli.console import err, escape
from scob.training import events


class Live:
    """A listener that draws a run's events on stderr."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} steps"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[facts]}"),
            console=err,
            transient=True,
        )
        self.task: TaskID | None = None

    def __enter__(self) -> "Live":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Leave the terminal as it was."""
        self.bar.stop()

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.Calibrating(images):
                self._say(f"re-estimating BatchNorm on {images:,} training images")
            case events.CachingFeatures(split, images):
                self._say(f"computing clean features of {images:,} images ({split})")
            case events.ContinuedFrom():
                self._say(escape(_continued(event)))
            case events.CheckpointDamaged(message):
                self._say(f"[yellow]falling back to an older checkpoint:[/] {escape(message)}")
            case events.ReadTrueMasks(segmented, images):
                self._say(f"{segmented:,} of {images:,} images have a segmentation; the others use CAMs")
            case events.Note(message):
                self._say(escape(message))
            case events.Started(step, steps):
                self.task = self.bar.add_task(self.title, total=steps, completed=step, facts="")
            case events.StepLogged() if self.task is not None:
                losses = " ".join(f"{name} {value:.4f}" for name, value in event.losses.items())
                facts = f"{losses}  {event.images_per_second:.0f} images/s"
                self.bar.update(self.task, completed=event.step, total=event.steps, facts=facts)
            case events.EpochMeasured():
                measured = "  ".join(
                    f"{name} {value:.2f}"
                    for name, value in event.measured.items()
                    if name.startswith("mAP") and value is not None
                )
                self._say(f"epoch {event.epoch + 1}/{event.epochs}  {measured}  {event.seconds:.1f} s")

    def _say(self, text: str) -> None:
        self.bar.console.print(f"[dim]{escape(self.title)}[/] {text}", highlight=False)


def _continued(event: events.ContinuedFrom) -> str:
    text = f"continuing from the model: {len(event.kept)} classes kept"
    for word, names in {"new": event.new, "dropped": event.dropped}.items():
        text += f"; {word}: {', '.join(names[:10])}{', ...' if len(names) > 10 else ''}" if names else ""
    return text
