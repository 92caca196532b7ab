"use strict";
for (const table of document.querySelectorAll("table.sort")) {
  const body = table.tBodies[0];
  table.tHead.rows[0].querySelectorAll("th[data-kind]").forEach((head) => {
    head.querySelector("button").addEventListener("click", () => {
      const column = head.cellIndex, numeric = head.dataset.kind === "number";
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => {
        const cell = row.cells[column];
        return numeric ? parseFloat(cell.dataset.v) : cell.textContent.trim();
      };
      const order = (a, b) => {
        const x = key(a), y = key(b);
        if (!numeric) return (up ? 1 : -1) * x.localeCompare(y);
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
        return (up ? 1 : -1) * (x - y);
      };
      body.append(...Array.from(body.rows).sort(order));
    });
  });
}
