"use strict";

const BITS = 64;
const NEAREST = 10;
const LONGEST_NAME = 200;
const element = (id) => document.getElementById(id);
let about = null;
let designs = [];
let pair = [];

// control characters, and marks and overrides of text direction
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

function displayed(name) {
  const short = name.length > LONGEST_NAME ? name.slice(0, LONGEST_NAME - 1) + "…" : name;
  return short.replace(INVISIBLE, "\ufffd");
}

function create(tag, text, kind) {
  const created = document.createElement(tag);
  if (text !== undefined) created.textContent = text;
  if (kind) created.className = kind;
  return created;
}

const counted = (count, thing) => `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;
const bitsOf = (value) => BigInt.asUintN(BITS, BigInt(value)).toString(2).padStart(BITS, "0");
const hexOf = (value) => "0x" + BigInt.asUintN(BITS, BigInt(value)).toString(16).padStart(16, "0");

async function request(path, message) {
  const headers = {};
  const token = element("token").value.trim();
  if (token) headers.Authorization = `Bearer ${token}`;
  if (message) headers["Content-Type"] = "application/json";
  const options = { method: message ? "POST" : "GET", headers, body: message && JSON.stringify(message) };
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("The server does not respond.");
  }
  if (response.status === 401) element("token-line").hidden = false;
  const content = await response.json();
  if (!response.ok) throw new Error(content.error);
  return content;
}

async function load() {
  about = await request("v1/stats");
  ({ designs } = await request("v1/designs"));
  const from = about.features === null ? "" : `, made from ${about.features}`;
  const contents = `${counted(about.documents, "document")}; k = ${about.k}${from}.`;
  element("about").append(` This index contains ${contents}`);
  if (!about.texts) {
    for (const [name, which] of [["first", "First"], ["second", "Second"]]) {
      document.querySelector(`label[for=${name}]`).textContent = `${which} fingerprint`;
      element(name).rows = 2;
    }
    element("about").append(" It does not record how to compute them from texts, so give fingerprints.");
  }
  element("design").replaceChildren(
    ...designs.map((design, index) => {
      const use = design.documents ? `, of ${counted(design.documents, "document")}` : "";
      const option = create("option", `${design.name}${use}`);
      option.value = index;
      return option;
    }),
  );
}

function showBits(first, second) {
  const words = [];
  for (let start = 0; start < BITS; start += 16) {
    const word = create("div", undefined, "word");
    const rows = [first, second].map((bits, which) => {
      const row = create("div", undefined, "row");
      row.setAttribute("role", "img");
      const part = bits.slice(start, start + 16);
      row.setAttribute("aria-label", `${which ? "second" : "first"}: ${part}`);
      for (let bit = start; bit < start + 16; bit++) {
        row.append(create("span", bits[bit], first[bit] === second[bit] ? "" : "differs"));
      }
      return row;
    });
    word.append(create("div", `bits ${BITS - 1 - start} to ${BITS - 16 - start}`, "position"), ...rows);
    words.push(word);
  }
  element("bits").replaceChildren(...words);
}

function showTables() {
  const design = designs[element("design").value];
  if (!design) return;
  const [first, second] = pair;
  const differs = [...first].map((bit, index) => bit !== second[index]);
  let findCount = 0;
  const rows = design.masks.map((mask, number) => {
    const key = bitsOf("0x" + mask);
    const finds = !differs.some((is, index) => is && key[index] === "1");
    findCount += finds;
    const row = create("li");
    const strip = create("div", undefined, "mask");
    strip.setAttribute("role", "img");
    strip.setAttribute("aria-label", `key 0x${mask}`);
    for (let bit = 0; bit < BITS; bit++) {
      const kinds = [key[bit] === "1" ? "key" : "", differs[bit] ? "differs" : ""];
      strip.append(create("span", undefined, kinds.join(" ").trim()));
    }
    const result = finds ? "finds it" : "misses it";
    row.append(create("span", `${number + 1} ${result}`, finds ? "finds" : "note"), strip);
    return row;
  });
  element("tables").replaceChildren(...rows);
  element("found").textContent =
    `${findCount} of ${counted(rows.length, "table")} ${findCount === 1 ? "finds" : "find"} the pair.`;
}

function showNear(results) {
  const sides = results.map((result, which) => {
    const side = create("div", undefined, "side");
    side.append(create("h3", which ? "Near the second" : "Near the first"));
    if (!result.matches.length) {
      side.append(create("p", `No document is within ${counted(about.k, "bit")}.`, "note"));
      return side;
    }
    const list = create("ol", undefined, "near");
    for (const match of result.matches) {
      const row = create("li");
      row.append(create("bdi", displayed(match.id)));
      row.append(create("div", `${counted(match.distance, "bit")} away`, "note"));
      list.append(row);
    }
    side.append(list);
    return side;
  });
  element("near").replaceChildren(...sides);
}

function show(results) {
  const values = results.map((result) => result.fingerprint);
  pair = values.map(bitsOf);
  const distance = [...pair[0]].filter((bit, index) => bit !== pair[1][index]).length;
  const verdict = distance <= about.k ? "near-duplicates" : "not near-duplicates";
  element("verdict").textContent =
    `${counted(distance, "bit")} of 64 ${distance === 1 ? "differs" : "differ"}: for k = ${about.k} ${verdict}`;
  showBits(...pair);
  const rows = values.flatMap((value, which) => [
    create("dt", which ? "second" : "first"),
    create("dd", `${hexOf(value)} = ${value}`),
  ]);
  element("values").replaceChildren(...rows);
  showTables();
  showNear(results);
  element("result").hidden = false;
  element("verdict").focus();
}

async function compare(event) {
  event.preventDefault();
  const button = element("form").querySelector("button");
  button.disabled = true;
  element("failure").hidden = true;
  try {
    if (!about) await load();
    const inputs = ["first", "second"].map((name) => element(name).value);
    const query = about.texts
      ? { texts: inputs.map((text) => text.toWellFormed?.() ?? text) }
      : { fingerprints: inputs.map((text) => text.trim()) };
    show((await request("v1/query", { ...query, limit: NEAREST })).results);
  } catch (error) {
    element("result").hidden = true;
    element("failure").textContent = error.message;
    element("failure").hidden = false;
  } finally {
    button.disabled = false;
  }
}

element("form").addEventListener("submit", compare);
element("design").addEventListener("change", showTables);
load().catch((error) => {
  element("failure").textContent = error.message;
  element("failure").hidden = false;
});
