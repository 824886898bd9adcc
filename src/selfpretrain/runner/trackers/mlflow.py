"""Curves and final scores in MLflow: at MLFLOW_TRACKING_URI, or in ``mlflow.db`` of the folder of runs."""

import importlib
import os
from typing import Any

from ...errors import SpecError
from ...system.events import Event
from ..workspace import Workspace
from .base import Tracker, scalars


class MlFlow(Tracker):
    """A run per stage, found again by its name, in an experiment called like the folder of runs.

    Raises:
        SpecError: if MLflow is not installed.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        try:
            mlflow: Any = importlib.import_module("mlflow")
        except ImportError as error:
            raise SpecError('tracker mlflow needs MLflow: pip install "selfpretrain[mlflow]"') from error
        own = f"sqlite:///{workspace.runs.absolute() / 'mlflow.db'}"
        self._client = mlflow.MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", own))
        name = workspace.runs.absolute().name
        found = self._client.get_experiment_by_name(name)
        self._experiment = found.experiment_id if found else self._client.create_experiment(name)
        self._runs: dict[str, str] = {}
        self._step: dict[str, int] = {}

    def hear(self, event: Event) -> None:
        """Log every number, at its step; the scores of the end at the last one."""
        if event.kind not in ("train", "val", "end") or event.numbers.get("reused"):
            return
        run = self._runs.get(event.name) or self._begin(event.name)
        step = int(event.numbers.get("step", self._step.get(event.name, 0)))
        self._step[event.name] = step
        for name, value in scalars(event).items():
            self._client.log_metric(run, name, value, step=step)
        if event.kind == "end":
            self._client.set_terminated(self._runs.pop(event.name), "FINISHED")

    def _begin(self, stage: str) -> str:
        found = self._client.search_runs([self._experiment], f"attributes.run_name = '{stage}'")
        for old in found:  # told again from its beginning
            self._client.delete_run(old.info.run_id)
        tags = {"fingerprint": stage.rpartition("-")[2]}
        self._runs[stage] = self._client.create_run(self._experiment, run_name=stage, tags=tags).info.run_id
        return self._runs[stage]

    def close(self) -> None:
        """Say of stages that have not ended that they have not."""
        for run in self._runs.values():
            self._client.set_terminated(run, "KILLED")


tracker = MlFlow
