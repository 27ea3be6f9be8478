// Pages that change while they are open: the live page, levels that open in place, and the doctor.

import assert from "node:assert/strict";
import { after } from "node:test";
import { flow } from "../browser.js";
import { proxyOf } from "../proxy.js";
import { open, rest } from "../servers.js";

const proxy = await proxyOf(open);
after(() => proxy.close());

/** Stores a memory, and returns the text that shows it. */
async function happens(text) {
  await rest("POST", "/v1/memories", { spaceId: "live-a", trigger: { text }, createdAt: 10 });
}

/** The live page, once it shows its position in the feed. */
async function watch(visitor) {
  await visitor.open("/console/live?under=live");
  await visitor.heading("Live");
  await visitor.page.locator("#since").waitFor({ state: "attached" });
}

const change = (visitor, text) => visitor.page.locator("#changes .change").filter({ hasText: text });

flow("a change comes in by itself", {}, async (visitor) => {
  await watch(visitor);
  await happens("the kettle boils");
  await change(visitor, "the kettle boils").waitFor();
  await happens("the tea is ready");
  await change(visitor, "the tea is ready").waitFor();
  const [newest] = await visitor.page.locator("#changes .change").allTextContents();
  assert.ok(newest.includes("the tea is ready"), "the newest is on top");
  await visitor.isAccessible();
});

flow("behind a proxy, changes come in again when the server was gone", { server: proxy.address }, async (visitor) => {
  await watch(visitor);
  const asking = visitor.page.locator("#poll");
  visitor.expectFailureAt(await asking.getAttribute("hx-get"));
  const isRefused = visitor.page.waitForResponse((response) => response.status() === 502);
  proxy.loseServer();
  await isRefused;
  await happens("the power is back");
  proxy.findServer();
  await change(visitor, "the power is back").waitFor();
  await visitor.isSilentAbout("502 Bad Gateway");
});

flow("a change leads to its memory", {}, async (visitor) => {
  await watch(visitor);
  await happens("the door opens");
  await change(visitor, "the door opens").getByRole("link").click();
  await visitor.page.waitForURL("**/console/memory/*");
  await visitor.says("the door opens");
});

flow("a pause holds changes back, and going on shows them", {}, async (visitor) => {
  await watch(visitor);
  await visitor.page.getByRole("link", { name: "Pause" }).click();
  await visitor.page.getByText("Paused.").waitFor();
  await happens("a light goes on");
  await visitor.page.getByRole("link", { name: "Go on" }).click();
  await change(visitor, "a light goes on").waitFor();
});

flow("without scripts a link shows what came since", { javaScriptEnabled: false }, async (visitor) => {
  await watch(visitor);
  await happens("the rain begins");
  await visitor.follow("Show what came since");
  await visitor.says("the rain begins");
  assert.ok(!(await visitor.page.getByText("Changes come in here by themselves.").isVisible()));
});

flow("a level of spaces opens in its row", {}, async (visitor) => {
  await visitor.open("/");
  const row = visitor.page.getByRole("row").filter({ has: visitor.page.getByRole("link", { name: "discord", exact: true }) });
  await row.locator("summary").click();
  await visitor.page.getByRole("link", { name: "discord-greenhouse", exact: true }).waitFor();
  assert.equal(new URL(visitor.page.url()).search, "");
  await visitor.isAccessible();
  await row.locator("summary").first().click();
  await visitor.page.getByRole("link", { name: "discord-greenhouse", exact: true }).waitFor({ state: "hidden" });
});

flow("the engine draws its last minutes, and leads to the doctor", { withoutScripts: true }, async (visitor) => {
  await visitor.open("/console/engine");
  assert.equal(await visitor.page.getByRole("figure").count(), 3);
  await visitor.follow("Ask the doctor");
  await visitor.heading("Doctor");
  const checks = await visitor.page.getByRole("rowheader").allTextContents();
  for (const check of ["connection", "schema", "durability"]) assert.ok(checks.includes(check), `${check} among ${checks}`);
});
