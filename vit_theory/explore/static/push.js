// Paper B's descent with all images at once, on three numbers: exact, in the browser, for 16 patches in four sets of four.

const [SIZE, SETS, MARKS, ALPHA, STEPS, RATE_V, RATE_A] = [4, 4, 0.4, 0.05, 200, 1e-3, 24];
const PATCHES = SIZE * SETS;
export const KAPPAS = Array.from({ length: 13 }, (_, place) => -1 + place / 4);

// What a set can show: so many marks of each sign, and its probability.
function kinds() {
  const factorial = (n) => (n > 1 ? n * factorial(n - 1) : 1);
  const found = [];
  for (let plus = 0; plus <= SIZE; plus++)
    for (let minus = 0; plus + minus <= SIZE; minus++) {
      const none = SIZE - plus - minus;
      const ways = factorial(SIZE) / factorial(plus) / factorial(minus) / factorial(none);
      found.push({ plus, minus, none, sum: plus - minus, weight: ways * (MARKS / 2) ** (plus + minus) * (1 - MARKS) ** none });
    }
  return found;
}

// All images with label +1: the signal set, and what the three others show, in any order.
function images(all) {
  const found = [];
  for (let i = 0; i < all.length; i++)
    for (let j = i; j < all.length; j++)
      for (let k = j; k < all.length; k++) {
        const orders = i === j && j === k ? 1 : i === j || j === k ? 3 : 6;
        found.push({ sets: [i, j, k], T: SIZE + all[i].sum + all[j].sum + all[k].sum,
          weight: orders * all[i].weight * all[j].weight * all[k].weight });
      }
  return found;
}
const KINDS = kinds();
const IMAGES = images(KINDS);
const FULL = KINDS.findIndex(({ plus }) => plus === SIZE);

// O_i = a c_i + b s + h T, and F the sum of its cubes: a set's part of F, and of its derivatives by a, b and h.
function part({ plus, minus, none, sum }, T, { a, b, h }) {
  const found = [0, 0, 0, 0];
  for (const [count, mark] of [[plus, 1], [minus, -1], [none, 0]]) {
    const O = a * mark + b * sum + h * T;
    const slope = 3 * count * O * O;
    found[0] += count * O ** 3;
    found[1] += slope * mark;
    found[2] += slope * sum;
    found[3] += slope * T;
  }
  return found;
}

// The coefficients of the formula to keep.
export function coefficients({ alpha, kappa, gamma, rho }) {
  const [own, set, far] = [kappa, gamma, rho].map(Math.exp);
  const Z = own + (SIZE - 1) * set + (PATCHES - SIZE) * far;
  const scale = (alpha * PATCHES) / Z;
  return { a: scale * (own - set), b: scale * (set - far), h: scale * far, own: own / Z, set: set / Z, far: far / Z, Z };
}

// Mean over all images: the error, and the slopes of the logistic loss in a, b and h.
function means(now) {
  const parts = new Map();
  const at = (kind, T) => {
    const key = 64 * (T + 32) + kind;
    if (!parts.has(key)) parts.set(key, part(KINDS[kind], T, now));
    return parts.get(key);
  };
  let error = 0;
  const slopes = [0, 0, 0];
  for (const { sets, T, weight } of IMAGES) {
    const all = [at(FULL, T), ...sets.map((kind) => at(kind, T))];
    const total = (place) => all.reduce((sum, one) => sum + one[place], 0);
    const F = total(0);
    error += weight * (Math.abs(F) < 1e-12 ? 0.5 : Number(F < 0));
    const pull = weight / (1 + Math.exp(F));
    for (let place = 0; place < 3; place++) slopes[place] -= pull * total(place + 1);
  }
  return { error, slopes };
}

// Descent on alpha, gamma and rho; each entry of A has the same rate.
export function descend(kappa) {
  let [alpha, gamma, rho] = [ALPHA, 0, 0];
  const path = [];
  for (let step = 0; step <= STEPS; step++) {
    const now = coefficients({ alpha, kappa, gamma, rho });
    const { error, slopes: [da, db, dh] } = means(now);
    path.push({ ...now, alpha, gamma, rho, error });
    // Z moves with each logit, and all three coefficients with Z
    const through = (da * now.a + db * now.b + dh * now.h);
    const [set, far] = [alpha * PATCHES * now.set, alpha * PATCHES * now.far];
    const dgamma = set * (db - da) - (SIZE - 1) * now.set * through;
    const drho = far * (dh - db) - (PATCHES - SIZE) * now.far * through;
    alpha -= RATE_V * (through / alpha);
    gamma -= (RATE_A * dgamma) / (PATCHES * (SIZE - 1));
    rho -= (RATE_A * drho) / (PATCHES * (PATCHES - SIZE));
  }
  return path;
}

const paths = new Map(); // what was followed once
const followed = (kappa) => {
  if (!paths.has(kappa)) paths.set(kappa, descend(kappa));
  return paths.get(kappa);
};
const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)}%`;
const signed = (value) => value.toFixed(2).replace("-", "\u2212");

function sentence(kappa, { b, error }) {
  const wrong = `${percent(error)} of all images are wrong; the best linear rule errs on 3.6%`;
  if (Math.abs(b) < 1e-9) return `At κ = 0 the gradient in the logits is zero: b stays 0, no set becomes visible, and ${wrong}.`;
  if (b < 0) return `At κ = ${signed(kappa)} the push has the other sign: b falls, a patch listens to its own set least, and ${wrong}.`;
  return `At κ = ${signed(kappa)} the push makes b grow: the sets become visible, and ${wrong}.`;
}

function view(page) {
  const { controls, pictures, turn } = page;
  controls.append(slider("κ, a patch's logit for itself", KAPPAS, page.state.kappa, signed, (kappa) => turn({ kappa })));
  const map = make("canvas");
  const plots = make("div");
  plots.style.cssText = "display: contents";
  pictures.append(figure("attention after 200 steps, sorted by set", map, "third"), plots);
  const steps = Array.from({ length: STEPS + 1 }, (_, step) => step);
  const x = { low: 0, high: STEPS, label: "step", ticks: [0, 100, 200] };

  function heard(path) {
    const picture = plot(x, { low: -0.4, high: 0.6, label: "coefficient", ticks: [-0.4, -0.2, 0, 0.2, 0.4, 0.6] }, { height: 240 });
    picture.line([[0, 0], [STEPS, 0]], "currentColor", "2 3");
    const lines = [["a", "a: itself", "#009E73", "5 3"], ["b", "b: its set", BLUE, ""], ["h", "h: the image", ORANGE, "2 2"]];
    lines.forEach(([name, words, color, dashes], place) => {
      picture.line(steps.map((step) => [step, path[step][name]]), color, dashes);
      picture.words(STEPS, 0.57 - 0.07 * place, words, color, "end");
    });
    return picture.root;
  }
  function erred(path) {
    const picture = plot(x, { low: 0, high: 0.1, label: "error", ticks: [0, 0.05, 0.1] }, { height: 240 });
    picture.line(steps.map((step) => [step, path[step].error]), BLUE);
    picture.line([[0, 0.0363], [STEPS, 0.0363]], ORANGE, "5 3");
    picture.words(STEPS, 0.04, "best linear rule", ORANGE, "end");
    return picture.root;
  }
  return ({ kappa }) => {
    const path = followed(kappa);
    const end = path.at(-1);
    const value = (row, column) => {
      if (row === column) return end.own;
      return Math.floor(row / SIZE) === Math.floor(column / SIZE) ? end.set : end.far;
    };
    paint(map, Array.from({ length: PATCHES ** 2 }, (_, place) => value(Math.floor(place / PATCHES), place % PATCHES)),
      PATCHES, 0, 0.35, ink(0, 114, 178));
    plots.replaceChildren(
      figure("what a patch passes on: a c + b s + h T", heard(path), "third"),
      figure("error along descent", erred(path), "third"),
    );
    return sentence(kappa, end);
  };
}

const turned = explorer({
  name: "push",
  defaults: { kappa: 1 },
  valid: { kappa: (kappa) => KAPPAS.includes(kappa) },
  view,
  said: ({ kappa }) => `reduced_descent(16, 4, 0.4, alpha=0.05, kappa=${kappa}, steps=200, lr_v=1e-3, lr_A=24)`,
});
export const mount = turned.mount;
export default { render: turned.render };
