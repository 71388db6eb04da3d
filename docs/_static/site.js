// One switch a page: imports, settings, plots and checks are out of sight until somebody asks for them.
addEventListener("DOMContentLoaded", () => {
  const root = document.documentElement;
  const hidden = document.querySelectorAll("div.cell.tag_hide-input");
  const button = document.querySelector(".code-switch");
  if (!button || !hidden.length) return button?.remove();
  const show = (shown) => {
    root.classList.toggle("show-code", shown);
    button.textContent = shown ? "Hide code" : "Show code";
    button.setAttribute("aria-pressed", shown);
    for (const details of document.querySelectorAll(".tag_hide-input > details.above-input")) details.open = shown;
  };
  button.addEventListener("click", () => {
    const shown = !root.classList.contains("show-code");
    show(shown);
    try {
      localStorage.code = shown ? "shown" : "hidden";
    } catch {} // a browser may store nothing
  });
  show(root.classList.contains("show-code"));
});
