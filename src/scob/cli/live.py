"""A run in progress: a bar with the losses, images per second and time left, and one line per epoch."""

from types import TracebackType
from typing import Any

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from scob.cli.console import err, escape
from scob.config import Config

QUIET = {"kind", "step", "epoch", "rate", "steps", "images_per_second"}


class Live:
    """Draws a run's reports on stderr."""

    def __init__(self, config: Config, title: str = "") -> None:
        self.config, self.title = config, title or config.method
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

    def __call__(self, event: str, facts: dict[str, Any]) -> None:
        if event == "calibrating":
            self._say(f"re-estimating BatchNorm on {facts['images']:,} training images")
        elif event == "caching":
            self._say(f"computing clean features of {facts['images']:,} images ({facts['split']})")
        elif event == "continued":
            said = f"continues from the model: {len(facts['kept'])} classes kept"
            for word, names in {"new": facts["new"], "dropped": facts["left"]}.items():
                said += f"; {word}: {', '.join(names[:10])}{', ...' if len(names) > 10 else ''}" if names else ""
            self._say(escape(said))
        elif event == "damaged":
            self._say(f"[yellow]falling back to an older checkpoint:[/] {escape(str(facts['message']))}")
        elif event == "true masks":
            self._say(
                f"{facts['with segmentation']:,} of {facts['images']:,} images have a segmentation; the rest use CAMs"
            )
        elif event in ("note", "remark"):
            self._say(escape(str(facts["message"])))
        elif event == "start":
            total = facts["steps"] * facts["config"].train.epochs
            self.task = self.bar.add_task(self.title, total=total, completed=facts["step"], facts="")
        elif event == "step" and self.task is not None:
            losses = " ".join(f"{k} {v:.4f}" for k, v in facts.items() if k not in QUIET and isinstance(v, float))
            shown = f"{losses}  {facts['images_per_second']:.0f} images/s"
            self.bar.update(self.task, completed=facts["step"], total=facts["steps"], facts=shown)
        elif event == "epoch":
            measured = "  ".join(
                f"{k} {v:.2f}" for k, v in facts.items() if k.startswith("mAP") and isinstance(v, float)
            )
            self._say(f"epoch {facts['epoch'] + 1}/{facts['epochs']}  {measured}  {facts['seconds']:.1f} s")

    def _say(self, text: str) -> None:
        self.bar.console.print(f"[dim]{escape(self.title)}[/] {text}", highlight=False)
