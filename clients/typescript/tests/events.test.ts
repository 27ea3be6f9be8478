import { FeedResetError, MemoryError } from "agent-memory";
import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser, type ServerEvent } from "../dist/events.js";
import { changeOf } from "../dist/watch.js";

const STREAM = ': a comment\nid: t1\nevent: stored\ndata: {"a":\ndata:"é🐈"}\n\nevent: reached\nid:t2\n\ndata:  x\n\n';
const EVENTS: ServerEvent[] = [
  { name: "stored", data: '{"a":\n"é🐈"}', id: "t1" },
  { name: "reached", data: "", id: "t2" },
  { name: "message", data: " x", id: "t2" },
];

function eventsOf(...pieces: (string | Uint8Array)[]): ServerEvent[] {
  const parser = new EventParser();
  return pieces.flatMap((piece) => [...parser.push(typeof piece === "string" ? new TextEncoder().encode(piece) : piece)]);
}

function message(data: string, id?: string): ServerEvent {
  return { name: "message", data, id };
}

test("pieces of a stream may end anywhere, also within a character or the end of a line", () => {
  for (const end of ["\n", "\r", "\r\n"]) {
    const bytes = new TextEncoder().encode(STREAM.replaceAll("\n", end));
    for (const size of [1, 2, 3, 7, bytes.length]) {
      const pieces: Uint8Array[] = [];
      for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.slice(at, at + size), new Uint8Array());
      assert.deepEqual(eventsOf(...pieces), EVENTS, `${JSON.stringify(end)} in pieces of ${size}`);
    }
  }
});

test("each line may end in its own way", () => {
  assert.deepEqual(eventsOf("data: a\rdata: b\r\ndata: c\n\r\r\n", "data: d\r", "\n\r"), [message("a\nb\nc"), message("d")]);
});

test("what the format leaves out is left out", () => {
  assert.deepEqual(eventsOf("\ufeffdata: a\n\n"), [message("a")]);
  // A field without a colon, an unknown one, an id with NUL, and an event without an end.
  assert.deepEqual(eventsOf("data\nretry: 1\nid: a\0b\nother: x\ndata\n\ndata: b\n"), [message("\n")]);
  assert.deepEqual(eventsOf("id: t\n\n\n\ndata: a\n\n"), [message("a", "t")]);
  assert.deepEqual(eventsOf(new Uint8Array([...new TextEncoder().encode("data: "), 0xff, 10, 10])), [message("\ufffd")]);
});

test("an event has a largest size", () => {
  const parser = new EventParser(100);
  const push = (text: string) => [...parser.push(new TextEncoder().encode(text))];
  // Earlier fields and comments do not count.
  for (let count = 0; count < 10; count += 1) assert.equal(push(`:${"c".repeat(80)}\ndata: ${"x".repeat(80)}\n\n`).length, 1);
  for (const text of [`data: ${"x".repeat(101)}`, "data: xxxxx\n".repeat(20), "x".repeat(101)]) {
    const parser = new EventParser(100);
    const pieces = text.match(/[^]{1,10}/g) ?? [];
    assert.throws(() => pieces.forEach((piece) => [...parser.push(new TextEncoder().encode(piece))]), { kind: "Unexpected" });
  }
  // The largest record fits.
  const [event] = eventsOf(`data: ${"x".repeat(5 << 20)}`, `${"y".repeat(7 << 20)}\n\n`);
  assert.equal(event?.data.length, 12 << 20);
});

test("an event tells a change, also of a kind of a newer server", () => {
  assert.deepEqual(changeOf({ name: "erased", data: '{"kind":"erased","id":"a","size":9007199254740993}', id: "t" }), {
    kind: "erased",
    id: "a",
    size: 9007199254740993n,
    token: "t",
  });
  assert.deepEqual(changeOf({ name: "reached", data: "", id: "t" }), { kind: "reached", token: "t" });
});

test("an event may tell of an error", () => {
  const error = (data: object) => JSON.stringify({ type: "about:blank", detail: "a reason", ...data });
  const reset = error({ error: "FeedReset", status: 410, retryable: false });
  const thrown = (event: ServerEvent) => {
    try {
      return changeOf(event);
    } catch (error) {
      return error;
    }
  };
  const gone = thrown({ name: "error", data: reset, id: undefined });
  assert.ok(gone instanceof FeedResetError);
  assert.deepEqual([gone.message, gone.status, gone.retryable], ["a reason", 410, false]);
  const later = thrown({ name: "error", data: error({ error: "Unavailable", status: 503, retryable: true }), id: "t" });
  assert.ok(later instanceof MemoryError && later.kind === "Unavailable" && later.retryable);
  for (const foreign of [
    { name: "error", data: "[", id: "t" },
    { name: "stored", data: "[1]", id: "t" },
    { name: "stored", data: "{", id: "t" },
    { name: "reached", data: "{}", id: undefined },
    { name: "reached", data: "{}", id: "two words" },
  ]) {
    const error = thrown(foreign);
    assert.ok(error instanceof MemoryError && error.kind === "Unexpected" && !error.retryable, JSON.stringify(foreign));
  }
});
