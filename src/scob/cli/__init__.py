"""`scob VERB`: one file per verb. Heavy imports happen inside the verbs.

Only this layer prints, except that predictions without --out are written straight to stdout.
"""

import contextlib
import importlib
import os
import re
import sys
from typing import NoReturn

import typer

from scob import __version__
from scob.cli.console import complain, out
from scob.cli.help import with_plain_help
from scob.errors import UserError
from scob.installation import explain_missing, report
from scob.launch import launch

VERBS = (
    "demo", "data", "train", "evaluate", "compare", "predict", "explain", "thresholds", "recover", "review", "export",
    "serve", "push", "reproduce", "bench",
)  # fmt: skip

RESERVE = 8 << 20  # bytes
SPINS = "3000"  # 1,000 cost 3% on two idle cores, 3,000 cost 2%; beside another program, 10,000 are a third slower
MEMORY_SHORT = (
    "there is not enough memory for this: use smaller batches (train.batch, --batch) or images (data.size), fewer "
    "data.workers, or a machine with more memory"
)
NO_THREAD_SIGN = "can't start new thread"  # Python's own words; a stack is memory too
MEMORY_SIGNS = (  # in the messages of torch, onnxruntime, the system and the loader of libraries
    "cannot allocate memory", "can't allocate memory", "out of memory", "failed to map segment",
    "failed to allocate memory", "bad_alloc", "could not create a primitive", NO_THREAD_SIGN,
)  # fmt: skip
NO_THREAD = (
    "the system does not allow another thread: memory is short, or the limit on processes is reached (ulimit -u); end "
    "other programs, or use a machine with more memory"
)
SHARED = ("demo", "train", "evaluate", "compare", "predict", "reproduce", "bench")  # verbs for several processes


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
        context: typer.Context,
        debug: bool = typer.Option(False, "--debug", help="Show the full traceback of an error."),
        version: bool = typer.Option(
            False,
            "--version",
            callback=show_version,
            is_eager=True,
            help="Show the versions, the device and the extras: what a bug report needs.",
        ),
    ) -> None:
        if launch().count > 1 and context.invoked_subcommand not in SHARED:
            raise UserError(
                f"scob {context.invoked_subcommand} runs in one process: start it without accelerate launch or torchrun"
            )

    for verb in VERBS:
        importlib.import_module(f"scob.cli.{verb}").register(app)
    return with_plain_help(app)


def hide_token(words: list[str]) -> None:
    """Start again with `scob review --token` in the environment, where other users cannot see it (`ps` can)."""
    if os.name == "nt":  # other users do not see command lines, and a process cannot be replaced by another
        return
    if words[:1] not in (["review"], ["serve"]) or not any(word.partition("=")[0] == "--token" for word in words):
        return
    rest, environment, given = [], dict(os.environ), iter(words)
    for word in given:
        option, equals, value = word.partition("=")
        if option == "--token":
            environment[f"SCOB_{words[0].upper()}_TOKEN"] = value if equals else next(given, "")
        else:
            rest.append(word)
    os.execve(sys.executable, [sys.executable, "-m", "scob", *rest], environment)


def show_version(wanted: bool) -> None:
    """`scob --version`."""
    if wanted:
        out.print("\n".join([f"scob {__version__}", *report()]), soft_wrap=True, highlight=False, markup=False)
        raise typer.Exit


def main() -> None:
    """The console script: a `UserError`, or a path that the system refuses, becomes one sentence and exit code 2."""
    hide_token(sys.argv[1:])
    share_cores()
    debug = "--debug" in sys.argv[1:]
    arguments = [word for word in sys.argv[1:] if word != "--debug"]
    reserve = bytearray()
    try:
        reserve = bytearray(RESERVE)  # given back when memory is short: a sentence needs some too
        build()(args=arguments, prog_name="scob")
    except UserError as error:
        del reserve
        if debug:
            raise
        if is_memory_short(error):
            end_without_memory(error)
        complain(str(error))
        sys.exit(2)
    except (MemoryError, ImportError, OSError, RuntimeError, SystemError) as error:
        del reserve
        if debug or not is_memory_short(error):
            explain_or_raise(error, debug)
        end_without_memory(error)


def share_cores() -> None:
    """Let torch's threads wait for each other without keeping a core busy for long; before torch is imported.

    By default, a thread that waits (in GNU's OpenMP, on Linux) looks hundreds of thousands of times, then sleeps. If
    another program is busy, that keeps the thread it waits for from running: a training step took 16 times as long.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def end_without_memory(error: BaseException) -> NoReturn:
    """Say that memory ran out, and end at once: what libraries do at the end of a process needs memory too."""
    complain(NO_THREAD if NO_THREAD_SIGN in str(error) else MEMORY_SHORT)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(2)


def is_memory_short(error: BaseException) -> bool:
    """Whether memory, of the machine or of a GPU, ran out: while importing, evaluating, or anywhere else."""
    if error.__cause__ is not None and is_memory_short(error.__cause__):  # a sentence about what a library found
        return True
    if isinstance(error, UserError):
        return False
    told = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    # Python's own words when a module written in C finds no memory and says nothing.
    silent = isinstance(error, SystemError) and re.search("without (setting an )?exception", str(error)) is not None
    return told or silent or any(sign in str(error).lower() for sign in MEMORY_SIGNS)


def explain_or_raise(error: BaseException, debug: bool) -> None:
    """End with one sentence about a missing package, a refused path or a lost process; raise anything else."""
    if debug:
        raise error
    hint = explain_missing(error.name) if isinstance(error, ModuleNotFoundError) else None
    if hint is not None:
        complain(hint)
        sys.exit(2)
    if isinstance(error, OSError) and error.filename is not None:
        # a path that no verb expects: a name too long, a device, a network share that vanished
        complain(f"{error.filename}: {error.strerror}")
        sys.exit(2)
    if isinstance(error, RuntimeError) and (count := launch().count) > 1:
        from scob.parallel import is_broken_connection, lost_peer

        if is_broken_connection(error):
            complain(f"{lost_peer(count)}; nothing was written: run the same command again")
            sys.exit(2)
    raise error
