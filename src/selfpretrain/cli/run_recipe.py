"""``selfpretrain run``: run one recipe."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import SpecError
from .options import DataRoot, Device, Quiet, Runs, Trust, workspace_of
from .printing import prints

app = typer.Typer()


@app.command(name="run")
def run_recipe(
    recipe: Annotated[Path, typer.Argument(help="Recipe in JSON, e.g. the recipe.json of a finished stage.")],
    runs: Runs = Path("runs"),
    device: Device = "auto",
    trust: Trust = None,
    data_root: DataRoot = None,
    quiet: Quiet = False,
) -> None:
    """Run all stages of one recipe and print the scores."""
    from ..config import from_dict
    from ..runner.run import run_recipes
    from ..runner.workspace import run_context
    from ..system.files import read_json
    from ..training.recipe import Recipe

    if not recipe.exists():
        raise SpecError(f"there is no file {recipe}")
    plain = read_json(recipe, editable=True)
    plain.pop("format", None)
    try:
        revived = from_dict(plain, tuple(trust or ()))
    except RecursionError as error:
        raise SpecError(f"{recipe} is nested too deeply to be a recipe") from error
    if not isinstance(revived, Recipe):
        raise SpecError(f"{recipe} does not hold a recipe, but a {type(revived).__name__}")
    with run_context(workspace_of(runs, device, quiet=quiet)) as workspace:
        run_recipes([revived], workspace)
        folder = workspace.stage(revived)
    if prints():
        typer.echo(json.dumps(folder.read("result.json")["scores"], indent=1))
        typer.echo(f"results: {folder.path}")
