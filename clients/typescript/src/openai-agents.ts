import type { AgentInputItem, Session } from "@openai/agents";
import { packed, unpacked } from "./bytes.js";
import { settled } from "./documents.js";
import {
  ConflictError,
  type Documents,
  type Memory,
  MemoryError,
  type NewDocumentOf,
  spaceOf,
  type StoredDocument,
} from "./index.js";
import { parseJson, writeJson } from "./json.js";
import { cut, sha256 } from "./text.js";

/** The id of a conversation, and where it is stored. */
export interface MemorySessionOptions {
  /** A new id by default. */
  readonly sessionId?: string;
  /** Keeps the sessions of one application, or of one user, apart from those of others. */
  readonly namespace?: readonly string[];
  /** The collection of the items; `openai-sessions` by default. */
  readonly collection?: string;
}

/**
 * A session of the OpenAI Agents SDK over a memory.
 *
 * The items of one call of `addItems` are a batch: one document, which is put under the next free number of its session, with a time after
 * the newest. So batches of several processes have one order, and each is stored once or not at all. A batch over a third of a megabyte is
 * split into parts, which are put with it.
 */
export class MemorySession implements Session {
  readonly #memory: Memory;
  readonly #documents: Documents;
  readonly #sessionId: string;
  readonly #space: string;
  readonly #parts: string;

  constructor(
    memory: Memory,
    { sessionId = crypto.randomUUID(), namespace = [], collection = "openai-sessions" }: MemorySessionOptions = {},
  ) {
    this.#memory = memory;
    this.#documents = memory.documents(collection);
    this.#sessionId = sessionId;
    this.#space = spaceOf(...namespace, sessionId);
    // No encoded segment contains a plus sign, so no session has this space.
    this.#parts = `${this.#space}/+parts`;
  }

  async getSessionId(): Promise<string> {
    return this.#sessionId;
  }

  /** All items in order, or the newest `limit` of them. */
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
    for (let least = 1; ; least += 1) {
      const newest = await this.#newest();
      // The newest batch may not have the highest number, if a number was freed by a pop and taken again.
      const number = (least = Math.max(least, newest === undefined ? 1 : Number(newest.metadata["number"]) + 1));
      // After the newest in the order of documents too, however much the clocks of two machines differ.
      const createdAt = Math.max(Date.now(), newest === undefined ? 0 : newest.createdAt + 1);
      if (await this.#put(items, { id: `${await sha256(this.#space)}-${number}`, number, createdAt, expect: "absent" })) return;
    }
  }

  async popItem(): Promise<AgentInputItem | undefined> {
    for (;;) {
      const newest = await this.#newest();
      if (newest === undefined) return undefined;
      const items = await this.#itemsOf(newest);
      const last = items.pop();
      const { id, createdAt, revision: expect } = newest;
      if (!(await this.#put(items, { id, number: Number(newest.metadata["number"]), createdAt, expect }))) continue;
      await this.#sweep(newest, items.length);
      if (last !== undefined) return last;
    }
  }

  async clearSession(): Promise<void> {
    for (;;) {
      const { documents, next } = await this.#documents.query({ space: this.#space, limit: 500 });
      if (documents.length === 0 && next === undefined) return;
      // In one request, unless the session has more batches than one request can name; then the newest first.
      await this.#documents.remove({ id: documents.map(({ id }) => id) }, { max: 10_000 });
      for (const { metadata } of documents) await this.#removeParts(metadata);
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

  /** Puts a batch with its parts, all or none. Returns whether its expectation held. */
  async #put(items: readonly AgentInputItem[], { id, number, createdAt, expect }: Place): Promise<boolean> {
    const { collection } = this.#documents;
    const [write, text] = [crypto.randomUUID(), writeJson(packed(items))];
    const pieces = text.length > PIECE ? cut(text, PIECE) : [];
    const documents = pieces.map<NewDocumentOf>((content, part) => {
      return { collection, id: partId(write, part), spaceId: this.#parts, content, expect: "absent" };
    });
    const metadata = { write, items: items.length, parts: pieces.length, number };
    documents.push({ collection, id, spaceId: this.#space, content: pieces.length === 0 ? text : "", createdAt, metadata, expect });
    // Parts that are too many for one request are put before the batch that counts them.
    while (documents.length > AT_ONCE) await this.#memory.putDocuments(documents.splice(0, AT_ONCE)).catch(passConflict);
    try {
      await this.#memory.putDocuments(documents);
      return true;
    } catch (error) {
      if (!(error instanceof ConflictError)) throw error;
      // After an attempt with an unknown outcome, the batch in place may be its own.
      if (error.outcome === "Unknown" && (await settled(this.#documents, id, error.outcome))?.metadata["write"] === write) return true;
      await this.#removeParts(metadata);
      return false;
    }
  }

  /** Removes what a pop has left of a batch. A failure is ignored: nobody reads the rest, and the item is popped already. */
  async #sweep(batch: StoredDocument, itemsLeft: number): Promise<void> {
    try {
      await this.#removeParts(batch.metadata);
      // Without effect if the number was taken again meanwhile.
      if (itemsLeft === 0) await this.#documents.remove({ id: batch.id, where: "metadata.items = 0" });
    } catch (error) {
      if (!(error instanceof MemoryError)) throw error;
    }
  }

  async #removeParts({ write, parts }: StoredDocument["metadata"]): Promise<void> {
    const ids = Array.from({ length: Number(parts) }, (_, part) => partId(String(write), part));
    for (let at = 0; at < ids.length; at += 50) await this.#documents.remove({ id: ids.slice(at, at + 50) }, { max: 50 });
  }
}

/** The document of a batch, and the expectation of its put. */
interface Place {
  readonly id: string;
  readonly number: number;
  readonly createdAt: number;
  readonly expect: "absent" | number;
}

/** The limit of a document in UTF-16 units: each takes at most three bytes of the document's 1 MiB. */
const PIECE = 340_000;
/** The limit of a request, in documents: they take at most half of its 64 MiB. */
const AT_ONCE = 32;

function partId(write: string, part: number): string {
  return `${write}-${part}`;
}

/** The id of a part is new, so a part that exists comes from an earlier attempt. */
function passConflict(error: unknown): void {
  if (!(error instanceof ConflictError)) throw error;
}
