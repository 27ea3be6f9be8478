import type { AgentInputItem, Session } from "@openai/agents";
import { settled } from "./documents.js";
import { ConflictError, type Documents, type Json, type Memory, MemoryError, spaceOf, type StoredDocument } from "./index.js";
import { parseJson, writeJson } from "./json.js";
import { cut, sha256 } from "./text.js";

/** Which conversation, and where it is kept. */
export interface MemorySessionOptions {
  /** A new one unless given. */
  readonly sessionId?: string;
  /** Keeps the sessions of one application, or of one user, apart from those of others. */
  readonly namespace?: readonly string[];
  /** `openai-sessions` unless given. */
  readonly collection?: string;
}

/**
 * A session of the OpenAI Agents SDK over a memory.
 *
 * What one call of `addItems` adds is a batch: a document that is put as a whole under a number of its session that is free, behind the
 * newest in time. So batches of several processes have one order, and each is there once or not at all. A batch over a third of a
 * megabyte lies in parts, which are put before it.
 */
export class MemorySession implements Session {
  readonly #documents: Documents;
  readonly #sessionId: string;
  readonly #space: string;
  readonly #parts: string;

  constructor(
    memory: Memory,
    { sessionId = crypto.randomUUID(), namespace = [], collection = "openai-sessions" }: MemorySessionOptions = {},
  ) {
    this.#documents = memory.documents(collection);
    this.#sessionId = sessionId;
    this.#space = spaceOf(...namespace, sessionId);
    // No encoded segment holds a plus sign.
    this.#parts = `${this.#space}/+parts`;
  }

  async getSessionId(): Promise<string> {
    return this.#sessionId;
  }

  /** All items in their order, or the newest `limit` of them. */
  async getItems(limit?: number): Promise<AgentInputItem[]> {
    const batches: AgentInputItem[][] = [];
    let count = 0;
    const size = limit === undefined ? 1_000 : Math.min(Math.max(0, limit), 1_000);
    for await (const page of this.#documents.pages({ space: this.#space, limit: size })) {
      for (const document of page.documents) {
        if (limit !== undefined && count >= limit) break;
        const items = await this.#itemsOf(document);
        batches.push(items);
        count += items.length;
      }
      if (limit !== undefined && count >= limit) break;
    }
    const items = batches.reverse().flat();
    return limit === undefined ? items : items.slice(items.length - Math.min(Math.max(0, limit), items.length));
  }

  async addItems(items: AgentInputItem[]): Promise<void> {
    if (items.length === 0) return;
    const batch = await this.#prepare(items);
    for (let least = 1; ; least += 1) {
      const newest = await this.#newest();
      // The newest has not always the highest number, where one was popped and taken again.
      const number = (least = Math.max(least, newest === undefined ? 1 : Number(newest.metadata["number"]) + 1));
      // Behind the newest in the order of documents too, however the clocks of two machines differ.
      const createdAt = Math.max(Date.now(), newest === undefined ? 0 : newest.createdAt + 1);
      if (await this.#put(`${await sha256(this.#space)}-${number}`, batch, number, createdAt, "absent")) return;
    }
  }

  async popItem(): Promise<AgentInputItem | undefined> {
    for (;;) {
      const newest = await this.#newest();
      if (newest === undefined) return undefined;
      const items = await this.#itemsOf(newest);
      const last = items.pop();
      const batch = await this.#prepare(items);
      if (!(await this.#put(newest.id, batch, Number(newest.metadata["number"]), newest.createdAt, newest.revision))) continue;
      await this.#sweep(newest, items.length);
      if (last !== undefined) return last;
    }
  }

  async clearSession(): Promise<void> {
    for (;;) {
      const { documents, next } = await this.#documents.query({ space: this.#space, limit: 500 });
      if (documents.length === 0 && next === undefined) return;
      // Together, but for sessions of more batches than one request names; the newest go first then.
      await this.#documents.remove({ id: documents.map(({ id }) => id) }, { max: 10_000 });
      for (const document of documents) await this.#removeParts(document);
    }
  }

  async #newest(): Promise<StoredDocument | undefined> {
    const { documents } = await this.#documents.query({ space: this.#space, limit: 1 });
    return documents[0];
  }

  async #itemsOf(document: StoredDocument): Promise<AgentInputItem[]> {
    let text = document.content;
    for (let part = 0; part < Number(document.metadata["parts"]); part += 1) {
      const id = partId(String(document.metadata["write"]), part);
      const found = await this.#documents.get(id);
      if (found === undefined) throw new ConflictError("the session was changed while it was read: read it again");
      text += found.content;
    }
    return unpacked(parseJson(text)) as AgentInputItem[];
  }

  /** Puts the parts of a batch that is too large for one document. */
  async #prepare(items: readonly AgentInputItem[]): Promise<Batch> {
    const [write, text] = [crypto.randomUUID(), writeJson(packed(items))];
    const pieces = text.length > PIECE ? cut(text, PIECE) : [];
    for (const [part, content] of pieces.entries()) {
      await this.#documents.put(partId(write, part), { spaceId: this.#parts, content }, { expect: "absent" }).catch(passConflict);
    }
    return { write, content: pieces.length === 0 ? text : "", items: items.length, parts: pieces.length };
  }

  async #put(id: string, { content, ...metadata }: Batch, number: number, createdAt: number, expect: "absent" | number): Promise<boolean> {
    try {
      await this.#documents.put(id, { spaceId: this.#space, content, createdAt, metadata: { ...metadata, number } }, { expect });
      return true;
    } catch (error) {
      if (!(error instanceof ConflictError)) throw error;
      // Behind an attempt whose outcome is unknown, what is in place may be its own.
      return error.outcome === "Unknown" && (await settled(this.#documents, id, error.outcome))?.metadata["write"] === metadata.write;
    }
  }

  /** Removes what a pop has left of a batch. What stays where that fails is read by nobody, and the item is popped already. */
  async #sweep(batch: StoredDocument, itemsLeft: number): Promise<void> {
    try {
      await this.#removeParts(batch);
      // Without effect where the number has been taken again meanwhile.
      if (itemsLeft === 0) await this.#documents.remove({ id: batch.id, where: "metadata.items = 0" });
    } catch (error) {
      if (!(error instanceof MemoryError)) throw error;
    }
  }

  async #removeParts({ metadata }: StoredDocument): Promise<void> {
    const ids = Array.from({ length: Number(metadata["parts"]) }, (_, part) => partId(String(metadata["write"]), part));
    for (let at = 0; at < ids.length; at += 50) await this.#documents.remove({ id: ids.slice(at, at + 50) }, { max: 50 });
  }
}

/** What a document holds of a batch. */
interface Batch {
  readonly write: string;
  readonly content: string;
  readonly items: number;
  readonly parts: number;
}

/** The most UTF-16 units in one document: three bytes each at most, of the mebibyte that a document holds. */
const PIECE = 340_000;

function partId(write: string, part: number): string {
  return `${write}-${part}`;
}

/** The id of a part is new: what has it is there by an earlier attempt. */
function passConflict(error: unknown): void {
  if (!(error instanceof ConflictError)) throw error;
}

/** Items with their bytes as text. A member with the name of the mark gets a dollar sign more. */
function packed(value: unknown): Json {
  if (value instanceof Uint8Array) return { $bytes: btoa(Array.from(value, (byte) => String.fromCharCode(byte)).join("")) };
  if (Array.isArray(value)) return value.map(packed);
  if (typeof value !== "object" || value === null) return value as Json;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [isMark(key) ? `$${key}` : key, packed(member)]));
}

function unpacked(value: Json | undefined): unknown {
  if (Array.isArray(value)) return value.map(unpacked);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value);
  const [first] = members;
  if (first?.[0] === "$bytes") return Uint8Array.from(atob(String(first[1])), (character) => character.charCodeAt(0));
  return Object.fromEntries(members.map(([key, member]) => [isMark(key) ? key.slice(1) : key, unpacked(member)]));
}

function isMark(key: string): boolean {
  return /^\$+bytes$/.test(key);
}
