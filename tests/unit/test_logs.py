"""One JSON object a line, ours and the libraries' alike."""

import json
import logging
from datetime import datetime
from typing import Any

import pytest

from millpond import logs
from millpond.logs import ClientLog
from tests.unit.fakes import FakeClock

Output = pytest.CaptureFixture[str]


def lines(capsys: Output) -> list[dict[str, Any]]:
    """What was printed, each line parsed by itself."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_an_event_is_one_line_with_level_time_and_its_facts(capsys: Output) -> None:
    logs.configure("INFO", "json")
    logs.logger(table="lake.main.events").info("flushed", rows=3, note="two\nlines")
    (line,) = lines(capsys)
    assert line.pop("timestamp").endswith("Z")
    expected = {
        "event": "flushed",
        "level": "info",
        "table": "lake.main.events",
        "rows": 3,
        "note": "two\nlines",
    }
    assert expected == line


def test_the_time_is_told_in_utc(capsys: Output) -> None:
    logs.configure("INFO", "json")
    logs.logger().info("x")
    told = datetime.fromisoformat(lines(capsys)[0]["timestamp"])
    assert abs((told - datetime.now(told.tzinfo)).total_seconds()) < 60


def test_the_libraries_speak_through_the_same_lines(capsys: Output) -> None:
    logs.configure("INFO", "json")
    logging.getLogger("some.library").warning("retry %d", 2)
    (line,) = lines(capsys)
    assert ("retry 2", "warning") == (line["event"], line["level"])


@pytest.mark.parametrize("chatty", ["httpx", "httpcore", "botocore", "boto3", "urllib3"])
def test_a_librarys_line_for_each_request_is_left_out(capsys: Output, chatty: str) -> None:
    logs.configure("INFO", "json")
    logging.getLogger(chatty).info("HTTP Request: GET")
    logging.getLogger(chatty).warning("odd")
    assert ["odd"] == [line["event"] for line in lines(capsys)]


@pytest.mark.parametrize(("level", "expected"), [("DEBUG", 4), ("INFO", 3), ("WARNING", 2), ("ERROR", 1)])
def test_what_is_below_the_level_is_left_out(capsys: Output, level: str, expected: int) -> None:
    logs.configure(level, "json")
    log = logs.logger()
    for say in (log.debug, log.info, log.warning, log.error):
        say("x")
    assert expected == len(lines(capsys))


def fail_with(secret: str) -> None:
    """Raise while a secret is in a local variable."""
    raise ValueError(f"no such thing as a secret of {len(secret)} letters")


def test_a_defect_is_told_with_its_traceback_in_the_same_line(capsys: Output) -> None:
    logs.configure("INFO", "json")
    try:
        fail_with("hunter2")
    except ValueError:
        logs.logger().exception("a defect")
    (line,) = lines(capsys)
    assert ("a defect", "error") == (line["event"], line["level"])
    assert "ValueError" in json.dumps(line["exception"])
    assert "fail_with" in json.dumps(line["exception"])


def test_a_traceback_does_not_show_the_values_of_variables(capsys: Output) -> None:
    """A frame of ours may hold a password; a log must not."""
    logs.configure("INFO", "json")
    try:
        fail_with("hunter2")
    except ValueError:
        logs.logger().exception("a defect")
    assert "hunter2" not in capsys.readouterr().out


@pytest.mark.parametrize("log_format", ["text", "console"])
def test_people_get_text_without_colours_where_no_terminal_is(capsys: Output, log_format: str) -> None:
    logs.configure("INFO", log_format)
    logs.logger().info("flushed", rows=3)
    out = capsys.readouterr().out
    assert "flushed" in out
    assert "rows=3" in out
    assert "\x1b" not in out


def test_configuring_again_does_not_double_the_lines(capsys: Output) -> None:
    logs.configure("INFO", "json")
    logs.configure("INFO", "json")
    logs.logger().info("x")
    assert 1 == len(lines(capsys))


def test_the_same_trouble_of_the_kafka_client_is_told_once_in_a_while() -> None:
    clock = FakeClock()
    quiet = ClientLog(30, clock=clock)

    def told(message: str) -> bool:
        return quiet.filter(logging.LogRecord("librdkafka", logging.ERROR, "", 0, message, (), None))

    assert told("FAIL broker 1: refused (after 0ms)")
    assert not told("FAIL broker 2: refused (after 17ms)")
    assert told("ERROR all brokers are down")
    clock.advance(31)
    assert told("FAIL broker 1: refused (after 3ms)")


def test_lines_held_back_are_counted_in_the_next_one_of_their_kind() -> None:
    clock = FakeClock()
    quiet = ClientLog(30, clock=clock)
    records = [logging.LogRecord("librdkafka", logging.ERROR, "", 0, "FAIL %s", (n,), None) for n in range(4)]
    for record in records[:3]:
        quiet.filter(record)
    clock.advance(31)
    assert quiet.filter(records[3])
    assert "FAIL 3 (2 more like it since)" == records[3].getMessage()


def test_the_kafka_client_raises_no_alarm_of_its_own() -> None:
    record = logging.LogRecord("librdkafka", logging.CRITICAL, "", 0, "FAIL", (), None)
    ClientLog().filter(record)
    assert ("WARNING", logging.WARNING) == (record.levelname, record.levelno)


def test_the_memory_of_what_was_told_is_bounded() -> None:
    quiet = ClientLog()
    for number in range(1000):
        kind = "x" * number
        quiet.filter(logging.LogRecord("librdkafka", logging.ERROR, "", 0, kind, (), None))
    assert len(quiet._told) <= 256
