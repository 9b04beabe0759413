"""Options as dataclasses: a verb gets one object; Typer sees one parameter per field."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from scob.errors import UserError

Record = TypeVar("Record")

# Options that several verbs share.
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Device = Annotated[str, typer.Option(help="Device to run on: auto, cpu, cuda, cuda:1 or mps.")]
Images = Annotated[list[str], typer.Argument(help="Image files, folders or patterns; '-' reads a list from stdin.")]
ImageSize = Annotated[int, typer.Option(min=16, help="Side of the square images in pixels.")]
ReaderName = Annotated[
    str,
    typer.Option(
        "--format",
        help="Format: auto, voc, coco, cub, nuswide, matrices (.npy), yolo, labelstudio, huggingface, table, folder, "
        "scenes.",
    ),
]
Separator = Annotated[
    str,
    typer.Option(help="What separates several labels in a table's cell: | ; , space, or none; found by default."),
]


def with_options(verb: Callable[[Record], None]) -> Callable[..., None]:
    """The function Typer wants for `verb(options)`: one parameter per field of the record, in the same order.

    Each field is `Annotated[type, typer.Option(...)]` or `Annotated[type, typer.Argument(...)]`, with its default.
    """
    [record] = [kind for name, kind in get_type_hints(verb).items() if name != "return"]
    hints = get_type_hints(record, include_extras=True)

    def command(**values: Any) -> None:
        verb(record(**values))

    command.__name__, command.__doc__ = verb.__name__, verb.__doc__
    command.__annotations__ = {field.name: hints[field.name] for field in fields(record)}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name]
            )
            for field in fields(record)
        ]
    )
    return command


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is MISSING else field.default


def check_difficult(value: str) -> None:
    """Refuse a value of --difficult that no reader accepts."""
    if value not in ("positive", "negative", "ignore"):
        raise UserError(f"--difficult is {value!r}, but it must be positive, negative or ignore")


def whole_numbers(text: str) -> tuple[int, ...]:
    """ "80,800" -> (80, 800)."""
    try:
        numbers = tuple(int(word) for word in text.split(","))
    except ValueError:
        raise UserError(f"{text!r} is not a list of whole numbers: separate them with commas, as in 80,800") from None
    if min(numbers) < 1:
        raise UserError(f"{text!r} contains a number below 1")
    return numbers
