// A flow: one visitor with a browser of their own, who must be told of no error.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import axe from "axe-core";
import { chromium } from "playwright-core";
import { seed } from "./seed.js";
import { open } from "./servers.js";

/** Well above what any step takes. */
const PATIENCE = 30_000;

let browser;
let seeded;

before(async () => {
  browser = await chromium.launch({ executablePath: process.env.MEMORY_CONSOLE_BROWSER });
});

after(() => browser.close());

/**
 * Registers a flow. `body` gets the visitor, and the seed of the ledger unless `isSeeded` is false.
 *
 * @param {string} name what the flow shows
 * @param {object} options `server`: its address. `withoutScripts`: whether the flow runs a second time in a browser that runs none.
 * `isSeeded`: whether the ledger must be filled before. Others are those of a context of Playwright.
 */
export function flow(name, options, body) {
  const { withoutScripts = false, ...rest } = options;
  test(name, () => visit(rest, body));
  if (withoutScripts) test(`${name}, without scripts`, () => visit({ ...rest, javaScriptEnabled: false }, body));
}

async function visit({ server = open, isSeeded = true, ...options }, body) {
  if (isSeeded) seeded ??= seed();
  const ledger = isSeeded ? await seeded : undefined;
  const context = await browser.newContext({ baseURL: server, viewport: { width: 1200, height: 800 }, ...options });
  try {
    context.setDefaultTimeout(PATIENCE);
    const visitor = new Visitor(await context.newPage(), server, options.javaScriptEnabled ?? true);
    await body(visitor, ledger);
    assert.deepEqual(visitor.problems, []);
  } finally {
    await context.close();
  }
}

/** A visitor of the console. */
class Visitor {
  /** Errors that must not have happened. */
  problems = [];
  #server;
  /** Addresses for which the flow expects an error. */
  #failing = new Set();
  #runsScripts;

  constructor(page, server, runsScripts) {
    this.page = page;
    this.#server = server;
    this.#runsScripts = runsScripts;
    page.on("console", (message) => this.#hear(message));
    page.on("pageerror", (error) => this.problems.push(`an error of a script: ${error.message}`));
    page.on("dialog", (dialog) => {
      this.problems.push(`a dialog: ${dialog.message()}`);
      return dialog.dismiss();
    });
    page.on("request", (request) => {
      const isOwn = request.url().startsWith(`${server}/`) || request.url().startsWith("data:");
      if (!isOwn) this.problems.push(`a request to another host: ${request.url()}`);
    });
  }

  // A browser reports what the policy refuses as an error, and the failure that a page is about. So does the script of what it has asked for.
  #hear(message) {
    if (message.type() !== "error" && message.type() !== "warning") return;
    const { url } = message.location();
    const path = message.text().match(/^Response Status Error Code \d+ from ([^\s,]+)/)?.[1];
    const isFailure = path !== undefined || message.text().startsWith("Failed to load resource");
    const failed = path === undefined ? url : new URL(path, this.#server).href;
    if (!isFailure || !this.#failing.has(failed)) this.problems.push(`on the console: ${message.text()} (${url})`);
  }

  /** Opens a page, which must have this status. */
  async open(path, status = 200) {
    if (status >= 400) this.#failing.add(new URL(path, this.#server).href);
    const response = await this.page.goto(path);
    assert.equal(response.status(), status, path);
  }

  /** Allows an error at this address from now on. */
  expectFailureAt(path) {
    this.#failing.add(new URL(path, this.#server).href);
  }

  /** Follows a link by its text, and waits for the page. */
  async follow(name, within = this.page.locator("main")) {
    await this.#leave(() => within.getByRole("link", { name, exact: true }).first().click());
  }

  /** Fills in fields by their labels, and sends the form. */
  async send(fields, button) {
    for (const [label, value] of Object.entries(fields)) {
      const field = this.page.getByLabel(label, { exact: true });
      const isChoice = await field.evaluate((element) => element.tagName === "SELECT");
      await (isChoice ? field.selectOption({ label: value }) : field.fill(value));
    }
    await this.#leave(() => this.page.getByRole("button", { name: button, exact: true }).click());
  }

  async press(key) {
    await this.#leave(() => this.page.keyboard.press(key));
  }

  async #leave(action) {
    // The event `load` may still be that of the page which is left.
    const isLeft = this.page.waitForEvent("framenavigated", (frame) => frame === this.page.mainFrame());
    await Promise.all([isLeft, action()]);
    await this.page.waitForLoadState();
  }

  async heading(text) {
    assert.equal(await this.page.getByRole("heading", { level: 1 }).textContent(), text);
  }

  async says(text) {
    const main = await this.page.locator("main").textContent();
    assert.ok(main.includes(text), `${text} is not on the page: ${main.slice(0, 2_000)}`);
  }

  async isSilentAbout(text) {
    const content = await this.page.content();
    assert.ok(!content.includes(text), `${text} is on the page`);
  }

  /** The error message of the page. */
  async alert() {
    return this.page.getByRole("alert").textContent();
  }

  /** The texts of a column of the only table, by its position. */
  async column(place) {
    return this.page.locator(`tbody tr > :nth-child(${place})`).allTextContents();
  }

  /** Checks a page by the rules of axe, which are a script. The dark theme differs in colours only: there it checks the contrast alone. */
  async isAccessible() {
    if (!this.#runsScripts) return;
    for (const [colorScheme, options, least] of [
      ["light", {}, 10],
      ["dark", { runOnly: ["color-contrast"] }, 1],
    ]) {
      await this.page.emulateMedia({ colorScheme });
      // The policy of the pages lets no other script in, but the tools of a browser may evaluate one.
      await this.page.evaluate(`if (!window.axe) { ${axe.source} }`);
      const { violations, passes } = await this.page.evaluate(`axe.run(document, ${JSON.stringify(options)})`);
      const found = violations.map(({ id, help, nodes }) => ({ id, help, nodes: nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`) }));
      assert.deepEqual(found, [], `${this.page.url()}, ${colorScheme}`);
      assert.ok(passes.length >= least, "axe has looked at something");
    }
  }

  /** No part of the page is outside of a narrow screen, unless it scrolls by itself. */
  async fits(width) {
    await this.page.setViewportSize({ width, height: 640 });
    const [inner, scroll] = await this.page.evaluate("[document.documentElement.clientWidth, document.documentElement.scrollWidth]");
    assert.ok(scroll <= inner, `${this.page.url()} is ${scroll} pixels wide on a screen of ${inner}`);
  }
}
