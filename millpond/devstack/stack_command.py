"""`millpond stack`: start the local stack, tell the environment a millpond process needs, stay."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from millpond.devstack.errors import DevstackError
from millpond.devstack.signals import unwinding_on_signals
from millpond.devstack.stack import Stack, StackOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHECK_SECONDS = 0.5


def run_stack(options: StackOptions, *, env_file: Path | None = None) -> int:
    """Run the stack until SIGTERM or SIGINT and return the process's exit code.

    stdout gets `export NAME=VALUE` lines once everything is ready, and nothing else; so does `env_file`
    (mode 0600, it holds the secret key), in one move, so that its appearance says "ready". Hints for
    people go to stderr. 0: asked to stop; 1: a part failed, which stderr then names.
    """
    console = Console(stderr=True, highlight=False)
    try:
        with unwinding_on_signals():
            _serve(options, env_file, console)
    except KeyboardInterrupt:
        return 0
    except (DevstackError, OSError) as error:
        console.print(f"[bold red]The stack failed:[/] {escape(str(error))}", soft_wrap=True)
        return 1
    return 0


def export_lines(environment: Mapping[str, str]) -> str:
    """One `export NAME=VALUE` line a variable, quoted for a shell."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items())


def _serve(options: StackOptions, env_file: Path | None, console: Console) -> None:
    stack = Stack(options)
    try:
        with console.status("Starting broker, object store and catalog…"):
            stack.start()
        lines = export_lines(stack.environment())
        sys.stdout.write(lines)
        sys.stdout.flush()
        _show(stack, env_file, console)
        # Last, because scripts take the file's appearance for "ready" and may stop us at once.
        if env_file is not None:
            _write_privately(env_file, lines)
        while True:
            stack.check()
            time.sleep(_CHECK_SECONDS)
    finally:
        with console.status("Stopping…"):
            stack.close()


def _write_privately(path: Path, text: str) -> None:
    path.absolute().parent.mkdir(parents=True, exist_ok=True)
    # mkstemp makes the file 0600 from its first byte on.
    number, draft = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink()
        raise


def _show(stack: Stack, env_file: Path | None, console: Console) -> None:
    options = stack.options
    source = f". {shlex.quote(str(env_file))}" if env_file else "set the variables above"
    kept = "kept" if options.data_dir else "removed at the end"
    for line in (
        "[bold green]Ready.[/]",
        f"  broker   {stack.broker.bootstrap_servers} ({options.kafka}), topic {escape(options.topic)}",
        f"  store    {stack.store.endpoint} ({options.store}), bucket {escape(options.bucket)}",
        f"  catalog  {stack.catalog.url}",
        f"  data     {escape(str(stack.data_dir))} ({kept}), logs in its folder logs",
        f"In another terminal: {escape(source)} && millpond run. Ctrl-C here stops everything.",
    ):
        console.print(line, soft_wrap=True)
