"""``spt run`` and ``spt schema``: run one recipe, and the JSON Schema of recipe files."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import SpecError
from .options import DataRoot, Device, Quiet, Runs, Trust, workspace_of

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
    typer.echo(json.dumps(folder.read("result.json")["scores"], indent=1))
    typer.echo(f"results: {folder.path}")


@app.command()
def schema(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; default: print it.")
    ] = None,
) -> None:
    """Print the JSON Schema of the recipes that `spt run` reads."""
    from ..system.files import explain_output_errors
    from ..training.schema import json_schema

    text = json.dumps(json_schema(), indent=1)
    if output is None:
        typer.echo(text)
    else:
        with explain_output_errors(output):
            output.write_text(f"{text}\n", encoding="utf-8")
        typer.echo(f"schema: {output}")
