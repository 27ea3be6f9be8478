import { MemoryError } from "./error.js";

/** A server-sent event. */
export interface ServerEvent {
  readonly name: string;
  readonly data: string;
  /** The last id in the stream, from this event or an earlier one. */
  readonly id: string | undefined;
}

/**
 * The limit of an event, in UTF-16 units. The largest memory has 12 MiB of JSON and its metadata; the largest document has 1 MiB of text,
 * every character of which may be escaped.
 */
const LARGEST = 16 << 20;

/** Parses the server-sent events of one stream, as specified by the WHATWG. Chunks may end anywhere; an incomplete event is buffered. */
export class EventParser {
  readonly #decoder = new TextDecoder();
  readonly #largest: number;
  #line = "";
  #endsInCr = false;
  #name = "";
  #data: string[] = [];
  #size = 0;
  #id: string | undefined;

  constructor(largest = LARGEST) {
    this.#largest = largest;
  }

  /** The events that end in this chunk. Fails with `Unexpected` for one that is too large. */
  *push(piece: Uint8Array): Generator<ServerEvent, void, undefined> {
    const text = this.#decoder.decode(piece, { stream: true });
    if (text === "") return;
    // A CR ends its line at once, so an LF right after it belongs to the same line end.
    const rest = this.#endsInCr && text.startsWith("\n") ? text.slice(1) : text;
    this.#endsInCr = text.endsWith("\r");
    const [first = "", ...others] = rest.split(/\r\n|\n|\r/);
    this.#hold(first);
    for (const other of others) {
      const line = this.#line;
      this.#line = "";
      const event = this.#take(line);
      if (event !== undefined) yield event;
      this.#hold(other);
    }
  }

  #hold(piece: string): void {
    this.#line += piece;
    if (this.#line.length + this.#size <= this.#largest) return;
    throw MemoryError.of("Unexpected", `an event of the stream is over ${this.#largest >> 20} Mi characters: is this an agent-memory server?`);
  }

  /** Parses a line, and returns the event that it ends. */
  #take(line: string): ServerEvent | undefined {
    if (line === "") return this.#ended();
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (field === "data") {
      this.#data.push(value);
      this.#size += value.length + 1;
    } else if (field === "event") this.#name = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    return undefined;
  }

  #ended(): ServerEvent | undefined {
    const [name, data] = [this.#name, this.#data];
    [this.#name, this.#data, this.#size] = ["", [], 0];
    // Unlike a browser, this accepts an event without data.
    return name === "" && data.length === 0 ? undefined : { name: name || "message", data: data.join("\n"), id: this.#id };
  }
}
