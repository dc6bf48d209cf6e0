"""The endpoints under `/_control`: rules, switches, and the log of what crossed the wire."""

from dataclasses import replace
from typing import Any

from millpond.devstack.catalog.access import CONTROL_PREFIX, RequestLog
from millpond.devstack.catalog.call import Call, Reply, Service
from millpond.devstack.catalog.control.rulebook import RuleBook
from millpond.devstack.catalog.control.rules import Rules
from millpond.devstack.catalog.routes.table import Endpoint
from millpond.devstack.catalog.wire import Body, present


class _Switches(Body):
    require_attribution: bool | None = None
    refuse_blind_partitioned_appends: bool | None = None


class ControlPanel:
    """Answers control requests about one running service, its rules and its log."""

    def __init__(self, service: Service, book: RuleBook, log: RequestLog) -> None:
        self._service = service
        self._book = book
        self._log = log

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The route table; its paths are whole, not under `/v1`."""
        faults, log, switches = (CONTROL_PREFIX + name for name in ("faults", "log", "switches"))
        return (
            Endpoint("GET", faults, lambda _: self._rules()),
            Endpoint("PUT", faults, self._put_rules),
            Endpoint("DELETE", faults, lambda _: self._clear_rules()),
            Endpoint("GET", log, lambda _: Reply(self._log.to_json())),
            Endpoint("DELETE", log, lambda _: self._clear_log()),
            Endpoint("GET", switches, lambda _: self._switches()),
            Endpoint("PUT", switches, self._put_switches),
        )

    def _rules(self) -> Reply:
        return Reply(self._book.to_json())

    def _put_rules(self, call: Call) -> Reply:
        self._book.replace(call.body(Rules).root)
        return self._rules()

    def _clear_rules(self) -> Reply:
        self._book.replace(())
        return self._rules()

    def _clear_log(self) -> Reply:
        self._log.clear()
        return Reply(self._log.to_json())

    def _switches(self) -> Reply:
        settings = self._service.settings
        return Reply({name: getattr(settings, name) for name in _Switches.model_fields})

    def _put_switches(self, call: Call) -> Reply:
        """Absent switches stay as they are."""
        wanted: dict[str, Any] = present(**dict(call.body(_Switches)))
        self._service.settings = replace(self._service.settings, **wanted)
        return self._switches()
