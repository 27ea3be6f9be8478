// A memory and its versions.

import assert from "node:assert/strict";
import { flow } from "../browser.js";

const reading = { withoutScripts: true };
const version = (visitor, revision) =>
  visitor.page.locator("section.version").filter({ has: visitor.page.getByRole("heading", { name: `Revision ${revision}`, exact: true }) });

flow("a memory is found in the timeline, and shown with all it has", reading, async (visitor, { changed }) => {
  await visitor.open("/console/memories?under=discord-greenhouse-garden");
  await visitor.page.locator(`a[href="/console/memory/${changed}"]`).click();
  await visitor.page.waitForURL(`**/console/memory/${changed}`);
  for (const text of [changed, "discord-greenhouse-garden-ana-m200", "completed", "discord:1203", "Which of us has the key", '"answered": true']) {
    await visitor.says(text);
  }
});

flow("the versions of a memory stand side by side, and what changed is marked", reading, async (visitor, { changed }) => {
  await visitor.open(`/console/memory/${changed}`);
  const headings = await visitor.page.getByRole("heading", { level: 3 }).allTextContents();
  assert.deepEqual(headings, [5, 4, 3, 2, 1].map((revision) => `Revision ${revision}`));
  const latest = version(visitor, 5);
  assert.deepEqual(await latest.getByRole("columnheader").allTextContents(), ["What changed", "Revision 4", "Revision 5"]);
  assert.deepEqual(await latest.locator("del mark").allTextContents(), ["Ben has it since Tues", "2"]);
  assert.deepEqual(await latest.locator("ins mark").allTextContents(), ["Chloe has it since Fri", "3"]);
  const merged = version(visitor, 4);
  assert.deepEqual(await merged.getByRole("rowheader").allTextContents(), ["Metadata"]);
  assert.ok((await merged.locator("ins").allTextContents()).join().includes('"answered": true'));
  assert.ok(!(await merged.locator("ins").allTextContents()).join().includes('"asked"'), "what stays is not marked");
  const box = (locator) => locator.first().boundingBox();
  const [before, after] = [await box(latest.locator("del")), await box(latest.locator("ins"))];
  assert.ok(before.x + before.width <= after.x && Math.abs(before.y - after.y) < 5, "they are side by side");
});

flow("a mark is no matter of colour alone", {}, async (visitor, { changed }) => {
  await visitor.open(`/console/memory/${changed}`);
  const line = (selector) => visitor.page.locator(selector).first().evaluate((element) => getComputedStyle(element).textDecorationLine);
  assert.deepEqual([await line("del"), await line("ins")], ["line-through", "underline"]);
});

flow("a long history has pages", reading, async (visitor, { edited }) => {
  await visitor.open(`/console/memory/${edited}`);
  assert.equal(await visitor.page.locator("section.version").count(), 10);
  await visitor.follow("Next page");
  assert.equal(await visitor.page.locator("section.version").count(), 4);
  await visitor.says("The first version that is shown.");
  await visitor.follow("First page");
  await visitor.says("Revision 14");
});
