// Formulas as SVG, drawn when the site is built:  node docs/math.js MATHJAX_FOLDER < formulas.json > drawn.json
// Formulas are [[TeX, whether it stands by itself], ...]; what cannot be read stops the build.
const fs = require("fs");
const [folder] = process.argv.slice(2);
const load = ["input/tex-full", "output/svg", "adaptors/liteDOM"];
const settings = { loader: { load }, svg: { fontCache: "local" }, tex: { formatError: (_, error) => { throw error; } } };
require(`${folder}/node-main.js`).init(settings).then((MathJax) => {
  const { adaptor } = MathJax.startup;
  const drawn = JSON.parse(fs.readFileSync(0, "utf8")).map(([tex, display]) => {
    try {
      return adaptor.outerHTML(MathJax.tex2svg(tex, { display }));
    } catch (error) {
      throw new Error(`${error.message}: ${tex}`);
    }
  });
  process.stdout.write(JSON.stringify({ drawn, style: adaptor.textContent(MathJax.svgStylesheet()) }));
}).catch((error) => { console.error(error.message); process.exit(1); });
