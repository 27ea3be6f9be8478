// What is wrong, told where it is.

import assert from "node:assert/strict";
import { flow } from "../browser.js";
import { without } from "../servers.js";

const reading = { withoutScripts: true };

for (const [what, path, label, value, said] of [
  ["a condition", "/console/memories?filter=metadata.a+%3D", "Condition, as in metadata.topic = 'rust'", "metadata.a =", /./],
  ["a time", "/console/memories?since=tomorrow", "From (UTC)", "tomorrow", /from is no time/],
  ["a condition on documents", "/console/documents?collection=notes&filter=%28", "Condition, as in metadata.topic = 'rust'", "(", /./],
  ["a number", "/console/recall?text=x&limit=51", "Hits", "51", /hits is no number from 0 to 50/],
  ["a collection", "/console/recall?text=x&collection=A+B", "Collection of documents, instead of the ledger", "A B", /collection/],
]) {
  flow(`${what} that can't be understood stays in its field`, reading, async (visitor) => {
    await visitor.open(path, 422);
    assert.match(await visitor.alert(), said);
    assert.equal(await visitor.page.getByLabel(label, { exact: true }).inputValue(), value);
    await visitor.isAccessible();
  });
}

flow("a mistake in a form is mended there", reading, async (visitor) => {
  await visitor.open("/console/memories");
  const condition = "Condition, as in metadata.topic = 'rust'";
  visitor.expectFailureAt("/console/memories?space=&under=rooms&prefix=&glob=&regex=&text=&filter=metadata.topic&status=&since=&until=&order=");
  await visitor.send({ "Space with all below it": "rooms", [condition]: "metadata.topic" }, "Show");
  await visitor.alert();
  await visitor.send({ [condition]: "metadata.topic = 'inventory'" }, "Show");
  assert.equal(await visitor.page.getByRole("alert").count(), 0);
  assert.equal((await visitor.column(2)).length, 50);
});

flow("a number out of its range is refused before it is sent", {}, async (visitor) => {
  await visitor.open("/console/recall");
  await visitor.page.getByLabel("Question").fill("canoe");
  await visitor.page.getByLabel("Hits", { exact: true }).fill("51");
  await visitor.page.getByRole("button", { name: "Ask" }).click();
  const isValid = await visitor.page.getByLabel("Hits", { exact: true }).evaluate((field) => field.validity.valid);
  assert.deepEqual([isValid, new URL(visitor.page.url()).search], [false, ""]);
});

flow("unknown pages and records are told as a page", reading, async (visitor) => {
  for (const [path, status] of [
    ["/console/nothing", 404],
    ["/console/memory/00000000-0000-7000-8000-000000000000", 404],
    ["/console/memory/x", 422],
    ["/console/document?collection=notes&id=nobody", 404],
    ["/console/memories?colour=red", 400],
  ]) {
    await visitor.open(path, status);
    assert.notEqual(await visitor.alert(), "");
    await visitor.isAccessible();
    await visitor.follow("Memories", visitor.page.getByRole("navigation", { name: "Console" }));
    await visitor.heading("Memories");
  }
});

flow("a server without a console has no pages", { server: without }, async (visitor) => {
  // A browser asks for it where no page names another.
  visitor.expectFailureAt("/favicon.ico");
  for (const path of ["/", "/console/memories", "/console/login", "/console/style.css"]) {
    await visitor.open(path, 404);
    assert.equal(await visitor.page.locator("main").count(), 0);
  }
});
