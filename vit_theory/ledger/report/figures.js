// A claim is opened by its link or by a press; its figure is unpacked only then. On paper all claims are open.
const unpack = async (figure) => {
  const packed = Uint8Array.from(atob(figure.dataset.svg), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const image = Object.assign(new Image(), { alt: figure.dataset.alt });
  const drawn = (await new Response(stream).text()).replace("<defs>", `<style>{% include "figure.css" %}</style><defs>`);
  image.src = URL.createObjectURL(new Blob([drawn], { type: "image/svg+xml" }));
  delete figure.dataset.svg;
  figure.replaceChildren(image);
};
document.addEventListener("toggle", ({ target }) => {
  const figure = target.open && target.querySelector("figure[data-svg]");
  if (figure) unpack(figure);
}, true);
const openNamed = () => {
  const details = document.getElementById(decodeURIComponent(location.hash.slice(1)))?.querySelector("details");
  if (details) details.open = true;
};
addEventListener("hashchange", openNamed);
addEventListener("DOMContentLoaded", openNamed);
addEventListener("beforeprint", () => document.querySelectorAll("article details").forEach((details) => { details.open = true; }));
