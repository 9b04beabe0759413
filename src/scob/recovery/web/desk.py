"""The data behind the review page: listing the queue, one suggestion, recent decisions, and recording a decision."""

import hashlib
import json
import math
import shlex
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from scob.inference.web.answers import Refused
from scob.recovery import decisions
from scob.recovery.orders import ReviewMode
from scob.recovery.suggestion import RECOVERED, Pair, Queue


class Desk:
    """Answers the routes from the queue and the log, as plain data."""

    def __init__(self, queue: Queue, log: decisions.DecisionLog, mode: ReviewMode = ReviewMode()) -> None:
        self.queue, self.log, self.mode, self.blind = queue, log, mode, mode.blind
        self.number = {(s.image, s.label): i for i, s in enumerate(queue.suggestions)}
        self.image_number = {image: i for i, image in enumerate(queue.images)}
        self.class_number = {name: i for i, name in enumerate(queue.classes)}
        self.suggested = {s.image for s in queue.suggestions}
        self.written: tuple[int, decisions.Decision | None] | None = None
        self.made: dict[decisions.Decision, float] = {}  # when each decision was made, by this server's own stopwatch
        self.sighted = 0
        self.sight()

    def sight(self) -> None:
        """Note when decisions in the log were made: for those of other servers, not after they were first seen here.

        The stopwatch never jumps. The time in the log is another clock's: it may have been ahead, so it counts only as
        far as it says how long before now a decision was made.
        """
        if len(self.log.lines) < self.sighted:  # another log
            self.made, self.sighted = {}, 0
        now, clock = time.monotonic(), datetime.now(UTC)
        for line in self.log.lines[self.sighted :]:
            self.made.setdefault(line, now - max(0.0, (clock - _time(line.time)).total_seconds()))
        self.sighted = len(self.log.lines)

    def overview(self) -> dict[str, Any]:
        """All suggestions in columns, small enough to send at once: the page does the filtering."""
        self.log.refresh()
        suggestions = self.queue.suggestions
        classes = sorted({s.label for s in suggestions}, key=lambda name: (name.casefold(), name))
        position = {name: i for i, name in enumerate(classes)}
        state = self.log.state()
        home = self.queue.folder.resolve()
        return {
            "queue": self.queue.fingerprint,
            "home": hashlib.sha256(str(home).encode(errors="replace")).hexdigest()[:12],
            "folder": home.parent.name if home.name == RECOVERED else home.name,
            "seen": len(self.log.lines),
            "classes": classes,
            "class": [position[s.label] for s in suggestions],
            "images": self.queue.images,
            "image": [self.image_number[s.image] for s in suggestions],
            "blind": self.blind,
            "given": bool(suggestions) and all(s.label in s.observed for s in suggestions),  # doubtful, not suggested
            "order": self.mode.order,
            "confidence": [
                None if self.blind and (s.image, s.label) not in state else round(s.confidence, 4) for s in suggestions
            ],
            "decision": [state.get((s.image, s.label)) for s in suggestions],
            "all_classes": self.queue.classes,
            "added": [self._added(pair) for pair, answer in state.items() if self.can_add(pair, answer)],
            "command": self._import_command(),
        }

    def can_add(self, pair: Pair, answer: str = decisions.ACCEPT) -> bool:
        """Whether a reviewer may add this label, which nobody suggested, to this image (or take it back)."""
        image, label = pair
        fits = pair not in self.number and image in self.suggested and label in self.class_number
        return fits and answer in (decisions.ACCEPT, decisions.UNDO)

    def _added(self, pair: Pair) -> list[int]:
        return [self.image_number[pair[0]], self.class_number[pair[1]]]

    def _confidence(self, pair: Pair) -> float | None:
        """The model's confidence in a label; None if nobody suggested it."""
        number = self.number.get(pair)
        return None if number is None else round(self.queue.suggestions[number].confidence, 4)

    def _import_command(self) -> str:
        """What to type when the review is done."""
        folder = self.queue.folder
        run = folder.parent if folder.name == RECOVERED else folder
        return shlex.join(["scob", "recover", str(run), "--import", str(folder / decisions.REVIEWED)])

    def details(self, index: int) -> dict[str, Any]:
        """One suggestion with its evidence."""
        suggestion = self.queue.suggestions[index]
        if self.blind and (suggestion.image, suggestion.label) not in self.log.state():
            hidden: dict[str, Any] = {
                "score": None,
                "estimate": None,
                "mask": False,
                "boxes": None,
                "observed": [],
                "nearest": [],
            }
            return {"image": suggestion.image, "class": suggestion.label, **hidden}
        return {
            "image": suggestion.image,
            "class": suggestion.label,
            "score": suggestion.score,
            "estimate": suggestion.estimate,
            "mask": suggestion.mask is not None,
            "boxes": suggestion.boxes,
            "observed": suggestion.observed,
            "nearest": [
                {"image": name, "number": self.image_number[name], "score": score} for name, score in suggestion.nearest
            ],
        }

    def changes(self, since: int) -> dict[str, Any]:
        """Decisions after the first `since` lines of the log; `reset` if the log has been replaced."""
        self.log.refresh()
        lines = self.log.lines
        seen = len(lines)
        reset = since > seen
        news = lines[0 if reset else since : seen]
        new = [[self.number[line.pair], line.decision, line.session] for line in news if line.pair in self.number]
        added = [
            [*self._added(line.pair), line.decision, line.session]
            for line in news
            if self.can_add(line.pair, line.decision)
        ]
        return {"queue": self.queue.fingerprint, "seen": seen, "reset": reset, "changes": new, "added": added}

    def decide(self, body: bytes) -> dict[str, Any]:
        """Record a decision. A decision that arrives late, made before the pair's latest one, is ignored."""
        pair, answer, session, order, age = _read_decision(body)
        if pair not in self.number and not self.can_add(pair, answer):
            raise Refused(404, "this image and class are not in the queue")
        with self.log.held():
            latest = self.log.latest.get(pair)
            before = latest.decision if latest is not None and latest.decision != decisions.UNDO else None
            self.sight()
            made = time.monotonic() - age
            late = latest is not None and (
                latest.order > order if latest.session == session else self.made.get(latest, -math.inf) > made
            )
            wanted = None if answer == decisions.UNDO else answer
            repeated = latest is not None and (latest.session, latest.order) == (session, order)
            # Decisions that change nothing are recorded too, for their order: an earlier one may still arrive.
            if not late and (wanted != before or (order and not repeated)):
                stamp = (datetime.now(UTC) - timedelta(seconds=age)).isoformat(timespec="milliseconds")
                line = decisions.Decision(*pair, answer, stamp, session, order)
                self.made[line] = made
                self.log.append(line)
            return {
                "applied": not late,
                "decision": before if late else wanted,
                "previous": before,
                "previous_session": latest.session if latest is not None else None,
                "seen": len(self.log.lines),
                "confidence": self._confidence(pair),
            }

    def write(self) -> None:
        """Bring `reviewed.csv` up to date with the log."""
        self.log.refresh()
        seen = len(self.log.lines)
        state = seen, self.log.lines[-1] if seen else None  # another log may have the same length
        if state != self.written and (seen or (self.queue.folder / decisions.REVIEWED).exists()):
            decisions.write_reviewed(self.log)
        self.written = state


def _read_decision(body: bytes) -> tuple[Pair, str, str, int, float]:
    try:
        row = json.loads(body)
        pair = row["image"], row["class"]
        answer, session, age = row["decision"], row.get("session", ""), row.get("age", 0)
        if not all(isinstance(text, str) for text in (*pair, answer, session)) or answer not in decisions.ANSWERS:
            raise ValueError
        order = int(row.get("order", 0))
        if float(age) != float(age) or len(session) > 64 or not 0 <= order < 2**63:
            raise ValueError
        age = min(max(0.0, float(age)), 366 * 86400.0)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise Refused(422, "a decision needs image, class, and one of accept, reject, skip, undo") from None
    return pair, answer, session, order, age


def _time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
