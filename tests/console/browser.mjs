// A page in the browser that the environment names, and what it wrote on its console.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const { BROWSER, PROGRAM, MODULES } = process.env;
const puppeteer = createRequire(`${MODULES}/`)("puppeteer-core");
const axe = readFileSync(`${MODULES}/axe-core/axe.min.js`, "utf8");

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export async function open(url, width, height = 900) {
  const args = BROWSER === "chromium" ? ["--no-sandbox"] : [];
  const browser = await puppeteer.launch({ browser: BROWSER === "firefox" ? "firefox" : "chrome", executablePath: PROGRAM, headless: true, args });
  const page = await browser.newPage();
  const messages = [];
  page.on("console", (message) => { if (["error", "warn", "warning"].includes(message.type())) messages.push(message.text()); });
  page.on("pageerror", (problem) => messages.push(String(problem)));
  await page.setViewport({ width, height });
  await page.goto(url, { waitUntil: "domcontentloaded" });
  await page.waitForSelector("nav a", { timeout: 20000 });
  return { browser, page, messages };
}

export async function show(page, view) {
  await page.evaluate((name) => { location.hash = name; }, view);
  await page.waitForFunction((name) => document.querySelector("nav a[aria-current]")?.hash === `#${name}`, { timeout: 10000 }, view);
  await pause(1500);
}

// What axe-core has against the page: rule, and where.
export async function violations(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => (await globalThis.axe.run(document, { resultTypes: ["violations"] })).violations
    .map((each) => `${each.id}: ${each.nodes.slice(0, 3).map((node) => node.target.join(" ") + " " + (node.failureSummary || "").split("\n").slice(-1)[0].slice(0, 160)).join("; ")}`));
  return found;
}

export const width = (page) => page.evaluate(() => document.documentElement.scrollWidth);
