// A page whose run is ended (arguments: address, process): what it says then, what it goes on to show, and what it answers.

import { open, show } from "./browser.mjs";

const { browser, page, messages } = await open(process.argv[2], 1400);
const told = { messages };
try {
  await show(page, "streams");
  await page.waitForFunction(() => parseInt(document.querySelector(".tiles small").textContent, 10) > 0, { timeout: 60000 });
  process.kill(Number(process.argv[3]), "SIGINT");
  await page.waitForFunction(() => document.getElementById("notice").className === "last", { timeout: 60000 });
  told.notice = await page.evaluate(() => document.getElementById("notice").textContent);
  told.faded = await page.evaluate(() => document.body.classList.contains("stale"));
  told.published = await page.evaluate(() => document.querySelector(".tiles small").textContent);
  await show(page, "plan");
  told.planned = await page.evaluate(() => document.querySelector(".plan .problem").textContent);
} finally {
  await browser.close();
}
console.log(JSON.stringify(told));
