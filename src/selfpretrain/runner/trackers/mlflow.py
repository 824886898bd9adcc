"""Curves and final scores in MLflow: at MLFLOW_TRACKING_URI, or in ``mlflow.db`` of the folder of runs."""

import os

from ..workspace import Workspace
from .base import RunTracker


class MlFlow(RunTracker):
    """A run per stage, found again by its name, in an experiment called like the folder of runs."""

    library = "mlflow"

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        own = f"sqlite:///{workspace.runs.absolute() / 'mlflow.db'}"
        self._client = self._library.MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", own))
        name = workspace.runs.absolute().name
        found = self._client.get_experiment_by_name(name)
        self._experiment = found.experiment_id if found else self._client.create_experiment(name)

    def begin(self, stage: str) -> str:
        """A run, in place of what was told before."""
        for old in self._client.search_runs([self._experiment], f"attributes.run_name = '{stage}'"):
            self._client.delete_run(old.info.run_id)
        tags = {"fingerprint": stage.rpartition("-")[2]}
        return self._client.create_run(self._experiment, run_name=stage, tags=tags).info.run_id

    def log(self, run: str, numbers: dict[str, float], step: int) -> None:
        """Log every number."""
        for name, value in numbers.items():
            self._client.log_metric(run, name, value, step=step)

    def end(self, run: str, finished: bool) -> None:
        """Say whether it has come to its end."""
        self._client.set_terminated(run, "FINISHED" if finished else "KILLED")


tracker = MlFlow
