// Recall, and why it finds what it finds.

import assert from "node:assert/strict";
import { flow } from "../browser.js";

const reading = { withoutScripts: true };
const hits = (visitor) => visitor.page.locator("ol.hits").first().locator(":scope > li");

flow("a question is answered with the parts of each score", reading, async (visitor) => {
  await visitor.open("/console/recall");
  assert.equal(await visitor.page.getByRole("heading", { name: "Hits" }).count(), 0);
  await visitor.send({ Question: "Who has a canoe with a leak?", "Space with all below it": "discord-greenhouse", Hits: "3" }, "Ask");
  assert.equal(await hits(visitor).count(), 3);
  await visitor.says("All of the scope was looked at.");
  assert.ok((await hits(visitor).first().textContent()).includes("The canoe has a leak"));
  const parts = await hits(visitor).first().getByRole("rowheader").allTextContents();
  assert.deepEqual(parts, ["Words", "Neighbours", "Container", "Meaning", "Question", "Speaker"]);
});

flow("the bars are as long as the parts that they stand for", reading, async (visitor) => {
  await visitor.open("/console/recall?text=canoe+leak&under=discord-greenhouse&limit=5");
  const drawn = await visitor.page.locator(".parts tbody tr").evaluateAll((rows) =>
    rows.map((row) => ({
      score: Math.abs(Number(row.querySelector(".number").textContent)),
      width: row.querySelector("rect").getBoundingClientRect().width,
    })),
  );
  const greatest = drawn.reduce((one, other) => (other.score > one.score ? other : one));
  assert.ok(greatest.width > 100, `the longest bar is seen: ${greatest.width}`);
  for (const { score, width } of drawn) {
    assert.ok(Math.abs(width - (greatest.width * score) / greatest.score) < 1, `${width} for ${score}`);
  }
});

flow("what came just below the hits is shown behind them", reading, async (visitor) => {
  await visitor.open("/console/recall?text=canoe&under=discord-greenhouse&limit=2");
  await visitor.says("Just below");
  const below = visitor.page.locator("ol.hits").nth(1);
  assert.equal(await below.getAttribute("start"), "3");
  assert.equal(await below.locator(":scope > li").count(), 3);
  const scores = (await visitor.page.locator("ol.hits > li > p > strong").allTextContents()).map(Number);
  assert.deepEqual(scores, scores.toSorted((one, other) => other - one));
});

flow("a hit leads to its memory, and has its neighbours beside it", reading, async (visitor) => {
  await visitor.open("/console/recall?text=leak+canoe&under=discord-greenhouse&limit=1&neighbours=2");
  assert.ok((await visitor.page.locator(".neighbours li").count()) > 0);
  await hits(visitor).first().getByRole("link").first().click();
  await visitor.page.waitForURL("**/console/memory/*");
  await visitor.says("The canoe has a leak");
});

flow("documents are asked by their collection", reading, async (visitor) => {
  await visitor.open("/console/recall");
  await visitor.send({ Question: "Who is allergic?", "Collection of documents, instead of the ledger": "notes" }, "Ask");
  await hits(visitor).first().getByRole("link").first().click();
  await visitor.page.waitForURL("**/console/document?*");
  await visitor.says("Chloe is allergic to nuts.");
});

flow("a model finds what is meant, and words alone do not", reading, async (visitor) => {
  const fields = { Question: "kitten", "Space with all below it": "discord-greenhouse" };
  await visitor.open("/console/recall");
  await visitor.send({ ...fields, "Asked by": "Words and meaning" }, "Ask");
  assert.ok((await hits(visitor).first().textContent()).includes("cat"));
  await visitor.send({ "Asked by": "Words alone" }, "Ask");
  await visitor.says("Asked by words alone.");
  await visitor.says("Nothing answers.");
});

flow("the divisors of the scores open by a click", reading, async (visitor) => {
  await visitor.open("/console/recall?text=canoe");
  const divisors = visitor.page.getByText("Terms of a record on average");
  assert.ok(!(await divisors.isVisible()));
  await visitor.page.getByText("By what the parts are divided").click();
  assert.ok(await divisors.isVisible());
});
