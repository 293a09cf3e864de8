"use strict";
// Sorts and searches the table, and copies patches. All that the page says stands there without it.
(() => {
  const sizes = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4 };
  const table = document.getElementById("workloads");
  const told = document.getElementById("told");
  if (table) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const number = (text) => {
      const found = /^[+-]?[\d.,]+(?:e[+-]?\d+)?/.exec(text);
      const unit = /[KMGT]?i?B\b/.exec(text);
      return found ? Number(found[0].replaceAll(",", "")) * (sizes[unit?.[0]] ?? 1) : -Infinity;
    };
    const value = (row, place, isNumber) => {
      const text = row.cells[place].textContent.trim();
      return isNumber ? number(text) : text.toLowerCase();
    };
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, place) => {
      if (head.dataset.plain !== undefined) return;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const isUp = head.getAttribute("aria-sort") !== "ascending";
        const isNumber = head.classList.contains("n");
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
        const keyed = rows.map((row) => [value(row, place, isNumber), row]);
        keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (isUp ? 1 : -1));
        rows.splice(0, rows.length, ...keyed.map(([, row]) => row));
        body.append(...rows);
      });
    });
    const search = document.getElementById("search");
    const resource = document.getElementById("resource");
    const direction = document.getElementById("direction");
    const column = (name) => heads.findIndex((head) => head.dataset.name === name);
    const of = { resource: column("resource"), direction: column("direction") };
    const filter = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !(
          words.every((word) => text.includes(word)) &&
          (!resource.value || row.cells[of.resource].textContent.trim() === resource.value) &&
          (!direction.value || row.cells[of.direction].textContent.trim() === direction.value)
        );
        shown += row.hidden ? 0 : 1;
      }
      told.textContent = `${shown} of ${rows.length} rows`;
    };
    for (const one of [search, resource, direction]) one.addEventListener("input", filter);
    document.getElementById("tools").hidden = false;
    filter();
  }
  for (const pre of document.querySelectorAll("details pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    pre.before(button);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(pre.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(pre);
        button.textContent = "Selected: copy it now";
      }
    });
  }
  const open = () => {
    const found = location.hash && document.getElementById(location.hash.slice(1));
    if (found instanceof HTMLDetailsElement) found.open = true;
  };
  addEventListener("hashchange", open);
  open();
})();
