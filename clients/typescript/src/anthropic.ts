import { betaMemoryTool, type MemoryToolHandlers } from "@anthropic-ai/sdk/helpers/beta/memory";
import { ToolError } from "@anthropic-ai/sdk/lib/tools/ToolError";
import { ConflictError, type Documents, type Memory, spaceOf } from "./index.js";
import { listing, numbered } from "./listing.js";
import { namesIn, pathOf } from "./memory-path.js";
import { idIn, namesOf } from "./space.js";
import { lineOf, placesOf } from "./text.js";

type Command<Name extends keyof MemoryToolHandlers> = Parameters<MemoryToolHandlers[Name]>[0];

/** The location of the files. */
export interface MemoryToolOptions {
  /** The owner of the files, such as `["anthropic", user]`: files outside of it can't be reached. */
  readonly namespace: readonly string[];
  /** The collection of the files; `memories` by default. */
  readonly collection?: string;
}

/** Anthropic's memory tool over a memory, for `client.beta.messages.toolRunner`. */
export function memoryTool(memory: Memory, options: MemoryToolOptions): ReturnType<typeof betaMemoryTool> {
  return betaMemoryTool(new MemoryFiles(memory, options));
}

/**
 * The commands of the memory tool. Each file is a document in the space of its namespace and path, as in the Python client. If
 * a file was changed since a command has read it, the command reads it again.
 */
export class MemoryFiles implements MemoryToolHandlers {
  readonly #documents: Documents;
  readonly #namespace: readonly string[];

  constructor(memory: Memory, { namespace, collection = "memories" }: MemoryToolOptions) {
    this.#documents = memory.documents(collection);
    this.#namespace = namespace;
  }

  async view({ path: given, view_range: range }: Command<"view">): Promise<string> {
    const [names, path] = named(given);
    const file = await this.#read(names);
    if (file === undefined) {
      if (!(await this.#isTaken(names))) throw new ToolError(`The path ${path} does not exist. Please provide a valid path.`);
      return listing(path, names.length, this.#below(names));
    }
    const lines = file.content.split("\n");
    if (lines.length > 999_999) throw new ToolError(`File ${path} exceeds maximum line limit of 999,999 lines.`);
    const [first, last] = range?.length === 2 ? (range as [number, number]) : [1, -1];
    const begin = Math.max(1, first);
    const shown = lines.slice(begin - 1, last === -1 ? lines.length : Math.max(0, last));
    return `Here's the content of ${path} with line numbers:\n${numbered(shown, begin)}`;
  }

  async create({ path: given, file_text: text }: Command<"create">): Promise<string> {
    const [names, path] = named(given);
    const taken = `Error: File ${path} already exists`;
    if (await this.#isTaken(names)) throw new ToolError(taken);
    await this.#checkParents(names);
    if ((await this.#write(names, text, "absent")) === undefined) throw new ToolError(taken);
    return `File created successfully at: ${path}`;
  }

  async str_replace({ path: given, old_str: old, new_str: replacement = "" }: Command<"str_replace">): Promise<string> {
    const [names, path] = named(given);
    for (;;) {
      const file = await this.#read(names);
      if (file === undefined) throw new ToolError(`Error: The path ${path} does not exist. Please provide a valid path.`);
      const places = placesOf(old, file.content);
      const [place] = places;
      const failed = "No replacement was performed";
      if (place === undefined) throw new ToolError(`${failed}, old_str \`${old}\` did not appear verbatim in ${path}.`);
      if (places.length > 1) {
        const lines = places.map((at) => lineOf(at, file.content)).join(", ");
        throw new ToolError(`${failed}. Multiple occurrences of old_str \`${old}\` in lines: ${lines}. Please ensure it is unique`);
      }
      const content = file.content.slice(0, place) + replacement + file.content.slice(place + old.length);
      if ((await this.#write(names, content, file.revision)) === undefined) continue;
      const begin = Math.max(1, lineOf(place, content) - 2);
      const end = lineOf(place + replacement.length, content) + 2;
      const snippet = numbered(content.split("\n").slice(begin - 1, end), begin);
      return `The memory file has been edited. Here is the snippet showing the change (with line numbers):\n${snippet}`;
    }
  }

  async insert({ path: given, insert_line: line, insert_text: text }: Command<"insert">): Promise<string> {
    const [names, path] = named(given);
    for (;;) {
      const file = await this.#read(names);
      if (file === undefined) throw new ToolError(`Error: The path ${path} does not exist`);
      const lines = file.content.split("\n");
      if (!Number.isInteger(line) || line < 0 || line > lines.length) {
        const range = "It should be within the range of lines of the file";
        throw new ToolError(`Error: Invalid \`insert_line\` parameter: ${line}. ${range}: [0, ${lines.length}]`);
      }
      lines.splice(line, 0, text.replace(/\n$/, ""));
      if (await this.#write(names, lines.join("\n"), file.revision)) return `The file ${path} has been edited.`;
    }
  }

  async delete({ path: given }: Command<"delete">): Promise<string> {
    const [names, path] = named(given);
    if (names.length === 0) throw new ToolError("Error: Cannot delete the /memories directory itself");
    const removed = await this.#documents.remove({ under: this.#spaceOf(names) }, { max: 10_000 });
    if (removed.length === 0) throw new ToolError(`Error: The path ${path} does not exist`);
    return `Successfully deleted ${path}`;
  }

  async rename({ old_path: from, new_path: to }: Command<"rename">): Promise<string> {
    const [[old, oldPath], [names, path]] = [named(from), named(to)];
    if (old.length === 0) throw new ToolError("Error: Cannot rename the /memories directory itself");
    if (!(await this.#isTaken(old))) throw new ToolError(`Error: The path ${oldPath} does not exist`);
    if (await this.#isTaken(names)) throw new ToolError(`Error: The destination ${path} already exists`);
    if (path.startsWith(`${oldPath}/`)) throw new ToolError(`Error: The path ${path} is below ${oldPath}`);
    await this.#checkParents(names);
    // Each file is written before the old one is removed, so that an interrupted rename loses none.
    for await (const file of this.#below(old)) await this.#move(file, [...names, ...file.names.slice(old.length)]);
    return `Successfully renamed ${oldPath} to ${path}`;
  }

  async #read(names: readonly string[]): Promise<File | undefined> {
    const document = names.length === 0 ? undefined : await this.#documents.get(await this.#idOf(names));
    return document && { ...document, names };
  }

  /** The file at this path, or the files below it. */
  async *#below(names: readonly string[]): AsyncGenerator<File, void, undefined> {
    for await (const { documents } of this.#documents.pages({ under: this.#spaceOf(names), limit: 1_000 })) {
      for (const document of documents) yield { ...document, names: namesOf(document.spaceId).slice(this.#namespace.length) };
    }
  }

  /** Whether a file is at this path or below it; the root always exists. */
  async #isTaken(names: readonly string[]): Promise<boolean> {
    return names.length === 0 || (await this.#documents.query({ under: this.#spaceOf(names), limit: 1 })).documents.length > 0;
  }

  async #checkParents(names: readonly string[]): Promise<void> {
    for (const parent of names.slice(1).map((_, index) => names.slice(0, index + 1))) {
      if ((await this.#read(parent)) !== undefined) throw new ToolError(`Error: The path ${pathOf(parent)} is not a directory`);
    }
  }

  /** Puts a file if `expect` holds, and returns it; `undefined` if it does not hold. */
  async #write(names: readonly string[], content: string, expect: "absent" | number, metadata = {}): Promise<File | undefined> {
    try {
      const document = { spaceId: this.#spaceOf(names), content, metadata };
      return { ...(await this.#documents.put(await this.#idOf(names), document, { expect })), names };
    } catch (error) {
      if (!(error instanceof ConflictError)) throw error;
      // After an attempt with an unknown outcome, the file in place may be its own.
      const file = error.outcome === "Unknown" ? await this.#read(names) : undefined;
      return file?.content === content ? file : undefined;
    }
  }

  async #move(file: File, names: readonly string[]): Promise<void> {
    for (let from: File | undefined = file; from !== undefined; from = await this.#read(from.names)) {
      const copy = await this.#write(names, from.content, "absent");
      if (copy === undefined) throw new ToolError(`Error: The destination ${pathOf(names)} already exists`);
      if (await this.#removeUnchanged(from)) return;
      // Another caller has changed it meanwhile, so the copy is of no use.
      await this.#removeUnchanged(copy);
    }
  }

  /** Removes a file if it was not changed since it was read. A removal can't expect a revision, so the file is marked first. */
  async #removeUnchanged({ id, names, content, revision }: File): Promise<boolean> {
    const mark = crypto.randomUUID();
    const marked = await this.#write(names, content, revision, { mark });
    return marked !== undefined && (await this.#documents.remove({ id, where: `metadata.mark = '${mark}'` })).length > 0;
  }

  #spaceOf(names: readonly string[]): string {
    return spaceOf(...this.#namespace, ...names);
  }

  #idOf(names: readonly string[]): Promise<string> {
    return idIn(this.#spaceOf(names), names.at(-1) ?? "");
  }
}

interface File {
  readonly id: string;
  readonly names: readonly string[];
  readonly content: string;
  readonly revision: number;
}

/** The names of the segments in a path from the model, and the normalised path. */
function named(given: unknown): [names: string[], path: string] {
  const names = namesIn(given);
  return [names, pathOf(names)];
}
