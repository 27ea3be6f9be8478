"""LangGraph's checkpoints as documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from .._calls import Expect, Paged
from .._documents import condition, quoted, replace
from .._parts import Parts, Write
from ..client import Memory
from ..errors import Conflict
from ..models import Document
from ..spaces import id_in, id_moved, space_of
from ._config import config_of, millis_of, place_of
from ._task import TaskWrite
from ._threads import SaverInThreads

_RUNS_AT_ONCE = 100


class AgentMemorySaver(SaverInThreads):
    """Keeps the state of graphs in a memory, on any engine; sync and async.

    The checkpoints of a thread are documents in the space ``ROOT/THREAD/NAMESPACE``, in the collection ``COLLECTION``. Below them lie the
    writes of their tasks, one document for each task, in ``COLLECTION_writes``, and the parts of values over 16 KiB in
    ``COLLECTION_parts``. A document is written after its parts, and removed before them.
    """

    def __init__(
        self, memory: Memory, *, root: str = "langgraph", collection: str = "checkpoints", serde: SerializerProtocol | None = None
    ) -> None:
        super().__init__(serde=serde)
        self._memory = memory
        self._root = root
        self._checkpoints = collection
        self._writes = f"{collection}_writes"
        self._parts = Parts(memory, f"{collection}_parts")

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        thread, namespace, parent = place_of(config)
        metadata = get_checkpoint_metadata(config, metadata)
        space = space_of(self._root, thread, namespace)
        below = space_of(self._root, thread, namespace, checkpoint["id"])
        write = Write(self._parts, below)
        values = checkpoint["channel_values"]
        body = {
            "checkpoint": self._dump(write, {**checkpoint, "channel_values": {}}),
            "metadata": self._dump(write, metadata),
            "channels": {channel: self._dump(write, value) for channel, value in values.items()},
        }
        content = json.dumps(write.pack(json.dumps(body).encode()))
        # What the server can look for; the whole of it is in the content.
        shown = {name: value for name, value in metadata.items() if condition((name,), "=", value)}
        about = {"thread": thread, "namespace": namespace, "checkpoint": checkpoint["id"], "parent": parent, "metadata": shown}
        id, created_at = id_in(space, checkpoint["id"]), millis_of(checkpoint["id"])
        replaced = replace(self._memory, self._checkpoints, id, content, space, {**about, **write.about}, created_at)
        self._parts.remove(below, [] if replaced is None else [replaced])
        return config_of(thread, namespace, checkpoint["id"])

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        thread, namespace, checkpoint = place_of(config)
        space = space_of(self._root, thread, namespace, str(checkpoint))
        new = {}
        for place, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, place)
            kind, data = self.serde.dumps_typed(value)
            new[index] = TaskWrite(task_id, task_path, index, channel, kind, data)
        # In one document, so that all writes of a task are there or none.
        id, found = id_in(space, task_id), None
        while True:
            old: dict[int, TaskWrite] = ({} if found is None else self._parts.read(found, self._task_writes)) or {}
            # Errors, interrupts and the like are replaced; an ordinary write stays as it was the first time.
            merged = {**old, **{index: write for index, write in new.items() if index < 0 or index not in old}}
            if merged == old:
                return
            write = Write(self._parts, space)
            body = json.dumps([each.packed(write) for each in merged.values()])
            content = json.dumps(write.pack(body.encode()))
            expect: Expect = "absent" if found is None else found.revision
            try:
                self._memory.put_document(self._writes, id, content, space=space, metadata=write.about, expect=expect)
            except Conflict:
                write.discard()
                found = self._memory.get_document(self._writes, id)
            else:
                self._parts.remove(space, [] if found is None else [found])
                return

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, namespace, checkpoint = place_of(config)
        space = space_of(self._root, thread, namespace)
        if checkpoint is not None:
            found = self._memory.get_document(self._checkpoints, id_in(space, checkpoint))
        else:
            found = next(self._memory.walk_documents(self._checkpoints, space=space, limit=1), None)
        return None if found is None else self._parts.read(found, self._tuple)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        wanted = filter or {}
        conditions = (condition(("metadata", name), "=", value) for name, value in wanted.items())
        last = get_checkpoint_id(before) if before else None
        documents = self._walk(config, " AND ".join(each for each in conditions if each))
        earlier = (document for document in documents if last is None or document.metadata["checkpoint"] < last)
        tuples = (self._parts.read(document, self._tuple) for document in earlier)
        matching = (each for each in tuples if each is not None and all(each.metadata.get(k) == v for k, v in wanted.items()))
        return islice(matching, limit)

    def delete_thread(self, thread_id: str) -> None:
        self._remove_under(space_of(self._root, thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        for start in range(0, len(run_ids), _RUNS_AT_ONCE):
            runs = ", ".join(map(quoted, run_ids[start : start + _RUNS_AT_ONCE]))
            for document in list(self._walk(None, f"metadata.metadata.run_id IN ({runs})")):
                self._remove_one(document)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        source, target = space_of(self._root, source_thread_id), space_of(self._root, target_thread_id)
        # What is referred to comes first.
        for collection in (self._writes, self._checkpoints):
            for found in self._memory.walk_documents(collection, under=source, limit=20):
                self._parts.copy(found, source, target)
                space = target + found.space_id[len(source) :]
                about = {**found.metadata, "thread": target_thread_id} if collection == self._checkpoints else found.metadata
                replace(self._memory, collection, id_moved(found.id, space), found.content, space, about, found.created_at)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"the strategy is keep_latest or delete, not {strategy!r}")
        for thread in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread)
                continue
            documents = list(self._memory.walk_documents(self._checkpoints, under=space_of(self._root, thread), limit=100))
            kept: set[str] = set()
            for namespace in {document.space_id for document in documents}:
                newest = next(document for document in documents if document.space_id == namespace)
                kept.update(self._needed(self._parts.read(newest, self._tuple)))
            for document in documents:
                if document.id not in kept:
                    self._remove_one(document)

    def _needed(self, found: CheckpointTuple | None) -> Iterator[str]:
        """The ids of a checkpoint, and of those before it from which channels that only store changes are rebuilt."""
        missing: set[str] | None = None
        while found is not None:
            thread, namespace, checkpoint = place_of(found.config)
            yield id_in(space_of(self._root, thread, namespace), str(checkpoint))
            if missing is None:
                missing = set(found.metadata.get("counters_since_delta_snapshot", {}))
            missing -= set(found.checkpoint["channel_values"])
            found = self.get_tuple(found.parent_config) if missing and found.parent_config else None

    def _walk(self, config: RunnableConfig | None, where: str) -> Iterator[Document]:
        selection: Paged = {"limit": 100}
        if where:
            selection["where"] = where
        configurable = config.get("configurable", {}) if config else {}
        names = [str(configurable[name]) for name in ("thread_id", "checkpoint_ns") if name in configurable]
        space = space_of(self._root, *names)
        if checkpoint := configurable.get("checkpoint_id"):
            found = self._memory.get_document(self._checkpoints, id_in(space, checkpoint))
            return iter([] if found is None else [found])
        selection["space" if len(names) == 2 else "under"] = space
        return self._memory.walk_documents(self._checkpoints, **selection)

    def _tuple(self, document: Document) -> CheckpointTuple:
        about = document.metadata
        thread, namespace, checkpoint = about["thread"], about["namespace"], about["checkpoint"]
        below = space_of(self._root, thread, namespace, checkpoint)
        body = json.loads(self._parts.unpack(below, json.loads(document.content)))
        loaded: Checkpoint = self._load(below, body["checkpoint"])
        loaded["channel_values"] = {channel: self._load(below, value) for channel, value in body["channels"].items()}
        tasks = (self._parts.read(each, self._task_writes) or {} for each in self._memory.walk_documents(self._writes, space=below))
        writes = [write for task in tasks for write in task.values()]
        writes.sort(key=lambda write: writes_sort_key(write.path, write.task, write.index))
        return CheckpointTuple(
            config=config_of(thread, namespace, checkpoint),
            checkpoint=loaded,
            metadata=self._load(below, body["metadata"]),
            parent_config=config_of(thread, namespace, about["parent"]) if about.get("parent") else None,
            pending_writes=[(each.task, each.channel, self.serde.loads_typed((each.kind, each.data))) for each in writes],
        )

    def _task_writes(self, document: Document) -> dict[int, TaskWrite]:
        unpack = partial(self._parts.unpack, document.space_id)
        writes = [TaskWrite.unpacked(packed, unpack) for packed in json.loads(unpack(json.loads(document.content)))]
        return {write.index: write for write in writes}

    def _dump(self, write: Write, value: Any) -> Sequence[Any]:
        kind, data = self.serde.dumps_typed(value)
        return [kind, write.pack(data)]

    def _load(self, space: str, dumped: Sequence[Any]) -> Any:
        return self.serde.loads_typed((dumped[0], self._parts.unpack(space, dumped[1])))

    def _remove_one(self, document: Document) -> None:
        below = f"{document.space_id}/{space_of(document.metadata['checkpoint'])}"
        self._memory.remove_document(self._checkpoints, document.id)
        self._parts.remove(below, [document])
        self._remove_under(below)

    def _remove_under(self, space: str) -> None:
        self._parts.remove_with_documents((self._checkpoints, self._writes), space)
