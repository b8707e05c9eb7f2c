// Ask: what a condition would match and cost, and why a subscription has not got an event.

import { ask, choose, count, field, h, question } from "./dom.js";

export function askView(state) {
  const can = (name) => state.me.asks.includes(name);
  const parts = [explainCard()];
  const followers = [];
  if (can("condition")) {
    const [card, follow] = conditionCard(state);
    parts.unshift(card);
    followers.push(follow);
  }
  if (can("why")) {
    const [card, follow] = whyCard(state);
    parts.push(card);
    followers.push(follow);
  }
  return { element: h("div", { class: "cards" }, h("h2", { class: "hidden", text: "Ask" }), ...parts), update: () => followers.forEach((each) => each()) };
}

function brokers(state) {
  return state.all("broker/").filter((each) => each.state === "up").map((each) => [each.name, each.name]);
}

function conditionCard(state) {
  const condition = h("textarea", { name: "condition", rows: 2, required: true, spellcheck: "false", placeholder: "price > 100 AND volume > 3000" });
  const broker = h("select", { name: "broker" });
  const card = question("What would match?", [field("Condition", condition), field("Subscribed at", broker)], "Ask", async (given) => {
    const found = await ask("/api/ask/condition", { condition: given.get("condition"), broker: given.get("broker") });
    return aboutCondition(found);
  });
  return [card, () => choose(broker, brokers(state))];
}

function aboutCondition(found) {
  const total = found.events ? `${((100 * found.matches) / found.events).toFixed(1)} %` : "–";
  const names = (list, all) => list.map((each) => `${each.client}/${each.id}: ${each.condition}`).concat(all > list.length ? [`and ${all - list.length} more`] : []);
  return [
    h("p", { class: "verdict", text: `${count(found.matches)} of the last ${count(found.events)} events match (${total})` }),
    h("p", {}, "As brokers see it: ", h("code", { text: found.condition })),
    h("p", { text: `Cost: ${count(found.filters)} filter${found.filters === 1 ? "" : "s"}, ${found.cost_us === null ? "–" : `${found.cost_us} µs`} an event asked one by one; an index asks only what can match.` }),
    disclosure(`${count(found.covering_count)} of ${count(found.compared)} subscriptions cover it`, names(found.covering, found.covering_count)),
    disclosure(`It covers ${count(found.covered_count)} more`, names(found.covered, found.covered_count)),
    found.brokers ? disclosure(`It goes to ${count(found.brokers.filter((each) => each.state === "goes").length)} of ${count(found.brokers.length)} brokers`,
      found.brokers.map((each) => `${each.state === "goes" ? "●" : "○"} ${each.broker}: ${each.why}`), true) : null,
    found.latest.length ? disclosure("The latest that match", found.latest.map(eventText)) : null,
  ].filter(Boolean);
}

function disclosure(summary, lines, open = false) {
  return h("details", { open }, h("summary", { text: summary }), h("ul", { class: "lines" }, ...lines.map((text) => h("li", { text }))));
}

function eventText(event) {
  return `${event.source}/${event.seq} ${JSON.stringify(event.attributes)}`;
}

function explainCard() {
  const condition = h("textarea", { name: "condition", rows: 2, required: true, spellcheck: "false" });
  const event = h("textarea", { name: "event", rows: 3, required: true, spellcheck: "false", placeholder: '{"price": 99.5}' });
  return question("Does this event match?", [field("Condition", condition), field("Event, as JSON", event)], "Explain", async (given) => {
    const found = await ask("/api/ask/explain", { condition: given.get("condition"), event: JSON.parse(given.get("event")) });
    return [h("pre", { class: found.matches ? "good" : "bad", text: found.words })];
  });
}

function whyCard(state) {
  const event = h("select", { name: "event", required: true });
  const subscription = h("select", { name: "subscription", required: true });
  const refresh = h("button", { type: "button", text: "Latest events", onclick: () => load() });

  async function load() {
    const found = await ask("/api/ask/events", {});
    choose(event, found.events.map((each) => [JSON.stringify([each.source, each.seq]), eventText(each).slice(0, 140)]));
  }

  const card = question("Why not me?", [field("Event", event), refresh, field("Subscription", subscription)], "Why?", async (given) => {
    const [source, seq] = JSON.parse(given.get("event"));
    const [client, id] = JSON.parse(given.get("subscription"));
    const found = await ask("/api/ask/why", { source, seq, client, id });
    const words = { nothing: "Nothing stopped it", constraint: "A constraint", right: "A right", loss: "A loss", lifetime: "Its lifetime", latch: "The latch", broker: "A broker", link: "A link", subscription: "The subscription", way: "Its way" };
    return [h("p", { class: "verdict", text: words[found.stopped_by] || found.stopped_by }), h("p", { text: found.words }),
      found.details.length ? h("ul", { class: "lines" }, ...found.details.map((text) => h("li", { text }))) : null].filter(Boolean);
  });
  load().catch(() => {});
  return [card, () => choose(subscription, state.all("subscription/").map((each) => [JSON.stringify([each.client, each.id]), `${each.client}: ${each.condition}`.slice(0, 120)]))];
}
