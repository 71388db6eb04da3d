// A convolution and the attention layer that computes it (paper C, Theorem 1), on gray pictures of 32 by 32 pixels.

const SIDE = 32;
export const KERNELS = {
  Sobel: [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]],
  Laplace: [[0, 1, 0], [1, -4, 1], [0, 1, 0]],
  sharpen: [[0, -1, 0], [-1, 5, -1], [0, -1, 0]],
  emboss: [[-2, -1, 0], [-1, 1, 1], [0, 1, 2]],
  "Gaussian blur": [[1, 2, 1], [2, 4, 2], [1, 2, 1]].map((row) => row.map((value) => value / 16)),
  "box blur": Array.from({ length: 3 }, () => Array(3).fill(1 / 9)),
  shift: [[0, 0, 0], [0, 0, 1], [0, 0, 0]],
  identity: [[0, 0, 0], [0, 1, 0], [0, 0, 0]],
};
const rowsOf = (kernel) => KERNELS[kernel] ?? kernel;
const wrap = (place, length) => ((place % length) + length) % length;

// y(i, j) = sum over u, v of k(u, v) x(i + u - K/2, j + v - K/2)
export function convolve(x, kernel, circular) {
  const high = (kernel.length - 1) / 2;
  const wide = (kernel[0].length - 1) / 2;
  const around = (index) => (circular ? wrap(index, SIDE) : index);
  const y = new Float64Array(SIDE * SIDE);
  for (let place = 0; place < y.length; place++)
    kernel.forEach((row, u) => row.forEach((weight, v) => {
      const i = around(Math.floor(place / SIDE) + u - high);
      const j = around((place % SIDE) + v - wide);
      if (i >= 0 && i < SIDE && j >= 0 && j < SIDE) y[place] += weight * x[i * SIDE + j];
    }));
  return y;
}

// The heads: offsets in patches, key minus query, whose block of the kernel is not zero. A block is stored by its entries that
// are not zero: output pixel (i, j) of the query's patch takes k(u, v) times pixel (i + u - K/2, j + v - K/2), which lies in the
// patch at (dy, dx).
export function headsOf(kernel, P) {
  const high = (kernel.length - 1) / 2;
  const wide = (kernel[0].length - 1) / 2;
  const found = new Map();
  for (let out = 0; out < P * P; out++)
    kernel.forEach((row, u) => row.forEach((weight, v) => {
      if (weight === 0) return;
      const y = Math.floor(out / P) + u - high;
      const x = (out % P) + v - wide;
      const dy = Math.floor(y / P);
      const dx = Math.floor(x / P);
      const key = `${dy},${dx}`;
      if (!found.has(key)) found.set(key, { dy, dx, entries: [] });
      found.get(key).entries.push([out, wrap(y, P) * P + wrap(x, P), weight]);
    }));
  return [...found.values()].sort((a, b) => a.dy - b.dy || a.dx - b.dx);
}

// How many patches a kernel may reach to each side: where a head could stand.
const reachOf = (kernel, P) => [kernel.length, kernel[0].length].map((size) => Math.ceil((size - 1) / 2 / P));

// What one query gives its target and every other key. Zero border: logits +M, -M, and 0 for a key of value zero that takes
// what no patch gets. Circular: M and 0. Without M attention is one-hot.
export function weights(M, count, circular, inside) {
  if (M === null) return [inside ? 1 : 0, 0];
  if (circular) return [1, Math.exp(-M)].map((value) => value / (1 + (count - 1) * Math.exp(-M)));
  if (!inside) return [0, Math.exp(-M) / (1 + count * Math.exp(-M))];
  return [1, Math.exp(-2 * M)].map((value) => value / (1 + Math.exp(-M) + (count - 1) * Math.exp(-2 * M)));
}

function target(query, head, grid, circular) {
  const around = (index) => (circular ? wrap(index, grid) : index);
  const row = around(Math.floor(query / grid) + head.dy);
  const column = around((query % grid) + head.dx);
  return row >= 0 && row < grid && column >= 0 && column < grid ? row * grid + column : -1;
}

// out(query) = sum over heads of block * (sum over keys of attention * patch)
export function attend(x, heads, P, M, circular) {
  const grid = SIDE / P;
  const d = P * P;
  const pixel = (patch, inner) =>
    (Math.floor(patch / grid) * P + Math.floor(inner / P)) * SIDE + (patch % grid) * P + (inner % P);
  const all = Float64Array.from({ length: d }, (_, inner) => {
    let sum = 0;
    for (let patch = 0; patch < grid * grid; patch++) sum += x[pixel(patch, inner)];
    return sum;
  });
  const y = new Float64Array(SIDE * SIDE);
  for (let query = 0; query < grid * grid; query++)
    for (const head of heads) {
      const key = target(query, head, grid, circular);
      const [one, other] = weights(M, grid * grid, circular, key >= 0);
      if (!one && !other) continue;
      const mixed = all.map((sum, inner) => {
        const own = key >= 0 ? x[pixel(key, inner)] : 0;
        return one * own + (other ? other * (sum - own) : 0);
      });
      for (const [out, inner, weight] of head.entries) y[pixel(query, out)] += weight * mixed[inner];
    }
  return y;
}

// Which settings can be shown.
const PATCHES = [2, 4, 8, 16];
const odd = (length) => length % 2 === 1 && length < 32;
const isKernel = (kernel) => typeof kernel === "string" ? Object.hasOwn(KERNELS, kernel)
  : Array.isArray(kernel) && odd(kernel.length) && kernel.every((row) =>
      Array.isArray(row) && row.length === kernel[0].length && odd(row.length) && row.every(Number.isFinite));
const upTo = (count) => (value) => Number.isInteger(value) && value >= 0 && value < count;
export const valid = {
  kernel: isKernel,
  image: (image, _, pictures) => Object.hasOwn(pictures, image),
  patch: (patch) => PATCHES.includes(patch),
  scale: (scale) => scale === null || (Number.isFinite(scale) && scale > 0),
  removed: (removed, { kernel, patch }) => Array.isArray(removed) && new Set(removed).size === removed.length
    && removed.every(upTo(headsOf(rowsOf(kernel), patch).length)),
  border: (border) => ["zeros", "circular"].includes(border),
  query: (query, { patch }) => query === null || upTo((SIDE / patch) ** 2)(query),
};

// Everything the pictures show, from the settings.
export function compute(state, x) {
  const kernel = rowsOf(state.kernel);
  const circular = state.border === "circular";
  const heads = headsOf(kernel, state.patch);
  const kept = heads.filter((_, number) => !state.removed.includes(number));
  const convolution = convolve(x, kernel, circular);
  const attention = attend(x, kept, state.patch, state.scale, circular);
  const size = (values) => Math.hypot(...values);
  const gap = size(convolution.map((value, place) => value - attention[place])) / (size(convolution) || 1);
  return { heads, kept, convolution, attention, gap };
}

function sentence({ scale }, { heads, kept, gap }) {
  const all = `${heads.length} head${heads.length === 1 ? "" : "s"}`;
  const lost = heads.length - kept.length;
  const soft = scale === null ? "" : `with a logit gap of ${scale}`;
  const how = [lost ? `without ${lost} of its ${all}` : soft && `with ${all}`, soft].filter(Boolean).join(" and ");
  if (gap < 1e-9) return `Attention with ${kept.length} of ${all} computes this convolution: the two pictures are equal up to rounding.`;
  const percent = 100 * gap >= 10 ? (100 * gap).toFixed(0) : 100 * gap >= 0.1 ? (100 * gap).toFixed(1) : "less than 0.1";
  return `Attention ${how} misses this convolution by ${percent}% of its size.`;
}

// A picture of one's own: the middle square, in gray, made small.
async function dropped(file) {
  const bitmap = await createImageBitmap(file);
  const side = Math.min(bitmap.width, bitmap.height);
  const context = new OffscreenCanvas(SIDE, SIDE).getContext("2d");
  context.drawImage(bitmap, (bitmap.width - side) / 2, (bitmap.height - side) / 2, side, side, 0, 0, SIDE, SIDE);
  const { data } = context.getImageData(0, 0, SIDE, SIDE);
  return Float64Array.from({ length: SIDE * SIDE }, (_, place) => (data[4 * place] + data[4 * place + 1] + data[4 * place + 2]) / 765);
}

// What "Turn it" goes through: softer attention and back, then a share of the heads gone, and all back.
const TOUR = [
  ...[8, 6, 4, 3, 2, 3, 4, 6, 8, null].map((scale) => ({ scale, gone: 0 })),
  ...[1, 2, 3, 4, 5, 6, 7, 8, 9, 6, 3, 0].map((ninths) => ({ scale: null, gone: ninths / 9 })),
];

// Small taps, as those of a blur, change in finer steps.
const stepOf = (taps) => (Math.max(...taps.flat().map(Math.abs)) < 1 ? 0.05 : 0.25);

// A number follows a mouse or a finger that goes up and down on it; a click is for typing. `begin()` gives its value and step.
function draggable(input, begin, changed) {
  input.addEventListener("mousedown", (event) => event.preventDefault());
  input.addEventListener("pointerdown", (event) => {
    const { value, step } = begin();
    let moved = false;
    input.setPointerCapture(event.pointerId);
    input.onpointermove = ({ clientY }) => {
      const steps = Math.round((event.clientY - clientY) / 8);
      moved ||= steps !== 0;
      if (moved) changed(+(value + steps * step).toFixed(3));
    };
    input.onpointerup = input.onpointercancel = () => {
      input.onpointermove = input.onpointerup = null;
      if (moved) return;
      input.focus();
      input.select();
    };
  });
  return input;
}

const GAPS = [...Array.from({ length: 39 }, (_, place) => 1 + place / 2), null];

function view(page) {
  const { state, data, actions, controls, aside, pictures, turn, turns } = page;
  const pixels = (name) => Float64Array.from(atob(data[name] ?? Object.values(data)[0]), (letter) => letter.charCodeAt(0) / 255);
  let x = pixels(state.image);
  const take = (file) => file && dropped(file).then((values) => {
    x = values;
    turn({});
  });

  const grid = make("div", { ariaLabel: "kernel", role: "group" });
  grid.style.cssText = "display: grid; gap: 2px";
  function shade() {
    const taps = rowsOf(page.state.kernel).flat();
    const high = Math.max(...taps.map(Math.abs)) || 1;
    taps.forEach((tap, place) => {
      grid.children[place].style.background = `color-mix(in srgb, ${tap > 0 ? BLUE : RED} ${(60 * Math.abs(tap)) / high}%, transparent)`;
    });
  }
  function setTap(u, v, tap) {
    const kernel = rowsOf(page.state.kernel).map((row) => [...row]);
    kernel[u][v] = tap;
    name.querySelector("select").selectedIndex = Object.keys(KERNELS).length;
    turn({ kernel, removed: [] });
    shade();
  }
  function cell(tap, u, v) {
    const input = make("input", { type: "number", step: "any", value: +tap.toFixed(3), ariaLabel: `kernel, row ${u + 1}, column ${v + 1}`,
      oninput: () => setTap(u, v, +input.value || 0) });
    const begin = () => {
      const taps = rowsOf(page.state.kernel);
      return { value: taps[u][v], step: stepOf(taps) };
    };
    return draggable(input, begin, (next) => {
      input.value = next;
      setTap(u, v, next);
    });
  }
  function cells() {
    const kernel = rowsOf(page.state.kernel);
    grid.style.gridTemplateColumns = `repeat(${kernel[0].length}, minmax(0, 1fr))`;
    grid.replaceChildren(...kernel.flatMap((row, u) => row.map((tap, v) => cell(tap, u, v))));
    shade();
  }
  const names = [...Object.keys(KERNELS), "your own"];
  const name = choice("kernel", names, KERNELS[state.kernel] ? state.kernel : "your own", (kernel) => {
    turn({ kernel: kernel === "your own" ? rowsOf(page.state.kernel) : kernel, removed: [] });
    cells();
  });
  cells();
  const gap = slider("logit gap M", GAPS, state.scale, (M) => (M === null ? "one-hot" : `${M}`), (scale) => turn({ scale }));
  let place = TOUR.length - 1;
  const tour = player([...TOUR.keys()], () => place, (to) => {
    place = to;
    const { scale, gone } = TOUR[to];
    const { kernel, patch } = page.state;
    gap.stand(scale);
    turn({ scale, removed: [...Array(Math.round(gone * headsOf(rowsOf(kernel), patch).length)).keys()] });
  }, "Turn it", 400);
  if (page.only === "scale") controls.append(gap);
  if (!page.only) actions.append(tour);
  if (!page.only) controls.append(
    name, grid, make("small", {}, "drag a number up or down, or type"),
    slider("patch size, pixels", PATCHES, state.patch, String, (patch) => turn({ patch, removed: [], query: null })),
    gap,
    choice("picture", Object.keys(data), state.image, (image) => { x = pixels(image); turn({ image }); }),
    choice("border", ["zeros", "circular"], state.border, (border) => turn({ border })),
    make("label", {}, make("span", {}, "or a picture of yours"), make("span"),
      make("input", { type: "file", accept: "image/*", ariaLabel: "a picture of yours", onchange: (event) => take(event.target.files[0]) })),
  );

  const canvas = () => make("canvas", { width: SIDE, height: SIDE });
  const image = canvas();
  const convolution = canvas();
  const attention = canvas();
  const difference = canvas();
  const query = () => page.state.query ?? (SIDE / page.state.patch / 2) * (SIDE / page.state.patch + 1);
  const asking = framed(image, "the patch that asks", (next) => turn({ query: next }));
  const equal = make("div", { ariaHidden: "true" }, "equal, up to rounding");
  equal.style.cssText = "position: absolute; inset: 0; display: grid; place-items: center; text-align: center";
  const apart = make("div", {}, difference, equal);
  apart.style.position = "relative";
  for (const [picture, name] of [[convolution, "the convolution"], [attention, "what attention computes"], [difference, "their difference"]]) {
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", name);
  }
  const size = page.only ? "third" : "pair";
  if (!page.only) pictures.append(figure("picture: move the frame", asking, size));
  pictures.append(
    figure("convolution", convolution, size),
    figure("attention", attention, size),
    figure("difference", apart, size),
  );
  pictures.style.maxWidth = "40rem";
  pictures.addEventListener("dragover", (event) => event.preventDefault());
  pictures.addEventListener("drop", (event) => { event.preventDefault(); take(event.dataTransfer.files[0]); });
  const places = make("div");
  places.style.cssText = "display: grid; gap: 4px; max-width: 15em";
  const asked = page.only ? "the nine heads, each at its offset: click one to remove it, or to put it back"
    : "where each head looks from the framed patch, at its offset: click one to remove it";
  if (turns("removed")) aside.append(figure(asked, places));
  const errors = make("div");
  if (page.only === "scale") aside.append(errors);
  let curve = null; // the error at each gap, of this kernel and picture

  function drawErrors(now, gap) {
    curve ??= GAPS.filter((M) => M !== null && M <= 12).map((M) => [M, compute({ ...now, scale: M }, x).gap]);
    const picture = plot({ low: 1, high: 12, label: "logit gap M", ticks: [1, 4, 8, 12] },
      { low: 1e-4, high: 10, log: true, label: "error", ticks: [0.0001, 0.01, 1] }, { width: 260, height: 220 });
    picture.line(curve, BLUE);
    picture.point(Math.min(now.scale ?? 12, 12), Math.max(gap, 1e-4), RED);
    errors.replaceChildren(figure("error over the gap, relative", picture.root));
  }

  function drawHeads(now, heads) {
    const count = SIDE / now.patch;
    const [high, wide] = reachOf(rowsOf(now.kernel), now.patch);
    const offsets = Array.from({ length: (2 * high + 1) * (2 * wide + 1) }, (_, place) =>
      [Math.floor(place / (2 * wide + 1)) - high, (place % (2 * wide + 1)) - wide]);
    places.style.gridTemplateColumns = `repeat(${2 * wide + 1}, minmax(0, 1fr))`;
    places.replaceChildren(...offsets.map(([dy, dx], place) => {
      const number = heads.findIndex((head) => head.dy === dy && head.dx === dx);
      if (number < 0) {
        const unused = make("div", { title: `no head at ${dy}, ${dx}: the kernel reads nothing there` });
        unused.style.cssText = "aspect-ratio: 1; border: 1px dashed color-mix(in srgb, currentColor 30%, transparent); border-radius: 4px";
        return unused;
      }
      const circular = now.border === "circular";
      const looks = target(query(), heads[number], count, circular);
      const gone = now.removed.includes(number);
      const [one, other] = weights(now.scale, count * count, circular, looks >= 0);
      const map = make("canvas");
      paint(map, Array.from({ length: count * count }, (_, key) => (key === looks ? one : other)), count, 0, 1, ink(0, 114, 178));
      const removed = gone ? now.removed.filter((each) => each !== number) : [...now.removed, number].sort((a, b) => a - b);
      const label = `head at ${dy}, ${dx}${gone ? ", removed" : ""}`;
      const button = make("button", { type: "button", title: label, ariaLabel: label, ariaPressed: String(gone), onclick: () => {
        turn({ removed });
        places.children[place].focus();
      } }, map);
      button.style.cssText = `padding: 2px; opacity: ${gone ? 0.25 : 1}`;
      return button;
    }));
  }

  return (now) => {
    const found = compute(now, x);
    const low = Math.min(...found.convolution);
    const high = Math.max(...found.convolution);
    const missed = found.convolution.map((value, place) => Math.abs(value - found.attention[place]));
    const none = found.gap < 1e-9;
    paint(image, x, SIDE, 0, 1, gray);
    paint(convolution, found.convolution, SIDE, low, high, gray);
    paint(attention, found.attention, SIDE, low, high, gray);
    paint(difference, missed, SIDE, 0, none ? Infinity : (high - low) / 2, ink(213, 94, 0));
    equal.style.visibility = none ? "visible" : "hidden";
    asking.stand(query(), [SIDE / now.patch, SIDE / now.patch]);
    if (turns("removed")) drawHeads(now, found.heads);
    if (page.only === "scale") drawErrors(now, found.gap);
    return sentence(now, found);
  };
}

const turned = explorer({
  name: "convolution",
  defaults: { kernel: "Sobel", image: "flower", patch: 4, scale: null, removed: [], border: "zeros", query: null },
  valid,
  view,
});
export const mount = turned.mount;
export default { render: turned.render };
