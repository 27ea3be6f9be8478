// Signing in, and what a token sees.

import assert from "node:assert/strict";
import { flow } from "../browser.js";
import { closed, tokens } from "../servers.js";

const guarded = { server: closed, withoutScripts: true };

async function signIn(visitor, token) {
  await visitor.open("/console/login");
  await visitor.send({ Token: token }, "Sign in");
}

flow("a page behind the door leads to the login", guarded, async (visitor, { changed }) => {
  for (const path of ["/", `/console/memory/${changed}`, "/console/recall?text=canoe", "/console/nothing"]) {
    await visitor.open(path);
    assert.equal(new URL(visitor.page.url()).pathname, "/console/login");
    await visitor.heading("Sign in");
    await visitor.isSilentAbout("greenhouse");
  }
});

flow("who signs in comes to the page that led to the login", guarded, async (visitor, { changed }) => {
  const path = `/console/memories?under=discord-greenhouse&text=canoe+%26+cat&order=oldest`;
  await visitor.open(path);
  visitor.expectFailureAt("/console/login");
  await visitor.send({ Token: "wrong-0123456789abcdef" }, "Sign in");
  await visitor.send({ Token: tokens.all }, "Sign in");
  const { pathname, search } = new URL(visitor.page.url());
  assert.equal(pathname + search, path);
  await visitor.open(`/console/login?next=${encodeURIComponent(`//evil.example/console/memory/${changed}`)}`);
  await visitor.send({ Token: tokens.all }, "Sign in");
  assert.equal(new URL(visitor.page.url()).href, `${closed}/`);
});

flow("who signs in is greeted by name, and signs out again", guarded, async (visitor) => {
  await signIn(visitor, tokens.all);
  await visitor.heading("Spaces");
  const banner = visitor.page.getByRole("banner");
  assert.ok((await banner.textContent()).includes("Signed in as runtime"));
  await visitor.open("/console/memories?under=discord-greenhouse");
  assert.ok((await visitor.column(1)).length > 0);
  await banner.getByRole("button", { name: "Sign out" }).click();
  await visitor.page.waitForURL("**/console/login");
  await visitor.open("/console/memories");
  await visitor.heading("Sign in");
  await visitor.page.goBack();
  await visitor.isSilentAbout("discord-greenhouse");
});

flow("a wrong token is told beside the field, and kept nowhere", guarded, async (visitor) => {
  await visitor.open("/console/login");
  visitor.expectFailureAt("/console/login");
  await visitor.send({ Token: "wrong-0123456789abcdef" }, "Sign in");
  assert.equal(await visitor.alert(), "This token is not valid.");
  await visitor.isSilentAbout("wrong-0123456789abcdef");
  assert.deepEqual(await visitor.page.context().cookies(), []);
  await visitor.isAccessible();
});

flow("the pass of a browser is out of reach of scripts, and is no token", guarded, async (visitor) => {
  await signIn(visitor, tokens.all);
  const [cookie, ...others] = await visitor.page.context().cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, others.length], [true, "Strict", 0]);
  assert.ok(!cookie.value.includes(tokens.all));
  const answer = await visitor.page.context().request.get(`${closed}/v1/memories?all=true`);
  assert.equal(answer.status(), 401);
});

flow("a token sees its own spaces", guarded, async (visitor, ledger) => {
  await signIn(visitor, tokens.some);
  await visitor.says("guild1");
  for (const path of ["/", "/?under=guild1", "/console/memories", "/console/recall?text=others+model", "/console/documents?collection=notes"]) {
    await visitor.open(path);
    for (const other of ["discord", "guild1-other", "for others", "agent-ada"]) await visitor.isSilentAbout(other);
  }
  await visitor.open("/console/memories");
  assert.deepEqual(await visitor.column(2), ["guild1-model-a"]);
  await visitor.open(`/console/memory/${ledger.private}`, 404);
  await visitor.isSilentAbout("kept from the model");
  await visitor.open("/console/documents?collection=journal", 403);
  await visitor.open("/console/document?collection=notes&id=people/ana", 404);
});
