"""The command line: its commands, and how errors become one line and an exit code."""

import contextlib
import importlib
import os
import shlex
import shutil
import sys
import traceback
import warnings
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from ..errors import Interrupted, SelfPretrainError, SpecError

VERBS = {
    "compare": "compare",
    "study": "study",
    "fit": "fit",
    "predict": "fit",
    "check": "check",
    "bench": "check",
    "report": "report",
    "list": "listing",
    "doctor": "listing",
    "data": "data",
    "model": "model",
    "runs": "runs",
    "show": "show",
    "run": "run_recipe",
}
"""Commands in the order of ``--help``, and the module of each; only the requested one is imported."""
GROUPS = {"data", "model", "runs"}
"""Commands that have subcommands."""
PANELLED = 80
"""Minimum terminal width for help in panels; narrower terminals get plain text."""
PANELS = dict.fromkeys(GROUPS, "Groups of further commands") | dict.fromkeys(("show", "run"), "Single runs")
"""Panel of ``selfpretrain --help`` for commands that are not in the first one."""
EXAMPLES = {
    "compare": "selfpretrain compare --task digits --mixers attention,s4d --seeds 3 --minutes 30",
    "study": "selfpretrain study amos-table-8 --dry-run",
    "fit": "selfpretrain fit vowels.csv --label speaker --output model",
    "predict": "selfpretrain predict model new.csv --output answers.csv",
    "check": "selfpretrain check mylab:MyMixer --causal --length 512",
    "bench": "selfpretrain bench attention --mixers attention,s4d --sizes 1k,4k",
    "report": "selfpretrain report runs",
    "list": "selfpretrain list settings digits",
    "doctor": "selfpretrain doctor --json",
    "show": "selfpretrain show digits-s4d-classify",
    "run": "selfpretrain run recipe.json",
}


def command_line(*verbs: str, panels: bool = True) -> typer.Typer:
    """Build the app with these commands, or with all of them; help is in panels or plain text."""
    app = typer.Typer(
        name="selfpretrain",
        help="Compare self-pretraining with training from scratch, fairly, for sequence models.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if panels else None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(options)
    for verb in verbs or VERBS:
        module = importlib.import_module(f".{VERBS[verb]}", __package__)
        commands = module.app.registered_commands
        for command in commands:
            # Typer would cut a longer line.
            command.short_help = (command.callback.__doc__ or "").partition("\n")[0]
        if verb in GROUPS:
            app.add_typer(
                module.app, name=verb, short_help=module.app.info.help, rich_help_panel=PANELS[verb]
            )
            continue
        command = next(each for each in commands if (each.name or each.callback.__name__) == verb)
        command.rich_help_panel = PANELS.get(verb)
        command.epilog = f"Example: {EXAMPLES[verb]}"
        app.registered_commands.append(command)
    return app


def run(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit code; errors are one line, after a traceback in debugging.

    Args:
        arguments: None: those of this process; then modules in the current folder can be named, too.
    """
    if arguments is None:
        arguments = sys.argv[1:]
        sys.path.append(os.getcwd())
    try:
        known = [verb for verb in arguments[:1] if verb in VERBS]
        panels = shutil.get_terminal_size().columns >= PANELLED
        with warnings.catch_warnings(), _output(arguments):
            warnings.showwarning = _note
            command_line(*known, panels=panels)(arguments or ["--help"], prog_name="selfpretrain")
    except SystemExit as end:
        # Typer turns Ctrl-C into this code, without a word.
        if end.code == Interrupted.exit_code:
            return _stopped(arguments)
        return end.code if isinstance(end.code, int) else 1
    except KeyboardInterrupt:
        return _stopped(arguments)
    except SelfPretrainError as error:
        asked = isinstance(error, Interrupted)
        return _complain(
            f"{error}: selfpretrain {shlex.join(arguments)}" if asked else f"error: {error}", error.exit_code
        )
    except Exception as error:
        return _complain(*_unforeseen(error))
    return 0


def _output(arguments: list[str]) -> contextlib.AbstractContextManager[None]:
    """Return a context that keeps standard output for JSON alone, if that is asked for."""
    if "--json" not in arguments:
        return contextlib.nullcontext()
    from .printing import json_alone

    return json_alone()


def _unforeseen(error: Exception) -> tuple[str, int]:
    """Return the one-line message and exit code of a validation error or an unexpected exception."""
    import pydantic

    from ..config import explain

    if isinstance(error, pydantic.ValidationError):
        return f"error: {explain(error)}", SpecError.exit_code
    message = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return f"error: unforeseen {message} (SELFPRETRAIN_DEBUG=1 shows where)", 1


def _stopped(arguments: list[str]) -> int:
    return _complain(
        f"stopped at once; to resume: selfpretrain {shlex.join(arguments)}", Interrupted.exit_code
    )


def _note(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: Any = None,
) -> None:
    """Print a warning as one line, without the line of our code that it comes from."""
    Console(stderr=True).print(Text(f"note: {message}"), soft_wrap=True)


def _complain(line: str, code: int) -> int:
    if os.environ.get("SELFPRETRAIN_DEBUG"):
        traceback.print_exc()
    Console(stderr=True).print(Text(line), soft_wrap=True)
    return code


def version(value: bool | None) -> None:
    """Print the version and exit."""
    if value:
        from .. import __version__

        print(f"selfpretrain {__version__}")
        raise typer.Exit


def options(
    show: Annotated[
        bool | None, typer.Option("--version", callback=version, is_eager=True, help="Show the version.")
    ] = None,
) -> None:
    """Compare self-pretraining with training from scratch, fairly, for sequence models."""
