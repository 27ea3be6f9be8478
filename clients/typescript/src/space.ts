import { InvalidInputError } from "./error.js";

/**
 * The space of a namespace or a thread: each segment percent-encoded but for `[A-Za-z0-9_.~]`, the empty one as a `%` alone, joined by
 * `/`. The Python client has the same rule.
 *
 * Different lists have different spaces, since no encoded segment holds a boundary (`-`, `/`, `:`); and the space of a list is under
 * those of its beginnings, so that `{ under: spaceOf("app", "ana") }` finds what belongs to Ana and nothing of `ana-2`.
 */
export function spaceOf(...segments: readonly string[]): string {
  if (segments.length === 0) throw new InvalidInputError("a namespace has at least one segment");
  return segments.map(encoded).join("/");
}

function encoded(segment: string): string {
  if (segment === "") return "%";
  try {
    const mark = (character: string) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
    return encodeURIComponent(segment).replace(/[-!*'()]/g, mark);
  } catch {
    throw new InvalidInputError("a segment of a namespace holds half of a surrogate pair");
  }
}
