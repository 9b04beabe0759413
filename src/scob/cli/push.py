"""`scob push MODEL OWNER/NAME`: publish a model on the Hugging Face hub."""

from pathlib import Path
from typing import Annotated

import typer

from scob.cli.console import command, note


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("push", help="Publish a model on the Hugging Face hub, with a model card (Python: scob.push_to_hub).")(
        push
    )


def push(
    model: Annotated[Path, typer.Argument(help="Run folder or model folder.")],
    name: Annotated[str, typer.Argument(help="Where to publish it: OWNER/NAME.")],
    licence: Annotated[
        str | None, typer.Option("--licence", "--license", help="Licence of the model, such as apache-2.0 or mit.")
    ] = None,
    data: Annotated[
        str, typer.Option(help="What the model was trained on, for the card; by default the name of its data folder.")
    ] = "",
    private: Annotated[bool, typer.Option("--private", help="Only you can see it.")] = False,
) -> None:
    """Publish the model and print its address."""
    from scob.inference.hub import HubOptions, push_to_hub

    address = push_to_hub(model, name, HubOptions(licence, data, private))
    note(address)
    note(f"next: {command('predict', name)} IMAGES")
