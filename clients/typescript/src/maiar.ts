import { z } from "zod";
import { type Documents, InvalidInputError, type Json, type JsonObject, type Memory, type Spaces, type StoredMemory } from "./index.js";
import { parseJson, writeJson } from "./json.js";

/** A memory as MAIAR has it: `trigger` and `context` are JSON as text. */
export interface MaiarMemory {
  id: string;
  spaceId: string;
  trigger: string;
  context?: string;
  createdAt: number;
  updatedAt?: number;
  metadata?: Record<string, unknown>;
}

/** What MAIAR asks for. */
export interface MaiarQuery {
  spaceId?: string;
  relatedSpaces?: { prefix?: string; pattern?: string };
  after?: number;
  before?: number;
  limit?: number;
  offset?: number;
}

/** What the plugin needs of a task. */
export interface MaiarTask {
  trigger: unknown;
  contextChain: unknown[];
  space: { id: string; relatedSpaces?: { prefix?: string; pattern?: string } };
}

/** What the plugin needs of the runtime. */
export interface MaiarRuntime {
  getObject<T>(schema: z.ZodType<T>, prompt: string, config?: { operationLabel?: string }): Promise<T>;
}

export interface MaiarResult {
  success: boolean;
  error?: string;
  data?: unknown;
}

/** MAIAR's `MemoryProvider` over a memory. A `pattern` is a glob, as in its provider for SQLite. */
export class MaiarMemoryProvider {
  readonly #memory: Memory;
  readonly #plugin: MaiarMemoryPlugin;

  /** The texts of the plugin go to the collection, which is that of an imported database of MAIAR unless given. */
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

  /** Closes the memory, and so ends the server that `Memory.open` has started. */
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

  /** Changes context and metadata, as MAIAR's own providers do; fails with `NotFoundError` where they do nothing. */
  async updateMemory(id: string, { context, metadata }: Partial<MaiarMemory>): Promise<void> {
    await this.#memory.update(id, {
      ...(context === undefined ? {} : ({ context: { set: jsonOf(context) }, status: "completed" } as const)),
      ...(metadata === undefined ? {} : { metadata: { replace: metadata as JsonObject } }),
    });
  }

  /** The newest first, and all of them without a `limit`. */
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

/** The plugin of the provider: the model saves, finds and removes texts in words, and writes no query. */
export class MaiarMemoryPlugin {
  readonly id = "agent-memory";
  readonly description = "Saves, finds and removes texts that the agent wants to keep.";
  readonly requiredCapabilities = [];
  readonly triggers = [];
  readonly executors = [
    { name: "memory:query", description: "Finds saved texts that answer a question.", fn: (task: MaiarTask) => this.#query(task) },
    { name: "memory:add_document", description: "Saves a text.", fn: (task: MaiarTask) => this.#add(task) },
    { name: "memory:remove_document", description: "Removes saved texts.", fn: (task: MaiarTask) => this.#remove(task) },
  ];
  readonly #documents: Documents;
  #runtime: MaiarRuntime | undefined;

  constructor(documents: Documents) {
    this.#documents = documents;
  }

  init(): void {}
  shutdown(): void {}

  get runtime(): MaiarRuntime {
    if (this.#runtime === undefined) throw new Error("Runtime not available");
    return this.#runtime;
  }

  /** Called by MAIAR's runtime when the plugin is registered. */
  __setRuntime(runtime: MaiarRuntime): void {
    this.#runtime = runtime;
  }

  async resolveField<T>(field: T | (() => T | Promise<T>)): Promise<T> {
    return typeof field === "function" ? (field as () => T | Promise<T>)() : field;
  }

  async #add(task: MaiarTask): Promise<MaiarResult> {
    const schema = z.object({ content: z.string().describe("the text to save") });
    const { content } = await this.#ask(schema, "Which text of this task is to be saved?", task);
    const document = await this.#documents.add({ spaceId: task.space.id, content });
    return { success: true, data: { documentId: document.id } };
  }

  async #query(task: MaiarTask): Promise<MaiarResult> {
    return { success: true, data: { results: await this.#find(task) } };
  }

  async #remove(task: MaiarTask): Promise<MaiarResult> {
    const results = await this.#find(task);
    const schema = z.object({ ids: z.array(z.string()).describe("the ids of the texts to remove") });
    const { ids } = await this.#ask(schema, `Which of these texts are to be removed? ${writeJson(results)}`, task);
    const offered = results.map(({ id }) => id).filter((id) => ids.includes(id));
    if (offered.length === 0) return { success: false, error: "no saved text was named" };
    const documentIds = await this.#documents.remove({ id: offered, ...spacesOfTask(task) });
    return { success: true, data: { documentIds } };
  }

  async #find(task: MaiarTask): Promise<{ id: string; content: string }[]> {
    const spaces = spacesOfTask(task);
    const schema = z.object({ text: z.string().describe("words that the saved texts hold") });
    const { text } = await this.#ask(schema, "What is looked for among the saved texts?", task);
    const { documents } = await this.#documents.query({ ...spaces, text, limit: 20 });
    return documents.map(({ id, content }) => ({ id, content }));
  }

  #ask<T>(schema: z.ZodType<T>, question: string, task: MaiarTask): Promise<T> {
    return this.runtime.getObject(schema, `${question}\n\nThe task:\n${JSON.stringify(task)}`, { operationLabel: "agent_memory" });
  }
}

/** The spaces of a query: a pattern before a prefix before one space, as in MAIAR; else all. */
function spacesOf({ spaceId, relatedSpaces }: MaiarQuery): Spaces {
  if (relatedSpaces?.pattern) return { glob: relatedSpaces.pattern };
  if (relatedSpaces?.prefix) return { prefix: relatedSpaces.prefix };
  return spaceId && relatedSpaces === undefined ? { space: spaceId } : { all: true };
}

/** The spaces of a task, in which a model looks: never all of them. */
function spacesOfTask({ space: { id, relatedSpaces } }: MaiarTask): Spaces {
  const spaces = spacesOf({ spaceId: id, ...(relatedSpaces === undefined ? {} : { relatedSpaces }) });
  if (spaces.all) throw new InvalidInputError("the task names no space: give it an id, or related spaces with a prefix or a pattern");
  return spaces;
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

/** The text as JSON where it is an object or an array that is read and written without a change; any other text as a string. */
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
