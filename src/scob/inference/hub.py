"""Publishing a model on the Hugging Face hub. Opening one by its name there is `find_model`'s work."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from scob.errors import UserError, first_line
from scob.inference.hub_card import TrainedAs, hub_card, last_part
from scob.model.hub import hub_is_reachable
from scob.training.find_model import find_model
from scob.training.model_folder import ModelCard, check_weights
from scob.training.run_folder import RunFolder

EXPORTED = ("model.onnx", "model-int8.onnx")


@dataclass(frozen=True)
class HubOptions:
    """How a model is published: its licence (an identifier of the hub's), what it was trained on, who may see it."""

    licence: str | None = None
    data: str = ""
    private: bool = False
    message: str = "A model trained with Scob"


def push_to_hub(model: str | Path, name: str, options: HubOptions = HubOptions()) -> str:
    """Publish a run's model or a model folder as `owner/name`, with a model card; returns its address.

    Exported ONNX files beside the model go along. Local paths of the run do not.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    check_name(name)
    found = find_model(model)
    if found.is_onnx:
        raise UserError(f"{found.path} is an ONNX file: give the model folder beside it, and the file goes along")
    card = ModelCard.read(found.path)
    check_weights(found.path, card)
    trained = None
    if found.run is not None:
        run = RunFolder(found.run)
        trained = TrainedAs(run.read_config(), run.summary())
    readme = hub_card(card, name, options.licence, options.data, trained)
    files: dict[str, bytes | str] = {"README.md": readme.encode(), "config.json": published(card).to_json().encode()}
    exported = [file for file in EXPORTED if (found.path / file).is_file()]
    files |= {file: str(found.path / file) for file in ("model.safetensors", *exported)}
    with explained(name):
        api = HfApi()
        address = api.create_repo(name, private=options.private or None, exist_ok=True)
        operations = [CommitOperationAdd(path, content) for path, content in files.items()]
        api.create_commit(name, operations, commit_message=options.message)
    return str(address)


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a repository, before the hub is asked."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
        possible = "/" in name
    except HFValidationError:
        possible = False
    if not possible:
        raise UserError(
            f"{name!r} is not a name on the hub: use OWNER/NAME, with letters, digits, _, - and . (no -- or ..)"
        )


def published(card: ModelCard) -> ModelCard:
    """The card without the folders of this machine."""
    model = {**card.model, "backbone": last_part(str(card.model.get("backbone", "")))}
    return replace(card, model=model, backbone_name=last_part(card.backbone_name))


@contextmanager
def explained(name: str) -> Iterator[None]:
    """The hub's refusals as one sentence each."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError

    if not hub_is_reachable():
        raise UserError(
            f"the hub at {constants.ENDPOINT} cannot be reached, so {name} was not published: try again later"
        )
    try:
        yield
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else None
        if status in (401, 403):
            raise UserError(
                f"the hub does not let you write to {name}: log in with `hf auth login`, with a token that may write, "
                "and use a name that belongs to you"
            ) from error
        raise UserError(f"the hub refused {name}: {first_line(error)}") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{name} could not be published: {first_line(error)}") from error
