import { InvalidInputError } from "./error.js";

/** The directory that holds all files of the memory tool. */
const ROOT = "/memories";
const MOST_SEGMENTS = 20;

/** The names of the segments of a path below `/memories`. Fails with an `InvalidInputError` if it leads elsewhere. */
export function namesIn(path: unknown): string[] {
  if (typeof path !== "string") throw new InvalidInputError("The path must be a string");
  if (path !== ROOT && !path.startsWith(`${ROOT}/`)) throw new InvalidInputError(`Path must start with /memories, got: ${path}`);
  const plain = path.replace(/%2e/gi, ".").replace(/%2f|%5c|\\/gi, "/");
  if (plain.split("/").includes("..")) throw new InvalidInputError(`Path ${path} would escape /memories directory`);
  if (/[\x00-\x1f\x7f-\x9f]/.test(path)) throw new InvalidInputError("The path holds a control character");
  const names = path
    .slice(ROOT.length)
    .split("/")
    .filter((name) => name !== "" && name !== ".");
  if (names.length > MOST_SEGMENTS) throw new InvalidInputError(`A path has at most ${MOST_SEGMENTS} segments`);
  return names;
}

/** The path with these segments. */
export function pathOf(names: readonly string[]): string {
  return [ROOT, ...names].join("/");
}
