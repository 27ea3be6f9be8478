// Changes by a user, on a server with --console-write. The open server of the other flows only reads.

import assert from "node:assert/strict";
import { flow } from "../browser.js";
import { rest, writable } from "../servers.js";

/** All of this works by forms. */
const changing = { server: writable, withoutScripts: true };
const REASON = "Why (this stays, so name nobody who is to be forgotten)";

async function store(space, text) {
  return (await rest("POST", "/v1/memories", { spaceId: space, trigger: { text }, metadata: { topic: "draft" }, createdAt: 20 })).id;
}

const get = (id) => fetch(`${writable}/v1/memories/${id}`);

flow("a server that only reads has nothing to change", {}, async (visitor, { changed }) => {
  for (const path of [`/console/memory/${changed}`, "/console/memories?under=rooms", "/console/document?collection=notes&id=people/ana"]) {
    await visitor.open(path);
    assert.equal(await visitor.page.getByRole("link", { name: /^(Edit|Erase|Remove)/ }).count(), 0);
    assert.equal(await visitor.page.locator("main form[method=post]").count(), 0);
  }
  await visitor.open(`/console/change/memory/${changed}`, 404);
});

flow("a memory is edited, and an earlier version is put back", changing, async (visitor) => {
  const id = await store("changes-edit", "a draft");
  await visitor.open(`/console/memory/${id}`);
  await visitor.follow("Edit");
  await visitor.isAccessible();
  await visitor.send({ Status: "completed", "Metadata, as a JSON object": '{"topic":"final"}' }, "Save");
  await visitor.heading("Memory");
  await visitor.says('"topic": "final"');
  await visitor.send({}, "Put revision 1 back");
  await visitor.says('"topic": "draft"');
  assert.equal((await (await get(id)).json()).status, "pending");
});

flow("what can't be saved stays in its field", changing, async (visitor) => {
  const id = await store("changes-wrong", "a draft");
  const path = `/console/change/memory/${id}`;
  await visitor.open(path);
  visitor.expectFailureAt(path);
  await visitor.send({ "Metadata, as a JSON object": "{topic" }, "Save");
  await visitor.alert();
  assert.equal(await visitor.page.getByLabel("Metadata, as a JSON object").inputValue(), "{topic");
  await visitor.isAccessible();
});

flow("who edits what has changed meanwhile is told, and loses nothing", changing, async (visitor) => {
  const id = await store("changes-conflict", "a draft");
  const path = `/console/change/memory/${id}`;
  await visitor.open(path);
  await rest("PATCH", `/v1/memories/${id}`, { status: "running" });
  visitor.expectFailureAt(path);
  await visitor.send({ "Metadata, as a JSON object": '{"topic":"mine"}' }, "Save");
  await visitor.alert();
  assert.ok((await visitor.page.content()).includes("mine"));
  assert.equal((await (await get(id)).json()).metadata.topic, "draft");
});

flow("a memory is erased behind a question that says what goes", changing, async (visitor) => {
  const id = await store("changes-erase", "to be forgotten");
  await visitor.open(`/console/memory/${id}`);
  await visitor.follow("Erase");
  await visitor.says("to be forgotten");
  await visitor.says("1 version");
  await visitor.isAccessible();
  await visitor.follow("Back, without a change");
  assert.equal((await get(id)).status, 200);
  await visitor.follow("Erase");
  await visitor.send({ [REASON]: "request 17" }, "Erase 1 memory");
  await visitor.isSilentAbout("to be forgotten");
  assert.notEqual((await get(id)).status, 200);
});

flow("a selection goes behind a question that names the count", changing, async (visitor) => {
  for (const place of [1, 2, 3]) await store(`changes-many-${place}`, `one of several, ${place}`);
  await visitor.open("/console/memories?under=changes-many");
  await visitor.follow("Erase these memories");
  await visitor.says("3 memories");
  await visitor.isAccessible();
  await visitor.fits(320);
  await visitor.send({ [REASON]: "request 18" }, "Erase 3 memories");
  await visitor.says("3 memories were erased.");
  await visitor.open("/console/memories?under=changes-many");
  await visitor.says("No memories on this page.");
});

flow("who has seen less than is there erases nothing", changing, async (visitor) => {
  // A place of its own each time.
  const place = `changes-more-${Date.now()}`;
  const first = await store(`${place}-1`, "seen");
  await visitor.open(`/console/change/memories?under=${place}`);
  await store(`${place}-2`, "not seen");
  visitor.expectFailureAt(`/console/change/memories?under=${place}`);
  await visitor.send({ [REASON]: "request 19" }, "Erase 1 memory");
  await visitor.alert();
  assert.equal((await get(first)).status, 200);
});

flow("everything is never erased at once", changing, async (visitor) => {
  await visitor.open("/console/memories");
  assert.equal(await visitor.page.getByRole("link", { name: "Erase these memories" }).count(), 0);
});
