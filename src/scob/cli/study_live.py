"""A study on the terminal: which run of how many, the bars of that run, and a line for each run."""

from scob.cli.console import escape
from scob.cli.live import Live, measured_text
from scob.training import events


class StudyLive(Live):
    """A listener that draws the events of a study and of its runs on stderr."""

    def __init__(self) -> None:
        super().__init__("starting")
        self.runs = self.number = 0

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.RunsPlanned(runs):
                self.runs, self.number = runs, 0
            case events.RunBegins(name, reused):
                self.number += 1
                self.title = f"run {self.number} of {self.runs}: {name}"
                if self.task is not None:
                    self.bar.remove_task(self.task)
                    self.task = None
                self.line(self.title + (", reused" if reused else ""))
            case _:
                super().__call__(event)

    def epoch(self, event: events.EpochMeasured) -> None:
        """Show the last mAP beside the bar; in a log file, which has no bar, one line per epoch."""
        if self.bar.disable:
            self.line(f"  {measured_text(event)}")
            return
        value = event.measured.get("mAP")
        if value is not None and self.task is not None:
            self.bar.update(self.task, facts=f"epoch {event.epoch + 1}: mAP {value:.1f}")

    def line(self, text: str) -> None:
        """One line, above the bars."""
        if self.first:
            self.bar.console.print(escape(text), highlight=False, soft_wrap=True)

    def _say(self, text: str) -> None:
        if self.first:
            self.bar.console.print(text, highlight=False, soft_wrap=True)
