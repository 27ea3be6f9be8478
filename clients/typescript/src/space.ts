import { InvalidInputError } from "./error.js";
import { sha256 } from "./text.js";

/**
 * The space of a namespace or a thread: each segment is percent-encoded except for `[A-Za-z0-9_.~]`, the empty one becomes a single `%`, and
 * segments are joined by `/`. The Python client has the same rule.
 *
 * Different lists have different spaces, since no encoded segment contains a boundary (`-`, `/`, `:`). The space of a list is under those of
 * its prefixes, so `{ under: spaceOf("app", "ana") }` finds what belongs to Ana and nothing of `ana-2`.
 */
export function spaceOf(...segments: readonly string[]): string {
  if (segments.length === 0) throw new InvalidInputError("a namespace must have at least one segment");
  return segments.map(encoded).join("/");
}

/** The segments of a space that `spaceOf` has made. */
export function namesOf(space: string): string[] {
  return space.split("/").map((segment) => (segment === "%" ? "" : decodeURIComponent(segment)));
}

/**
 * The id of the document with this name in a space, of at most 256 bytes: a hash of the space, and the encoded name. A long name is replaced
 * by `+` and its hash; no encoded name contains a `+`. The Python client has the same rule.
 */
export async function idIn(space: string, name: string): Promise<string> {
  const short = spaceOf(name);
  const hash = (await sha256(space)).slice(0, 32);
  return `${hash}/${short.length > LONGEST_NAME ? `+${await sha256(short)}` : short}`;
}

const LONGEST_NAME = 200;

function encoded(segment: string): string {
  if (segment === "") return "%";
  try {
    const mark = (character: string) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
    return encodeURIComponent(segment).replace(/[-!*'()]/g, mark);
  } catch {
    throw new InvalidInputError("a segment of a namespace holds half of a surrogate pair");
  }
}
