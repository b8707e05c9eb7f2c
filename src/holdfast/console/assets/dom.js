// Elements from plain calls, and numbers as people read them. Text is always set as text, never parsed as HTML.

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

// Replaces the children only when they differ, so that focus and scrolling survive an update.
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setClass(element, name) {
  if (element.getAttribute("class") !== name) element.setAttribute("class", name);
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const count = (value) => (value === null || value === undefined ? "–" : whole.format(value));

export function rate(value) {
  if (value === null || value === undefined) return "–";
  return `${value >= 10 || value === 0 ? whole.format(value) : tenth.format(value)}/s`;
}

export function share(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 1) return "100 %";
  if (value > 0.9999) return "> 99.99 %";
  return `${(100 * value).toFixed(value > 0.99 ? 2 : 1)} %`;
}

export function bytes(value) {
  if (!value) return "0";
  const unit = value >= 1048576 ? [1048576, "MiB"] : value >= 1024 ? [1024, "KiB"] : [1, "B"];
  return `${tenth.format(value / unit[0])} ${unit[1]}`;
}

export function milliseconds(value) {
  if (value === null || value === undefined) return "–";
  return value >= 1000 ? `${tenth.format(value / 1000)} s` : `${tenth.format(value)} ms`;
}

export async function ask(path, body) {
  const answer = await fetch(path, {
    method: body === undefined ? "GET" : "POST",
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  }).catch(() => { throw new Error("the console does not answer: what it showed has ended, or cannot be reached from here"); });
  const found = await answer.json().catch(() => ({ problem: `the console answered ${answer.status}` }));
  if (!answer.ok) throw Object.assign(new Error(found.problem || answer.statusText), { status: answer.status });
  return found;
}

// A form whose answer, or what is wrong, appears below it and is read out.
export function question(legend, fields, label, submit) {
  const answer = h("div", { class: "answer", role: "status" });
  const button = h("button", { type: "submit", text: label });
  const form = h("form", {
    onsubmit: async (event) => {
      event.preventDefault();
      button.disabled = true;
      try {
        answer.replaceChildren(...[await submit(new FormData(form))].flat());
      } catch (problem) {
        answer.replaceChildren(h("pre", { class: "problem", text: problem.message }));
      } finally {
        button.disabled = false;
      }
    },
  }, h("h3", { text: legend }), ...fields, button);
  return h("section", { class: "card" }, form, answer);
}

let fieldNumber = 0;

export function field(label, control) {
  control.id = control.id || `field-${(fieldNumber += 1)}`;
  return h("div", { class: "field" }, h("label", { for: control.id, text: label }), control);
}

// The options of a select follow what there is, and keep what was chosen.
export function choose(select, options) {
  const wanted = JSON.stringify(options);
  if (select.dataset.options === wanted) return;
  select.dataset.options = wanted;
  const chosen = select.value;
  select.replaceChildren(...options.map(([value, text]) => h("option", { value, text })));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}
