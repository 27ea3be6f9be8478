"""LangGraph on agent-memory: ``AgentMemoryStore`` is a ``BaseStore``, ``AgentMemorySaver`` a ``BaseCheckpointSaver``.

Needs the extra: ``pip install 'agent-memory[langgraph]'``.
"""

from .._extra import extra

with extra("langgraph"):
    from .checkpoint import AgentMemorySaver
    from .store import AgentMemoryStore

__all__ = ["AgentMemorySaver", "AgentMemoryStore"]
