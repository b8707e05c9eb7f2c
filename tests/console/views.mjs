// Every view at 1400 and 400 pixels: errors, what sticks out, what axe-core has against it, and that it does its work.

import { open, pause, show, violations, width } from "./browser.mjs";

const { browser, page, messages } = await open(process.argv[2], 1400);
const told = { messages, violations: {}, widths: {}, did: {} };
try {
  for (const view of ["map", "streams", "ask", "try", "plan"]) {
    await show(page, view);
    told.violations[view] = await violations(page);
    told.widths[view] = [await width(page)];
  }
  await show(page, "streams");
  told.did.lamps = await page.evaluate(() => document.querySelectorAll(".lamp").length);
  told.did.delivered = await page.evaluate(() => document.querySelector(".tiles .tile:nth-child(2) b").textContent);

  await show(page, "ask");
  await page.type("textarea[name=condition]", "price > 100");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".verdict", { timeout: 10000 });
  told.did.asked = await page.evaluate(() => document.querySelector(".verdict").textContent);

  await show(page, "try");
  await page.evaluate(() => document.querySelectorAll("form")[0].requestSubmit());
  await page.waitForFunction(() => document.querySelectorAll("[aria-label=Arrivals] li").length > 0, { timeout: 30000 });
  told.did.arrived = await page.evaluate(() => document.querySelectorAll("[aria-label=Arrivals] li").length > 0);

  await show(page, "plan");
  await page.waitForSelector(".plan table input", { timeout: 30000 });
  await page.evaluate(() => {
    const input = document.querySelector(".plan table input");
    input.value = "0.9";
    input.dispatchEvent(new Event("input", { bubbles: true }));
    document.querySelector("form.plan").requestSubmit();
  });
  await page.waitForSelector(".worse", { timeout: 30000 });
  told.did.planned = await page.evaluate(() => document.querySelector(".verdict").textContent);

  await show(page, "map");
  const colour = () => page.evaluate(() => document.querySelector(".broker.down") ? "down" : [...document.querySelectorAll("[data-key^='broker/hub+'] .broker.up")].length ? "replaced" : "up");
  told.did.before = await colour();
  await page.evaluate(() => document.querySelector("[data-key='broker/hub']").focus());
  await page.keyboard.press("Enter");
  await page.waitForSelector(".side .danger", { timeout: 10000 });
  await page.evaluate(() => document.querySelector(".side .danger").click());
  await page.waitForSelector(".broker.down", { timeout: 10000 });
  told.did.killed = await colour();
  await page.waitForFunction(() => !document.querySelector(".broker.down") && document.querySelector("[data-key^='broker/hub+'] .broker.up"), { timeout: 60000 });
  told.did.healed = await colour();

  await page.setViewport({ width: 400, height: 800 });
  for (const view of ["map", "streams", "ask", "try", "plan"]) {
    await show(page, view);
    told.widths[view].push(await width(page));
  }
  told.violations.narrow = await violations(page);
  await pause(200);
} finally {
  await browser.close();
}
console.log(JSON.stringify(told));
