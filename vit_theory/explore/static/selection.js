// Attention that learns which of forty tokens carry the label (paper A): runs that were trained beforehand.

const [TOKENS, LOW, WIDTH] = [40, -2, 0.25];
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

// What the pictures show, from the settings.
export function compute({ relevant, samples, rate, step }, { runs, steps }) {
  const run = runs[[relevant, samples, rate].join()];
  const frame = steps.indexOf(step);
  const part = (text) => {
    const all = Array.from(bytes(text), (value) => value / 255);
    return all.slice((frame * all.length) / steps.length, ((frame + 1) * all.length) / steps.length);
  };
  return { ...run, frame, attention: part(run.attention), margins: part(run.margins) };
}

const percent = (share) => `${(100 * share).toFixed(share < 0.0995 && share > 0 ? 1 : 0)}%`;

const inGrid = (name) => (value, _, { grid }) => grid[name].includes(value);
export const valid = {
  relevant: inGrid("relevant"),
  samples: inGrid("samples"),
  rate: inGrid("rate"),
  step: (step, _, { steps }) => steps.includes(step),
};

function sentence({ relevant, step, rate }, { mass, error, frame }) {
  const tokens = relevant === 1 ? "the one relevant token" : `the ${relevant} relevant tokens`;
  if (!step) return `Before training, attention is spread evenly: ${percent(mass[0])} of it is on ${tokens} of ${TOKENS}, and the model guesses. Press Play.`;
  const puts = rate ? `After ${step} steps attention puts` : `Attention that does not learn keeps`;
  return `${puts} ${percent(mass[frame])} of its weight on ${tokens} of ${TOKENS}. The model is wrong on ${percent(error[frame])} of the test samples.`;
}

function view(page) {
  const { data, actions, controls, pictures, turn } = page;
  const step = slider("training step", data.steps, page.state.step, String, (to) => turn({ step: to }));
  const other = (name, label, say = String) =>
    slider(label, data.grid[name], page.state[name], say, (value) => turn({ [name]: value }));
  const rate = other("rate", "attention's learning rate", (value) => (value ? `${value}` : "0: stays uniform"));
  if (page.only) controls.append(rate);
  else {
    actions.append(player(data.steps, () => page.state.step, (to) => { step.stand(to); turn({ step: to }); }), step);
    controls.append(
      other("relevant", "relevant tokens, of 40"),
      other("samples", "training samples"),
      rate,
    );
  }
  const last = data.steps.at(-1);

  function attended({ relevant }, { attention }) {
    const high = Math.max(...attention, 0.1);
    const picture = plot({ low: 0, high: TOKENS, label: "token", ticks: [] }, { low: 0, high, label: "attention", ticks: [0, +high.toFixed(2)] });
    attention.forEach((value, token) => picture.bar(token + 0.1, token + 0.9, value, token < relevant ? ORANGE : BLUE));
    picture.words(relevant + 0.3, high * 0.88, relevant > 1 ? "relevant tokens" : "relevant token", ORANGE);
    return picture.root;
  }
  function voted({ margins }) {
    const high = Math.max(...margins, 0.2);
    const picture = plot({ low: LOW, high: 4, label: "margin y F(X)", ticks: [-2, 0, 2, 4] },
      { low: 0, high, label: "share of samples", ticks: [0, `${high.toFixed(1)}`] });
    margins.forEach((value, bin) => {
      const from = LOW + bin * WIDTH;
      picture.bar(from, from + WIDTH * 0.95, value, from < 0 ? RED : BLUE);
    });
    picture.words(-0.1, high * 0.95, "wrong", RED, "end");
    return picture.root;
  }
  function trained({ error, mass, frame }) {
    const picture = plot({ low: 0, high: last, label: "step", ticks: [0, last / 2, last] }, { low: 0, high: 1, label: "share", ticks: [0, 0.5, 1] });
    picture.line(data.steps.map((at, place) => [at, mass[place]]), BLUE);
    picture.line(data.steps.map((at, place) => [at, error[place]]), RED, "5 3");
    picture.line([[data.steps[frame], 0], [data.steps[frame], 1]], "currentColor", "2 3");
    picture.words(last, Math.min(mass.at(-1) + 0.06, 0.88), "attention mass", BLUE, "end");
    picture.words(last, Math.min(error.at(-1) + 0.06, 0.88), "test error", RED, "end");
    return picture.root;
  }
  function placed({ relevant, samples }) {
    const picture = plot({ low: 0.01, high: 0.5, log: true, label: "share of relevant tokens", ticks: [0.01, 0.03, 0.1, 0.3] },
      { low: 10, high: 1e5, log: true, label: "samples", ticks: [10, 1000, 100000] });
    Object.entries(data.borders).forEach(([arm, line], number) => {
      picture.line(line.filter(([share, count]) => share >= 0.01 && share <= 0.5 && count <= 1e5), [BLUE, ORANGE][number], ["", "5 3"][number]);
      picture.words(0.48, [8e4, 3e4][number], arm, [BLUE, ORANGE][number], "end");
    });
    picture.point(relevant / TOKENS, samples, RED);
    return picture.root;
  }
  return (now) => {
    const found = compute(now, data);
    pictures.replaceChildren(
      figure("attention that each token receives", attended(now, found), "half"),
      ...(page.only ? [] : [figure("margins of the test samples", voted(found), "half")]),
      figure("along training", trained(found), "half"),
      ...(page.only ? [] : [figure("on its line, half of the trainings make no error", placed(now), "half")]),
    );
    return sentence(now, found);
  };
}

const turned = explorer({ name: "selection", defaults: { relevant: 3, samples: 64, rate: 25, step: 0 }, valid, view });
export const mount = turned.mount;
export default { render: turned.render };
