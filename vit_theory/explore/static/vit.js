// Where each head of a vision transformer looks, and what the model answers with fewer patches: measured beforehand, in Python.
// What a model has not is not in the data: answers (no `answers` of an image), fewer patches (one share), a measure.

const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const MEASURES = {
  entropy: ["entropy, nats", 2],
  distance: ["distance, patches", 1],
  mass: ["mass on busy patches", 2],
  neighbors: ["neighbor score", 2],
  positional: ["positional share", 2],
  convolutional: ["convolutional share", 2],
  removal: ["answer moved by removal", 2],
};

// What the pictures show, from the settings. A weight is stored as the byte of its square root.
export function compute({ image, layer, head, query, keep }, data) {
  const [seen, n] = [data.images.find(({ number }) => number === image), data.grid[0] * data.grid[1]];
  const [stored, place] = [bytes(seen.attention), data.shares.indexOf(keep)];
  const looks = (layer, head) =>
    Array.from(stored.subarray(((layer * data.heads + head) * n + query) * n).subarray(0, n), (value) => (value / 255) ** 2);
  const maps = Array.from({ length: data.layers }, (_, l) => Array.from({ length: data.heads }, (_, h) => looks(l, h)));
  const kept = seen.order.slice(0, data.counts[place]);
  return { ...seen, n, maps, look: maps[layer][head], kept, answer: seen.answers?.[place], share: data.curve[place] };
}

const percent = (share) => `${(100 * share).toFixed(0)}%`;

// White words on dark colors, black ones on light: the better contrast of the two (WCAG's relative luminance).
export function wordsOn(color) {
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const [red, green, blue] = [1, 3, 5].map((place) => linear(parseInt(color.slice(place, place + 2), 16) / 255));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

// A field in the color of what leads; its edge is seen on a page of any color.
function field(name, color, text) {
  const one = make("small", { className: "lead" }, text);
  one.dataset.lead = name;
  one.style.cssText = `display: block; box-sizing: border-box; min-height: 8px; overflow: hidden; white-space: nowrap; text-align: center;
    margin-top: 2px; padding: 0 .2em; line-height: 1.35; border: 1px solid color-mix(in srgb, currentColor 55%, transparent)`;
  one.style.background = color;
  const words = make("span", {}, ...one.childNodes);
  words.style.color = wordsOn(color); // the edge keeps the page's ink
  one.replaceChildren(words);
  return one;
}

function legend({ colors, names, images }) {
  const all = names.flat();
  const count = (name) => all.filter((one) => one === name).length;
  const items = Object.entries(colors).filter(([name]) => name !== "flat" || count(name)).map(([name, color]) => {
    const swatch = field(name, color, "");
    swatch.style.cssText += "; width: 1.2em; min-height: .9em; margin: 0";
    const item = make("li", {}, swatch, `${name}: ${count(name)}`);
    item.style.cssText = "display: flex; gap: .35em; align-items: center; margin: 0";
    return item;
  });
  const list = make("ul", { className: "leads", ariaLabel: `what leads how many heads, over ${images} images` }, ...items);
  list.style.cssText = "display: flex; flex-wrap: wrap; gap: .2em 1em; list-style: none; margin: .2em 0 .4em; padding: 0; font-size: .9em";
  return list;
}

function sentence({ layer, head, query }, { look, kept, n, answer, truth, share }, { grid, right, total, leads, shares, behind }) {
  const most = look.indexOf(Math.max(...look));
  const away = Math.hypot(Math.floor(most / grid[1]) - Math.floor(query / grid[1]), (most % grid[1]) - (query % grid[1]));
  const where = away ? `a patch ${away.toFixed(1).replace(".0", "")} away` : "itself";
  const led = leads ? `, led by ${leads.names[layer][head]},`.replace("led by flat", "which reads all alike") : "";
  const looks = `From the framed patch head ${head} of layer ${layer}${led} looks most at ${where} (${percent(look[most])}).`;
  if (answer === undefined) return looks;
  if (!right && shares.length === 1) return `${looks} The model answers ${answer}.`;
  const few = `the ${kept.length} most attended of ${n} patches${behind ? ` ${behind}` : ""}`;
  const patches = kept.length < n ? few : `all ${n} patches`;
  const same = `${percent(share)} of ${total} images get the answer of all patches.`;
  if (!right) return `${looks} With ${patches} the model answers ${answer}; ${same}`;
  const said = `the model answers ${answer}, which is ${answer === truth ? "right" : `wrong: it is ${truth}`}`;
  return `${looks} With ${patches} ${said}; of ${total} images ${percent(share)} are right.`;
}

// The image; patches that are left out are gray.
function photograph(canvas, { pixels, kept }, { size: [high, wide], grid: [rows, columns] }) {
  [canvas.width, canvas.height] = [wide, high];
  const [values, picture, stay] = [bytes(pixels), new ImageData(wide, high), new Set(kept)];
  const channels = values.length / (high * wide);
  for (let place = 0; place < high * wide; place++) {
    const [row, column] = [Math.floor((Math.floor(place / wide) * rows) / high), Math.floor(((place % wide) * columns) / wide)];
    const show = (value) => (stay.has(row * columns + column) ? value : 115 + value / 10);
    for (let color = 0; color < 3; color++) picture.data[4 * place + color] = show(values[channels * place + (color % channels)]);
    picture.data[4 * place + 3] = 255;
  }
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

const below = (count) => (value) => Number.isInteger(value) && value >= 0 && value < count;
export const valid = {
  image: (image, _, data) => data.images.some(({ number }) => number === image),
  layer: (layer, _, { layers }) => below(layers)(layer),
  head: (head, _, { heads }) => below(heads)(head),
  query: (query, _, { grid }) => below(grid[0] * grid[1])(query),
  measure: (measure, _, { measures }) => measures.includes(measure),
  keep: (keep, _, data) => data.shares.includes(keep),
};

function view(page) {
  const { state, data, controls, pictures, turn } = page;
  const [numbers, n] = [data.images.map(({ number }) => number), data.grid[0] * data.grid[1]];
  const upTo = (count) => Array.from({ length: count }, (_, place) => place);
  const inside = (value, possible) => (possible.includes(value) ? value : possible.at(-1));
  Object.assign(state, { model: data.model, image: inside(state.image, numbers), layer: inside(state.layer, upTo(data.layers)),
    head: inside(state.head, upTo(data.heads)), query: inside(state.query, upTo(n)), keep: inside(state.keep, data.shares) });
  const sliders = {};
  const sliding = (name, label, values, say = String) =>
    (sliders[name] = slider(label, values, state[name], say, (value) => turn({ [name]: value })));
  const names = data.measures.map((measure) => MEASURES[measure][0]);
  if (!data.measures.includes(state.measure)) state.measure = data.measures[0];
  const lacks = data.shares.length > 1; // it can lack patches
  controls.append(
    sliding("image", "image", numbers),
    sliding("layer", "layer", upTo(data.layers)),
    sliding("head", "head", upTo(data.heads)),
    sliding("query", "patch that asks", upTo(n)),
    ...(lacks ? [sliding("keep", "patches kept", data.shares, (share) => `${data.counts[data.shares.indexOf(share)]} of ${n}`)] : []),
    choice("bar below each head", names, MEASURES[state.measure][0], (label) => turn({ measure: data.measures[names.indexOf(label)] })),
    ...data.notes.map((note) => make("small", { className: "note" }, note)),
  );
  if (page.live) {
    const text = make("input", { type: "text", value: data.model ?? "", placeholder: "empty: ours", ariaLabel: "folder or hub name" });
    const load = make("button", { type: "button", onclick: () => turn({ model: text.value || null }) }, "Load");
    controls.append(make("label", {}, make("span", {}, "folder or hub name"), make("span"), text), load);
  }

  const ask = (query) => { sliders.query.stand(query); turn({ query }); };
  const [photo, look] = [make("canvas"), make("canvas")];
  const [asking, looking] = ["the patch that asks, in the image", "the patch that asks, in the attention map"];
  const both = [framed(photo, asking, ask), framed(look, looking, ask)];
  const heads = make("div");
  heads.style.cssText = `display: grid; gap: 3px; grid-template-columns: repeat(${data.heads}, minmax(0, 1fr))`;
  const curve = make("div");
  const fewest = figure(data.right ? "right answers with fewer patches" : "same answers with fewer patches", curve, "half");
  fewest.style.alignSelf = "start"; // beside the first heads, not below a tall column of them
  pictures.append(
    figure("", both[0], "pair"),
    figure("where the chosen head looks from it", both[1], "pair"),
    figure(`every head, a row for each layer${data.leads ? ", colored by what leads it" : ""}: click one`,
      data.leads ? make("div", {}, legend(data.leads), heads) : heads, "half"),
    ...(lacks ? [fewest] : []),
  );

  // what leads a head, in words
  function says(layer, head) {
    if (!data.leads) return "";
    const [name, share] = [data.leads.names[layer][head], data.leads.shares[layer][head]];
    return name === "flat" ? ", reads all alike" : `, ${name} leads with ${share.toFixed(2)}`;
  }
  function drawHeads(now, found) {
    const [values, [label, digits]] = [found[now.measure], MEASURES[now.measure]];
    const high = Math.max(...values.flat());
    heads.replaceChildren(...found.maps.flatMap((row, layer) => row.map((weights, head) => {
      const [map, bar, value] = [make("canvas"), make("div"), values[layer][head]];
      paint(map, weights, data.grid[1], 0, Math.max(...weights), ink(0, 114, 178));
      bar.style.cssText = `height: 4px; margin-top: 2px; background: ${ORANGE}; width: ${(100 * value) / (high || 1)}%`;
      const chosen = layer === now.layer && head === now.head;
      const [title, lead] = [`layer ${layer}, head ${head}: ${label} ${value?.toFixed(digits)}${says(layer, head)}`, data.leads?.names[layer][head]];
      const word = data.heads > 6 ? "" : data.heads > 4 ? lead?.slice(0, 4) : lead;
      const fields = lead ? [field(lead, data.leads.colors[lead], word)] : [];
      const button = make("button", { type: "button", title, ariaLabel: title, ariaPressed: String(chosen), onclick: () => {
        sliders.layer.stand(layer);
        sliders.head.stand(head);
        turn({ layer, head });
        heads.children[layer * data.heads + head].focus();
      } }, ...fields, map, bar, ...(data.heads > 6 ? [] : [make("small", {}, value?.toFixed(digits))]));
      button.style.cssText = `padding: 2px; ${chosen ? `box-shadow: 0 0 0 2px ${ORANGE}` : ""}`;
      return button;
    })));
  }
  function fewer({ share }) {
    const picture = plot({ low: 0, high: 1, label: "share of patches kept", ticks: [0, 0.5, 1] },
      { low: 0, high: 1, label: "share of images", ticks: [0, 0.5, 1] });
    picture.line(data.shares.map((kept, place) => [kept, data.curve[place]]), BLUE);
    picture.point(page.state.keep, share, RED);
    return picture.root;
  }
  let wrong = data.wrong;
  return (now) => {
    if (now.model !== data.model) return `Python reads ${now.model ?? "our model"} ...`;
    const found = compute(now, data);
    photograph(photo, found, data);
    paint(look, found.look, data.grid[1], 0, Math.max(...found.look), ink(0, 114, 178));
    both[0].previousSibling.textContent = found.kept.length < found.n ? "gray patches are left out" : "the image: click the patch that asks";
    both.forEach((each) => each.stand(now.query, data.grid));
    drawHeads(now, found);
    if (lacks) curve.replaceChildren(fewer(found));
    const said = wrong ? `Not possible: ${wrong}` : sentence(now, found, data);
    wrong = "";
    return said;
  };
}

const turned = explorer({
  name: "vit",
  defaults: { model: null, image: 0, layer: 0, head: 0, query: 27, measure: "entropy", keep: 1 },
  valid,
  view,
});
export const mount = turned.mount;
export default { render: turned.render };
