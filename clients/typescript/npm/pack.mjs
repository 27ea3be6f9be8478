// Packs what is published, as tarballs in a folder:
//   node npm/pack.mjs OUT                     the package agent-memory, as `npm run build` has left it in dist
//   node npm/pack.mjs OUT PLATFORM BINARY     the package of a platform, such as linux-x64, with a binary
import { execFileSync } from "node:child_process";
import { cpSync, chmodSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** What npm compares with the machine; a package that does not fit is left out. */
const PLATFORMS = {
  "darwin-arm64": { os: ["darwin"], cpu: ["arm64"] },
  "darwin-x64": { os: ["darwin"], cpu: ["x64"] },
  "linux-arm64": { os: ["linux"], cpu: ["arm64"], libc: ["glibc"] },
  "linux-x64": { os: ["linux"], cpu: ["x64"], libc: ["glibc"] },
  "win32-x64": { os: ["win32"], cpu: ["x64"] },
};

const [out, platform, binary] = process.argv.slice(2);
if (out === undefined || (platform !== undefined && (!(platform in PLATFORMS) || binary === undefined))) {
  console.error(`usage: node npm/pack.mjs OUT [${Object.keys(PLATFORMS).join("|")} BINARY]`);
  process.exit(2);
}
const { devDependencies: _, scripts: __, ...manifest } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const staging = mkdtempSync(join(tmpdir(), "agent-memory-pack-"));
try {
  const { files, ...published } = platform === undefined ? stageClient() : stagePlatform();
  const licences = ["LICENSE-APACHE", "LICENSE-MIT"];
  writeFileSync(join(staging, "package.json"), `${JSON.stringify({ ...published, files: [...files, ...licences] }, null, 2)}\n`);
  for (const name of licences) cpSync(join(ROOT, "../..", name), join(staging, name));
  setModes();
  mkdirSync(out, { recursive: true });
  execFileSync("npm", ["pack", "--silent", "--pack-destination", resolve(out)], { cwd: staging, stdio: "inherit" });
} finally {
  rmSync(staging, { recursive: true });
}

/** The packages of the platforms come in here alone: a lock file for this folder could not name what is not published yet. */
function stageClient() {
  for (const name of manifest.files) cpSync(join(ROOT, name), join(staging, name), { recursive: true });
  const names = Object.keys(PLATFORMS).map((name) => `@agent-memory/${name}`);
  return { ...manifest, optionalDependencies: Object.fromEntries(names.map((name) => [name, manifest.version])) };
}

function stagePlatform() {
  const name = `bin/agent-memory${platform.startsWith("win32") ? ".exe" : ""}`;
  mkdirSync(join(staging, "bin"));
  cpSync(resolve(binary), join(staging, name));
  const { version, license, repository } = manifest;
  const description = `The binary of agent-memory for ${platform}.`;
  return {
    name: `@agent-memory/${platform}`,
    version,
    description,
    license,
    repository: { ...repository, directory: "memory-cli" },
    ...PLATFORMS[platform],
    files: ["bin"],
    preferUnplugged: true,
  };
}

/** npm packs the modes that the files have, and those come from the umask of whoever packs. */
function setModes() {
  for (const name of readdirSync(staging, { recursive: true })) {
    const path = join(staging, name);
    if (statSync(path).isFile()) chmodSync(path, dirname(path) === join(staging, "bin") ? 0o755 : 0o644);
  }
}
