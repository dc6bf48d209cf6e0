"""A service in steady state on a catalog of its own, faults on order, and everything it leaves behind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyarrow import fs
from pyhoglake import NotFoundError

from millpond.devstack.catalog.control.rules import Effect, Match, Rule
from millpond.devstack.catalog_process import LoggedRequest
from millpond.devstack.stack import Stack
from tests.pipeline import Pipeline, metric

TIMEOUT_SECONDS = 1.5
BATCH = 20


class Drain:
    """One service and its table; a first batch is in it, so that the next commit is one of many alike."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self.stack = stack
        self.catalog = f"lake-{uuid4().hex[:12]}"
        self.pipeline = Pipeline(
            stack,
            folder,
            HOGLAKE_CATALOG=self.catalog,
            HOGLAKE_DATA_PATH=f"s3://{stack.store.bucket}/{self.catalog}",
            HOGLAKE_REQUEST_TIMEOUT_S=str(TIMEOUT_SECONDS),
        )
        self.produced = 0
        self.produce()
        self.service = self.pipeline.service()
        self.pipeline.wait_for_all()
        self.mark()

    def close(self) -> None:
        """Kill what still runs."""
        self.pipeline.close()

    def mark(self) -> None:
        """From here on everything is told and counted anew; all objects there are count as accounted for."""
        self._known = self.objects()
        self._commits_before = len(self._all_commits())
        self._events_before = len(self._all_events())
        self._replays_before = self._all_replays()

    def produce(self) -> None:
        """One batch more, into one partition, so that it is one flush."""
        numbers = range(self.produced, self.produced + BATCH)
        self.pipeline.produce([{"n": number} for number in numbers], partition=0)
        self.produced += BATCH

    def order(self, *effects: tuple[Sequence[int], Effect], path: str = "/commit/prepared") -> None:
        """What happens to which of the next requests on this path of the catalog, counted from 1."""
        glob = f"/v1/catalogs/{self.catalog}{path}"
        self.stack.catalog.faults(
            [Rule(match=Match(path_glob=glob, nth=tuple(nth)), do=effect) for nth, effect in effects]
        )

    def table(self) -> dict[str, Any]:
        """The table as a catalog action names it."""
        return {"catalog": self.catalog, "namespace": "main", "table": self.pipeline.table}

    def commits(self) -> list[LoggedRequest]:
        """The commits on the wire, in the order they were answered."""
        return self._all_commits()[self._commits_before :]

    def statuses(self) -> list[int | None]:
        """What became of them."""
        return [request.status for request in self.commits()]

    def numbers(self) -> list[int]:
        """What the table holds."""
        return sorted(row["n"] for row in self.pipeline.rows())

    def replays(self) -> float:
        """How many flushes were published by a commit that had been sent before."""
        return self._all_replays() - self._replays_before

    def objects(self) -> set[str]:
        """Every Parquet object in the store."""
        under = fs.FileSelector(f"{self.stack.store.bucket}/{self.catalog}/data", recursive=True)
        found = self.pipeline.lake().store.get_file_info(under)
        return {f"s3://{info.path}" for info in found if info.type == fs.FileType.File}

    def orphans(self) -> set[str]:
        """The new objects that the table does not name."""
        try:
            live = {file.path for file in self.pipeline.lake().files()}
        except NotFoundError:
            live = set()  # the table is gone
        return self.objects() - live - self._known

    def reported(self) -> dict[str, list[str]]:
        """The orphans the service told of, by reason."""
        told: dict[str, list[str]] = {}
        for event in self.events():
            if "uris" in event:
                told.setdefault(event["reason"], []).extend(event["uris"])
        return told

    def errors(self) -> list[str]:
        """What the service logged as ERROR, line by line."""
        return [json.dumps(event) for event in self.events() if event["level"] == "error"]

    def events(self) -> list[dict[str, Any]]:
        """What the service logged."""
        return self._all_events()[self._events_before :]

    def _all_commits(self) -> list[LoggedRequest]:
        path = f"/v1/catalogs/{self.catalog}/commit/prepared"
        return [request for request in self.stack.catalog.requests() if request.path == path]

    def _all_events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.service.log_lines() if line.startswith("{")]

    def _all_replays(self) -> float:
        return metric(self.service.url, "millpond_hoglake_commit_replays_total", outcome="replayed")
