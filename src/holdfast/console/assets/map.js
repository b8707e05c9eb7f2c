// The map: brokers, their links and clients, and the details of what was chosen.

import { h, s, put, setClass, rate, share, count } from "./dom.js";
import { separate, spread } from "./layout.js";
import { details } from "./details.js";

const EDGE = 52; // for names
const NARROW = 560; // pixels: then links show no numbers
const NAMED_MAX = 70; // brokers up to which all names are shown; then those of the chosen one and its neighbours
const LABELLED_MAX = 40; // links up to which each shows its numbers
const DOTS_MAX = 8; // clients drawn around a broker; more are a number
const WORDS = { up: "up", down: "down", starting: "starting", unwatched: "not watched", replaced: "replaced" };

export function mapView(state) {
  const picture = new Picture(state, choose);
  const side = h("aside", { class: "card side", "aria-label": "Details" });
  const tables = h("details", { class: "card tables" }, h("summary", { text: "Brokers and links as tables" }), h("div"));
  const element = h("div", { class: "map-view" },
    h("section", { class: "card map", "aria-label": "Map" }, legend(), picture.element, picture.buttons()), side, tables);
  const panel = details(state, side, choose);

  function choose(key) {
    picture.chosen = key;
    panel.open(key);
    picture.update();
  }

  return {
    element,
    update() {
      picture.update();
      panel.update();
      if (tables.open) tables.lastChild.replaceChildren(...asTables(state, choose));
    },
  };
}

function legend() {
  const item = (css, text) => h("li", {}, s("svg", { viewBox: "0 0 14 14", class: `key ${css}`, "aria-hidden": "true" }, s("circle", { cx: 7, cy: 7, r: 5 })), text);
  return h("ul", { class: "legend" }, item("up", "up"), item("starting", "starting"), item("down", "down"),
    item("unwatched", "not watched"), h("li", { text: "wider line: more messages" }), h("li", { class: "lossy", text: "dashes: down or cut" }));
}

class Picture {
  constructor(state, choose) {
    this.state = state;
    this.choose = choose;
    this.chosen = null;
    this.units = new Map(); // where brokers stand, from 0 to 1
    this.places = new Map(); // the same in pixels
    this.width = 800;
    this.drawn = new Map(); // key -> parts of the picture
    this.height = 600;
    this.zoom = { x: 0, y: 0, scale: 1 };
    this.links = s("g");
    this.brokers = s("g");
    this.element = s("svg", { class: "network", role: "group", "aria-label": "Network; arrow keys go from broker to broker, Enter shows details",
      onkeydown: (event) => this.key(event), onwheel: (event) => this.wheel(event) }, this.links, this.brokers);
    this.drag();
    new ResizeObserver(() => this.measure()).observe(this.element);
  }

  buttons() {
    const button = (text, label, act) => h("button", { type: "button", text, "aria-label": label, onclick: act });
    return h("div", { class: "zoom" }, button("+", "+ zoom in", () => this.scale(1.3)), button("−", "− zoom out", () => this.scale(1 / 1.3)),
      button("Fit", "Fit the whole network", () => { this.zoom = { x: 0, y: 0, scale: 1 }; this.frame(); }));
  }

  // Who is drawn: a broker that was replaced has its replica in its place.
  nodes() {
    return this.state.all("broker/").filter((each) => each.state !== "replaced" && !this.hidden(each));
  }

  hidden(broker) {
    return broker.state === "starting" && this.state.get(`broker/${broker.stands_for}`)?.state === "down";
  }

  update() {
    const nodes = this.nodes();
    const names = new Set(nodes.map((each) => each.name));
    const links = this.state.all("link/").filter((each) => names.has(each.a) && names.has(each.b));
    this.place(nodes, links);
    const neighbours = new Set(links.filter((each) => this.chosen === `broker/${each.a}` || this.chosen === `broker/${each.b}`).flatMap((each) => [each.a, each.b]));
    const busiest = Math.max(1, ...links.map((each) => each.per_s));
    const kept = new Set();
    this.taken = nodes.map((each) => this.room(each)); // where no numbers of links may stand
    const labelled = links.length <= LABELLED_MAX && this.width >= NARROW;
    for (const link of links) kept.add(this.link(link, busiest, labelled));
    const clients = new Map();
    for (const each of this.state.all("client/")) clients.set(each.broker, (clients.get(each.broker) || 0) + 1);
    for (const node of nodes) {
      const named = nodes.length <= NAMED_MAX || node.state === "down" || node.state === "starting" || neighbours.has(node.name) || this.chosen === `broker/${node.name}`;
      kept.add(this.broker(node, clients.get(node.name) ?? node.clients ?? 0, named, nodes.length));
    }
    for (const [key, parts] of this.drawn) {
      if (!kept.has(key)) {
        parts.group.remove();
        this.drawn.delete(key);
      }
    }
    this.tabStop();
  }

  // New places only for who has none: what is known stays where it is.
  place(nodes, links) {
    const missing = nodes.filter((each) => !this.units.has(each.name));
    for (const each of missing) {
      const before = each.stands_for && this.units.get(each.stands_for);
      if (before) this.units.set(each.name, before);
    }
    if (missing.some((each) => !this.units.has(each.name))) {
      this.units = spread(nodes.map((each) => each.name), links.map((each) => [each.a, each.b]));
    }
    if (missing.length) this.measure();
  }

  // One unit of the picture is one pixel, so that text is as large as elsewhere.
  measure() {
    const width = Math.round(this.element.clientWidth) || this.width;
    const height = width < NARROW ? 520 : this.units.size > NAMED_MAX ? 780 : 640;
    const side = Math.min(EDGE, width / 8);
    const made = new Map([...this.units.values()].map((at) => [at, { x: side + at.x * (width - 2 * side), y: 44 + at.y * (height - 96) }]));
    this.places = new Map([...this.units].map(([name, at]) => [name, made.get(at)])); // a replica shares its place
    separate(this.places, this.units.size > NAMED_MAX ? 13 : 34, width, height);
    const changed = width !== this.width || height !== this.height;
    [this.width, this.height] = [width, height];
    this.frame();
    if (changed && this.drawn.size) this.update();
  }

  link(link, busiest, labelled) {
    const key = `link/${link.a}~${link.b}`;
    const parts = this.parts(key, this.links, () => ({
      hit: s("line", { class: "hit" }), line: s("line"), label: s("text", { class: "load", "aria-hidden": "true" }),
    }));
    const [a, b] = [this.places.get(link.a), this.places.get(link.b)];
    for (const line of [parts.hit, parts.line]) for (const [name, value] of [["x1", a.x], ["y1", a.y], ["x2", b.x], ["y2", b.y]]) line.setAttribute(name, value.toFixed(1));
    const width = link.state === "up" ? 1.5 + 5 * Math.sqrt(link.per_s / busiest) : 2;
    parts.line.setAttribute("stroke-width", width.toFixed(1));
    const pressed = link.held_up || link.blocked;
    setClass(parts.line, `link ${link.state}${pressed ? " pressed" : ""}${link.loss > 0.1 ? " lossy" : ""}${this.chosen === key ? " chosen" : ""}`);
    const words = link.state !== "up" ? link.state : [rate(link.per_s), link.loss ? share(link.loss) + " lost" : "", pressed ? "held up" : ""].filter(Boolean).join(", ");
    put(parts.label, (labelled || this.chosen === key) && this.beside(parts.label, a, b, words, this.chosen === key) ? words : "");
    parts.group.setAttribute("aria-label", `link ${link.a} to ${link.b}: ${link.state}, ${words}`);
    return key;
  }

  room(node) {
    const at = this.places.get(node.name);
    const half = Math.max(24, 4.2 * node.name.length);
    return { left: at.x - half, right: at.x + half, top: at.y - 32, bottom: at.y + 48 };
  }

  // The numbers of a link stand beside its middle, or nearer to an end, where there is room; without room they are shown
  // when it is chosen. A line that slopes needs more distance, so that it does not run through them.
  beside(label, a, b, words, always) {
    const half = 3.3 * words.length;
    const slope = Math.abs(b.y - a.y) / Math.max(1, Math.abs(b.x - a.x));
    const places = [0.5, 0.38, 0.62].flatMap((share) => {
      const [x, y] = [a.x + share * (b.x - a.x), a.y + share * (b.y - a.y)];
      const [aside, above] = [half + 5 + 8 / slope, slope * half];
      return slope > 0.6 ? [[x + aside, y + 4], [x - aside, y + 4]] : [[x, y - 8 - above], [x, y + 16 + above]];
    });
    const box = ([left, top]) => ({ left: left - half, right: left + half, top: top - 12, bottom: top + 4 });
    const free = ([left, top]) => left - half > 0 && left + half < this.width && !this.taken.some((each) => overlap(each, box([left, top])));
    const place = places.find(free) || (always ? places[0] : null);
    if (!place) return false;
    this.taken.push(box(place));
    label.setAttribute("x", place[0].toFixed(1));
    label.setAttribute("y", place[1].toFixed(1));
    return true;
  }

  broker(node, clients, named, total) {
    const key = `broker/${node.name}`;
    const parts = this.parts(key, this.brokers, () => ({
      clients: s("g", { class: "clients", "aria-hidden": "true" }), halo: s("circle"), dot: s("circle"), mark: s("text", { class: "mark", "aria-hidden": "true" }), label: s("text", { class: "name", "aria-hidden": "true" }), load: s("text", { class: "load", "aria-hidden": "true" }),
    }));
    const at = this.places.get(node.name);
    const radius = node.state === "down" && total > NAMED_MAX ? 9 : (total > NAMED_MAX ? 4 : 12) + (total > NAMED_MAX ? 1.5 : 4) * Math.min(1.5, Math.log10(1 + (node.sent || 0)) / 2);
    parts.group.setAttribute("transform", `translate(${at.x.toFixed(1)} ${at.y.toFixed(1)})`);
    parts.dot.setAttribute("r", radius.toFixed(1));
    parts.halo.setAttribute("r", (radius + 4).toFixed(1));
    setClass(parts.halo, `halo${node.stands_for ? " replica" : ""}${(node.problems || []).length && node.state === "up" ? " troubled" : ""}`);
    setClass(parts.dot, `broker ${node.state}`);
    put(parts.mark, node.state === "down" ? "✕" : node.state === "starting" ? "…" : "");
    put(parts.label, named ? node.name : "");
    parts.label.setAttribute("y", (radius + 17).toFixed(1));
    parts.load.setAttribute("y", (radius + 31).toFixed(1));
    const load = !named ? "" : node.state !== "up" ? WORDS[node.state] : total <= NAMED_MAX ? rate(node.sent) : "";
    put(parts.load, load ? ` ${load}` : "");
    this.dots(parts, clients, radius, total);
    setClass(parts.group, `node${this.chosen === key ? " chosen" : ""}`);
    const problems = node.problems?.length ? `, ${node.problems.join(", ")}` : "";
    parts.group.setAttribute("aria-label", `${node.name}${load ? ` ${load}` : ""}: broker, ${WORDS[node.state]}${node.why ? `, ${node.why}` : ""}${node.sent !== undefined ? `, sends ${rate(node.sent)}, ${clients} clients` : ""}${problems}`);
    return key;
  }

  dots(parts, clients, radius, total) {
    const shown = total > NAMED_MAX ? 0 : Math.min(clients, DOTS_MAX);
    if (parts.shown === `${clients}/${shown}`) return;
    parts.shown = `${clients}/${shown}`;
    const dots = Array.from({ length: shown }, (_, at) => {
      const angle = -Math.PI / 2 + (at - (shown - 1) / 2) * 0.42;
      return s("circle", { class: "client", r: 2.6, cx: (Math.cos(angle) * (radius + 10)).toFixed(1), cy: (Math.sin(angle) * (radius + 10)).toFixed(1) });
    });
    const more = clients > shown && total <= NAMED_MAX ? [s("text", { class: "load", y: -(radius + 18), text: `${count(clients)} clients` })] : [];
    parts.clients.replaceChildren(...dots, ...more);
  }

  parts(key, layer, make) {
    let found = this.drawn.get(key);
    if (!found) {
      found = make();
      found.group = s("g", { role: "button", tabindex: -1, "data-key": key, onclick: () => this.choose(key) }, ...Object.values(found));
      layer.append(found.group);
      this.drawn.set(key, found);
    }
    return found;
  }

  // One stop for the Tab key; arrows go on from there.
  tabStop() {
    const current = this.element.querySelector("[tabindex='0']");
    const wanted = this.drawn.get(this.chosen)?.group || (current?.isConnected ? current : this.brokers.firstChild);
    if (current && current !== wanted) current.setAttribute("tabindex", -1);
    if (wanted) wanted.setAttribute("tabindex", 0);
  }

  key(event) {
    const target = event.target.closest("[data-key]");
    if (!target) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.choose(target.dataset.key);
      return;
    }
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const from = this.middle(target.dataset.key);
    let best = null;
    for (const [key, parts] of this.drawn) {
      const to = this.middle(key);
      const ahead = (to.x - from.x) * step[0] + (to.y - from.y) * step[1];
      const aside = Math.abs((to.x - from.x) * step[1]) + Math.abs((to.y - from.y) * step[0]);
      if (ahead > 4 && (best === null || ahead + 2 * aside < best.far)) best = { far: ahead + 2 * aside, group: parts.group };
    }
    if (best) {
      target.setAttribute("tabindex", -1);
      best.group.setAttribute("tabindex", 0);
      best.group.focus();
    }
  }

  middle(key) {
    const [kind, name] = [key.slice(0, key.indexOf("/")), key.slice(key.indexOf("/") + 1)];
    if (kind === "broker") return this.places.get(name);
    const link = this.state.get(key);
    const [a, b] = link ? [this.places.get(link.a), this.places.get(link.b)] : [{ x: 0, y: 0 }, { x: 0, y: 0 }];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
  }

  // Zooming and moving --------------------------------------------------------------------------

  frame() {
    const { x, y, scale } = this.zoom;
    this.element.setAttribute("viewBox", `${x} ${y} ${this.width / scale} ${this.height / scale}`);
  }

  scale(by) {
    const { x, y, scale } = this.zoom;
    const next = Math.min(8, Math.max(1, scale * by));
    this.zoom = { scale: next, x: x + (this.width / scale - this.width / next) / 2, y: y + (this.height / scale - this.height / next) / 2 };
    if (next === 1) this.zoom = { x: 0, y: 0, scale: 1 };
    this.frame();
  }

  wheel(event) {
    if (!event.ctrlKey) return; // the page scrolls with the wheel alone
    event.preventDefault();
    this.scale(event.deltaY < 0 ? 1.15 : 1 / 1.15);
  }

  drag() {
    let from = null;
    this.element.addEventListener("pointerdown", (event) => { if (this.zoom.scale > 1) from = { x: event.clientX, y: event.clientY, zoom: this.zoom }; });
    window.addEventListener("pointerup", () => { from = null; });
    this.element.addEventListener("pointermove", (event) => {
      if (!from) return;
      const unit = this.width / this.zoom.scale / this.element.clientWidth;
      this.zoom = { ...from.zoom, x: from.zoom.x - (event.clientX - from.x) * unit, y: from.zoom.y - (event.clientY - from.y) * unit };
      this.frame();
    });
  }
}

function overlap(one, other) {
  return one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
}

function asTables(state, choose) {
  const open = (key, text) => h("button", { type: "button", class: "plain", text, onclick: () => choose(key) });
  const brokers = state.all("broker/").map((each) => h("tr", {}, h("th", { scope: "row" }, open(`broker/${each.name}`, each.name)),
    ...[WORDS[each.state], rate(each.received), rate(each.sent), count(each.clients), (each.problems || []).join("; ") || each.why || ""].map((text) => h("td", { text }))));
  const links = state.all("link/").map((each) => h("tr", {}, h("th", { scope: "row" }, open(`link/${each.a}~${each.b}`, `${each.a} – ${each.b}`)),
    ...[each.state, rate(each.per_s), rate(each.lost), share(each.loss), rate(each.repairs)].map((text) => h("td", { text }))));
  const table = (caption, heads, rows) => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, h("table", {}, h("caption", { text: caption }),
    h("thead", {}, h("tr", {}, ...heads.map((text) => h("th", { scope: "col", text })))), h("tbody", {}, ...rows)));
  return [table("Brokers", ["broker", "state", "received", "sent", "clients", "notes"], brokers),
    table("Links", ["link", "state", "messages", "lost", "loss", "repairs"], links)];
}
