// What every explorer shares: a page of controls and pictures in any element, with or without a kernel behind it.

const STYLE = `
.turn { color: inherit; font: 14px/1.45 system-ui, sans-serif; max-width: 62rem; container-type: inline-size; }
.turn .said { font-size: 1.1em; min-height: 2.9em; margin: 0 0 .6em; }
.turn-panel { display: grid; gap: .7em 1.6em; grid-template: "actions pictures" auto "controls pictures" auto
  "aside pictures" 1fr / minmax(12em, 15em) minmax(0, 1fr); }
.turn-actions { grid-area: actions; display: grid; gap: .55em; }
.turn-controls { grid-area: controls; display: grid; gap: .55em; align-content: start; }
.turn-aside { grid-area: aside; }
.turn-pictures { grid-area: pictures; min-width: 0; display: grid; gap: .9em; align-content: start; align-items: end; grid-template-columns: repeat(12, minmax(0, 1fr)); }
.turn-actions:empty, .turn-aside:empty { display: none; }
.turn :is(.half, .pair) { grid-column: span 6; }
.turn .third { grid-column: span 4; }
.turn.turn figure { margin: 0; padding: 0; min-width: 0; max-width: none; width: auto; }
.turn .wide { grid-column: 1 / -1; }
.turn.turn figcaption { font: inherit; font-size: .9em; color: inherit; text-align: left; margin: 0 0 .25em; padding: 0; }
.turn canvas { display: block; width: 100%; image-rendering: pixelated; box-sizing: border-box; touch-action: manipulation;
  border: 1px solid color-mix(in srgb, currentColor 30%, transparent); }
.turn svg { display: block; width: 100%; height: auto; overflow: visible; }
.turn svg text { fill: currentColor; font-size: 12px; }
.turn label { display: grid; grid-template-columns: 1fr auto; gap: 0 .6em; }
.turn label > :nth-child(n + 3) { grid-column: 1 / -1; width: 100%; }
.turn input, .turn select, .turn button { font: inherit; color: inherit; margin: 0; min-width: 0; box-sizing: border-box; border-radius: 4px;
  background: transparent; border: 1px solid color-mix(in srgb, currentColor 55%, transparent); padding: .15em .3em; }
.turn option { color: #000; background: #fff; }
.turn input[type=range] { appearance: none; height: 1.5em; padding: 0; border: 0;
  background: linear-gradient(color-mix(in srgb, currentColor 30%, transparent) 0 0) center / 100% 4px no-repeat; }
.turn input::-webkit-slider-thumb { appearance: none; width: 1.25em; height: 1.25em; border-radius: 50%; background: #0072B2; }
.turn input::-moz-range-thumb { width: 1.25em; height: 1.25em; border: 0; background: #0072B2; }
.turn input[type=number] { appearance: textfield; cursor: ns-resize; touch-action: none; }
.turn input::-webkit-inner-spin-button { appearance: none; }
.turn button { cursor: pointer; }
.turn button.play { background: #0072B2; color: #fff; padding: .3em; border-color: #0072B2; }
.turn :is(input, select, button, canvas, [role=slider]):focus-visible { outline: 2px solid #E69F00; outline-offset: 1px; }
.turn.inset { max-width: 52rem; border: 1px solid color-mix(in srgb, currentColor 30%, transparent); border-radius: 6px; padding: .8em 1em; box-sizing: border-box; }
.turn.inset .turn-panel { grid-template: "controls" auto "pictures" auto "aside" auto / minmax(0, 1fr); }
.turn.inset:has(.turn-aside > *) .turn-panel { grid-template: "controls controls" auto "aside pictures" 1fr / minmax(10em, 1fr) minmax(0, 2fr); }
.turn.inset .turn-controls { max-width: 26rem; }
.turn.inset .said { min-height: 1.5em; }
.turn-foot { display: flex; flex-wrap: wrap; gap: .4em 1em; align-items: center; justify-content: space-between; margin-top: .8em; }
.turn code { overflow-wrap: anywhere; white-space: pre-wrap; font-size: .85em; }
@container (max-width: 36rem) {
  .turn-panel { grid-template: "actions" auto "pictures" auto "aside" auto "controls" auto / minmax(0, 1fr); }
  .turn-pictures { gap: .7em; }
  .turn .half { grid-column: 1 / -1; }
  .turn .third { grid-column: span 6; }
  .turn .said { min-height: 5.8em; }
  .turn.inset .said { min-height: 4.4em; }
  .turn.inset:has(.turn-aside > *) .turn-panel { grid-template: "controls" auto "aside" auto "pictures" auto / minmax(0, 1fr); }
  .turn.inset .third:has(canvas) { grid-column: span 4; }
  .turn.inset .third:has(svg) { grid-column: 1 / -1; }
}
`;

// An element: make("label", { title: "..." }, child, "text").
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// A slider through a list of values; the label says the value that it stands at.
export function slider(label, values, value, say, turned) {
  const shown = make("output", {}, say(value));
  const place = Math.max(values.findIndex((one) => one === value), 0);
  const input = make("input", { type: "range", min: 0, max: values.length - 1, step: 1, value: place, ariaLabel: label });
  input.setAttribute("aria-valuetext", say(value));
  input.addEventListener("input", () => {
    shown.textContent = say(values[input.value]);
    input.setAttribute("aria-valuetext", shown.textContent);
    turned(values[input.value]);
  });
  const whole = make("label", {}, make("span", {}, label), shown, input);
  whole.stand = (next) => {
    input.value = values.indexOf(next);
    shown.textContent = say(next);
    input.setAttribute("aria-valuetext", say(next));
  };
  return whole;
}

export function choice(label, values, value, turned) {
  const options = values.map((one) => make("option", { value: one, selected: one === value }, String(one)));
  const input = make("select", { ariaLabel: label, onchange: () => turned(values[input.selectedIndex]) }, ...options);
  return make("label", {}, make("span", {}, label), make("span"), input);
}

// Shades: gray for pictures; for differences and weights the strength of one color, and nothing is the page itself.
export const gray = (share) => [255 * share, 255 * share, 255 * share, 255];
export const ink = (red, green, blue) => (share) => [red, green, blue, 255 * share];
export const [BLUE, RED, ORANGE] = ["#0072B2", "#D55E00", "#E69F00"];

// Numbers as an image, one pixel each.
export function paint(canvas, values, columns, low, high, shade) {
  [canvas.width, canvas.height] = [columns, values.length / columns];
  const picture = new ImageData(canvas.width, canvas.height);
  values.forEach((value, place) => {
    const share = Math.min(Math.max((value - low) / (high - low || 1), 0), 1);
    picture.data.set(shade(share), 4 * place);
  });
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

// Axes: x and y are { low, high, label, ticks, log }; lines, points and bars are put in with their own numbers.
export function plot(x, y, { width = 330, height = 190 } = {}) {
  const box = { left: 56, right: width - 16, top: 8, bottom: height - 34 };
  const on = ({ low, high, log }, value, start, end) => {
    const [from, to, at] = log ? [low, high, value].map(Math.log) : [low, high, value];
    return start + Math.min(Math.max((at - from) / (to - from), 0), 1) * (end - start);
  };
  const [across, up] = [(value) => on(x, value, box.left, box.right), (value) => on(y, value, box.bottom, box.top)];
  const root = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${y.label} over ${x.label}` });
  function draw(tag, attributes, text = "") {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = text;
    return element;
  }
  const add = (...given) => root.appendChild(draw(...given));
  add("path", { d: `M${box.left} ${box.top}V${box.bottom}H${box.right}`, fill: "none", stroke: "currentColor" });
  for (const tick of x.ticks) add("text", { x: across(tick), y: box.bottom + 14, "text-anchor": "middle" }, tick);
  for (const tick of y.ticks) add("text", { x: box.left - 5, y: up(tick) + 4, "text-anchor": "end" }, tick);
  add("text", { x: (box.left + box.right) / 2, y: height - 4, "text-anchor": "middle" }, x.label);
  add("text", { transform: `translate(12 ${(box.top + box.bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, y.label);
  return {
    root,
    line: (points, color, dashes = "") =>
      add("polyline", { points: points.map(([a, b]) => `${across(a)},${up(b)}`).join(" "), fill: "none", stroke: color,
        "stroke-width": 2, "stroke-dasharray": dashes }),
    point: (a, b, color) => add("circle", { cx: across(a), cy: up(b), r: 6, fill: color, stroke: "white" }),
    bar: (from, to, value, color) =>
      add("rect", { x: across(from), width: across(to) - across(from), y: up(value), height: box.bottom - up(value), fill: color }),
    words: (a, b, text, color, anchor = "start") =>
      add("text", { x: across(a), y: up(b), style: `fill: color-mix(in srgb, ${color} 55%, currentColor)`, "text-anchor": anchor }, text),
  };
}

// Play: goes through the values of a slider, from the first when it stands at the last.
export function player(values, at, turned, name = "Play", pause = 150) {
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    button.textContent = name;
  };
  const next = () => {
    if (!button.isConnected || at() === values.at(-1)) return stop();
    turned(values[values.indexOf(at()) + 1]);
  };
  const button = make("button", { type: "button", className: "play", onclick: () => {
    if (timer) return stop();
    if (at() === values.at(-1)) turned(values[0]);
    button.textContent = "Pause";
    timer = setInterval(next, pause);
  } }, name);
  return button;
}

// A picture below its caption, which is also its name for those who do not see it.
export function figure(caption, picture, kind = "") {
  if (/^(canvas|svg)$/i.test(picture.tagName)) {
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", caption);
  }
  return make("figure", { className: kind }, make("figcaption", {}, caption), picture);
}

// A canvas with a frame around one patch: a click, a drag or the arrow keys move it.
export function framed(canvas, name, chosen) {
  const frame = make("div");
  const root = make("div", { tabIndex: 0, role: "slider", ariaLabel: name }, canvas, frame);
  let [rows, columns, query] = [1, 1, 0];
  const choose = (next) => next !== query && chosen(next);
  function follow(event) {
    const box = root.getBoundingClientRect();
    const place = (share, count) => Math.min(Math.max(Math.floor(share * count), 0), count - 1);
    const row = place((event.clientY - box.top) / box.height, rows);
    const column = place((event.clientX - box.left) / box.width, columns);
    choose(row * columns + column);
  }
  root.addEventListener("click", follow);
  root.addEventListener("pointermove", (event) => event.buttons && event.pointerType === "mouse" && follow(event));
  root.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const [down, right] = moves[event.key];
    const row = Math.min(Math.max(Math.floor(query / columns) + down, 0), rows - 1);
    const column = Math.min(Math.max((query % columns) + right, 0), columns - 1);
    choose(row * columns + column);
  });
  root.style.cssText = "position: relative; cursor: crosshair";
  root.stand = (next, [high, wide]) => {
    [query, rows, columns] = [next, high, wide];
    const [row, column] = [Math.floor(query / columns), query % columns];
    frame.style.cssText = `position: absolute; pointer-events: none; box-sizing: border-box; border: 2px solid ${ORANGE};
      top: ${(100 * row) / rows}%; left: ${(100 * column) / columns}%; width: ${100 / columns}%; height: ${100 / rows}%`;
    const said = { valuemin: 1, valuemax: rows * columns, valuenow: query + 1, valuetext: `row ${row + 1}, column ${column + 1}` };
    for (const [key, value] of Object.entries(said)) root.setAttribute(`aria-${key}`, value);
  };
  return root;
}

// The settings that the address of this page asks for. Text that is no JSON is itself: ?kernel=Laplace.
function asked(defaults) {
  const found = {};
  for (const [name, text] of new URLSearchParams(location.search)) {
    if (!(name in defaults)) continue;
    try {
      found[name] = JSON.parse(text);
    } catch {
      found[name] = text;
    }
  }
  return found;
}

// Settings as they can be shown: what an explorer cannot show is its default. `valid` has, for each setting, whether a value
// is possible, given those before it.
export function checked(wanted, defaults, valid, data) {
  const state = { ...defaults };
  for (const name of Object.keys(defaults)) {
    const value = wanted[name];
    if (value !== undefined && (valid[name]?.(value, state, data) ?? true)) state[name] = value;
  }
  return state;
}

// The link to this state goes to the clipboard.
function copier() {
  const button = make("button", { type: "button", onclick: async () => {
    try {
      await navigator.clipboard.writeText(location.href);
    } catch { // a page that is not served safely has no clipboard of its own
      const text = make("textarea", { value: location.href });
      button.after(text);
      text.select();
      document.execCommand("copy");
      text.remove();
    }
    button.textContent = "Link copied";
    setTimeout(() => { button.textContent = "Copy link"; }, 1500);
  } }, "Copy link");
  return button;
}

const differ = (state, defaults) =>
  Object.entries(state).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(defaults[name]));

function python(value) {
  if (value === null) return "None";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  return JSON.stringify(value);
}

// An explorer is { name, defaults, valid, view }: view(page) makes controls and pictures once, and returns what draws a state.
// `said` puts a state into code; `only` is the setting that turns, where a text shows one of them alone.
export function explorer({ name, defaults, valid = {}, view, said: coded = null }) {
  // Fill an element; `told` hears of every change -> a function that sets another state, and other data.
  function mount(element, { state = {}, data = {}, told = null, address = false, only = "" } = {}) {
    const wanted = { ...state, ...(address ? asked(defaults) : {}) };
    const page = { state: checked(wanted, defaults, valid, data), live: told !== null, only };
    page.turns = (setting) => !only || only === setting;
    const said = make("p", { className: "said", role: "status" });
    const code = make("code", { title: "the same state in Python" });
    const parts = ["actions", "controls", "aside", "pictures"];
    for (const part of parts) page[part] = make("div", { className: `turn-${part}` });
    let draw;
    function show() {
      said.textContent = draw(page.state);
      const changed = differ(page.state, defaults).map(([key, value]) => `${key}=${python(value)}`);
      code.textContent = coded?.(page.state) ?? `${name}_explorer(${[...(page.data.given ?? []), ...changed].join(", ")})`;
    }
    page.turn = (change) => {
      Object.assign(page.state, change);
      show();
      told?.({ ...page.state });
      if (!address) return;
      const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
      const query = new URLSearchParams(differ(page.state, defaults).map(([key, value]) => [key, text(value)]));
      history.replaceState(null, "", `${location.pathname}?${query}${location.hash}`);
    };
    page.begin = (next, shown = page.data) => {
      page.data = shown;
      Object.assign(page.state, checked({ ...page.state, ...next }, defaults, valid, shown));
      for (const part of parts) page[part].replaceChildren();
      draw = view(page);
      show();
    };
    const panel = make("div", { className: "turn-panel" }, ...parts.map((part) => page[part]));
    const foot = make("div", { className: "turn-foot" }, code, ...(address ? [copier()] : []));
    const whole = make("div", { className: only ? "turn inset" : "turn", "data-lm-suppress-shortcuts": "true" }, said, panel, foot);
    whole.addEventListener("keydown", (event) => event.stopPropagation()); // in JupyterLab an arrow key would fold the heading
    element.replaceChildren(make("style", {}, STYLE), whole);
    page.begin({}, data);
    return page.begin;
  }
  // For anywidget: the state is a trait of the Python object, in both directions; Python may answer it with other data.
  function render({ model, el }) {
    let own = "";
    const told = (state) => {
      own = JSON.stringify(state);
      model.set("state", state);
      model.save_changes();
    };
    const begin = mount(el, { state: model.get("state"), data: model.get("data"), told, only: model.get("only") });
    model.on("change:state", () => JSON.stringify(model.get("state")) !== own && begin(model.get("state")));
    model.on("change:data", () => begin({}, model.get("data")));
  }
  return { mount, render };
}
