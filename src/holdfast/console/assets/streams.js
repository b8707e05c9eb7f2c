// What flows: promises as lamps, totals, and each source and subscription with what was predicted for it.

import { bytes, count, h, milliseconds, put, rate, setClass, share } from "./dom.js";
import { incidents } from "./details.js";
import { sparkline } from "./charts.js";
import { ask } from "./dom.js";

const ROWS_MAX = 200; // of one table; the rest is found by the filter
const POINTS_MAX = 300;
const STATES = { holds: "holds", waiting: "in progress", broken: "broken", unpromised: "not promised", later: "judged later" };

export function streamsView(state) {
  return (state.get("about") || {}).kind === "run" ? runStreams(state) : brokerStreams(state);
}

function runStreams(state) {
  const lamps = h("ul", { class: "lamps", "aria-label": "Promises" });
  const tiles = h("div", { class: "tiles" });
  const charts = h("div", { class: "card sparks wide" });
  const filter = h("input", { type: "search", placeholder: "filter by name or condition", "aria-label": "Filter subscriptions", oninput: () => update() });
  const subscriptions = new Rows("Subscriptions", ["subscriber", "condition", "delivered now", "recovered", "held", "lost, named", "delivered share", "by the original way", "predicted in the end", "delay"]);
  const sources = new Rows("Sources", ["source", "broker", "published", "deliveries owed", "delivered", "recovered", "lost, named", "delivered share"]);
  const happened = h("section", { class: "card" }, h("h2", { text: "What happened" }), h("div"));
  const past = history(state, "total");
  const element = h("div", { class: "stack" }, h("h2", { class: "hidden", text: "Streams" }), lamps, tiles, charts,
    h("section", { class: "card" }, h("div", { class: "head" }, h("h2", { text: "By subscription" }), filter), subscriptions.element),
    h("section", { class: "card" }, h("h2", { text: "By source" }), sources.element), happened);

  function update() {
    drawLamps(lamps, state.all("promise/"));
    const total = state.get("total") || {};
    const predicted = mean(state.all("subscription/"), "predicted");
    const direct = mean(state.all("subscription/"), "predicted_direct");
    drawTiles(tiles, [
      ["published", rate(total.published_per_s), `${count(total.published)} in all`],
      ["delivered", rate(total.delivered_per_s), `${count(total.delivered)} of ${count(total.owed)} owed`],
      ["recovered", rate(total.recovered_per_s), `${count(total.recovered)} in all`],
      ["held back now", count(total.held_now), `${count(total.held)} were held in all`],
      ["lost, named", count(total.lost), total.doubts ? `${count(total.doubts)} times in doubt` : "nothing in doubt", total.lost ? "bad" : ""],
      ["delivered share", share(total.share), predicted === null ? "the planner is at work" : `predicted ${share(predicted)}`],
      ["by the original way", share(total.share_direct), direct === null ? "" : `predicted ${share(direct)}`],
    ]);
    past.update();
    charts.replaceChildren(
      sparkline("published", past.of("published_per_s"), "delivered", rate), sparkline("delivered", past.of("delivered_per_s"), "delivered", rate),
      sparkline("recovered", past.of("recovered_per_s"), "recovered", rate), sparkline("lost, named", past.of("lost_per_s"), "lost", rate),
      sparkline("mean delay", past.of("delay_ms"), "late", milliseconds));
    subscriptions.update(filtered(state.all("subscription/"), filter.value).map((each) => [`${each.client}/${each.id}`, [
      `${each.client}${each.ended ? " (ended)" : ""}`, each.condition, rate(each.delivered_per_s), count(each.recovered), count(each.held_now),
      count(each.lost_by_client), share(each.share), `${share(each.share_direct)} (${share(each.predicted_direct)})`, share(each.predicted), milliseconds(each.delay_ms)]]));
    sources.update(state.all("source/").map((each) => [each.name, [each.name, each.broker, rate(each.published_per_s), count(each.owed), rate(each.delivered_per_s),
      count(each.recovered), count(each.lost), share(each.share)]]));
    const latest = state.get("incidents") || { latest: [], count: 0 };
    if (happened.dataset.count !== String(latest.count)) {
      happened.dataset.count = latest.count;
      happened.lastChild.replaceChildren(latest.latest.length ? incidents(latest.latest) : h("p", { class: "empty", text: "Nothing yet." }));
    }
  }

  return { element, update };
}

function brokerStreams(state) {
  const tiles = h("div", { class: "tiles" });
  const charts = h("div", { class: "card sparks wide" });
  const rows = new Rows("Brokers", ["broker", "state", "received", "sent", "lost on links", "dropped", "largest backlog", "clients"]);
  const past = history(state, "traffic");
  const element = h("div", { class: "stack" }, h("h2", { class: "hidden", text: "Streams" }),
    h("p", { class: "note", text: "Brokers count messages. What was owed to whom, and what became of it, is known to the console of a run: holdfast up --console." }),
    tiles, charts, h("section", { class: "card" }, h("h2", { text: "By broker" }), rows.element));
  return {
    element,
    update() {
      const total = state.get("traffic") || {};
      drawTiles(tiles, [["received", rate(total.received), "messages"], ["sent", rate(total.sent), "messages"], ["lost on links", rate(total.lost), "by injected faults"],
        ["dropped", rate(total.dropped), "for slow neighbours", total.dropped ? "bad" : ""], ["clients", count(total.clients), "connected"]]);
      past.update();
      charts.replaceChildren(sparkline("received", past.of("received"), "delivered", rate), sparkline("sent", past.of("sent"), "delivered", rate), sparkline("dropped", past.of("dropped"), "lost", rate));
      rows.update(state.all("broker/").map((each) => [each.name, [each.name, each.state, rate(each.received), rate(each.sent), rate(each.lost), rate(each.dropped), bytes(each.queue_bytes), count(each.clients)]]));
    },
  };
}

// The last minutes of one entry, asked for once and then kept up to date.
function history(state, key) {
  let past = {};
  let seen = null;
  ask(`/api/history?key=${encodeURIComponent(key)}`).then((found) => { past = found; }).catch(() => {});
  return {
    of: (name) => past[name] || [],
    update() {
      const [entry, clock] = [state.get(key), state.get("clock")];
      if (!entry || !clock || clock.time_s === seen) return;
      seen = clock.time_s;
      for (const name of Object.keys(past)) {
        past[name].push(name === "time_s" ? clock.time_s : entry[name] ?? null);
        if (past[name].length > POINTS_MAX) past[name].shift();
      }
    },
  };
}

function mean(subscriptions, name) {
  let [weight, sum] = [0, 0];
  for (const each of subscriptions) {
    if (each[name] === null || each[name] === undefined || !each.owed) continue;
    weight += each.owed;
    sum += each.owed * each[name];
  }
  return weight ? sum / weight : null;
}

function filtered(subscriptions, words) {
  const wanted = words.trim().toLowerCase();
  const found = wanted ? subscriptions.filter((each) => `${each.client} ${each.condition} ${each.broker}`.toLowerCase().includes(wanted)) : subscriptions;
  return found.sort((one, other) => (one.share ?? 2) - (other.share ?? 2)).slice(0, ROWS_MAX);
}

function drawLamps(element, promises) {
  const written = JSON.stringify(promises);
  if (element.dataset.written === written) return;
  element.dataset.written = written;
  element.replaceChildren(...promises.sort((one, other) => one.promise.localeCompare(other.promise)).map((each) => h("li", { class: `lamp ${each.state}` },
    h("b", { text: each.promise }), h("span", { class: "light", text: STATES[each.state] }), h("strong", { text: each.title }), h("span", { text: each.words }),
    each.examples.length ? h("ul", {}, ...each.examples.map((text) => h("li", { text }))) : null)));
}

function drawTiles(element, tiles) {
  if (element.children.length !== tiles.length) element.replaceChildren(...tiles.map(() => h("div", { class: "tile" }, h("span"), h("b"), h("small"))));
  tiles.forEach(([name, value, more, style], at) => {
    const tile = element.children[at];
    setClass(tile, `tile ${style || ""}`);
    [name, value, more].forEach((text, part) => put(tile.children[part], text));
  });
}

// A table whose rows stay the same elements, so that whoever reads or scrolls it is not thrown out every second.
class Rows {
  constructor(caption, heads) {
    this.heads = heads;
    this.rows = new Map();
    this.body = h("tbody");
    this.element = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
      h("table", { class: "rows" }, h("caption", { class: "hidden", text: caption }), h("thead", {}, h("tr", {}, ...heads.map((text) => h("th", { scope: "col", text })))), this.body));
  }

  update(rows) {
    const kept = new Set(rows.map(([key]) => key));
    for (const [key, row] of this.rows) {
      if (!kept.has(key)) {
        row.remove();
        this.rows.delete(key);
      }
    }
    rows.forEach(([key, cells], at) => {
      let row = this.rows.get(key);
      if (!row) {
        row = h("tr", {}, ...this.heads.map((label, column) => h(column ? "td" : "th", column ? { "data-label": label } : { scope: "row" })));
        this.rows.set(key, row);
      }
      if (this.body.children[at] !== row) this.body.insertBefore(row, this.body.children[at] || null);
      cells.forEach((text, column) => put(row.children[column], text));
    });
  }
}
