"""The thread that asks the endpoint again and again."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable

import httpx

from millpond import __version__
from millpond.deadline import Deadline
from millpond.errors import Fatal
from millpond.filter_settings import FilterSettings
from millpond.include_values.allow_list import AllowList
from millpond.include_values.answer import PollFailed, fetch, parse

_JITTER = 0.1
_FIRST_PAUSE_SECONDS = 0.5
_LOOK_SECONDS = 0.05
_STOP_SECONDS = 1.0


def pause_seconds(interval: float, failures: int, *, is_settled: bool, random: Callable[[], float]) -> float:
    """The time to the next poll: the interval give or take a tenth; before the first list 0.5, 1, 2 … s.

    `random` gives numbers from 0 to 1: many pods that start together must not ask together for ever.
    """
    usual = interval * (1 + _JITTER * (2 * random() - 1))
    if is_settled:
        return usual
    doublings = min(failures, 16)  # far beyond any interval
    return min(usual, _FIRST_PAUSE_SECONDS * float(2**doublings))


class Poller:
    """Asks one at a time, from `start` to `stop`; nothing it meets gets out of its thread."""

    def __init__(
        self,
        settings: FilterSettings,
        allow_list: AllowList,
        *,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._allow_list = allow_list
        self._random = random
        self._stopping = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="include-values", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Stop asking, in the middle of a request if need be."""
        self._stopping.set()
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            with contextlib.suppress(RuntimeError):  # it has ended already
                loop.call_soon_threadsafe(task.cancel)
        self._thread.join(_STOP_SECONDS)

    def wait_for_first(self, stop: threading.Event, turned: Callable[[], None]) -> None:
        """Wait until a list was accepted or `stop` is set; `turned` is called again and again meanwhile.

        Raises:
            Fatal: MILLPOND_INCLUDE_VALUES_STARTUP_TIMEOUT_S passed.
        """
        settings, settled = self._settings, self._allow_list.is_settled
        deadline = Deadline(settings.start_seconds)
        while not (settled.wait(_LOOK_SECONDS) or stop.is_set()):
            turned()
            if deadline.remaining() <= 0:
                raise Fatal(
                    f"no list of values to keep was accepted from {settings.shown_url} in "
                    f"{settings.start_seconds:g} s: {self._allow_list.trouble or 'no answer yet'}; mend "
                    "it or MILLPOND_INCLUDE_VALUES_URL, or raise MILLPOND_INCLUDE_VALUES_STARTUP_TIMEOUT_S"
                )

    @property
    def is_running(self) -> bool:
        """Whether its thread lives; after `stop` it does where a name is looked up that no server knows."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._poll_on())
        except asyncio.CancelledError:
            pass  # stopped
        except Exception as error:  # noqa: BLE001 - counted and told; nobody reads the end of a thread
            self._allow_list.fail(f"the endpoint cannot be asked: {type(error).__name__}: {error}")

    async def _poll_on(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        failures = 0
        client = httpx.AsyncClient(
            headers=self._headers(),
            timeout=None,  # noqa: S113 - `fetch` bounds the whole request, this would bound each wait in it
            follow_redirects=False,
        )
        async with client:
            while not self._stopping.is_set():
                failures = 0 if await self._poll(client) else failures + 1
                is_settled = self._allow_list.is_settled.is_set()
                await asyncio.sleep(
                    pause_seconds(
                        self._settings.poll_seconds, failures, is_settled=is_settled, random=self._random
                    )
                )

    async def _poll(self, client: httpx.AsyncClient) -> bool:
        settings = self._settings
        try:
            self._allow_list.take(parse(await fetch(client, settings.url or "", settings.request_seconds)))
        except PollFailed as failure:
            self._allow_list.fail(str(failure))
        except Exception as error:  # noqa: BLE001 - counted; the loop must never lose its list to a defect here
            self._allow_list.fail(f"a defect, please report it: {type(error).__name__}")
        else:
            return True
        return False

    def _headers(self) -> dict[str, str]:
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"millpond/{__version__}",
        }
        if self._settings.auth_header is not None and self._settings.auth_token is not None:
            headers[self._settings.auth_header] = self._settings.auth_token.get_secret_value()
        return headers
