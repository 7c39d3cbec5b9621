"use strict";
// This file has neither of the two characters that XML reserves.

// In the frame of a notebook, which has no address of its own, a link to a part of the page would
// load the notebook.
if (document.URL.startsWith("about:srcdoc")) {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (link === null) return;
    event.preventDefault();
    const target = document.getElementById(link.hash.slice(1));
    target.tabIndex = -1;
    target.focus();
    target.scrollIntoView();
  });
}

// The list of clusters: search, order, and a few at a time. Without it the list is whole.
(() => {
  const AT_ONCE = 20;
  const form = document.getElementById("search");
  const list = document.getElementById("cluster-list");
  if (form === null) return;
  const query = document.getElementById("query");
  const order = document.getElementById("order");
  const found = document.getElementById("found");
  const more = document.getElementById("more");
  const rest = document.getElementById("folded-clusters");
  const items = [...document.querySelectorAll("li.cluster")];
  let visible = AT_ONCE;

  const plain = (text) => text.replace(/\s+/g, " ").toLowerCase();
  const number = (item, name) => Number(item.dataset[name]);
  const text = (elements) => elements.map((element) => element.textContent).join("");

  // what is searched of an item: ids, and the texts of each pair, the dropped and the kept one
  const searched = new Map();
  function textsOf(item) {
    if (!searched.has(item)) {
      const texts = [...item.querySelectorAll("bdi")].map((id) => id.textContent);
      for (const pair of item.querySelectorAll(".text")) {
        const parts = [...pair.querySelectorAll("del, ins, .both")];
        texts.push(text(parts.filter((part) => part.tagName !== "INS")));
        texts.push(text(parts.filter((part) => part.tagName !== "DEL")));
      }
      searched.set(item, texts.map(plain));
    }
    return searched.get(item);
  }

  const orders = {
    similarity: (one, other) => number(one, "similarity") - number(other, "similarity"),
    documents: (one, other) => number(other, "documents") - number(one, "documents"),
  };

  function update() {
    const wanted = plain(query.value.trim());
    const matching = items.filter((item) => textsOf(item).some((each) => each.includes(wanted)));
    if (order.value in orders) matching.sort(orders[order.value]);
    list.replaceChildren(...matching.slice(0, visible));
    const left = matching.length - list.children.length;
    more.hidden = left === 0;
    more.textContent = `Show ${Math.min(left, AT_ONCE)} more`;
    const of = wanted === "" ? "listed" : "matching";
    found.textContent = matching.length
      ? `${list.children.length} of ${matching.length} ${of} clusters`
      : "No listed cluster has this text.";
  }

  function restart() {
    visible = AT_ONCE;
    update();
  }

  query.addEventListener("input", restart);
  order.addEventListener("change", restart);
  more.addEventListener("click", () => {
    const first = visible;
    visible += AT_ONCE;
    update();
    list.children[first].querySelector("summary").focus();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    list.querySelector("summary")?.focus();
  });
  query.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    query.value = "";
    restart();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea") !== null;
    if (event.key !== "/" || typing || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    query.focus();
  });

  rest?.remove();
  form.hidden = false;
  update();
})();
