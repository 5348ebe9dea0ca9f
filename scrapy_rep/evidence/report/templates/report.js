"use strict";
// Sorts, filters and folds the table of hosts, and opens what a link leads to. Whatever the
// page shows is in its HTML; nothing is built from text here.
(() => {
  const table = document.getElementById("hosts");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const heads = Array.from(table.tHead.rows[0].cells);
  const form = document.getElementById("choose");
  const search = document.getElementById("search");
  const only = document.getElementById("only");
  const found = document.getElementById("found");
  const text = new Intl.Collator("en", { numeric: true });

  function valueOf(row, column) {
    const value = row.cells[column].dataset.value;
    return value === undefined ? null : Number(value);
  }

  function sort(head, column) {
    const isNumber = head.dataset.kind === "number";
    const before = head.getAttribute("aria-sort");
    // At first, figures go down and names go up.
    const up = before === null ? !isNumber : before === "descending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const keyed = rows.map((row) => [
      isNumber ? valueOf(row, column) : row.cells[column].textContent, row,
    ]);
    keyed.sort(([a], [b]) => {
      // What has no figure comes last either way.
      if (a === null || b === null) return (a === null) - (b === null);
      const order = isNumber ? a - b : text.compare(a, b);
      return up ? order : -order;
    });
    body.append(...keyed.map(([, row]) => row));
  }

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const name = row.dataset.name.toLowerCase();
      const fits = words.every((word) => name.includes(word));
      row.hidden = !fits || (only.value !== "" && !(only.value in row.dataset));
      if (!row.hidden) shown += 1;
    }
    found.textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
  }

  function follow() {
    const target = document.getElementById(location.hash.slice(1));
    const details = target && target.closest("details");
    if (!details) return;
    details.open = true;
    target.scrollIntoView();
    if (target === details) details.querySelector("summary").focus();
  }

  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => sort(head, column));
  });
  search.addEventListener("input", filter);
  only.addEventListener("change", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", follow);
  // A link to where one is already changes nothing that an event would tell of.
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link && link.hash === location.hash) follow();
  });
  // On a phone a host is one line, which opens.
  const narrow = window.matchMedia("(max-width: 52rem)");
  function fold() {
    if (!narrow.matches || table.classList.contains("folds")) return;
    table.classList.add("folds");
    for (const row of rows) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "fold";
      button.ariaLabel = "Figures";
      button.ariaExpanded = "false";
      button.addEventListener("click", () => {
        button.ariaExpanded = String(row.classList.toggle("open"));
      });
      row.cells[0].append(button);
    }
  }
  narrow.addEventListener("change", fold);
  fold();
  form.hidden = false;
  for (const all of document.querySelectorAll("p.choose")) {
    all.hidden = false;
    for (const button of all.querySelectorAll("button")) {
      button.addEventListener("click", () => {
        for (const details of all.parentElement.querySelectorAll(":scope > details")) {
          details.open = "open" in button.dataset;
        }
      });
    }
  }
  filter();
  follow();
})();
