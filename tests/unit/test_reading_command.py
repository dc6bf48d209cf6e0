"""Standard output of a command whose reader may leave before it ends."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from millpond.errors import Fatal
from millpond.reading_command import OUT_OF_REACH, Output, run_command

SCRIPT = """
import sys
from itertools import count
from millpond.reading_command import Output, run_command

def act(_):
    output.{what}
    return 7

output = Output(as_json={as_json})
sys.exit(run_command("test", act, output))
"""


def ended(what: str, *, reads: int, as_json: bool = False) -> tuple[int, bytes, bytes]:
    """Exit code, what was read, and what was said on standard error, where somebody reads so many bytes."""
    command = [sys.executable, "-c", SCRIPT.format(what=what, as_json=as_json)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    with process, process.stdout, process.stderr:
        read = os.read(process.stdout.fileno(), reads) if reads else b""
        process.stdout.close()
        said = process.stderr.read()
        return process.wait(timeout=30), read, said


@pytest.mark.parametrize(
    ("what", "reads"),
    [
        pytest.param('lines(["short"])', 0, id="nobody reads, and it fits into a buffer"),
        pytest.param('lines(["long"] * 1_000_000)', 4, id="more than a pipe holds"),
        pytest.param("lines(str(n) for n in count())", 2, id="what never ends"),
        pytest.param("write(b'raw' for _ in range(1_000_000))", 2, id="bytes"),
        pytest.param('json(["long"] * 1_000_000)', 2, id="one large text"),
    ],
)
def test_a_reader_that_leaves_is_no_failure(what: str, reads: int) -> None:
    """The exit code is the command's own verdict."""
    code, read, said = ended(what, reads=reads)
    assert (7, reads, b"") == (code, len(read), said)


@pytest.mark.parametrize("abandoned", [0, 1])
def test_without_any_output_a_command_has_its_verdict_all_the_same(abandoned: int) -> None:
    """`>&-` leaves none; a call left behind ends the process by another door."""
    script = SCRIPT.format(what='lines(["short"])', as_json=False)
    script = script.replace("    return", f"    _.abandoned = {abandoned}\n    return")
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys\nsys.stdout = None\n{script}"],
        stderr=subprocess.PIPE,
        timeout=30,
        check=False,
    )
    assert (7, b"") == (ran.returncode, ran.stderr)


def lines_and_failure() -> Iterator[str]:
    yield "{"
    raise Fatal("gone")


@pytest.mark.parametrize(
    ("pieces", "printed"),
    [
        pytest.param(lines_and_failure, "{", id="begun"),
        pytest.param(lambda: islice(lines_and_failure(), 1, None), None, id="not begun"),
    ],
)
def test_what_is_in_the_way_is_json_unless_another_text_has_begun(
    pieces: Callable[[], Iterator[str]], printed: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(as_json=True)

    def act(_: object) -> int:
        output.write(pieces())
        return 0

    assert OUT_OF_REACH == run_command("test", act, output)
    said = capsys.readouterr()
    assert "millpond test: Fatal: gone\n" == said.err
    assert (printed or '"verdict": "unknown"') in said.out
    assert (printed is None) == ("verdict" in said.out)
