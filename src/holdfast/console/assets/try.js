// Try: publish, subscribe, watch it arrive; break a link or kill a broker, and watch it heal.

import { ask, choose, field, h, milliseconds, question } from "./dom.js";

export function tryView(state) {
  if (!state.me.acts) {
    const words = state.me.can_act
      ? "Acting needs the token that was printed when the console started: open the address that was printed with it."
      : "This console only shows. Start the run with --console --act to publish, subscribe and break things.";
    return { element: h("div", { class: "cards" }, h("h2", { class: "hidden", text: "Try" }), h("p", { class: "card note", text: words })), update() {} };
  }
  const selects = { publish: h("select", { name: "broker" }), subscribe: h("select", { name: "broker" }), kill: h("select", { name: "broker" }), link: h("select", { name: "link" }) };
  const event = h("textarea", { name: "event", rows: 3, required: true, spellcheck: "false" });
  event.value = '{"symbol": "IBM", "price": 120.5, "volume": 9000}';
  const condition = h("textarea", { name: "condition", rows: 2, required: true, spellcheck: "false", text: "price > 100" });
  const subscriptions = h("ul", { class: "lines" });
  const arrivals = h("ol", { class: "incidents", "aria-label": "Arrivals" });
  const nothing = h("p", { class: "hint", text: "Nothing yet: subscribe, then publish what matches." });
  const act = (name, body) => ask(`/api/act/${name}`, body);
  const said = (text) => [h("p", { class: "good", text })];
  const element = h("div", { class: "cards" }, h("h2", { class: "hidden", text: "Try" }),
    question("Subscribe", [field("At", selects.subscribe), field("Condition", condition)], "Subscribe", async (given) => {
      const found = await act("subscribe", { broker: given.get("broker"), condition: given.get("condition") });
      return said(`${found.client} asks for ${found.condition}; what arrives is listed beside.`);
    }),
    question("Publish", [field("At", selects.publish), field("Event, as JSON", event)], "Publish", async (given) => {
      const found = await act("publish", { broker: given.get("broker"), event: JSON.parse(given.get("event")) });
      return said(`published as ${found.source}${found.seq ? `/${found.seq}` : ""}`);
    }),
    h("section", { class: "card" }, h("h3", { text: "Subscriptions of the console" }), subscriptions, h("h3", { text: "What has arrived" }), arrivals, nothing),
    question("Kill a broker", [field("Broker", selects.kill)], "kill -9", async (given) => {
      const [name, isDown] = JSON.parse(given.get("broker"));
      await act(isDown ? "restart" : "kill", { broker: name });
      return said(isDown ? `${name} starts again; watch the map.` : `${name} is killed; watch the map.`);
    }),
    question("Break or mend a link", [field("Link", selects.link)], "Break / mend", async (given) => {
      const { a, b, up } = JSON.parse(given.get("link"));
      await act("link", { a, b, up });
      return said(up ? `${a} – ${b} carries again.` : `${a} – ${b} loses everything; nobody is told.`);
    }));

  return {
    element,
    update() {
      const brokers = state.all("broker/");
      const up = brokers.filter((each) => each.state === "up").map((each) => [each.name, each.name]);
      choose(selects.publish, up);
      choose(selects.subscribe, up);
      choose(selects.kill, brokers.filter((each) => each.state === "up" || each.state === "down").map((each) => [JSON.stringify([each.name, each.state === "down"]), each.state === "down" ? `${each.name}: restart` : each.name]));
      choose(selects.link, state.all("link/").filter((each) => each.state !== "down").map((each) => [JSON.stringify({ a: each.a, b: each.b, up: each.state === "cut" }), `${each.a} – ${each.b}${each.state === "cut" ? ": mend" : ""}`]));
      const tried = state.get("tried") || { subscriptions: [], arrivals: [] };
      const written = JSON.stringify(tried);
      if (arrivals.dataset.written === written) return;
      arrivals.dataset.written = written;
      nothing.hidden = tried.arrivals.length > 0;
      subscriptions.replaceChildren(...tried.subscriptions.map((each) => h("li", {}, `${each.broker}: ${each.condition} `,
        h("button", { type: "button", class: "plain", text: "end", "aria-label": `end ${each.condition}`, onclick: () => act("unsubscribe", { id: each.id }) }))));
      arrivals.replaceChildren(...tried.arrivals.map((each) => h("li", {}, h("time", { text: milliseconds(each.delay_ms) }),
        h("span", {}, h("b", { text: `${each.source}/${each.seq}` }), ` ${JSON.stringify(each.attributes)}${each.via === "original" ? "" : ` (${each.via})`}`))));
    },
  };
}
