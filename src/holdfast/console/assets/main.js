// The page: what the server tells, kept as it is, and the view that was asked for.

import { ask, h, put, setClass } from "./dom.js";
import { mapView } from "./map.js";
import { streamsView } from "./streams.js";
import { askView } from "./ask.js";
import { tryView } from "./try.js";
import { planView } from "./plan.js";

const VIEWS = {
  map: ["Map", mapView], streams: ["Streams", streamsView], ask: ["Ask", askView], try: ["Try", tryView], plan: ["Plan", planView],
};

const state = {
  entries: new Map(), // what the server's board has: nothing is kept here that it has forgotten
  me: { reads: false, acts: false, can_act: false, asks: [] },
  skipped: 0,
  live: false,
  ended: false, // what was told last is the last there is
  get: (key) => state.entries.get(key),
  all: (prefix) => [...state.entries].filter(([key]) => key.startsWith(prefix)).map(([, entry]) => entry),
};

let shown = null; // the view on the screen: { name, element, update }

async function begin() {
  const given = /^#token=(.+)$/.exec(location.hash);
  if (given) {
    history.replaceState(null, "", location.pathname);
    await ask("/api/session", { token: decodeURIComponent(given[1]) }).catch((problem) => askForToken(problem.message));
  }
  state.me = await ask("/api/me");
  if (!state.me.reads) return askForToken("");
  listen();
}

function askForToken(problem) {
  const token = h("input", { type: "password", autocomplete: "off", id: "token", required: true });
  document.getElementById("main").replaceChildren(h("form", {
    class: "card token",
    onsubmit: async (event) => {
      event.preventDefault();
      try {
        await ask("/api/session", { token: token.value });
        location.reload();
      } catch (wrong) {
        askForToken(wrong.message);
      }
    },
  }, h("label", { for: "token", text: "The token that was printed when the console started" }), token,
  h("button", { type: "submit", text: "Open" }), h("p", { class: "problem", role: "alert", text: problem })));
}

function listen() {
  const source = new EventSource("/api/stream");
  source.onmessage = (message) => {
    take(JSON.parse(message.data));
    if (state.ended) source.close(); // else the browser would try again for ever
  };
  source.onerror = () => {
    state.live = false;
    pulse();
    document.body.classList.add("stale");
  };
}

function take(told) {
  if (told.whole) state.entries.clear();
  for (const [key, entry] of Object.entries(told.entries)) {
    if (entry === null) state.entries.delete(key);
    else state.entries.set(key, entry);
  }
  state.skipped = told.skipped;
  state.live = true;
  state.ended = state.entries.has("ended");
  document.body.classList.remove("stale");
  if (document.hidden) return; // drawn when somebody looks again
  update();
}

function update() {
  const about = state.get("about") || { name: "", views: [] };
  put(document.getElementById("name"), about.name);
  document.title = `${about.name} · Holdfast console`;
  navigation(about.views);
  pulse();
  show(about.views);
}

function navigation(views) {
  const list = document.getElementById("views");
  if (list.dataset.views !== String(views)) {
    list.dataset.views = String(views);
    list.replaceChildren(...views.map((name) => h("li", {}, h("a", { href: `#${name}`, text: VIEWS[name][0] }))));
  }
  for (const link of list.querySelectorAll("a")) {
    if (link.hash === `#${wanted(views)}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function wanted(views) {
  const name = location.hash.slice(1).split("/")[0];
  return views.includes(name) ? name : views[0] || "map";
}

function show(views) {
  const name = wanted(views);
  if (shown === null || shown.name !== name) {
    const view = VIEWS[name][1](state);
    shown = { name, ...view };
    document.getElementById("main").replaceChildren(view.element);
  }
  shown.update();
}

function pulse() {
  const clock = state.get("clock") || {};
  const about = state.get("about") || {};
  const run = about.kind === "run";
  const time = state.ended ? "ended" : run ? progress(clock.run_s || 0, about.duration_s) : "live";
  put(document.getElementById("pulse"), `${time} · ${state.me.acts ? "may act" : "read-only"}`);
  const sampled = `sampled: this page missed ${state.skipped} of the last ${state.skipped + 1} updates`;
  const lost = "no connection to the console; what is shown may be old";
  const last = run ? `the run has ended after ${Math.round(clock.run_s)} s; this is its last state` : "the console was stopped; this is what it saw last";
  const notice = document.getElementById("notice");
  setClass(notice, state.ended ? "last" : "");
  put(notice, state.ended ? last : !state.live ? lost : state.skipped ? sampled : "");
}

// Behind its duration a run goes on until nothing is missing any more.
function progress(run_s, duration_s) {
  const [now, end] = [Math.max(0, Math.round(run_s)), Math.round(duration_s)];
  return now > end ? `${end} s, and ${now - end} s for what is missing` : `${now} of ${end} s`;
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address says which view is shown
  document.getElementById("main").focus();
});
window.addEventListener("hashchange", () => {
  if (!location.hash.startsWith("#token=")) update();
  else begin();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden && state.entries.size) update(); });
begin().catch((problem) => askForToken(problem.message));
