"""The ``spt`` command: its verbs, and how an error becomes one line and an exit code."""

import os
import shlex
import traceback
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ..errors import Interrupted, SelfPretrainError, SpecError
from ..spec import explain
from . import (
    bench,
    check,
    compare,
    data,
    doctor,
    fit,
    listing,
    model,
    predict,
    report,
    run_recipe,
    show,
    study,
)

app = typer.Typer(
    name="spt",
    help="Self-pretraining against training from scratch: fair comparisons of sequence models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for verb in (compare, study, run_recipe, fit, predict, report, listing, doctor, bench, check, show):
    app.add_typer(verb.app)
app.add_typer(model.app, name="model")
app.add_typer(data.app, name="data")


def run(arguments: list[str]) -> int:
    """Run a command line; its exit code. Mistakes get one line, tracebacks with SPT_DEBUG=1 only."""
    import pydantic

    try:
        app(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except Interrupted as error:
        return _complain(f"{error}: spt {shlex.join(arguments)}", error.exit_code)
    except KeyboardInterrupt:
        return _complain("stopped at once; the same command goes on from the last checkpoint", 130)
    except SelfPretrainError as error:
        return _complain(f"error: {error}", error.exit_code)
    except pydantic.ValidationError as error:
        return _complain(f"error: {explain(error)}", SpecError.exit_code)
    return 0


def _complain(line: str, code: int) -> int:
    if os.environ.get("SPT_DEBUG"):
        traceback.print_exc()
    Console(stderr=True).print(Text(line), soft_wrap=True)
    return code


def version(value: bool | None) -> None:
    """Print the version and end."""
    if value:
        from .. import __version__

        print(f"selfpretrain {__version__}")
        raise typer.Exit


@app.callback()
def options(
    show: Annotated[
        bool | None, typer.Option("--version", callback=version, is_eager=True, help="Show the version.")
    ] = None,
) -> None:
    """Self-pretraining against training from scratch: fair comparisons of sequence models."""
