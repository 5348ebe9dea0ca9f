"use strict";
// Sorts and filters the hosts, shows the first of many, and opens what a link leads to. Whatever
// the page shows is in its HTML; nothing is built from text here.
(() => {
  const FIRST = 100;
  const list = document.getElementById("hosts");
  const hosts = Array.from(list.children);
  const heads = Array.from(document.getElementById("heads").children);
  const search = document.getElementById("search");
  const only = document.getElementById("only");
  const all = document.getElementById("all");
  const text = new Intl.Collator("en", { numeric: true });
  const count = (number) => number.toLocaleString("en");
  let shown = FIRST;

  function cell(host, column) {
    return host.firstElementChild.children[column];
  }

  function sort(column) {
    const head = heads[column];
    // At first, figures go down and names go up.
    const isNumber = column > 1;
    const up = head.dataset.order ? head.dataset.order === "down" : !isNumber;
    for (const other of heads) {
      delete other.dataset.order;
      other.removeAttribute("aria-pressed");
    }
    head.dataset.order = up ? "up" : "down";
    head.ariaPressed = "true";
    const valueOf = (host) => {
      const { value } = cell(host, column).dataset;
      return isNumber ? (value === undefined ? null : Number(value)) : cell(host, column).textContent;
    };
    const keyed = hosts.map((host) => [valueOf(host), host]);
    keyed.sort(([a], [b]) => {
      // What has no figure comes last either way.
      if (a === null || b === null) return (a === null) - (b === null);
      const order = isNumber ? a - b : text.compare(a, b);
      return up ? order : -order;
    });
    hosts.splice(0, hosts.length, ...keyed.map(([, host]) => host));
    list.append(...hosts);
    filter();
  }

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let fitting = 0;
    for (const host of hosts) {
      const name = cell(host, 0).textContent.toLowerCase();
      const fits = words.every((word) => name.includes(word))
        && (!only.value || host.dataset.kinds.split(" ").includes(only.value));
      host.hidden = !fits || fitting >= shown;
      fitting += fits;
    }
    document.getElementById("found").textContent = `${count(fitting)} of ${count(hosts.length)}`;
    all.hidden = fitting <= shown;
    all.textContent = `Show all ${count(fitting)} hosts`;
  }

  function follow() {
    const target = document.getElementById(location.hash.slice(1));
    const details = target && target.closest("details");
    if (!details) return;
    details.open = true;
    target.scrollIntoView();
    if (target === details) details.querySelector("summary").focus();
  }

  heads.forEach((head, column) => head.addEventListener("click", () => sort(column)));
  search.addEventListener("input", filter);
  only.addEventListener("change", filter);
  document.getElementById("choose").addEventListener("submit", (event) => event.preventDefault());
  all.addEventListener("click", () => {
    shown = Infinity;
    filter();
  });
  window.addEventListener("hashchange", follow);
  // A link to where one is already changes nothing that an event would tell of.
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link && link.hash === location.hash) follow();
  });
  document.getElementById("choose").hidden = false;
  filter();
  follow();
})();
