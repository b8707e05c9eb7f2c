// Many brokers: how long updates block the page, and whether it grows.

import { open, pause } from "./browser.mjs";

const { browser, page, messages } = await open(process.argv[2], 1400);
await page.waitForSelector("[data-key^='broker/']");
await page.evaluate(() => {
  globalThis.blocked = [];
  new PerformanceObserver((list) => globalThis.blocked.push(...list.getEntries().map((each) => each.duration))).observe({ entryTypes: ["longtask"] });
});
const size = () => page.evaluate(() => document.querySelectorAll("*").length);
const before = await size();
await pause(8000);
const told = await page.evaluate(() => ({
  blocked: Math.max(0, ...globalThis.blocked),
  brokers: document.querySelectorAll("[data-key^='broker/']").length,
  named: document.querySelector("[data-key='broker/b7'] .name").textContent,
}));
console.log(JSON.stringify({ ...told, messages, grown: (await size()) - before }));
await browser.close();
