// Plan: change an availability, a link or a lifetime, see what each subscriber would get, keep the file.

import { ask, count, field, h, share } from "./dom.js";
import { bar } from "./charts.js";

const ROWS_MAX = 200;

export function planView() {
  const result = h("section", { class: "card", role: "status" }, h("p", { class: "empty", text: "Change something, and predict." }));
  const form = h("form", { class: "card plan" }, h("p", { class: "empty", text: "The planner is at work…" }));
  const element = h("div", { class: "cards two" }, h("h2", { class: "hidden", text: "Plan" }), form, result);
  ask("/api/ask/planning", {}).then((about) => fill(form, result, about)).catch((problem) => {
    form.replaceChildren(h("p", { class: "problem", text: problem.message }));
  });
  return { element, update() {} };
}

function fill(form, result, about) {
  const changes = { brokers: {}, links: {}, values: {} };
  const note = (place, name, what, before) => (event) => {
    const value = Number(event.target.value);
    place[name] = { ...(place[name] || {}) };
    if (event.target.value === "" || value === before) delete place[name][what];
    else place[name][what] = value;
    if (!Object.keys(place[name]).length) delete place[name];
    event.target.classList.toggle("changed", event.target.value !== "" && value !== before);
  };
  const number = (label, value, most, step, listen) => h("input", { type: "number", value, min: 0, max: most, step, "aria-label": label, oninput: listen });
  const brokers = about.brokers.slice(0, ROWS_MAX).map((each) => h("tr", {}, h("th", { scope: "row", text: each.name }),
    h("td", {}, number(`availability of ${each.name}`, each.availability, 1, "any", note(changes.brokers, each.name, "availability", each.availability)))));
  const links = about.links.slice(0, ROWS_MAX).map((each) => {
    const name = `${each.a}~${each.b}`;
    const cell = (what, most, label) => h("td", {}, number(`${label} of ${each.a} – ${each.b}`, each[what], most, "any", note(changes.links, name, what, each[what])));
    return h("tr", {}, h("th", { scope: "row", text: `${each.a} – ${each.b}` }), cell("loss", 1, "loss"), cell("delay_ms", 60000, "delay in milliseconds"), cell("availability", 1, "availability"));
  });
  const value = (name, options) => {
    const select = h("select", { onchange: () => { if (select.value === (about[name] ?? "")) delete changes.values[name]; else changes.values[name] = select.value; } },
      ...options.map((each) => h("option", { value: each, text: each })));
    select.value = about[name];
    return select;
  };
  const lifetime = h("input", { type: "number", min: 0, step: "any", value: about.lifetime_s ?? "", placeholder: "for ever",
    oninput: () => { if (lifetime.value === "") delete changes.values.lifetime_s; else changes.values.lifetime_s = Number(lifetime.value); } });
  const table = (caption, heads, rows) => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("thead", {}, h("tr", {}, ...heads.map((text) => h("th", { scope: "col", text })))), h("tbody", {}, ...rows)));
  form.replaceChildren(h("h3", { text: `What if, for ${about.name}` }),
    h("div", { class: "row" }, field("Recovery by clients", value("recovery", ["none", "end-to-end"])), field("Brokers", value("hops", ["basic", "nack", "retransmission", "multipath", "hybrid"])), field("Lifetime of events, s", lifetime)),
    h("details", { open: true }, h("summary", { text: `Links (${count(about.links.length)})` }), table("Links", ["link", "loss", "delay, ms", "availability"], links)),
    h("details", {}, h("summary", { text: `Brokers (${count(about.brokers.length)})` }), table("Brokers", ["broker", "availability"], brokers)),
    h("div", { class: "actions" }, h("button", { type: "submit", text: "Predict" })));
  form.onsubmit = async (event) => {
    event.preventDefault();
    try {
      show(result, about, await ask("/api/ask/plan", changes));
    } catch (problem) {
      result.replaceChildren(h("pre", { class: "problem", text: problem.message }));
    }
  };
  show(result, about, { before: about.shares, after: null, file: null });
}

function show(result, about, found) {
  const names = Object.keys(found.before);
  const worst = (shares) => names.length ? Math.min(...names.map((name) => shares[name]?.[1] ?? 1)) : null;
  const after = found.after || found.before;
  const rows = names.sort((one, other) => (after[one]?.[1] ?? 0) - (after[other]?.[1] ?? 0)).slice(0, ROWS_MAX).map((name) => {
    const [before, now] = [found.before[name][1], after[name]?.[1]];
    const better = now === undefined ? "" : now > before + 1e-9 ? "better" : now < before - 1e-9 ? "worse" : "";
    return h("tr", {}, h("th", { scope: "row", text: name }), h("td", { class: "number", text: share(found.before[name][0]) }), h("td", { class: "number", text: share(before) }),
      ...(found.after ? [h("td", { class: `number ${better}`, text: now === undefined ? "gone" : share(now) })] : []),
      h("td", {}, bar(now ?? 0, 1, better === "worse" ? "lost" : "delivered", `${name}: ${share(now)}`)));
  });
  result.replaceChildren(h("h3", { text: found.after ? "Before and after" : "As the file is" }),
    h("p", { class: "verdict", text: found.after ? `worst subscriber: ${share(worst(found.before))} before, ${share(worst(found.after))} after` : `worst subscriber: ${share(worst(found.before))}` }),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Predicted shares" }, h("table", {},
      h("thead", {}, h("tr", {}, ...["subscriber", "by the original way", found.after ? "before" : "in the end", ...(found.after ? ["after"] : []), "share"].map((text) => h("th", { scope: "col", text })))),
      h("tbody", {}, ...rows))),
    found.file ? h("div", { class: "actions" }, h("button", { type: "button", text: "Save as a network file", onclick: () => save(about.name, found.file) })) : "");
}

function save(name, text) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type: "application/toml" })), download: `${name}-changed.toml` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
