// Filters for a list of claims: by paper, verdict, kind and text. The address keeps what was chosen.
// Without this script the page is the whole list.
document.addEventListener("DOMContentLoaded", () => {
  const tables = [...document.querySelectorAll("table")].filter((table) => table.tHead?.textContent.includes("verdict"));
  if (!tables.length) return;
  const words = (cell) => cell.textContent.trim();
  const heads = [...tables[0].tHead.rows[0].cells].map(words);
  const rows = tables.flatMap((table) =>
    [...table.tBodies[0].rows].map((row) => {
      const cells = [...row.cells];
      cells.forEach((cell, place) => (cell.dataset.head = heads[place])); // the style sheet shows it on phones
      const id = words(row.querySelector("code") ?? cells[0]);
      const verdict = words(row.querySelector(".verdict")).replace(/^\W /, ""); // without its sign
      const kind = words(cells[heads.findIndex((head) => /kind|evidence/.test(head))]).split(", ");
      const values = { paper: [id[0]], verdict: [verdict], kind };
      if (row.dataset.committed) values.committed = row.dataset.committed.split(", ");
      return { row, table, values, text: words(row).toLowerCase(), article: document.getElementById(id) };
    }),
  );
  const form = document.createElement("form");
  form.className = "claims-filter";
  form.setAttribute("role", "search");
  const labelled = (name, field) => {
    const label = document.createElement("label");
    field.name = name;
    label.append(name, field);
    form.append(label);
    return field;
  };
  for (const name of Object.keys(rows[0].values)) {
    const select = labelled(name, document.createElement("select"));
    select.add(new Option("all", ""));
    [...new Set(rows.flatMap((each) => each.values[name]))].sort().forEach((value) => select.add(new Option(value, value)));
  }
  labelled("text", document.createElement("input")).type = "search";
  const count = document.createElement("output");
  form.append(count);
  (tables[0].closest(".cell") ?? tables[0]).before(form);

  const show = () => {
    const chosen = Object.fromEntries([...new FormData(form)].filter(([, value]) => value.trim()));
    const { text = "", ...facets } = chosen;
    const left = rows.filter((each) => {
      const fits = Object.entries(facets).every(([name, value]) => each.values[name].includes(value));
      each.row.hidden = !(fits && text.toLowerCase().split(/\s+/).every((word) => each.text.includes(word)));
      if (each.article) each.article.hidden = each.row.hidden;
      return !each.row.hidden;
    });
    for (const table of tables) {
      const block = table.parentElement.matches(".pst-scrollable-table-container") ? table.parentElement : table;
      block.hidden = block.previousElementSibling.hidden = !left.some((each) => each.table === table);
    }
    count.textContent = `${left.length} of ${rows.length} claims`;
    const query = new URLSearchParams(chosen).toString();
    history.replaceState(null, "", (query ? `?${query}` : location.pathname) + location.hash);
  };
  new URLSearchParams(location.search).forEach((value, name) => form.elements[name] && (form.elements[name].value = value));
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
});
