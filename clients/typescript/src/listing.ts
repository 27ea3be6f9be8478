/** A file, with the names of the segments in its path. */
export interface Listed {
  readonly names: readonly string[];
  readonly content: string;
}

/** A directory as the memory tool prints it, at this depth below the root. */
export async function listing(path: string, depth: number, files: AsyncIterable<Listed>): Promise<string> {
  const sizes = new Map<string, number>([[path, 0]]);
  for await (const file of files) {
    const [names, bytes] = [file.names.slice(depth), new TextEncoder().encode(file.content).length];
    sizes.set(path, (sizes.get(path) ?? 0) + bytes);
    for (let level = 1; level <= Math.min(LEVELS, names.length) && !isHidden(names[level - 1]); level += 1) {
      const entry = `${[path, ...names.slice(0, level)].join("/")}${level < names.length ? "/" : ""}`;
      sizes.set(entry, (sizes.get(entry) ?? 0) + bytes);
    }
  }
  const entries = [...sizes].sort(([one], [other]) => (one < other ? -1 : 1));
  const header = `Here're the files and directories up to 2 levels deep in ${path}, excluding hidden items and node_modules:`;
  return [header, ...entries.map(([entry, bytes]) => `${sized(bytes)}\t${entry}`)].join("\n");
}

/** Numbered lines, as the memory tool prints them. */
export function numbered(lines: readonly string[], first: number): string {
  return lines.map((line, index) => `${String(first + index).padStart(6)}\t${line}`).join("\n");
}

/** A size in bytes with a unit, such as `1.5K`. */
function sized(bytes: number): string {
  const power = bytes < 1_024 ? 0 : Math.min(3, Math.floor(Math.log2(bytes) / 10));
  const size = bytes / 1_024 ** power;
  return `${Number.isInteger(size) ? size : size.toFixed(1)}${["B", "K", "M", "G"][power]}`;
}

const LEVELS = 2;

function isHidden(name = ""): boolean {
  return name.startsWith(".") || name === "node_modules";
}
