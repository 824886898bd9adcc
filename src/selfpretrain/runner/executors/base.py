"""What an executor must do: run stages somewhere, and say how they ended."""

import abc
from dataclasses import dataclass
from typing import ClassVar, Literal

from ...errors import SelfPretrainError, SpecError
from ..plan import Job
from ..workspace import Workspace


@dataclass(frozen=True)
class Ended:
    """How a stage ended: done; failed, and would again; lost with its worker; stopped, with a checkpoint."""

    job: Job
    how: Literal["done", "failed", "lost", "stopped"]
    error: SelfPretrainError | None = None  # of what failed or was lost


class Executor(abc.ABC):
    """Where stages run. It knows nothing of their order, of retries, or of what they are for."""

    attempts: ClassVar[int] = 1  # how often a stage that is lost is tried

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @classmethod
    def detach(cls, jobs: list[Job], workspace: Workspace) -> str:
        """Hand over all jobs to an engine that goes on without this process, and return how to find them.

        Raises:
            SpecError: if this executor cannot.
        """
        raise SpecError(
            "--detach needs --executor slurm; on a Ray cluster, `ray job submit -- spt ...` detaches"
        )

    def foresee(self, jobs: list[Job]) -> None:  # noqa: B027  # most need not
        """Hear of all stages that are to be started, each after the one that it starts from."""

    @property
    @abc.abstractmethod
    def slots(self) -> int:
        """How many stages it can run at once."""

    @abc.abstractmethod
    def start(self, job: Job) -> None:
        """Begin a stage; there is a free slot, and the stage that it starts from is done."""

    @abc.abstractmethod
    def ended(self, timeout: float) -> list[Ended]:
        """The stages that have ended since the last call; waits for one, in seconds at most."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Ask every running stage to save a checkpoint and end; they still come out of ``ended``."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of everything; nothing is running any more, or what is running is to be given up."""
