"""Batches that the tasks of an event loop share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from langgraph.store.base import Op, Result

_MOST_OPERATIONS = 1000


@dataclass
class _Waiting:
    """The operations of a task, and the future of their results."""

    operations: list[Op]
    results: asyncio.Future[list[Result]]


class SharedBatches:
    """Executes the operations of concurrent tasks in a thread. Operations that arrive while a batch runs share the next batch.

    If a batch fails, the operations of each task are executed again alone, so that no task fails because of another.
    """

    def __init__(self, batch: Callable[[list[Op]], list[Result]]) -> None:
        self._batch = batch
        self._waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, list[_Waiting]] = WeakKeyDictionary()
        self._running: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]] = WeakKeyDictionary()

    async def do(self, operations: list[Op]) -> list[Result]:
        """The results of the operations, in their order."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(operations, loop.create_future())
        self._waiting.setdefault(loop, []).append(waiting)
        running = self._running.get(loop)
        if running is None or running.done():
            self._running[loop] = loop.create_task(self._run(loop))
        return await waiting.results

    async def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while together := self._taken(self._waiting[loop]):
            outcomes = await asyncio.to_thread(self._outcomes, together)
            for waiting, outcome in zip(together, outcomes, strict=True):
                if waiting.results.done():
                    continue
                if isinstance(outcome, Exception):
                    waiting.results.set_exception(outcome)
                else:
                    waiting.results.set_result(outcome)

    def _taken(self, waiting: list[_Waiting]) -> list[_Waiting]:
        count = operations = 0
        while count < len(waiting) and (count == 0 or operations + len(waiting[count].operations) <= _MOST_OPERATIONS):
            operations += len(waiting[count].operations)
            count += 1
        taken, waiting[:count] = waiting[:count], []
        return taken

    def _outcomes(self, together: list[_Waiting]) -> list[Any]:
        try:
            results = iter(self._batch([operation for waiting in together for operation in waiting.operations]))
        except Exception as error:
            return [error] if len(together) == 1 else [outcome for waiting in together for outcome in self._outcomes([waiting])]
        return [[next(results) for _ in waiting.operations] for waiting in together]
