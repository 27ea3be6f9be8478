// What somebody has stored to deceive who looks at it.

import assert from "node:assert/strict";
import { flow } from "../browser.js";
import { BIDI, HOSTILE } from "../seed.js";

const reading = { withoutScripts: true };
const encoded = encodeURIComponent(HOSTILE);

/** Checks that no markup of the hostile text became an element: a listener fails the flow if a script runs. */
async function isText(visitor) {
  const elements = await visitor.page.locator("body script, body img, main b, body style, body iframe, body object, [onerror]").count();
  assert.equal(elements, 0, visitor.page.url());
  const text = (await visitor.page.locator("main").textContent()) + (await visitor.page.locator("main input").evaluateAll((fields) => fields.map(({ value }) => value).join()));
  // Behind it there may be the end of a space, since a slash is a boundary, or a quote that JSON escapes.
  assert.ok(text.includes("<script>alert(1)<"), visitor.page.url());
}

flow("markup shows as text, wherever it was stored", reading, async (visitor, { hostile }) => {
  for (const path of [
    "/?under=hostile",
    "/console/memories?under=hostile",
    `/console/memories?space=hostile-${encoded}`,
    `/console/memory/${hostile}`,
    "/console/documents?collection=hostile",
    `/console/document?collection=hostile&id=${encoded}`,
    "/console/recall?text=script+alert&under=hostile",
    "/console/recall?text=script+alert&collection=hostile",
  ]) {
    await visitor.open(path);
    await isText(visitor);
    await visitor.isAccessible();
  }
});

flow("markup shows as text, wherever it was typed", reading, async (visitor) => {
  for (const [path, status] of [
    [`/?under=${encoded}`, 200],
    [`/console/memories?text=${encoded}&space=${encoded}`, 200],
    [`/console/memories?filter=${encoded}`, 422],
    [`/console/memories?since=${encoded}`, 422],
    [`/console/documents?collection=${encoded}`, 413],
    [`/console/recall?text=${encoded}`, 200],
  ]) {
    await visitor.open(path, status);
    await isText(visitor);
  }
});

flow("ten megabytes of one line are cut, and make no page wide", reading, async (visitor, { long }) => {
  for (const path of [
    `/console/memory/${long}`,
    "/console/memories?space=hostile-long",
    "/console/recall?text=xxx&space=hostile-long",
    "/console/documents?collection=hostile&space=hostile-long",
    "/console/document?collection=hostile&id=long",
  ]) {
    await visitor.open(path);
    const bytes = Buffer.byteLength(await visitor.page.content());
    assert.ok(bytes < 100_000, `${path} has ${bytes} bytes`);
    await visitor.fits(320);
  }
  await visitor.open(`/console/memory/${long}`);
  await visitor.says("Cut: the first 10,000 bytes are shown.");
});

flow("a text that turns its direction turns no other", reading, async (visitor, { turned }) => {
  /** The position of a row's label, beside a text or without one. */
  const ends = (locator) => locator.evaluate((element) => {
    const { left, right } = element.getBoundingClientRect();
    return [left, right];
  });
  await visitor.open("/console/memories?space=hostile-bidi");
  const cell = visitor.page.locator("tbody td").nth(2);
  assert.equal(await cell.textContent(), "pending");
  const [, spaceEnd] = await ends(visitor.page.locator("tbody td").nth(1));
  const [statusBegin] = await ends(cell);
  assert.ok(spaceEnd <= statusBegin + 1, "columns keep their order");
  await visitor.open(`/console/memory/${turned}`);
  assert.ok((await visitor.page.locator("pre").first().textContent()).includes("אבג abc"));
// Each of these texts is in an element that isolates it.
  const open = await visitor.page.evaluate((characters) => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) {
      const { data, parentElement } = walker.currentNode;
      const isolate = parentElement.closest("bdi, pre, [dir=auto]");
      const bidi = isolate && getComputedStyle(isolate).unicodeBidi;
      if ([...characters].some((character) => data.includes(character)) && !/isolate|plaintext/.test(bidi ?? "")) found.push(parentElement.outerHTML);
    }
    return found;
  }, BIDI.replace(/[ a-z]/g, ""));
  assert.deepEqual(open, []);
});

flow("the policy refuses what would have come in, and a flow hears of it", {}, async (visitor) => {
  await visitor.open("/");
  await visitor.page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "document.title = 'run'";
    document.body.append(script);
    document.body.insertAdjacentHTML("beforeend", "<img src='http://other.example/x.png'><style>main { display: none }</style>");
  });
  const refused = () => visitor.problems.filter((problem) => problem.includes("Content Security Policy"));
  while (refused().length < 3) await visitor.page.waitForEvent("console");
  assert.notEqual(await visitor.page.title(), "run");
  assert.ok(await visitor.page.locator("main").isVisible());
  visitor.problems.length = 0;
});
