"""`scob VERB`: one file per verb. Heavy imports happen inside the verbs.

Only this layer prints, except that predictions without --out are written straight to stdout.
"""

import importlib
import sys

import typer

from scob import __version__
from scob.cli.console import complain, out
from scob.errors import UserError
from scob.installation import explain_missing, report

VERBS = (
    "demo", "data", "train", "evaluate", "compare", "predict", "explain", "thresholds", "recover", "review", "export",
    "reproduce", "bench",
)  # fmt: skip


def build() -> typer.Typer:
    """The app with every verb registered; importing a verb's file imports nothing heavy."""
    app = typer.Typer(
        name="scob",
        help="Train on images that have one label each, then name everything in them.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )

    @app.callback()
    def options(
        debug: bool = typer.Option(False, "--debug", help="Show the full traceback of an error."),
        version: bool = typer.Option(
            False,
            "--version",
            callback=show_version,
            is_eager=True,
            help="Show the versions, the device and the extras: what a bug report needs.",
        ),
    ) -> None:
        pass

    for verb in VERBS:
        importlib.import_module(f"scob.cli.{verb}").register(app)
    return app


def show_version(wanted: bool) -> None:
    """`scob --version`."""
    if wanted:
        out.print("\n".join([f"scob {__version__}", *report()]), soft_wrap=True, highlight=False, markup=False)
        raise typer.Exit


def main() -> None:
    """The console script: a `UserError`, or a path that the system refuses, becomes one sentence and exit code 2."""
    debug = "--debug" in sys.argv[1:]
    arguments = [word for word in sys.argv[1:] if word != "--debug"]
    try:
        build()(args=arguments, prog_name="scob")
    except UserError as error:
        if debug:
            raise
        complain(str(error))
        sys.exit(2)
    except ModuleNotFoundError as error:
        hint = explain_missing(error.name)
        if debug or hint is None:
            raise
        complain(hint)
        sys.exit(2)
    except OSError as error:  # a path that no verb expects: a name too long, a device, a network share that vanished
        if debug or error.filename is None:
            raise
        complain(f"{error.filename}: {error.strerror}")
        sys.exit(2)
