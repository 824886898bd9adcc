"""Self-pretraining for sequence models: pretrain on the task's own data, finetune, compare fairly.

Begin with ``compare``, which does what ``selfpretrain compare`` does and returns its results:

    import selfpretrain

    results = selfpretrain.compare("digits", mixers=("attention", "s4d"), seeds=3)
    rows = results.to_rows()  # one dict per run: for pandas.DataFrame(rows), or a CSV

``study`` reproduces a table or figure of the papers. ``import_data`` imports your own files
(``ImportOptions`` controls how they are read), ``import_arrays`` imports arrays, and ``load_task`` finds a
task by name. ``Recipe``, ``Stage``, ``Model``, ``Budget`` and ``Optim`` describe a training run, and ``run``
executes it in a ``Workspace``. ``read_results`` loads the results of an earlier comparison or study as
``ExperimentResults``. ``SequenceClassifier``, ``SequenceRegressor``, ``MultilabelClassifier``,
``PositionClassifier`` and ``SequencePretrainer`` are estimators that follow the conventions of scikit-learn.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import compare, study
    from .data.importing.importer import import_arrays, import_data
    from .data.importing.options import ImportOptions
    from .estimators.models import (
        MultilabelClassifier,
        PositionClassifier,
        SequenceClassifier,
        SequencePretrainer,
        SequenceRegressor,
    )
    from .report.results import ExperimentResults
    from .report.results import read as read_results
    from .runner.stage import run
    from .runner.workspace import Workspace
    from .tasks.base import load_task
    from .training.model import Model
    from .training.optim import Optim
    from .training.recipe import Budget, Recipe, Stage

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "ExperimentResults",
    "ImportOptions",
    "Model",
    "MultilabelClassifier",
    "Optim",
    "PositionClassifier",
    "Recipe",
    "SequenceClassifier",
    "SequencePretrainer",
    "SequenceRegressor",
    "Stage",
    "Workspace",
    "compare",
    "import_arrays",
    "import_data",
    "load_task",
    "read_results",
    "run",
    "study",
]

_WHERE = {
    "Budget": "training.recipe:Budget",
    "ExperimentResults": "report.results:ExperimentResults",
    "ImportOptions": "data.importing.options:ImportOptions",
    "Model": "training.model:Model",
    "MultilabelClassifier": "estimators.models:MultilabelClassifier",
    "Optim": "training.optim:Optim",
    "PositionClassifier": "estimators.models:PositionClassifier",
    "Recipe": "training.recipe:Recipe",
    "SequenceClassifier": "estimators.models:SequenceClassifier",
    "SequencePretrainer": "estimators.models:SequencePretrainer",
    "SequenceRegressor": "estimators.models:SequenceRegressor",
    "Stage": "training.recipe:Stage",
    "Workspace": "runner.workspace:Workspace",
    "compare": "api:compare",
    "import_arrays": "data.importing.importer:import_arrays",
    "import_data": "data.importing.importer:import_data",
    "load_task": "tasks.base:load_task",
    "read_results": "report.results:read",
    "run": "runner.stage:run",
    "study": "api:study",
}
"""Where each public name is defined; modules are imported on first use, which keeps the import fast."""


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _WHERE[name].partition(":")
    return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
