"""`scob review RUN`: a web page on this machine where a person accepts or rejects recovered labels."""

from pathlib import Path

import typer

from scob.cli.console import command, err, escape


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command(help="Accept or reject recovered labels on a web page of this machine (Python: scob.serve).")
    def review(
        run: Path = typer.Argument(help="A run folder after `scob recover`, or the folder of its suggestions."),
        host: str = typer.Option("127.0.0.1", help="The address to serve at; any but this machine's needs --token."),
        port: int = typer.Option(8642, min=0, max=65535, help="The port; 0 takes any that is free."),
        token: str = typer.Option(
            None,
            envvar="SCOB_REVIEW_TOKEN",
            help="A secret that every request must carry; needed for other machines.",
        ),
        open_page: bool = typer.Option(False, "--open", help="Open the page in the browser."),
        write: bool = typer.Option(False, "--write", help="Write reviewed.csv from the decisions so far, and stop."),
    ) -> None:
        from scob.recovery import decisions as store
        from scob.recovery.suggestion import recovered_folder
        from scob.recovery.web.server import serve

        def ready(address: str) -> None:
            print(address, flush=True)  # alone on its line and never wrapped: programs read it
            end = "open it with ?token=YOUR-TOKEN; end with Ctrl+C" if token else "end with Ctrl+C"
            err.print(f"Decisions are saved as they are made; {end}.", highlight=False)
            if open_page:
                typer.launch(address)

        folder = recovered_folder(run)
        log = store.DecisionLog(folder)
        kept = store.set_aside(log)
        if kept is not None:
            said = f"{store.REVIEWED} says what was not decided here; it is now {kept}. Use it with: "
            err.print(escape(said + command("recover", run, "--import", kept)), soft_wrap=True, highlight=False)
        path = store.write_reviewed(log) if write else serve(run, host, port, token, ready)
        log.refresh()
        answers = list(log.state().values())
        counts = ", ".join(f"{answers.count(answer)} {answer}ed" for answer in (store.ACCEPT, store.REJECT))
        err.print(escape(f"{counts}: {path}"), soft_wrap=True, highlight=False)
        again = command("recover", run, "--import", path)
        err.print(escape(f"Use them with: {again}"), soft_wrap=True, highlight=False)
