"""An operator replaces a column while records read for the old one wait to be published."""

from contextlib import closing

from pyhoglake import ops

from millpond.devstack.demo.service import ServiceProcess
from millpond.lake import LakeTable
from tests.integration.quarantine import quarantine
from tests.integration.test_verify import found, verify
from tests.pipeline import Pipeline, metric, wait_until


def consumed(service: ServiceProcess) -> float:
    """Records taken in."""
    return metric(service.url, "millpond_records_consumed_total", partition="0")


def test_records_that_waited_are_read_again_by_the_new_type(pipeline: Pipeline) -> None:
    """E27: nothing stops, no value becomes null without its record in quarantine, and nothing comes twice."""
    enough_for_a_flush = "x" * 20_000
    pipeline.produce([{"n": 0, "v": 1, "text": enough_for_a_flush}], partition=0)
    service = pipeline.service(
        FLUSH_SIZE="10000",
        FLUSH_INTERVAL_MS="600000",
        HOGLAKE_PARTITION_BY="",
        MILLPOND_KAFKA_COLUMNS="true",
    )
    pipeline.wait_for_all()
    pipeline.produce([{"n": 1}], partition=0)  # maybe before the loop knows of the table just made
    wait_until(lambda: consumed(service) == 2, "one more read")
    odd = b'{"n": 2, "v": 2}'
    pipeline.produce([odd, {"n": 3}], partition=0)
    wait_until(lambda: consumed(service) == 4, "all read")
    with closing(LakeTable.of(pipeline.environment())) as lake:
        lake.handle().alter([ops.drop_column("v")])
        lake.handle().alter([ops.add_column("v", "boolean")])
    pipeline.produce([{"n": 4, "text": enough_for_a_flush}], partition=0)
    pipeline.wait_for_all()
    assert 1 == metric(service.url, "millpond_errors_total", type="outdated_rows")
    service.stop()
    assert 0 == service.exit_code
    assert [0, 1, 2, 3, 4] == sorted(row["n"] for row in pipeline.rows())
    (record,) = quarantine(pipeline, "show", "--json").data["records"]
    assert (2, "type_mismatch", odd.decode()) == (record["offset"], record["reason"], record["value"])
    report = verify(pipeline, "--rows", "--against-kafka")
    assert ("clean", []) == (report["verdict"], found(report))
