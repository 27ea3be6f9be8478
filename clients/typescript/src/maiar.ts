import type { Json, JsonObject, Memory, StoredMemory } from "./index.js";
import { parseJson, writeJson } from "./json.js";
import { MaiarMemoryPlugin, type MaiarSpaces, spacesOf } from "./maiar-plugin.js";

export { MaiarMemoryPlugin, type MaiarResult, type MaiarRuntime, type MaiarTask } from "./maiar-plugin.js";

/** A memory in MAIAR's form: `trigger` and `context` are texts of JSON. */
export interface MaiarMemory {
  id: string;
  spaceId: string;
  trigger: string;
  context?: string;
  createdAt: number;
  updatedAt?: number;
  metadata?: Record<string, unknown>;
}

/** A query of MAIAR. */
export interface MaiarQuery extends MaiarSpaces {
  after?: number;
  before?: number;
  limit?: number;
  offset?: number;
}

/** Implements MAIAR's `MemoryProvider` with a `Memory`. A `pattern` is a glob, as in MAIAR's provider for SQLite. */
export class MaiarMemoryProvider {
  readonly #memory: Memory;
  readonly #plugin: MaiarMemoryPlugin;

  /** `collection` holds the texts of the plugin; by default it is that of an imported database of MAIAR. */
  constructor(memory: Memory, { collection = "sandbox" }: { readonly collection?: string } = {}) {
    this.#memory = memory;
    this.#plugin = new MaiarMemoryPlugin(memory.documents(collection));
  }

  init(): Promise<void> {
    return this.checkHealth();
  }

  async checkHealth(): Promise<void> {
    await this.#memory.health();
  }

  /** Closes the memory, which stops the server that `Memory.open` has started. */
  async shutdown(): Promise<void> {
    await this.#memory.close();
  }

  getPlugin(): MaiarMemoryPlugin {
    return this.#plugin;
  }

  async storeMemory(memory: Omit<MaiarMemory, "id">): Promise<string> {
    const { context, createdAt, metadata = {} } = memory;
    const done = context === undefined ? {} : ({ context: jsonOf(context), status: "completed" } as const);
    return this.#memory.store(memory.spaceId, jsonOf(memory.trigger), { ...done, createdAt, metadata: metadata as JsonObject });
  }

  /** Changes context and metadata, as MAIAR's own providers do; fails with `NotFoundError` for an unknown id, where they do nothing. */
  async updateMemory(id: string, { context, metadata }: Partial<MaiarMemory>): Promise<void> {
    await this.#memory.update(id, {
      ...(context === undefined ? {} : ({ context: { set: jsonOf(context) }, status: "completed" } as const)),
      ...(metadata === undefined ? {} : { metadata: { replace: metadata as JsonObject } }),
    });
  }

  /** Returns the newest first, and all of them without a `limit`. */
  async queryMemory(options: MaiarQuery): Promise<MaiarMemory[]> {
    const { after, before, limit = Infinity, offset = 0 } = options;
    const wanted = offset + limit;
    const query = { ...spacesOf(options), limit: Math.min(wanted, 1_000), ...(after === undefined ? {} : { after }) };
    const memories: MaiarMemory[] = [];
    if (limit <= 0) return memories;
    for await (const page of this.#memory.pages(before === undefined ? query : { ...query, before })) {
      memories.push(...page.memories.map(maiarMemory));
      if (memories.length >= wanted) break;
    }
    return memories.slice(offset, wanted);
  }
}

function maiarMemory({ id, spaceId, trigger, context, createdAt, updatedAt, metadata }: StoredMemory): MaiarMemory {
  return {
    id,
    spaceId,
    trigger: textOf(trigger),
    ...(context === undefined ? {} : { context: textOf(context) }),
    createdAt,
    ...(updatedAt == null ? {} : { updatedAt }),
    metadata: metadata as Record<string, unknown>,
  };
}

/** The text as JSON if it is an object or an array that parsing and serialising do not change; any other text as a string. */
function jsonOf(text: string): Json {
  try {
    const value = parseJson(text);
    return typeof value === "object" && value !== null && writeJson(value) === text ? value : text;
  } catch {
    return text;
  }
}

function textOf(value: Json): string {
  return typeof value === "string" ? value : writeJson(value);
}
