"""`millpond quarantine` on a real store, catalog and broker: what it tells, and the exact bytes."""

import base64
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError

from millpond.devstack.mock_cluster import MockCluster
from millpond.devstack.mock_library import ApiKey
from millpond.devstack.stack import Stack
from millpond.lake import LakeTable
from millpond.quarantine.table import Record
from tests.integration.quarantine import FIRST_FLUSH, HOUR, length, put, quarantine, read_topic, record
from tests.pipeline import Pipeline
from tests.unit.test_deletion_vector import array_of_rows, framed, puffin

BINARY = b"\x1b[31m" + bytes(range(256)) * 3
LATER = FIRST_FLUSH + HOUR

RECORDS = (
    [
        record(17, b"{", key=b"\x00key"),
        record(18, BINARY),
        record(
            3, b'{"n": 18446744073709551616}', partition=1, reason="type_mismatch", detail="n: does not fit"
        ),
    ],
    [record(25, b"", inserted_at=LATER), record(26, "né".encode(), inserted_at=LATER, timestamp=None)],
)
"""Two flushes: three records of two partitions, then two of one."""


@pytest.fixture(scope="module")
def filled(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """A pipeline whose table has RECORDS in quarantine, for tests that leave them there."""
    with closing(Pipeline(stack, tmp_path_factory.mktemp("filled"))) as pipeline:
        put(pipeline, *RECORDS)
        yield pipeline


@pytest.fixture
def target(stack: Stack) -> str:
    """Another topic, of one partition."""
    name = f"fixed-{uuid4().hex[:12]}"
    stack.broker.create_topic(name, 1)
    return name


def offsets(pipeline: Pipeline, *arguments: str) -> list[int]:
    """The offsets `show` tells, in its order."""
    done = quarantine(pipeline, "show", "--json", *arguments)
    assert 0 == done.code, done.stderr
    return [entry["offset"] for entry in done.data["records"]]


def test_a_table_without_a_quarantine_has_nothing_in_it(filled: Pipeline, target: str) -> None:
    for arguments in (["list"], ["show"], ["replay", "--to", target, "--yes"]):
        done = quarantine(filled, *arguments, HOGLAKE_TABLE="spotless")
        assert (0, 1) == (done.code, len(done.lines)), done.stderr
        assert "main.spotless_quarantine: there is no such table" in done.lines[0]
    data = quarantine(filled, "list", "--json", HOGLAKE_TABLE="spotless").data
    assert (False, 0) == (data["exists"], data["rows"])


def test_records_are_counted_by_reason_topic_and_partition(filled: Pipeline) -> None:
    done = quarantine(filled, "list", "--json")
    assert (0, 5, {"json_parse": 4, "type_mismatch": 1}) == (
        done.code,
        done.data["rows"],
        done.data["by_reason"],
    )
    first, second = done.data["groups"]
    assert {
        "reason": "json_parse",
        "topic": "src",
        "partition": 0,
        "rows": 4,
        "first_offset": 17,
        "last_offset": 26,
        "first_inserted_at": "2024-05-01T12:00:00Z",
        "last_inserted_at": "2024-05-01T13:00:00Z",
    } == {name: value for name, value in first.items() if name != "example"}
    assert first["example"] in {f"detail of {offset}" for offset in (17, 18, 25, 26)}
    assert ("type_mismatch", 1, 1, 3, 3) == tuple(
        second[name] for name in ("reason", "partition", "rows", "first_offset", "last_offset")
    )


def test_a_person_reads_the_same_as_a_table(filled: Pipeline) -> None:
    heading, columns, *groups, sums = quarantine(filled, "list").lines
    assert heading.endswith("_quarantine: 5 records")
    assert ["reason", "topic", "partition", "rows"] == columns.split()[:4]
    assert [["json_parse", "src", "0", "4", "17", "26"], ["type_mismatch", "src", "1", "1", "3", "3"]] == [
        line.split()[:6] for line in groups
    ]
    assert "json_parse: 4, type_mismatch: 1" == sums


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        (["--reason", "type_mismatch"], 1),
        (["--reason", "type_mismatch", "--reason", "json_parse"], 5),
        (["--since", "2024-05-01T12:30:00Z"], 2),
        (["--since", "2024-05-01T15:00:00+02:00"], 2),
        (["--since", "2h"], 0),
        (["--topic", "other"], 0),
    ],
)
def test_only_what_is_meant_is_counted(filled: Pipeline, arguments: list[str], rows: int) -> None:
    assert rows == quarantine(filled, "list", "--json", *arguments).data["rows"]


def test_what_came_last_is_shown_first(filled: Pipeline) -> None:
    assert [25, 26, 18, 17, 3] == offsets(filled)
    assert [25, 26, 18] == offsets(filled, "--limit", "3")
    assert [3] == offsets(filled, "--partition", "1")
    assert [18] == offsets(filled, "--partition", "0", "--offset", "18")
    assert [3] == offsets(filled, "--reason", "type_mismatch")


def test_bytes_are_shown_as_text_or_in_base64(filled: Pipeline) -> None:
    done = quarantine(filled, "show", "--json")
    by_offset = {entry["offset"]: entry for entry in done.data["records"]}
    assert ("né", "utf-8", None, None) == tuple(
        by_offset[26][name] for name in ("value", "value_encoding", "key", "timestamp")
    )
    assert (base64.b64encode(BINARY).decode(), "base64") == (
        by_offset[18]["value"],
        by_offset[18]["value_encoding"],
    )
    assert ("\x00key", "utf-8") == (by_offset[17]["key"], by_offset[17]["key_encoding"])
    assert "2024-05-01T11:00:00.123000Z" == by_offset[17]["timestamp"]


def test_nothing_in_a_record_commands_the_terminal(filled: Pipeline) -> None:
    shown = quarantine(filled, "show").stdout
    assert b"\\x1b[31m" in shown
    assert b"" == bytes(byte for byte in shown if byte < 32 and byte != 10)


@pytest.mark.parametrize(
    "wanted", [entry for flush in RECORDS for entry in flush], ids=lambda r: str(r.offset)
)
def test_raw_is_the_value_to_the_last_byte(filled: Pipeline, wanted: Record) -> None:
    place = ["--partition", str(wanted.partition), "--offset", str(wanted.offset)]
    done = quarantine(filled, "show", "--raw", *place)
    assert (0, wanted.value) == (done.code, done.stdout)


def test_a_record_that_is_not_there_is_said_so(filled: Pipeline) -> None:
    done = quarantine(filled, "show", "--raw", "--partition", "0", "--offset", "99")
    assert (1, b"") == (done.code, done.stdout)
    assert "no record of" in done.stderr


def test_records_come_back_as_they_were(filled: Pipeline, target: str) -> None:
    """Key, value and timestamp; the headers say where they were."""
    done = quarantine(filled, "replay", "--to", target, "--yes")
    assert 0 == done.code, done.stderr
    assert done.lines[-1].startswith(f"produced 5 records to {target}; they stay in lake.main.")
    expected = [entry for flush in RECORDS for entry in flush]
    read = read_topic(filled, target, 5)
    assert [(entry.key, entry.value) for entry in expected] == [(entry.key, entry.value) for entry in read]
    assert [1714561200123] * 4 == [entry.timestamp_ms for entry in read[:4]]
    assert {
        "millpond-topic": "src",
        "millpond-partition": "1",
        "millpond-offset": "3",
        "millpond-reason": "type_mismatch",
    } == read[2].headers
    assert 5 == quarantine(filled, "list", "--json").data["rows"]


def test_a_record_without_a_timestamp_gets_the_time_of_its_replay(filled: Pipeline, target: str) -> None:
    began = time.time() * 1000
    quarantine(filled, "replay", "--to", target, "--yes", "--partition", "0", "--offset", "26")
    (read,) = read_topic(filled, target, 1)
    assert began - 1000 <= read.timestamp_ms <= time.time() * 1000 + 1000


@pytest.mark.parametrize(
    ("arguments", "answer", "ending"),
    [
        (["--dry-run"], b"", (0, 0)),
        ([], b"n\n", (1, 0)),
        ([], b"", (1, 0)),
        (["--reason", "json_parse"], b"y\n", (0, 4)),
        (["--reason", "none_such", "--yes"], b"", (0, 0)),
    ],
)
def test_nothing_is_produced_that_was_not_agreed_to(
    filled: Pipeline, target: str, arguments: list[str], answer: bytes, ending: tuple[int, int]
) -> None:
    done = quarantine(filled, "replay", "--to", target, *arguments, stdin=answer)
    assert ending == (done.code, length(filled, target)), done.stderr


def test_the_source_is_refused_unless_it_is_meant(filled: Pipeline) -> None:
    """What is still wrong would come straight back."""
    done = quarantine(filled, "replay", "--to", filled.topic, "--yes")
    assert 2 == done.code
    assert "--allow-source" in done.stderr
    done = quarantine(
        filled, "replay", "--to", filled.topic, "--yes", "--allow-source", "--reason", "type_mismatch"
    )
    assert (0, "produced 1 records") == (done.code, done.lines[-1][:18])


def test_a_topic_that_is_not_there_is_not_made(filled: Pipeline) -> None:
    for _ in range(2):
        done = quarantine(filled, "replay", "--to", "nowhere", "--yes")
        assert 2 == done.code
        assert "no such topic" in done.stderr


def test_records_the_broker_refuses_are_named(own_stack: Stack, pipelines: Callable[..., Pipeline]) -> None:
    pipeline = pipelines(own_stack)
    put(pipeline, *RECORDS)
    broker = own_stack.broker
    assert isinstance(broker, MockCluster)
    broker.create_topic("fixed", 1)
    broker.inject_errors(ApiKey.PRODUCE, [KafkaError.TOPIC_AUTHORIZATION_FAILED])
    done = quarantine(pipeline, "replay", "--to", "fixed", "--yes")
    assert 1 == done.code
    assert "src partition 0 offset 17: " in done.stderr
    assert f"produced {length(pipeline, 'fixed')} records" in done.lines[-1]


def test_a_broker_that_is_silent_costs_no_more_than_the_time_given(
    own_stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    pipeline = pipelines(own_stack)
    put(pipeline, *RECORDS)
    own_stack.broker.create_topic("fixed", 1)
    own_stack.broker.go_down()
    began = time.monotonic()
    done = quarantine(pipeline, "replay", "--to", "fixed", "--yes", "--timeout", "3")
    assert (3, True) == (done.code, time.monotonic() - began < 20)
    assert "no Kafka broker answers" in done.stderr


def test_many_records_and_large_ones_are_read_a_few_at_a_time(pipeline: Pipeline, target: str) -> None:
    large = [record(n, bytes([n]) * 1_200_000, inserted_at=LATER) for n in range(3)]
    many = [record(n, b"%d" % n) for n in range(3, 3000)]
    put(pipeline, many, large)
    assert [2, 1, 0, 2999, 2998] == offsets(pipeline, "--limit", "5")
    done = quarantine(pipeline, "show", "--raw", "--partition", "0", "--offset", "2")
    assert large[2].value == done.stdout
    done = quarantine(pipeline, "replay", "--to", target, "--yes")
    assert (0, "produced 3,000 records") == (done.code, done.lines[-1][:22])
    read = read_topic(pipeline, target, 3000)
    assert [entry.value for entry in (*many, *large)] == [entry.value for entry in read]


def test_a_place_that_was_taken_twice_shows_the_newer_record(pipeline: Pipeline) -> None:
    """A topic made anew counts from 0 again."""
    old = record(7, b"old")
    put(pipeline, [old], [replace(old, value=b"new", inserted_at=LATER)])
    done = quarantine(pipeline, "show", "--raw", "--partition", "0", "--offset", "7")
    assert b"new" == done.stdout


def test_a_record_that_was_deleted_by_its_row_is_neither_listed_nor_shown_nor_produced(
    pipeline: Pipeline, target: str
) -> None:
    """As an engine does it that deletes with `delete from`: the file stays, and a vector names the rows."""
    put(pipeline, RECORDS[0])
    with closing(LakeTable.of(pipeline.environment())) as table:
        lake = table.quarantine
        (file,) = lake.files()
        vector = puffin((file.path, framed(array_of_rows(1))))
        path = file.path.replace(".parquet", ".puffin")
        with lake.store.open_output_stream(path.removeprefix("s3://")) as stream:
            stream.write(vector)
        deletes = {"data_file_id": file.data_file_id, "path": path, "delete_count": 1}
        group = {"namespace": lake.namespace, "table": lake.table}
        body = {
            "read_snapshot": file.begin_snapshot,
            "deletes": [group | {"files": [deletes | {"file_size_bytes": len(vector)}]}],
        }
        lake.client._http.post(f"/catalogs/{lake.catalog.name}/commit", json=body).raise_for_status()
    assert [17, 3] == offsets(pipeline)
    assert 2 == quarantine(pipeline, "list", "--json").data["rows"]
    done = quarantine(pipeline, "replay", "--to", target, "--yes")
    assert (0, 2) == (done.code, length(pipeline, target))


def test_a_reader_that_leaves_early_is_no_failure(filled: Pipeline) -> None:
    environment = filled.environment()
    for name in ("POD_NAME", "REPLICA_COUNT"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "millpond", "quarantine", "show"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, said = process.communicate(timeout=60)
    assert (0, b"") == (process.returncode, said)
