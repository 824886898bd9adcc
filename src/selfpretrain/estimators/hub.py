"""The Hugging Face hub: upload a saved model, and download one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import SpecError, StoreError


def upload(folder: Path, name: str, private: bool = False) -> str:
    """Publish a saved model as OWNER/NAME, and return the URL of the commit.

    Raises:
        SpecError: if the extra is not installed.
        StoreError: if the hub rejects it or cannot be reached.
    """
    api = _huggingface_hub().HfApi()
    with _short_errors(f"{name} was not published"):
        repository = api.create_repo(name, private=private, exist_ok=True)
        return str(api.upload_folder(repo_id=repository.repo_id, folder_path=folder))


def download(name: str) -> Path:
    """Return the folder of a saved model: ``name`` itself if it is a folder, else a download of OWNER/NAME.

    Raises:
        SpecError: if the extra is not installed.
        StoreError: if the hub has no model of that name or cannot be reached.
    """
    if Path(name).is_dir():
        return Path(name)
    hub = _huggingface_hub()
    with _short_errors(f"{name} cannot be downloaded"):
        return Path(hub.snapshot_download(name))


def _huggingface_hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise SpecError("the hub needs huggingface_hub: pip install 'selfpretrain[hub]'") from error
    return huggingface_hub


@contextmanager
def _short_errors(failure: str) -> Iterator[None]:
    """Convert any exception of the library into a one-line StoreError."""
    try:
        yield
    except Exception as error:  # the library has one for each reason of network and server
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise StoreError(f"{failure}: {reason}") from error
