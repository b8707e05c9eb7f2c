// What is known of the broker or link that was chosen: numbers, small charts of the last minutes, and what can be done.

import { ask, bytes, count, h, milliseconds, rate, share } from "./dom.js";
import { bar, sparkline } from "./charts.js";

const POINTS_MAX = 300; // as many as the server keeps
const CHARTS = {
  broker: [["received", "received", "delivered", rate], ["sent", "sent", "delivered", rate], ["lost", "lost on links", "lost", rate],
    ["dropped", "dropped: too slow", "lost", rate], ["queue_bytes", "largest backlog", "late", bytes]],
  link: [["a_per_s", null, "delivered", rate], ["b_per_s", null, "delivered", rate], ["lost", "lost", "lost", rate],
    ["repairs", "repairs", "recovered", rate], ["queue_bytes", "backlog", "late", bytes], ["round_trip_ms", "round trip", "late", milliseconds]],
};

export function details(state, element, choose) {
  let key = null;
  let past = {};
  let asked = 0;

  async function open(wanted) {
    key = wanted;
    past = {};
    asked += 1;
    const mine = asked;
    draw();
    const found = await ask(`/api/history?key=${encodeURIComponent(key)}`).catch(() => ({}));
    if (mine === asked) {
      past = found;
      draw();
    }
  }

  function update() {
    const entry = key && state.get(key);
    if (entry) {
      for (const name of Object.keys(past)) {
        past[name].push(name === "time_s" ? state.get("clock")?.time_s : entry[name] ?? null);
        if (past[name].length > POINTS_MAX) past[name].shift();
      }
    }
    draw();
  }

  function draw() {
    const entry = key && state.get(key);
    if (!entry) {
      element.replaceChildren(...overview(state, key));
      return;
    }
    const active = element.contains(document.activeElement) ? document.activeElement.dataset.action : null;
    element.replaceChildren(...(key.startsWith("broker/") ? broker(state, entry, past, choose) : link(state, entry, past)));
    if (active) element.querySelector(`[data-action="${CSS.escape(active)}"]`)?.focus();
  }

  draw();
  return { open, update };
}

function overview(state, key) {
  const brokers = state.all("broker/").filter((each) => each.state !== "replaced");
  const down = brokers.filter((each) => each.state === "down");
  const happened = (state.get("incidents")?.latest || []).slice(0, 12);
  const run = (state.get("about") || {}).kind === "run";
  return [
    h("h2", { text: key ? "Gone" : "Now" }),
    facts([["brokers", count(brokers.length)], ["down", down.length ? down.map((each) => each.name).join(", ") : "none"],
      ["links", count(state.all("link/").length)], ["clients", count(state.all("client/").length || state.get("traffic")?.clients)],
      ...(run ? [["published", rate(state.get("total")?.published_per_s)], ["delivered", rate(state.get("total")?.delivered_per_s)]]
        : [["received", rate(state.get("traffic")?.received)], ["sent", rate(state.get("traffic")?.sent)]])]),
    h("p", { class: "hint", text: "Choose a broker or a link to see its last minutes." }),
    ...(happened.length ? [h("h3", { text: "What happened" }), incidents(happened)] : []),
  ];
}

// The kind, and whom and what it is about; a sentence where the kind alone reads as something else.
function told(incident) {
  if (incident.kind === "replaced_by") return `accepts ${incident.other} in the place of ${incident.peer}`;
  if (incident.kind === "unrecoverable") return incident.event ? `gives up ${incident.event}` : "may have missed events";
  return [incident.kind.replaceAll("_", " "), incident.peer, incident.event].filter(Boolean).join(" ");
}

export function incidents(list) {
  return h("ol", { class: "incidents" }, ...list.map((each) => h("li", {},
    h("time", { text: `${(each.time_us / 1e6).toFixed(1)} s` }),
    h("span", {}, h("b", { text: each.node }), ` ${told(each)}${each.count > 1 ? ` ×${count(each.count)}` : ""}`,
      each.reason ? h("small", { text: ` ${each.reason}` }) : null))));
}

function facts(rows) {
  return h("dl", { class: "facts" }, ...rows.filter(([, text]) => text !== null).flatMap(([name, text]) => [h("dt", { text: name }), h("dd", { text })]));
}

function charts(kind, entry, past, names = {}) {
  return h("div", { class: "sparks" }, ...CHARTS[kind].filter(([name]) => past[name]?.some((each) => each !== null && each !== 0) || (past[name] && !["dropped", "lost", "repairs", "queue_bytes"].includes(name)))
    .map(([name, title, style, written]) => sparkline(names[name] || title, past[name], style, written)));
}

function broker(state, entry, past, choose) {
  const links = state.all("link/").filter((each) => each.a === entry.name || each.b === entry.name);
  const clients = state.all("client/").filter((each) => each.broker === entry.name);
  return [
    h("h2", {}, entry.name, " ", h("span", { class: `state ${entry.state}`, text: entry.state })),
    ...[entry.why, entry.stands_for && `stands in the place of ${entry.stands_for}`, entry.replaced_by && `replaced by ${entry.replaced_by}`,
      ...(entry.problems || [])].filter(Boolean).map((text) => h("p", { class: "note", text })),
    entry.sent === undefined ? null : facts([["received", rate(entry.received)], ["sent", rate(entry.sent)],
      ["lost on links", rate(entry.lost)], ["dropped", `${count(entry.dropped_total)} in all`],
      ["largest backlog", `${bytes(entry.queue_bytes)} of ${bytes(entry.queue_limit)}`],
      ["held up", entry.held_up ? `${count(entry.held_up)} neighbours` : "nobody"], ["clients", count(entry.clients)]]),
    charts("broker", entry, past),
    ...(entry.gauges?.length ? [h("h3", { text: "Nearest to a limit" }), h("ul", { class: "gauges" }, ...entry.gauges.slice(0, 4).map(([name, value, limit]) =>
      h("li", {}, h("span", { text: name }), h("span", { class: "number", text: `${count(value)} of ${count(limit)}` }), bar(value, limit, value > 0.9 * limit ? "lost" : "delivered", `${name}: ${count(value)} of ${count(limit)}`))))] : []),
    ...(links.length ? [h("h3", { text: "Links" }), h("ul", { class: "chips" }, ...links.map((each) => h("li", {}, h("button", { type: "button", "data-action": `link/${each.a}~${each.b}`, class: `chip ${each.state}`,
      text: each.a === entry.name ? each.b : each.a, onclick: () => choose(`link/${each.a}~${each.b}`) }))))] : []),
    ...(clients.length ? [h("h3", { text: "Clients" }), h("p", { class: "names", text: clients.slice(0, 40).map((each) => each.name).join(", ") + (clients.length > 40 ? ` and ${clients.length - 40} more` : "") })] : []),
    actions(state, entry.state === "down"
      ? [["Restart", "restart", { broker: entry.name }]]
      : entry.state === "up" ? [["Kill", "kill", { broker: entry.name }]] : []),
  ].filter(Boolean);
}

function link(state, entry, past) {
  return [
    h("h2", {}, `${entry.a} – ${entry.b} `, h("span", { class: `state ${entry.state}`, text: entry.state })),
    facts([[`${entry.a} → ${entry.b}`, rate(entry.a_per_s)], [`${entry.b} → ${entry.a}`, rate(entry.b_per_s)],
      ["lost", `${rate(entry.lost)}, ${share(entry.loss)}${entry.loss_set ? ` (the file: ${share(entry.loss_set)} of events)` : ""}`],
      ["repairs", rate(entry.repairs)], ["backlog", bytes(entry.queue_bytes)],
      ["back-pressure", entry.held_up ? "one end reads nothing for now" : entry.blocked ? "one end takes nothing" : "none"],
      ["delay, one way", entry.delay_ms === null ? null : `${milliseconds(entry.delay_ms)} (injected)`],
      ["round trip", entry.round_trip_ms === null ? null : `${milliseconds(entry.round_trip_ms)} (TCP)`],
      ["sent again by TCP", count(entry.retransmitted)]]),
    charts("link", entry, past, { a_per_s: `${entry.a} → ${entry.b}`, b_per_s: `${entry.b} → ${entry.a}` }),
    actions(state, entry.state === "cut" ? [["Mend this link", "link", { a: entry.a, b: entry.b, up: true }]]
      : entry.state === "up" ? [["Break this link", "link", { a: entry.a, b: entry.b, up: false }]] : []),
  ].filter(Boolean);
}

function actions(state, list) {
  if (!state.me.acts || !list.length) return null;
  const answer = h("p", { class: "problem", role: "alert" });
  return h("div", { class: "actions" }, ...list.map(([text, act, body]) => h("button", { type: "button", class: "danger", text, "data-action": act,
    onclick: async () => { try { await ask(`/api/act/${act}`, body); } catch (problem) { answer.textContent = problem.message; } } })), answer);
}
