"""The report as data and as text, and how the command ends."""

import json
import socket
from collections import Counter

import pytest
from typer.testing import CliRunner

from millpond.cli import app
from millpond.errors import ConfigError
from millpond.offsets import Offset, Partition
from millpond.sink import Source
from millpond.verify.command import VerifyOptions, verify_config
from millpond.verify.findings import Finding, Kind, Severity, named, spelled
from millpond.verify.ledger_findings import selected
from millpond.verify.log_findings import PartitionLog
from millpond.verify.report import GroupReport, Report, RowsReport, Subject, as_data, as_text
from millpond.verify.rows import TableRows
from millpond.verify.rows_findings import PartitionRows
from tests.unit.fakes import SOURCE, TABLE_UUID
from tests.unit.test_config import REQUIRED
from tests.unit.test_verify_ledger import audited, commit, run

OTHER = Source(SOURCE.cluster_id, SOURCE.topic, SOURCE.topic_id, "other", "e2")
GAP = Finding(Kind.GAP, Severity.ERROR, "a gap", 1, SOURCE.group_id, Partition(0), (run(1200, 1200),))
NEWS = Finding(Kind.EXPIRED, Severity.INFO, "expired")


def report(*findings: Finding) -> Report:
    audit = audited(
        commit({0: 0}, {0: 1200}),
        commit({0: 1201}, {0: 1210}, quarantined=5),
        commit({0: 7}, {0: 9}, source=OTHER),
    )
    return Report(
        Subject("lake", "main", "events", TABLE_UUID, SOURCE.topic, (SOURCE.group_id,)),
        audit,
        selected(audit, [SOURCE.group_id]),
        RowsReport(
            TableRows(3, 1209, unplaced=Counter({1: 2})),
            [PartitionRows(Partition(0), 1207, 2, 0, 0, 0, quarantined=5)],
            TableRows(1, 5),
        ),
        [
            GroupReport(
                SOURCE.group_id,
                "cluster-1",
                "id-1",
                [PartitionLog(Partition(0), Offset(0), Offset(1500), None, Offset(1210))],
            )
        ],
        findings,
        seconds=1.2345,
    )


def test_the_data_has_the_documented_fields() -> None:
    """Golden: machines read it."""
    streams = [
        {
            "group": "other",
            "epoch": "e2",
            "cluster": "cluster-1",
            "topic_id": "id-1",
            "selected": False,
            "commits": 1,
            "records": 2,
            "quarantined": 0,
            "partitions": [
                {"partition": 0, "first": 7, "last": 8, "ranges": 1, "offsets": 2, "gaps": 0, "overlaps": 0}
            ],
        },
        {
            "group": "the group",
            "epoch": "",
            "cluster": "cluster-1",
            "topic_id": "id-1",
            "selected": True,
            "commits": 2,
            "records": 1209,
            "quarantined": 5,
            "partitions": [
                {
                    "partition": 0,
                    "first": 0,
                    "last": 1209,
                    "ranges": 2,
                    "offsets": 1209,
                    "gaps": 1,
                    "overlaps": 0,
                }
            ],
        },
    ]
    expected = {
        "verdict": "errors",
        "exit_code": 1,
        "table": {"catalog": "lake", "namespace": "main", "name": "events", "uuid": TABLE_UUID},
        "topic": "flights",
        "groups": ["the group"],
        "snapshots": {"read": 3, "oldest": 0, "newest": 2, "complete": True},
        "streams": streams,
        "rows": {
            "files": 3,
            "rows": 1209,
            "without_offset": 2,
            "other_topics": 0,
            "quarantine": {"files": 1, "rows": 5, "other_topics": 0},
            "partitions": [
                {
                    "partition": 0,
                    "rows": 1207,
                    "quarantined": 5,
                    "without_row": 2,
                    "doubled": 0,
                    "outside": 0,
                    "before": 0,
                }
            ],
        },
        "log": [
            {
                "group": "the group",
                "cluster": "cluster-1",
                "topic_id": "id-1",
                "partitions": [
                    {
                        "partition": 0,
                        "low": 0,
                        "high": 1500,
                        "committed": None,
                        "ledger_end": 1210,
                        "lag": None,
                    }
                ],
            }
        ],
        "findings": [
            {
                "kind": "gap",
                "severity": "error",
                "text": "a gap",
                "count": 1,
                "group": "the group",
                "partition": 0,
                "ranges": [[1200, 1200]],
            },
            {
                "kind": "expired",
                "severity": "info",
                "text": "expired",
                "count": 0,
                "group": None,
                "partition": None,
                "ranges": [],
            },
        ],
        "seconds": 1.234,
    }
    assert expected == json.loads(json.dumps(as_data(report(NEWS, GAP))))


def test_what_was_not_asked_for_is_null() -> None:
    asked = report()
    bare = Report(asked.subject, asked.ledger, asked.streams, None, None, (), 0)
    assert (None, None) == (as_data(bare)["rows"], as_data(bare)["log"])


def test_the_text_is_aligned_and_ends_in_a_verdict() -> None:
    expected = f"""\
table lake.main.events ({TABLE_UUID})
topic flights
3 snapshots read, 0 to 2; 3 are commits of this topic

group other, epoch e2, cluster cluster-1, topic id id-1
commits: 1, records: 2, quarantined: 0; not looked at (--group, --all-groups)

group the group, cluster cluster-1, topic id id-1
partition  first   last  ranges  offsets  gaps  overlaps
        0      0  1,209       2    1,209     1         0
commits: 2, records: 1,209, quarantined: 5

rows: 1,209 in 3 files, 2 without an offset
partition   rows  quarantined  without row  doubled  outside  before
        0  1,207            5            2        0        0       0
quarantine: 5 rows in 1 files

log and offsets of group the group
partition  low   high  committed  ledger end  lag
        0    0  1,500          -       1,210    -

ERROR    gap: a gap
INFO     expired: expired
FAILED   errors: 1, warnings: 0"""
    assert expected.splitlines() == list(as_text(report(NEWS, GAP)))


def test_only_errors_fail() -> None:
    assert (0, 1) == (report(NEWS).exit_code, report(NEWS, GAP).exit_code)
    assert (
        "ok       no error in ledger, rows, log and offsets; warnings: 0" == list(as_text(report(NEWS)))[-1]
    )


def test_few_ranges_are_named_of_many() -> None:
    many = [run(2 * n, 2 * n) for n in range(100)]
    assert 20 == len(named(many))
    assert "0, 2, 4, 6, 8, …" == spelled(many)
    assert "0, 2-9" == spelled([run(0, 0), run(2, 9)])


def test_neither_a_pod_nor_brokers_are_needed_for_the_ledger() -> None:
    bare = {k: v for k, v in REQUIRED.items() if k not in ("KAFKA_BOOTSTRAP_SERVERS", "REPLICA_COUNT")}
    config = verify_config({**bare, "KAFKA_CONSUMER_SASL_MECHANISMS": "OAUTHBEARER"}, VerifyOptions())
    assert ("flights", 1, 0) == (config.kafka.topic, config.service.replicas, config.service.ordinal)


def test_brokers_are_needed_to_compare_with_them() -> None:
    bare = {k: v for k, v in REQUIRED.items() if k != "KAFKA_BOOTSTRAP_SERVERS"}
    with pytest.raises(ConfigError, match="KAFKA_BOOTSTRAP_SERVERS: required"):
        verify_config(bare, VerifyOptions(against_kafka=True))


def test_a_pods_own_environment_is_taken_as_it_is() -> None:
    """The command is run inside of a pod, too; every partition is looked at all the same."""
    config = verify_config(REQUIRED | {"POD_NAME": "drain-3"}, VerifyOptions(), group="g")
    assert (1, 0, "g") == (config.service.replicas, config.service.ordinal, config.group_id)


def test_a_bad_configuration_ends_with_2_and_names_it() -> None:
    for options in ([], ["--json"]):
        result = CliRunner().invoke(app, ["verify", *options], env=dict.fromkeys(REQUIRED))
        assert 2 == result.exit_code
        assert "HOGLAKE_URL: required, but not set" in result.stderr
        assert not options or json.loads(result.stdout)["exit_code"] == 2


def test_groups_are_named_or_all_are_meant() -> None:
    assert 2 == CliRunner().invoke(app, ["verify", "--group", "g", "--all-groups"]).exit_code


def test_a_server_that_says_nothing_ends_with_3_when_the_time_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environ = REQUIRED | {"HOGLAKE_URL": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        result = CliRunner().invoke(app, ["verify", "--timeout", "1", "--json"], env=environ)
    assert 3 == result.exit_code
    assert "unknown" == json.loads(result.stdout)["verdict"]


def test_a_server_that_does_not_answer_ends_with_3() -> None:
    environ = REQUIRED | {"HOGLAKE_URL": "http://127.0.0.1:9"}
    result = CliRunner().invoke(app, ["verify"], env=environ)
    assert 3 == result.exit_code
    assert "ConnectError" in result.stderr
