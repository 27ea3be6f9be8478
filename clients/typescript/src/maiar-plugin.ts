import { z } from "zod";
import { type Documents, InvalidInputError, type Spaces } from "./index.js";
import { writeJson } from "./json.js";

/** The part of a task that the plugin uses. */
export interface MaiarTask {
  trigger: unknown;
  contextChain: unknown[];
  space: { id: string; relatedSpaces?: { prefix?: string; pattern?: string } };
}

/** The part of the runtime that the plugin uses. */
export interface MaiarRuntime {
  getObject<T>(schema: z.ZodType<T>, prompt: string, config?: { operationLabel?: string }): Promise<T>;
}

export interface MaiarResult {
  success: boolean;
  error?: string;
  data?: unknown;
}

/** The spaces that a query of MAIAR names. */
export interface MaiarSpaces {
  spaceId?: string;
  relatedSpaces?: { prefix?: string; pattern?: string };
}

/** The plugin of the provider: the model saves, finds and removes texts by words, and writes no query. */
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

  /** MAIAR's runtime calls this when the plugin is registered. */
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

/** The spaces of a query. As in MAIAR, a pattern goes before a prefix, and that before a single space; without any, all spaces. */
export function spacesOf({ spaceId, relatedSpaces }: MaiarSpaces): Spaces {
  if (relatedSpaces?.pattern) return { glob: relatedSpaces.pattern };
  if (relatedSpaces?.prefix) return { prefix: relatedSpaces.prefix };
  return spaceId && relatedSpaces === undefined ? { space: spaceId } : { all: true };
}

/** The spaces of a task, in which its model may search: never all spaces. */
function spacesOfTask({ space: { id, relatedSpaces } }: MaiarTask): Spaces {
  const spaces = spacesOf({ spaceId: id, ...(relatedSpaces === undefined ? {} : { relatedSpaces }) });
  if (spaces.all) throw new InvalidInputError("the task names no space: give it an id, or related spaces with a prefix or a pattern");
  return spaces;
}
