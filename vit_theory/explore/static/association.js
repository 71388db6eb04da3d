// Attention that learns which of sixteen patches belong together (paper B): runs that were trained beforehand.

const [SIDE, SIZE, COLORS] = [4, 4, [BLUE, ORANGE, "#009E73", "#CC79A7"]];
const PATCHES = SIDE * SIDE;

// The set of each patch, of a partition with a name or of rows of patches.
export const labelsOf = (partition, named) => named[partition] ??
  Array.from({ length: PATCHES }, (_, patch) => partition.findIndex((row) => row.includes(patch)));
const rowsOf = (labels) => COLORS.map((_, set) => labels.flatMap((label, patch) => (label === set ? [patch] : [])));

// What the pictures show, from the settings. A run is stored with its patches sorted by set, and serves every partition: the
// model does not know where a patch lies.
export function compute({ partition, q, sigma_A, step }, { runs, steps, partitions }) {
  const run = runs[[q, sigma_A].join()];
  const frame = steps.indexOf(step);
  const labels = labelsOf(partition, partitions);
  const order = rowsOf(labels).flat();
  const stored = Uint8Array.from(atob(run.logits), (letter) => letter.charCodeAt(0)).subarray(frame * PATCHES ** 2);
  const value = (place) => run.low + (run.high - run.low) * stored[place] / 255;
  const sorted = Array.from({ length: PATCHES ** 2 }, (_, place) => (place % (PATCHES + 1) ? value(place) : NaN));
  const plain = [...sorted];
  sorted.forEach((one, place) => { plain[order[Math.floor(place / PATCHES)] * PATCHES + order[place % PATCHES]] = one; });
  return { ...run, frame, labels, sorted, plain };
}

const inGrid = (name) => (value, _, { grid }) => grid[name].includes(value);
const numbered = (patches) => patches.length === PATCHES && patches.toSorted((a, b) => a - b).every((patch, place) => patch === place);
export const valid = {
  partition: (sets, _, { partitions }) => typeof sets === "string" ? Object.hasOwn(partitions, sets)
    : Array.isArray(sets) && sets.length === COLORS.length && sets.every((row) => row?.length === SIZE) && numbered(sets.flat()),
  q: inGrid("q"),
  sigma_A: inGrid("sigma_A"),
  step: (step, _, { steps }) => steps.includes(step),
};

const percent = (share) => `${(100 * share).toFixed(share < 0.0995 && share > 0 ? 1 : 0)}%`;

function sentence({ step }, { drop, error, linear, frame }) {
  const wrong = `${percent(error[frame])} of the test images are wrong`;
  if (!step) return `Before training no patch prefers any other, and ${wrong}. Press Play.`;
  const found = drop[frame] === 1 ? "every patch attends most to its own set" : `${percent(drop[frame])} of the most attended patches are of the own set`;
  return `After ${step} steps ${found}; ${wrong}, with the best linear rule ${percent(linear)}.`;
}

function view(page) {
  const { data, actions, controls, pictures, turn } = page;
  const step = slider("training step", data.steps, page.state.step, String, (to) => turn({ step: to }));
  const other = (name, label) =>
    slider(label, data.grid[name], page.state[name], String, (value) => turn({ [name]: value }));
  const named = Object.keys(data.partitions);
  const sets = choice("sets", [...named, "your own"], named.includes(page.state.partition) ? page.state.partition : "your own",
    (name) => turn({ partition: data.partitions[name] ? name : rowsOf(labelsOf(page.state.partition, data.partitions)) }));
  actions.append(player(data.steps, () => page.state.step, (to) => { step.stand(to); turn({ step: to }); }), step);
  controls.append(
    sets,
    other("q", "spurious marks, q"),
    other("sigma_A", "diagonal at the start, σ_A"),
  );
  let first = null; // the patch that waits for a second one

  function swap(patch, labels) {
    const waits = first;
    first = waits === null ? patch : null;
    if (waits === null || waits === patch) return turn({});
    const next = [...labels];
    [next[waits], next[patch]] = [labels[patch], labels[waits]];
    sets.querySelector("select").selectedIndex = named.length;
    turn({ partition: rowsOf(next) });
  }
  const grid = make("div", { role: "group", ariaLabel: "the sets of the patches" });
  grid.style.cssText = `display: grid; gap: 2px; grid-template-columns: repeat(${SIDE}, 1fr)`;
  const buttons = Array.from({ length: PATCHES }, (_, patch) => make("button", { type: "button", onclick: () =>
    swap(patch, labelsOf(page.state.partition, data.partitions)) }));
  grid.append(...buttons);
  const [ordered, plain] = [make("canvas"), make("canvas")];
  const plots = make("div");
  plots.style.cssText = "display: contents";
  pictures.append(
    figure("the image: click two patches to swap their sets", grid, "third"),
    figure("attention logits, sorted by set: a block for each set", ordered, "third"),
    figure("in reading order: the same numbers", plain, "third"),
    plots,
  );

  function means({ gamma, rho, path, frame }) {
    const all = [gamma, rho, path.gamma, path.rho].flat();
    const [low, high] = [Math.floor(Math.min(...all)), Math.ceil(Math.max(...all, 0.5))];
    const picture = plot({ low: 0, high: data.steps.at(-1), label: "step", ticks: [0, 100, 200] },
      { low, high, label: "mean logit", ticks: [low, 0, high] });
    for (const [values, predicted, color, name] of [[gamma, path.gamma, BLUE, "same set"], [rho, path.rho, RED, "other sets"]]) {
      picture.line(data.steps.map((at, place) => [at, predicted[place]]), color);
      data.steps.forEach((at, place) => picture.point(at, values[place], color).setAttribute("r", place === frame ? 6 : 2.5));
      picture.words(4, (color === BLUE ? high : low) * 0.75, name, color);
    }
    return picture.root;
  }
  function errors({ error, linear, frame }) {
    const high = Math.max(0.1, Math.ceil(10 * Math.max(...error, linear)) / 10);
    const picture = plot({ low: 0, high: data.steps.at(-1), label: "step", ticks: [0, 100, 200] }, { low: 0, high, label: "test error", ticks: [0, high] });
    picture.line(data.steps.map((at, place) => [at, error[place]]), BLUE);
    picture.line([[0, linear], [data.steps.at(-1), linear]], ORANGE, "5 3");
    picture.point(data.steps[frame], error[frame], BLUE);
    picture.words(data.steps.at(-1), Math.min(linear + 0.07 * high, 0.9 * high), "best linear rule", ORANGE, "end");
    return picture.root;
  }
  return (now) => {
    const found = compute(now, data);
    found.labels.forEach((label, patch) => {
      const button = buttons[patch];
      [button.textContent, button.ariaLabel] = [label + 1, `patch ${patch + 1}, of set ${label + 1}`];
      button.ariaPressed = String(first === patch);
      button.style.cssText = `aspect-ratio: 1; padding: 0; color: ${label ? "#000" : "#fff"}; background: ${COLORS[label]}; outline: ${first === patch ? "3px solid currentColor" : "none"}`;
    });
    for (const [canvas, values] of [[ordered, found.sorted], [plain, found.plain]]) paint(canvas, values, PATCHES, found.low, found.high, ink(0, 114, 178));
    plots.replaceChildren(
      figure("mean logits: points are trained, lines predicted", means(found), "half"),
      figure("error along training", errors(found), "half"),
    );
    return sentence(now, found);
  };
}

const turned = explorer({ name: "association", defaults: { partition: "blocks", q: 0.4, sigma_A: 1, step: 200 }, valid, view });
export const mount = turned.mount;
export default { render: turned.render };
