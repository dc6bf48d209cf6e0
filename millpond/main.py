"""Builds the parts of the service and runs the loop."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import ParamSpec, TypeVar

from millpond import __version__, logs
from millpond.config import Config, load
from millpond.consumer import TopicConsumer
from millpond.deadline import Deadline, SideCalls, Watchdog
from millpond.errors import ConfigError, DeadlineExceeded, Exhausted, Fatal, MillpondError, Outdated
from millpond.flush import Publisher
from millpond.health import Health
from millpond.hoglake import NO_COLUMNS, HoglakeSink, connect
from millpond.include_values import AllowList, Poller
from millpond.loop import Loop
from millpond.metrics import Metrics
from millpond.msk_iam import token_source
from millpond.offset_metadata import Layout
from millpond.records import KAFKA_COLUMNS
from millpond.recovery import Recovered, recover
from millpond.reset_policy import StartRules
from millpond.selection import Selection
from millpond.server import OperatorServer
from millpond.sink import Source
from millpond.start_step import until_through

T = TypeVar("T")
P = ParamSpec("P")

START_SECONDS = 22.0
_CLOSE_SECONDS = 5.0
_NAMED_PARTITIONS = 20
# Grace, closing and this are below the ten seconds a pod is given on top: SIGKILL would hide the exit code.
_WATCHDOG_SLACK_SECONDS = 3.0


def run(environ: Mapping[str, str]) -> int:
    """Run the service until it is asked to stop; the exit code (design 5)."""
    logs.configure("INFO", environ.get("MILLPOND_LOG_FORMAT", "").strip().lower() or "json")
    try:
        config = load(environ)
    except ConfigError as error:
        for problem in error.problems:
            logs.logger().error("bad configuration", problem=problem)
        return error.exit_code
    return Service(config).run()


class Service:
    """All parts of one process."""

    def __init__(self, config: Config) -> None:
        logs.configure(config.service.log_level, config.service.log_format)
        self._config = config
        self._log = logs.logger()
        self._stop = threading.Event()
        self._metrics = Metrics(config.pipeline, config.kafka.broker_source)
        self._health = Health()
        self._side_calls = SideCalls()
        self._watchdog = Watchdog(self._say_watchdog)
        self._allow_list = AllowList(config.filters, self._metrics)
        version = config.service.version or __version__
        self._version = "_".join(version.split())
        self._server: OperatorServer | None = None
        self._poller: Poller | None = None
        self._sink: HoglakeSink | None = None
        self._consumer: TopicConsumer | None = None
        self._loop: Loop | None = None

    def run(self) -> int:
        """Start, drain, stop. Never raises."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._log.info("millpond starts", version=self._version, pipeline=self._config.pipeline)
        for warning in self._config.warnings:
            self._log.warning(warning)
        code = self._guarded(self._serve)
        closing = self._close()
        # Why it stopped comes first: a fenced process must not end as one that was slow to leave.
        code = code or closing
        self._watchdog.disarm()
        self._log.info("millpond ends", exit_code=code)
        is_polling = self._poller is not None and self._poller.is_running
        if self._side_calls.abandoned or is_polling or (self._loop is not None and self._loop.is_flushing):
            # A Kafka client that waits for a silent broker, or a flush that does not return, would keep the
            # interpreter from ending.
            sys.stdout.flush()
            os._exit(code)
        return code

    def _serve(self) -> None:
        self._server = OperatorServer(self._config.service.http_port, self._metrics, self._health)
        self._server.start()
        self._log.info("listening", port=self._server.port)
        self._list_values()
        if self._stop.is_set():
            return
        deadline = Deadline(START_SECONDS)
        consumer, sink = self._in_time(self._connect, deadline)
        while True:
            loop = self._loop = self._in_time(self._plan, consumer, sink, deadline)
            try:
                loop.run()
            except Outdated as error:
                if self._stop.is_set():
                    raise
                self._metrics.errors.inc(type="outdated_rows")
                self._log.warning("starting over at the committed offsets", reason=str(error))
            else:
                if not loop.topic_changed or self._stop.is_set():
                    return
            deadline = Deadline(START_SECONDS)

    def _list_values(self) -> None:
        """Begin to ask for the values to keep; where they decide alone, wait for the first of them."""
        filters = self._config.filters
        if filters.mode == "static":
            return
        self._poller = Poller(filters, self._allow_list)
        self._poller.start()
        if filters.mode == "authoritative":
            self._poller.wait_for_first(self._stop, self._health.polled)

    def _in_time(self, step: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """The result of a step of the start; the error of one that took too long says where to look."""
        try:
            return step(*arguments, **named)
        except DeadlineExceeded as error:
            config = self._config
            raise Fatal(
                f"the start did not get through in {START_SECONDS:g} s ({error}); of Kafka at "
                f"{config.kafka.bootstrap_servers}, the catalog at {config.hoglake.url} and its object store "
                "one answers too slowly: look at the steps logged above"
            ) from error

    def _connect(self, deadline: Deadline) -> tuple[TopicConsumer, HoglakeSink]:
        """The two ends, each ready to be asked."""
        config = self._config
        token = token_source(config, self._metrics)
        consumer = self._consumer = TopicConsumer(config, self._metrics, self._side_calls, token=token)
        sink = self._sink = until_through(lambda: self._open_sink(deadline), deadline)
        return consumer, sink

    def _open_sink(self, deadline: Deadline) -> HoglakeSink:
        config = self._config
        return HoglakeSink.open(
            connect(config.hoglake),
            config.hoglake,
            config.records.sort_by,
            self._metrics,
            self._side_calls,
            ordinal=config.service.ordinal,
            version=self._version,
            deadline=deadline,
            fixed_columns=KAFKA_COLUMNS if config.records.kafka_columns else NO_COLUMNS,
            quarantines=config.records.quarantine == "table",
            most_lost=config.records.quarantine_max_fraction,
        )

    def _plan(self, consumer: TopicConsumer, sink: HoglakeSink, deadline: Deadline) -> Loop:
        """The topic shared out, every position settled: a loop that is ready to run."""
        config = self._config
        topic = consumer.connect(deadline)
        layout = Layout(config.service.replicas, config.service.ordinal, topic.partitions)
        source = Source(
            topic.cluster_id, topic.name, topic.topic_id, config.group_id, config.flush.replay_epoch
        )
        began = time.monotonic()
        recovered = self._recover(consumer, sink, source, layout, deadline)
        recovery_seconds = round(time.monotonic() - began, 3)
        consumer.assign(recovered.positions)
        publisher = Publisher(
            sink,
            consumer,
            recovered.source,
            layout,
            attempts=config.hoglake.attempts,
            snapshot=recovered.snapshot,
            metrics=self._metrics,
            start_at=str(config.kafka.start_at or ""),
        )
        if not self._stop.is_set():
            self._health.ready()
        self._log.info(
            "draining",
            topic=topic.name,
            group=config.group_id,
            partitions=len(recovered.positions),
            topic_partitions=topic.partitions,
            snapshot=recovered.snapshot,
            recovery_seconds=recovery_seconds,
            positions=dict(list(recovered.positions.items())[:_NAMED_PARTITIONS]),
        )
        return Loop(
            config,
            consumer,
            publisher,
            recovered.positions,
            stop=self._stop,
            metrics=self._metrics,
            health=self._health,
            partition_count=topic.partitions,
            selection=Selection(config, self._metrics, self._allow_list),
            stops_at=recovered.ends if config.flush.stops_at_end else None,
        )

    def _recover(
        self, consumer: TopicConsumer, sink: HoglakeSink, source: Source, layout: Layout, deadline: Deadline
    ) -> Recovered:
        """Recovery; a coordinator may be moving when we start."""
        kafka = self._config.kafka
        rules = StartRules(kafka.auto_offset_reset, kafka.on_data_loss == "fail", kafka.start_at)
        return until_through(
            lambda: recover(
                consumer,
                sink,
                source,
                layout=layout,
                rules=rules,
                metrics=self._metrics,
                deadline=deadline,
            ),
            deadline,
        )

    def _close(self) -> int:
        """Let go of everything, the operator's port last; 0, or the code of what went wrong there."""
        steps: list[Callable[[], None]] = []
        if self._poller is not None:
            steps.append(self._poller.stop)
        if self._sink is not None and not (self._loop is not None and self._loop.is_flushing):
            steps.append(self._sink.close)  # a flush that does not return still uses it
        consumer = self._consumer
        if consumer is not None:
            steps.append(lambda: consumer.close(Deadline(_CLOSE_SECONDS)))
        if self._server is not None:
            steps.append(self._server.stop)
        return max((self._guarded(step) for step in steps), default=0)

    def _guarded(self, part: Callable[[], None]) -> int:
        try:
            part()
        except MillpondError as error:
            self._health.stopping(str(error))
            self._log.error("millpond stops", error=str(error), kind=type(error).__name__)
            return error.exit_code
        except Exception:  # noqa: BLE001 - the last place; told with its traceback
            self._health.stopping("a defect, see the log")
            self._log.exception("a defect: please report it with these lines")
            return Fatal.exit_code
        return 0

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._stop.is_set():
            return  # asked again: the time of the watchdog runs already
        self._stop.set()
        self._health.stopping("asked to stop")
        self._log.info("asked to stop", signal=signal.Signals(number).name)
        # Should anything hold up the orderly end, this ends the process all the same.
        self._watchdog.arm(
            self._config.flush.grace_seconds + _CLOSE_SECONDS + _WATCHDOG_SLACK_SECONDS, Exhausted.exit_code
        )

    def _say_watchdog(self) -> None:
        self._log.error("the grace period is over and the process still runs: ending it now")
        sys.stdout.flush()
