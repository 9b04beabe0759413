"""Help pages without the type beside a flag: a flag takes no value."""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


def hide_flag_types(params: list[Any]) -> None:
    """Newer versions of Typer write <bool> beside every flag."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.display_type_rich = lambda ctx: None


class PlainCommand(TyperCommand):
    """A verb."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        hide_flag_types(self.get_params(ctx))
        super().format_help(ctx, formatter)


class PlainGroup(TyperGroup):
    """The verbs together."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        hide_flag_types(self.get_params(ctx))
        super().format_help(ctx, formatter)


def with_plain_help(app: typer.Typer) -> typer.Typer:
    """The app with such help pages, for its groups too."""
    app.info.cls = PlainGroup
    for command in app.registered_commands:
        command.cls = PlainCommand
    for group in app.registered_groups:
        group.cls = PlainGroup
        if group.typer_instance is not None:
            with_plain_help(group.typer_instance)
    return app
