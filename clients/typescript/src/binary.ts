import { accessSync, constants, statSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import { MemoryError } from "./error.js";

/** The path of the binary: `AGENT_MEMORY_BIN`, or else that of the package for this platform, or else the first on `PATH`. */
export function findBinary(): string {
  const named = process.env["AGENT_MEMORY_BIN"];
  if (named !== undefined && named !== "") return checked(named, "AGENT_MEMORY_BIN");
  const found = packaged() ?? onPath();
  if (found !== undefined) return found;
  const platform = `${process.platform}-${process.arch}`;
  throw new MemoryError(
    "Unsupported",
    `no binary of agent-memory for ${platform}: install the package ${PACKAGE_SCOPE}/${platform} if there is one (npm leaves it out ` +
      "with --omit=optional), or build one with `cargo install agent-memory-cli` so that PATH has it, or name it in AGENT_MEMORY_BIN",
  );
}

/** The path in a setting, if it is that of a program. */
export function checked(path: string, setting: string): string {
  if (!isProgram(path)) throw new MemoryError("InvalidInput", `${setting} names no program that can be run`);
  return path;
}

const PACKAGE_SCOPE = "@agent-memory";
const NAME = process.platform === "win32" ? "agent-memory.exe" : "agent-memory";

function packaged(): string | undefined {
  try {
    return createRequire(import.meta.url).resolve(`${PACKAGE_SCOPE}/${process.platform}-${process.arch}/bin/${NAME}`);
  } catch {
    return undefined;
  }
}

function onPath(): string | undefined {
  const folders = (process.env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
  return folders.map((folder) => join(folder, NAME)).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
