"""LangGraph's checkpoints as documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from .._calls import Paged
from .._documents import all_of, among, condition
from .._parts import Parts, Write
from ..client import Memory
from ..models import Document
from ..spaces import id_in, space_of
from ._config import checkpoint_of, config_of, millis_of, place_of
from ._task import TaskWrite, content_of, writes_in
from ._threads import SaverInThreads


class AgentMemorySaver(SaverInThreads):
    """Keeps the state of graphs in a memory, on any engine; sync and async.

    The checkpoints of a thread are documents in the space ``ROOT/THREAD/NAMESPACE``, in the collection ``COLLECTION``. Below them lie the
    writes of their tasks, one document for each task, in ``COLLECTION_writes``, and the parts of values over 16 KiB in
    ``COLLECTION_parts``. A document is put with its parts, and removed before them.
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
        write = Write(self._parts, space_of(self._root, thread, namespace, checkpoint["id"]))
        body = {
            "checkpoint": self._dump(write, {**checkpoint, "channel_values": {}}),
            "metadata": self._dump(write, metadata),
            "channels": {channel: self._dump(write, value) for channel, value in checkpoint["channel_values"].items()},
        }
        content = json.dumps(write.pack_json(body))
        # The part that the server can filter by; the content has all of it.
        shown = {name: value for name, value in metadata.items() if condition((name,), "=", value)}
        about = {"thread": thread, "namespace": namespace, "checkpoint": checkpoint["id"], "parent": parent, "metadata": shown}
        about |= write.about
        write.of(self._checkpoints, id_in(space, checkpoint["id"]), content, space, about, millis_of(checkpoint["id"]))
        self._parts.replace(write)
        return config_of(thread, namespace, checkpoint["id"])

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        thread, namespace, checkpoint = place_of(config)
        space = space_of(self._root, thread, namespace, str(checkpoint))
        new = {}
        for place, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, place)
            kind, data = self.serde.dumps_typed(value)
            new[index] = TaskWrite(task_id, task_path, index, channel, kind, data)
        # In one document, so that all writes of a task are stored or none.
        id, found = id_in(space, task_id), None
        while True:
            old = self._writes_in(found)
            # Errors, interrupts and the like are replaced; the first ordinary write stays.
            merged = {**old, **{index: write for index, write in new.items() if index < 0 or index not in old}}
            if merged == old:
                return
            write = Write(self._parts, space)
            content = content_of(merged.values(), write)
            write.of(self._writes, id, content, space, write.about)
            if self._parts.put(write, found):
                return
            found = self._memory.get_document(self._writes, id)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, namespace, checkpoint = place_of(config)
        space = space_of(self._root, thread, namespace)
        if checkpoint is not None:
            found = self._memory.get_document(self._checkpoints, id_in(space, checkpoint))
        else:
            found = next(self._memory.walk_documents(self._checkpoints, space=space, limit=1), None)
        return self._parts.read(found, self._tuple)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        wanted, only, last = filter or {}, checkpoint_of(config), checkpoint_of(before)
        conditions = [(("checkpoint",), only), *((("metadata", name), value) for name, value in wanted.items())]
        documents = self._walk(config, all_of(condition(names, "=", value) for names, value in conditions))
        named = ((document.metadata["checkpoint"], document) for document in documents)
        asked = (document for id, document in named if only in (None, id) and (last is None or id < last))
        tuples = (self._parts.read(document, self._tuple) for document in asked)
        matching = (each for each in tuples if each is not None and all(each.metadata.get(k) == v for k, v in wanted.items()))
        return islice(matching, limit)

    def delete_thread(self, thread_id: str) -> None:
        self._parts.remove_with_documents([self._checkpoints, self._writes], space_of(self._root, thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        for where in among("metadata.metadata.run_id", run_ids):
            for document in list(self._walk(None, where)):
                self._remove_one(document)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        source, target = space_of(self._root, source_thread_id), space_of(self._root, target_thread_id)
        # Writes are copied before the checkpoints that refer to them.
        self._parts.copy(self._writes, source, target)
        self._parts.copy(self._checkpoints, source, target, {"thread": target_thread_id})

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"the strategy must be keep_latest or delete, not {strategy!r}")
        for thread in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread)
                continue
            documents = list(self._walk({"configurable": {"thread_id": thread}}))
            # They come newest first, so the newest of each namespace is kept.
            newest = {document.space_id: document for document in reversed(documents)}.values()
            kept = {id for document in newest for id in self._needed(self._parts.read(document, self._tuple))}
            for document in documents:
                if document.id not in kept:
                    self._remove_one(document)

    def _needed(self, found: CheckpointTuple | None) -> Iterator[str]:
        """The ids of a checkpoint, and of the earlier ones that are needed to rebuild channels which store only changes."""
        missing: set[str] | None = None
        while found is not None:
            thread, namespace, checkpoint = place_of(found.config)
            yield id_in(space_of(self._root, thread, namespace), str(checkpoint))
            if missing is None:
                missing = set(found.metadata.get("counters_since_delta_snapshot", {}))
            missing -= set(found.checkpoint["channel_values"])
            found = self.get_tuple(found.parent_config) if missing and found.parent_config else None

    def _walk(self, config: RunnableConfig | None, where: str | None = None) -> Iterator[Document]:
        configurable = config.get("configurable", {}) if config else {}
        names = [str(configurable[name]) for name in ("thread_id", "checkpoint_ns") if name in configurable]
        selection: Paged = {"limit": 100, "where": where}
        selection["space" if len(names) == 2 else "under"] = space_of(self._root, *names)
        return self._memory.walk_documents(self._checkpoints, **selection)

    def _tuple(self, document: Document) -> CheckpointTuple:
        about = document.metadata
        thread, namespace, checkpoint = about["thread"], about["namespace"], about["checkpoint"]
        below = space_of(self._root, thread, namespace, checkpoint)
        body = self._parts.unpack_json(below, json.loads(document.content))
        loaded: Checkpoint = self._load(below, body["checkpoint"])
        loaded["channel_values"] = {channel: self._load(below, value) for channel, value in body["channels"].items()}
        tasks = (self._writes_in(each).values() for each in self._memory.walk_documents(self._writes, space=below))
        writes = sorted(chain.from_iterable(tasks), key=lambda write: writes_sort_key(write.path, write.task, write.index))
        return CheckpointTuple(
            config=config_of(thread, namespace, checkpoint),
            checkpoint=loaded,
            metadata=self._load(below, body["metadata"]),
            parent_config=config_of(thread, namespace, about["parent"]) if about.get("parent") else None,
            pending_writes=[(each.task, each.channel, self.serde.loads_typed((each.kind, each.data))) for each in writes],
        )

    def _writes_in(self, document: Document | None) -> dict[int, TaskWrite]:
        return self._parts.read(document, partial(writes_in, self._parts)) or {}

    def _dump(self, write: Write, value: Any) -> Sequence[Any]:
        kind, data = self.serde.dumps_typed(value)
        return [kind, write.pack(data)]

    def _load(self, space: str, dumped: Sequence[Any]) -> Any:
        return self.serde.loads_typed((dumped[0], self._parts.unpack(space, dumped[1])))

    def _remove_one(self, document: Document) -> None:
        below = f"{document.space_id}/{space_of(document.metadata['checkpoint'])}"
        self._memory.remove_document(self._checkpoints, document.id)
        self._parts.remove(below, [document])
        self._parts.remove_with_documents([self._writes], below)
