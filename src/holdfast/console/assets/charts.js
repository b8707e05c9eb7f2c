// Small charts of the last minutes: a line each, its last and its greatest value as text.

import { h, s } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 44;

export function sparkline(title, points, style, written) {
  const known = points.filter((each) => each !== null);
  const most = Math.max(...known, 0);
  const last = known.length ? known[known.length - 1] : null;
  const words = `now ${written(last)}, at most ${written(known.length ? most : null)}`;
  return h("figure", { class: "spark" },
    h("figcaption", {}, h("span", { text: title }), h("b", { text: written(last) })),
    s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
      "aria-label": `${title}, last ${Math.round(points.length / 6) / 10} minutes: ${words}` },
      s("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }),
      ...lines(points, most || 1).map((d) => s("path", { class: `line ${style}`, d }))),
    h("p", { class: "range", text: known.length ? `most ${written(most)}` : "nothing yet" }));
}

// One path for each stretch without a gap.
function lines(points, most) {
  const found = [];
  let path = "";
  points.forEach((value, at) => {
    if (value === null) {
      if (path) found.push(path);
      path = "";
      return;
    }
    const x = points.length > 1 ? (at / (points.length - 1)) * WIDTH : WIDTH;
    const y = HEIGHT - 2 - (value / most) * (HEIGHT - 6);
    path += `${path ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
  });
  if (path) found.push(path.includes("L") ? path : `${path}h0.1`);
  return found;
}

export function bar(value, most, style, title) {
  const width = most ? Math.min(100, (100 * value) / most) : 0;
  return s("svg", { class: "bar", viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": title },
    s("rect", { class: "rest", width: 100, height: 6, rx: 1 }), s("rect", { class: style, width, height: 6, rx: 1 }));
}
