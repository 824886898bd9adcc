"""``spt schema``: the JSON Schema of recipe files, for editors and other programs."""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def schema(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; default: print it.")
    ] = None,
) -> None:
    """Print the JSON Schema of the recipes that `spt run` reads."""
    from ..training.schema import json_schema

    text = json.dumps(json_schema(), indent=1)
    if output is None:
        typer.echo(text)
    else:
        output.write_text(f"{text}\n", encoding="utf-8")
        typer.echo(f"schema: {output}")
