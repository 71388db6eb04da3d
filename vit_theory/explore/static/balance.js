// Paper A on a napkin: what is learned and shown of the signal, against what chance has taught, at 256 samples.

const [SAMPLES, BACKGROUND] = [256, 0.4];
export const SHARES = [2, 3, 4, 5, 6, 8, 10, 12, 16, 20];

// Both sides of both conditions, at a share of relevant tokens; chance imbalance is 1/sqrt(N).
export function sides(share, samples = SAMPLES) {
  const chance = BACKGROUND / Math.sqrt(samples);
  return {
    uniform: { signal: (share * share) / 2, chance: BACKGROUND * chance },
    trained: { signal: (share / 2) ** 2, chance: chance ** 2 },
  };
}
// Samples at which the two sides are equal.
export const needed = { uniform: (share) => (4 * BACKGROUND ** 4) / share ** 4, trained: (share) => (4 * BACKGROUND ** 2) / share ** 2 };

const percent = (share) => `${+(100 * share).toPrecision(3)}%`;

function sentence(share) {
  const { uniform, trained } = sides(share);
  const start = `With ${percent(share)} relevant tokens and ${SAMPLES} samples`;
  if (uniform.signal > uniform.chance) return `${start} the signal is louder than chance with and without attention.`;
  if (trained.signal > trained.chance) return `${start} uniform attention shows more chance than signal; learned attention still turns to the signal.`;
  return `${start} chance wins both times: attention turns to a background.`;
}

function view(page) {
  const { data, controls, pictures, turn } = page;
  const say = (eightieths) => `${eightieths}/80`;
  controls.append(slider("share α of relevant tokens", SHARES, page.state.alpha, say, (alpha) => turn({ alpha })));

  function bars({ signal, chance }, label) {
    const high = 1.15 * Math.max(signal, chance);
    const picture = plot({ low: 0, high: 2, label: "", ticks: [] }, { low: 0, high, label, ticks: [0] }, { height: 210 });
    picture.bar(0.25, 0.85, signal, BLUE);
    picture.bar(1.15, 1.75, chance, RED);
    picture.words(0.55, signal + 0.02 * high, "signal", BLUE, "middle");
    picture.words(1.45, chance + 0.02 * high, "chance", RED, "middle");
    return picture.root;
  }
  function places(share) {
    const picture = plot({ low: 3, high: 50, log: true, label: "1/α: tokens for each relevant one", ticks: [4, 10, 20, 40] },
      { low: 8, high: 2e6, log: true, label: "samples needed", ticks: [10, 100, 1000, 10000] }, { height: 210 });
    for (const [arm, color, words] of [["uniform", RED, "uniform"], ["trained", BLUE, "learned"]]) {
      const points = SHARES.map((eightieths) => 80 / eightieths);
      picture.line(points.map((one) => [one, needed[arm](1 / one)]), color, "5 3");
      for (const [alpha, count] of data.borders[`${arm} attention`]) if (alpha >= 0.024) picture.point(1 / alpha, count, color).setAttribute("r", 3);
      picture.words(arm === "uniform" ? 9 : 14, arm === "uniform" ? 9e4 : 20, words, color, arm === "uniform" ? "end" : "start");
    }
    picture.line([[3, SAMPLES], [50, SAMPLES]], "currentColor", "2 3");
    picture.point(1 / share, SAMPLES, ORANGE);
    return picture.root;
  }
  return ({ alpha }) => {
    const share = alpha / 80;
    const { uniform, trained } = sides(share);
    pictures.replaceChildren(
      figure("uniform attention: what a test sample shows", bars(uniform, "α · α/2 against b · b imb"), "third"),
      figure("learned attention: what moves the logits", bars(trained, "(α/2)² against (b imb)²"), "third"),
      figure("lines: these conditions; small points: trained networks", places(share), "third"),
    );
    return sentence(share);
  };
}

const turned = explorer({
  name: "balance",
  defaults: { alpha: 8 },
  valid: { alpha: (alpha) => SHARES.includes(alpha) },
  view,
  said: ({ alpha }) => `alpha, b, imb = ${alpha} / 80, 0.4, 256 ** -0.5`,
});
export const mount = turned.mount;
export default { render: turned.render };
