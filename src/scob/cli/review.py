"""`scob review RUN`: a local web page for accepting or rejecting suggested labels."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scob.cli.console import command, err, note, out, table
from scob.errors import UserError

if TYPE_CHECKING:
    from scob.recovery.orders import ReviewMode
    from scob.recovery.suggestion import Pair


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("review", help="Accept or reject suggested labels in a local web page (Python: scob.serve).")(review)


def review(
    run: Annotated[
        Path, typer.Argument(help="Run folder on which `scob recover` has been run, or its folder of suggestions.")
    ],
    host: Annotated[
        str, typer.Option(help="Address to serve on; anything other than this machine needs --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to serve on; 0 picks a free one.")] = 8642,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="SCOB_REVIEW_TOKEN", help="Secret that every request must carry; required for other machines."
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    order: Annotated[
        str,
        typer.Option(
            help="confident (the page has all classes in turn too), informative (least sure first), or audit (random)."
        ),
    ] = "confident",
    sample: Annotated[
        int | None, typer.Option(min=1, help="With --order audit: how many suggestions to draw; all by default.")
    ] = None,
    blind: Annotated[bool, typer.Option("--blind", help="Hide what the model thinks until you have answered.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Write reviewed.csv from the decisions so far, and exit.")
    ] = False,
) -> None:
    """Serve the page, then write `reviewed.csv`."""
    from scob.files import has_locks
    from scob.recovery import decisions as store
    from scob.recovery.orders import ReviewMode
    from scob.recovery.suggestion import recovered_folder
    from scob.recovery.web.server import serve

    def ready(address: str) -> None:
        print(address, flush=True)  # alone on its line and never wrapped: programs read it
        stop = "open it with ?token=YOUR-TOKEN; stop with Ctrl+C" if token else "stop with Ctrl+C"
        err.print(f"Every decision is saved at once; {stop}.", highlight=False)
        if open_page:
            typer.launch(address)

    if sample is not None and order != "audit":
        raise UserError("--sample needs --order audit: only a random sample tells how many suggestions are right")
    mode = ReviewMode(order, sample, blind)
    log = store.DecisionLog(recovered_folder(run))
    with contextlib.suppress(OSError):
        if log.path.exists() and not has_locks(log.path.with_name(store.LOCK)):
            note(f"{log.path.parent} has no file locks: only one review at a time can write there.")
    older = store.set_aside(log)
    if older is not None:
        again = command("recover", run, "--import", older)
        note(f"{store.REVIEWED} contained decisions that are not in the log; it is now {older}. Use it with: {again}")
    path = store.write_reviewed(log) if write else serve(run, host, port, token, ready, mode)
    log.refresh()
    answers = list(log.state().values())
    counts = ", ".join(f"{answers.count(answer)} {answer}ed" for answer in (store.ACCEPT, store.REJECT))
    note(f"{counts}: {path}")
    if order == "audit":
        show_audit(recovered_folder(run), mode, log.state())
    note(f"Use them with: {command('recover', run, '--import', path)}")


def show_audit(folder: Path, mode: "ReviewMode", decisions: "dict[Pair, str]") -> None:
    """The precision of the suggestions as a table; it is also written beside reviewed.csv."""
    from scob.files import write_atomically
    from scob.recovery.audit import AUDIT, as_table, audit
    from scob.recovery.orders import in_order
    from scob.recovery.suggestion import read_queue

    every = read_queue(folder).suggestions
    rows = audit(every, in_order(every, mode), decisions)
    write_atomically(folder / AUDIT, as_table(rows))
    shown = [
        (row.label or "all classes", f"{row.suggested:,}", f"{row.reviewed:,}", f"{row.right:,}",
         "" if row.value is None else f"{row.value:.0%}", f"{row.interval[0]:.0%} to {row.interval[1]:.0%}")
        for row in rows if row.reviewed
    ]  # fmt: skip
    if shown:
        heads = ("class", "suggested", "reviewed", "right", "precision", "95% interval")
        out.print(table("How many suggestions are right", heads, shown))
    note(f"the audit is in {folder / AUDIT}")
