// Pictures of views: arguments are the address, then VIEW:WIDTH:HEIGHT:SCHEME:FILE for each.

import { open, pause, show } from "./browser.mjs";

const [, , url, ...wanted] = process.argv;
const { browser, page, messages } = await open(url, 1400);
for (const each of wanted) {
  const [view, width, height, scheme, file, chosen] = each.split(":");
  await page.setViewport({ width: Number(width), height: Number(height) });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await show(page, view);
  if (chosen) await page.evaluate((key) => document.querySelector(`[data-key="${key}"]`).dispatchEvent(new MouseEvent("click", { bubbles: true })), chosen);
  await pause(2500);
  await page.screenshot({ path: file });
}
await browser.close();
console.log(JSON.stringify(messages));
