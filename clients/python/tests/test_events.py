"""The events that are parsed from the bytes of a stream."""

from __future__ import annotations

import pytest

from agent_memory import AgentMemoryError, FeedReset, Unavailable, Unexpected, _calls, _events
from agent_memory._events import Event, EventReader
from agent_memory._feed import Connection, Feed

STREAM = b': a comment\nid: t1\nevent: stored\ndata: {"a":\ndata:"\xc3\xa9\xf0\x9f\x90\x88"}\n\nevent: reached\nid:t2\n\ndata:  x\n\n'
EVENTS = [Event("stored", '{"a":\n"é🐈"}', "t1"), Event("reached", "", "t2"), Event("message", " x", "t2")]


def events_of(*pieces: bytes) -> list[Event]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.read(piece)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"], ids=["lf", "cr", "crlf"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_pieces_may_end_anywhere(end: bytes, size: int) -> None:
    stream = STREAM.replace(b"\n", end)
    assert events_of(*(stream[at : at + size] for at in range(0, len(stream), size))) == EVENTS
    assert events_of(*(each for at in range(0, len(stream), size) for each in (stream[at : at + size], b""))) == EVENTS


def test_lines_may_end_each_in_its_own_way() -> None:
    assert events_of(b"data: a\rdata: b\r\ndata: c\n\r\r\n", b"data: d\r", b"\n\r") == [
        Event("message", "a\nb\nc", None),
        Event("message", "d", None),
    ]


def test_what_the_format_leaves_out_is_left_out() -> None:
    assert events_of(b"\xef\xbb\xbfdata: a\n\n") == [Event("message", "a", None)]
    # A field without a colon, an unknown one, an id with NUL, and an event without an end.
    assert events_of(b"data\nretry: 1\nid: a\0b\nother: x\ndata\n\ndata: b\n") == [Event("message", "\n", None)]
    assert events_of(b"id: t\n\n\n\ndata: a\n\n") == [Event("message", "a", "t")]
    assert events_of(b"data: \xff\n\n") == [Event("message", "�", None)]


def test_an_event_has_a_largest_size() -> None:
    reader = EventReader(100)
    # Earlier fields and comments do not count.
    for _ in range(10):
        assert len(list(reader.read(b":" + b"c" * 80 + b"\ndata: " + b"x" * 80 + b"\n\n"))) == 1
    for stream in (b"data: " + b"x" * 101, b"data: xxxxx\n" * 20, b"x" * 101):
        reader = EventReader(100)
        with pytest.raises(Unexpected, match="more than"):
            for at in range(0, len(stream), 10):
                list(reader.read(stream[at : at + 10]))


def test_the_largest_record_fits() -> None:
    data = b"x" * (4 << 20) + b"y" * (8 << 20)
    assert len(events_of(b"data: " + data[: 5 << 20], data[5 << 20 :] + b"\n\n")[0].data) == 12 << 20 < _events.LARGEST


def feed() -> Feed:
    return Feed(_calls.watch("memories", None, "now", {"all": True}), "http://server", 60)


STREAM_HEADERS = {"content-type": "text/event-stream"}
MEMORY = '{"id":"i","spaceId":"s","trigger":{"a":1.10,"a":2},"createdAt":1,"metadata":{},"status":"pending","revision":1}'


def test_a_change_keeps_the_bytes_of_its_memory() -> None:
    one = feed()
    connection = Connection(one, 200, {"content-type": "text/event-stream; charset=utf-8"})
    (change,) = connection.read(f'id: t1\nevent: stored\ndata: {{"kind":"stored","memory":{MEMORY},"new":1}}\n\n'.encode())
    assert change.memory is not None and change.memory.trigger_text == '{"a":1.10,"a":2}'
    assert (change.kind, change.token, change.model_extra) == ("stored", "t1", {"new": 1})
    call, _ = one.next_call()
    assert call.headers == {"Accept": "text/event-stream", "Last-Event-ID": "t1"}
    # A kind that only a newer server sends is passed on, too.
    (change,) = connection.read(b'id: t2\nevent: erased\ndata: {"id":"i"}\n\n')
    assert (change.kind, change.id, one.token) == ("erased", "i", "t2")


@pytest.mark.parametrize(
    ("event", "kind", "again"),
    [
        ('event: error\ndata: {"detail":"gone","error":"FeedReset","status":410,"retryable":false}', FeedReset, False),
        ('event: error\ndata: {"detail":"later","error":"Unavailable","status":503,"retryable":true}', Unavailable, True),
        ("event: error\ndata: [", Unexpected, False),
        ("id: t\nevent: stored\ndata: [1]", Unexpected, False),
        ("id: t\nevent: stored\ndata: {", Unexpected, False),
        ('id: t\nevent: stored\ndata: {"memory":{"id":1}}', Unexpected, False),
        ("event: reached\ndata: {}", Unexpected, False),
        ("id: \u00e9\nevent: reached\ndata: {}", Unexpected, False),
    ],
)
def test_an_event_may_tell_of_an_error(event: str, kind: type[AgentMemoryError], again: bool) -> None:
    one = feed()
    with pytest.raises(AgentMemoryError) as error:
        list(Connection(one, 200, STREAM_HEADERS).read(f"{event}\n\n".encode()))
    assert type(error.value) is kind and one.token is None
    if again:
        assert one.pause_after(error.value) >= 0
    else:
        with pytest.raises(kind):
            one.pause_after(error.value)


def test_what_is_no_stream_is_an_error() -> None:
    for status, media_type, kind in [
        (410, "application/problem+json", FeedReset),
        (200, "application/json", Unexpected),
        (200, "text/html", Unexpected),
        (204, "text/event-stream", Unexpected),
        (503, "text/html", Unavailable),
    ]:
        connection = Connection(feed(), status, {"content-type": media_type})
        assert list(connection.read(b'{"detail":"gone",')) == list(connection.read(b'"error":"FeedReset"}')) == []
        assert type(connection.ended()) is kind
    # One without end is not read to it.
    connection = Connection(feed(), 200, {"content-type": "text/html"})
    with pytest.raises(Unexpected):
        for _ in range(20):
            list(connection.read(b"x" * (1 << 17)))
