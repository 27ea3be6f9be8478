// The timeline.

import assert from "node:assert/strict";
import { flow } from "../browser.js";

const reading = { withoutScripts: true };
const GUILD = { "Space with all below it": "discord-greenhouse" };
const newestFirst = (one, other) => other.createdAt - one.createdAt;
/** The spaces of messages in the second column, which are all different. */
const spaces = (messages) => messages.map(({ spaceId }) => spaceId);

/** Opens the timeline, and narrows it by the form. */
async function narrowed(visitor, fields) {
  await visitor.open("/console/memories");
  await visitor.send(fields, "Show");
  return visitor.column(2);
}

flow("a timeline is walked to its end", reading, async (visitor, { rooms }) => {
  const walked = await narrowed(visitor, { "Space with all below it": "rooms", Order: "Oldest first" });
  await visitor.follow("Next page");
  walked.push(...(await visitor.column(2)));
  assert.deepEqual(walked, spaces(rooms));
  assert.equal(await visitor.page.getByRole("link", { name: "Next page" }).count(), 0);
  assert.equal(await visitor.page.getByLabel("Order").inputValue(), "oldest");
  await visitor.follow("First page");
  assert.equal((await visitor.column(2))[0], rooms[0].spaceId);
});

flow("a timeline is narrowed by a status", reading, async (visitor, { messages }) => {
  const failed = messages.filter(({ status }) => status === "failed").sort(newestFirst);
  assert.deepEqual(await narrowed(visitor, { ...GUILD, Status: "failed" }), spaces(failed));
  assert.deepEqual([...new Set(await visitor.column(3))], ["failed"]);
});

flow("a timeline is narrowed by a condition", reading, async (visitor, { messages }) => {
  const filter = { "Condition, as in metadata.topic = 'rust'": "metadata.topic = 'birthday' AND metadata.message > 60" };
  const birthdays = messages.filter(({ metadata: { topic, message } }) => topic === "birthday" && message > 60);
  assert.deepEqual(await narrowed(visitor, filter), spaces(birthdays.sort(newestFirst)));
});

flow("a timeline is narrowed by a time", reading, async (visitor, { messages }) => {
  const [from, before] = ["2026-11-20T12:00", "2026-11-22"];
  const within = messages.filter(({ createdAt }) => createdAt >= Date.parse(`${from}Z`) && createdAt < Date.parse(`${before}T00:00Z`));
  const found = await narrowed(visitor, { ...GUILD, "From (UTC)": from, "Before (UTC)": before });
  assert.ok(found.length > 3);
  assert.deepEqual(found, spaces(within.sort(newestFirst)));
});

flow("a timeline is narrowed by words", reading, async (visitor, { messages }) => {
  const cats = messages.filter(({ trigger }) => /\bcat\b/.test(trigger.text)).sort(newestFirst);
  assert.deepEqual(await narrowed(visitor, { ...GUILD, "One of these words": "CAT" }), spaces(cats));
});

flow("a timeline is narrowed to one space", reading, async (visitor, { messages }) => {
  const { spaceId, trigger } = messages[17];
  assert.deepEqual(await narrowed(visitor, { Space: spaceId }), [spaceId]);
  await visitor.says(trigger.text.slice(0, 40));
  assert.deepEqual(await narrowed(visitor, { Space: "nowhere" }), []);
  await visitor.says("No memories on this page.");
});

flow("a space in the timeline leads to what lies in it", reading, async (visitor, { messages }) => {
  const { spaceId } = messages.at(-2);
  await narrowed(visitor, { ...GUILD, Status: "pending" });
  await visitor.follow(spaceId);
  assert.equal(await visitor.page.getByLabel("Space", { exact: true }).inputValue(), spaceId);
  assert.deepEqual(await visitor.column(2), [spaceId]);
});

flow("the address of a timeline shows the same to others", reading, async (visitor) => {
  const found = await narrowed(visitor, { ...GUILD, Status: "completed", "One of these words": "canoe" });
  await visitor.follow(found[0]);
  await visitor.page.goBack();
  assert.deepEqual(await visitor.column(2), found);
  await visitor.page.reload();
  assert.deepEqual(await visitor.column(2), found);
  assert.equal(await visitor.page.getByLabel("Status").inputValue(), "completed");
});

flow("spaces are named by a pattern, in fields that open", reading, async (visitor) => {
  await visitor.open("/console/memories");
  const glob = visitor.page.getByLabel("Space as a pattern of *, ? and [a-z]", { exact: true });
  assert.equal(await glob.isVisible(), false);
  await visitor.page.getByText("Other ways to name spaces", { exact: true }).click();
  await visitor.send({ "Space as a pattern of *, ? and [a-z]": "discord-*-ben-m?" }, "Show");
  const spaces = await visitor.column(2);
  assert.ok(spaces.length > 0 && spaces.every((space) => /^discord-.*-ben-m.$/.test(space)), spaces);
  assert.equal(await glob.isVisible(), true);
  assert.equal(await glob.inputValue(), "discord-*-ben-m?");
});

flow("a memory leads to what it answers, and to its run", reading, async (visitor, { answered }) => {
  await visitor.open(`/console/memory/${answered}`);
  assert.equal(await visitor.page.locator("ol.chain > li").count(), 20);
  await visitor.follow("Next page");
  assert.equal(await visitor.page.locator("ol.chain > li").count(), 3);
  await visitor.follow("Memories of this run in this space");
  assert.equal((await visitor.column(4)).length, 2);
});
