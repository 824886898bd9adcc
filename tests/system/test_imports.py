"""What is imported: nothing heavy before it is needed, asked of processes of their own."""

import pytest

from processes import python
from selfpretrain.registry import SHELVES

SLOW = "scipy sklearn matplotlib jinja2 torch"
ALL_MIXERS = (
    "from selfpretrain.registry import find, names; [find('mixers', each) for each in names('mixers')]"
)
OPTIMIZER = """
import torch
from selfpretrain.training.optim import Optim
network = torch.nn.Linear(3, 1)
optimizer = Optim().build(network, {})
network(torch.ones(2, 3)).sum().backward()
optimizer.step()
optimizer.zero_grad()
optimizer.load_state_dict(optimizer.state_dict())
"""
TRUNK = ("config", "data.store", "objectives.base", "training.train", "runner.run", "studies.compare",
         "report.page", "cli.compare", "api")  # fmt: skip
"""What a comparison is made of, which needs no library of tables, figures or classical methods."""
PROGRAMS = {
    "help": [
        ("import selfpretrain; dir(selfpretrain)", "torch numpy"),
        ("from selfpretrain.cli.app import run; run(['--help'])", "torch numpy pydantic"),
        ("selfpretrain.read_results", "torch"),
    ],
    "lists": [
        ("from selfpretrain.cli.app import run", ""),
        (f"assert not any(run(['list', each]) for each in {tuple(SHELVES)})", f"{SLOW} numpy numba pyarrow"),
        ("assert len([name for name in sys.modules if name.startswith('selfpretrain.cli')]) <= 5", ""),
    ],
    "reports and training": [
        ("import selfpretrain.report.page", f"{SLOW} rich markdown_it pydantic"),
        (f"import {', '.join(f'selfpretrain.{each}' for each in TRUNK)}",
         "matplotlib numba pandas pyarrow requests scipy.stats sklearn transformers"),
        ("from selfpretrain.cli.app import run; assert not run(['compare', '--task', 'digits', '--dry-run'])",
         "matplotlib numba pandas pyarrow scipy.stats sklearn torch._dynamo transformers"),
        (ALL_MIXERS, "torch._dynamo transformers"),
        (OPTIMIZER, "torch._dynamo torch._inductor sympy"),
    ],
}  # fmt: skip
"""Steps of one process each, and what none of them may have imported until then."""


@pytest.mark.parametrize("steps", PROGRAMS.values(), ids=PROGRAMS)
def test_nothing_heavy_is_imported_before_it_is_needed(steps, tmp_path):
    checked = "assert not (found := {names} & set(sys.modules)), found"
    lines = [f"{code}\n{checked.format(names=set(heavy.split()))}" for code, heavy in steps]
    python("\n".join(["import sys", *lines]), tmp_path)
    assert list(tmp_path.iterdir()) == []
