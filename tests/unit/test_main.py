"""What a process says and ends with before anything is started."""

import json
import os
from collections.abc import Mapping
from typing import Any

import pytest
from typer.testing import CliRunner

import millpond
from millpond import cli, main
from tests.unit.test_config import REQUIRED

Output = pytest.CaptureFixture[str]


def problems(capsys: Output, environ: dict[str, str]) -> list[str]:
    """What a process with this environment complains of."""
    assert main.run(environ) == 2
    lines: list[dict[str, Any]] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {("bad configuration", "error")} == {(line["event"], line["level"]) for line in lines}
    return [line["problem"] for line in lines]


def test_an_empty_environment_is_answered_with_one_line_for_each_required_variable(capsys: Output) -> None:
    expected = {f"{variable}: required, but not set" for variable in REQUIRED}
    assert expected == set(problems(capsys, {}))


def test_a_bad_value_ends_the_process_with_code_2(capsys: Output) -> None:
    (problem,) = problems(capsys, REQUIRED | {"FLUSH_SIZE": "big"})
    assert problem.startswith("FLUSH_SIZE='big': ")


@pytest.mark.parametrize("level", ["verbose", "10", "Level 5"])
def test_a_bad_log_level_is_a_bad_value_like_any_other(capsys: Output, level: str) -> None:
    """It is needed before the configuration is read, and must not break the telling."""
    (problem,) = problems(capsys, REQUIRED | {"LOG_LEVEL": level})
    assert problem.startswith(f"LOG_LEVEL={level!r}: ")


def test_complaints_do_not_show_secrets(capsys: Output) -> None:
    environ = REQUIRED | {"HOGLAKE_S3_SECRET_KEY": "hunter2", "KAFKA_CONSUMER_SASL_PASSWORD": "hunter3"}
    assert main.run(environ | {"FLUSH_SIZE": "big"}) == 2
    assert "hunter" not in capsys.readouterr().out


def test_people_who_want_text_get_it_from_the_first_line(capsys: Output) -> None:
    assert main.run({"MILLPOND_LOG_FORMAT": "text"}) == 2
    out = capsys.readouterr().out
    assert "bad configuration" in out
    assert not out.startswith("{")


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(cli.app, ["--version"])
    assert (0, f"millpond {millpond.__version__}\n") == (result.exit_code, result.output)


def test_without_a_command_the_service_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Mapping[str, str]] = []

    def run(environ: Mapping[str, str]) -> int:
        ran.append(environ)
        return 3

    monkeypatch.setattr(main, "run", run)
    assert 3 == CliRunner().invoke(cli.app, []).exit_code
    assert [os.environ] == ran


def test_an_unknown_command_is_refused() -> None:
    assert CliRunner().invoke(cli.app, ["flush"]).exit_code == 2
