"""The model hub: whether it can be reached, and its files. Code that a repository brings along is never run."""

import functools
import threading
import time
from pathlib import Path

from scob.errors import UserError, first_line

REMEMBERED_SECONDS = 60


def hub_is_reachable(seconds: float = 10) -> bool:
    """Whether the hub answers within `seconds`. Its own client would retry for half a minute and print each attempt."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    return _answers(constants.ENDPOINT, seconds, int(time.monotonic() // REMEMBERED_SECONDS))


@functools.lru_cache(maxsize=8)
def _answers(endpoint: str, seconds: float, _minute: int) -> bool:
    """Ask once per minute at most. In a thread, because looking up a name does not obey a time-out."""
    from huggingface_hub import get_session

    answered = threading.Event()

    def ask() -> None:
        try:
            get_session().head(endpoint, timeout=seconds)
        except Exception:  # no name, no route, no certificate: each client library has its own exceptions
            return
        answered.set()

    question = threading.Thread(target=ask, daemon=True)
    question.start()
    question.join(seconds)
    return answered.is_set()


def is_stored(name: str) -> bool:
    """Whether a repository's configuration and weights are on this machine already."""
    return all(stored_file(name, file) is not None for file in ("config.json", "model.safetensors"))


def stored_file(name: str, file: str) -> Path | None:
    """A file of a repository from the hub's cache on this machine, if it is there."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        path = try_to_load_from_cache(name, file)
    except HFValidationError:  # not a name the hub could have
        return None
    return Path(path) if isinstance(path, str) else None


def fetch_file(name: str, file: str) -> Path | None:
    """A file of a repository, from the cache or from the hub; None if there is none or the hub cannot be reached."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError

    stored = stored_file(name, file)
    if stored is not None or not hub_is_reachable():
        return stored
    try:
        return Path(hf_hub_download(name, file))
    except (EntryNotFoundError, HfHubHTTPError, HFValidationError, OSError):
        return None


@functools.lru_cache(maxsize=8)
def fetch_model(name: str) -> Path:
    """The model folder OWNER/NAME[@REVISION] of the hub, from the cache if the hub cannot be reached."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    repository, _, revision = name.partition("@")
    wanted = ["config.json", "model.safetensors", "README.md"]
    offline = not hub_is_reachable()
    try:
        folder = Path(
            snapshot_download(repository, revision=revision or None, allow_patterns=wanted, local_files_only=offline)
        )
    except LocalEntryNotFoundError:
        raise UserError(
            f"there is no model at {name}: no such folder, and the hub, which might have it, cannot be reached"
        ) from None
    except RepositoryNotFoundError:
        raise UserError(
            f"there is no model at {name}: no such folder, and none on the hub that you may see (hf auth login, if it "
            "is private)"
        ) from None
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise UserError(f"the model {name} could not be fetched from the hub: {first_line(error)}") from error
    if not (folder / "config.json").is_file():
        raise UserError(f"{name} on the hub is not a Scob model: it has no config.json")
    return folder
