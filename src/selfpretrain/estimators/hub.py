"""Push estimators to the Hugging Face hub, and load them from there."""

from pathlib import Path
from typing import Any

from ..errors import SpecError, StoreError
from .base import SequenceEstimator
from .persistence import load, save


def _library() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise SpecError("the hub needs huggingface_hub: pip install 'selfpretrain[hf]'") from error
    return huggingface_hub


def published(trust: tuple[str, ...] = ()) -> Any:
    """Return a ``ModelHubMixin`` class that holds an estimator.

    Raises:
        SpecError: if the library is not installed.
    """
    hub = _library()

    class Published(hub.ModelHubMixin, library_name="selfpretrain"):  # type: ignore[misc, name-defined, call-arg, unused-ignore]
        """An estimator with the methods of ``ModelHubMixin``."""

        estimator: SequenceEstimator  # set later: arguments would go into a config

        def _save_pretrained(self, save_directory: Path) -> None:
            save(self.estimator, save_directory)

        @classmethod
        def _from_pretrained(
            cls,
            *,
            model_id: str,
            revision: Any,
            cache_dir: Any,
            force_download: bool,
            local_files_only: bool,
            token: Any,
        ) -> "Published":
            folder = model_id
            if not Path(model_id).is_dir():
                folder = hub.snapshot_download(
                    model_id,
                    revision=revision,
                    cache_dir=cache_dir,
                    force_download=force_download,
                    local_files_only=local_files_only,
                    token=token,
                )
            found = cls()
            found.estimator = load(folder, trust=trust)
            return found

    return Published


def push(estimator: SequenceEstimator, name: str, private: bool = False) -> str:
    """Publish a model as OWNER/NAME, and return its URL.

    Raises:
        StoreError: if the hub rejects it or cannot be reached.
    """
    thing = published()()
    thing.estimator = estimator
    try:
        return str(thing.push_to_hub(name, private=private))
    except Exception as error:  # the library has one for each reason of network and server
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise StoreError(f"{name} was not published: {said}") from error


def pull(name: str, trust: tuple[str, ...] = ()) -> SequenceEstimator:
    """Return a model from the hub, or from a folder.

    Raises:
        StoreError: if the hub has no model of that name or cannot be reached.
    """
    kind = published(trust=trust)
    try:
        return kind.from_pretrained(name).estimator
    except (SpecError, StoreError):
        raise
    except Exception as error:  # the library has one for each reason of network and server
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise StoreError(f"{name} cannot be had: {said}") from error
