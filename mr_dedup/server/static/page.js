"use strict";

const BITS = 64;
const NEAREST = 10;
const LONGEST_NAME = 200;
const element = (id) => document.getElementById(id);
let about = null;
let designs = [];
let pair = [];

// controls, and what changes the direction of text
const UNSHOWN = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

function shown(name) {
  const short = name.length > LONGEST_NAME ? name.slice(0, LONGEST_NAME - 1) + "…" : name;
  return short.replace(UNSHOWN, "\ufffd");
}

function made(tag, text, kind) {
  const one = document.createElement(tag);
  if (text !== undefined) one.textContent = text;
  if (kind) one.className = kind;
  return one;
}

const counted = (count, thing) => `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;
const bitsOf = (value) => BigInt.asUintN(BITS, BigInt(value)).toString(2).padStart(BITS, "0");
const hexOf = (value) => "0x" + BigInt.asUintN(BITS, BigInt(value)).toString(16).padStart(16, "0");

async function asked(path, told) {
  const headers = {};
  const token = element("token").value.trim();
  if (token) headers.Authorization = `Bearer ${token}`;
  if (told) headers["Content-Type"] = "application/json";
  const options = { method: told ? "POST" : "GET", headers, body: told && JSON.stringify(told) };
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The server does not answer.");
  }
  if (answer.status === 401) element("token-line").hidden = false;
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error);
  return said;
}

async function load() {
  about = await asked("v1/stats");
  ({ designs } = await asked("v1/designs"));
  const from = about.features === null ? "" : `, made from ${about.features}`;
  const held = `${counted(about.documents, "document")}; k = ${about.k}${from}.`;
  element("about").append(` This index holds ${held}`);
  if (!about.texts) {
    for (const [name, which] of [["first", "First"], ["second", "Second"]]) {
      document.querySelector(`label[for=${name}]`).textContent = `${which} fingerprint`;
      element(name).rows = 2;
    }
    element("about").append(" It does not know how they are made, so give fingerprints.");
  }
  element("design").replaceChildren(
    ...designs.map((design, place) => {
      const use = design.documents ? `, of ${counted(design.documents, "document")}` : "";
      const option = made("option", `${design.name}${use}`);
      option.value = place;
      return option;
    }),
  );
}

function showBits(first, second) {
  const words = [];
  for (let start = 0; start < BITS; start += 16) {
    const word = made("div", undefined, "word");
    const rows = [first, second].map((bits, which) => {
      const row = made("div", undefined, "row");
      row.setAttribute("role", "img");
      const part = bits.slice(start, start + 16);
      row.setAttribute("aria-label", `${which ? "second" : "first"}: ${part}`);
      for (let bit = start; bit < start + 16; bit++) {
        row.append(made("span", bits[bit], first[bit] === second[bit] ? "" : "differs"));
      }
      return row;
    });
    word.append(made("div", `bits ${BITS - 1 - start} to ${BITS - 16 - start}`, "place"), ...rows);
    words.push(word);
  }
  element("bits").replaceChildren(...words);
}

function showTables() {
  const design = designs[element("design").value];
  if (!design) return;
  const [first, second] = pair;
  const differs = [...first].map((bit, place) => bit !== second[place]);
  let finding = 0;
  const rows = design.masks.map((mask, number) => {
    const key = bitsOf("0x" + mask);
    const finds = !differs.some((is, place) => is && key[place] === "1");
    finding += finds;
    const row = made("li");
    const strip = made("div", undefined, "mask");
    strip.setAttribute("role", "img");
    strip.setAttribute("aria-label", `key 0x${mask}`);
    for (let bit = 0; bit < BITS; bit++) {
      const kinds = [key[bit] === "1" ? "key" : "", differs[bit] ? "differs" : ""];
      strip.append(made("span", undefined, kinds.join(" ").trim()));
    }
    const says = finds ? "finds it" : "misses it";
    row.append(made("span", `${number + 1} ${says}`, finds ? "finds" : "note"), strip);
    return row;
  });
  element("tables").replaceChildren(...rows);
  element("found").textContent =
    `${finding} of ${counted(rows.length, "table")} ${finding === 1 ? "finds" : "find"} the pair.`;
}

function showNear(results) {
  const sides = results.map((result, which) => {
    const side = made("div", undefined, "side");
    side.append(made("h3", which ? "To the second" : "To the first"));
    if (!result.matches.length) {
      side.append(made("p", `None is within ${counted(about.k, "bit")}.`, "note"));
      return side;
    }
    const list = made("ol", undefined, "near");
    for (const match of result.matches) {
      const row = made("li");
      row.append(made("bdi", shown(match.id)));
      row.append(made("div", `${counted(match.distance, "bit")} away`, "note"));
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
  const distance = [...pair[0]].filter((bit, place) => bit !== pair[1][place]).length;
  const near = distance <= about.k ? "near-duplicates" : "no near-duplicates";
  element("verdict").textContent =
    `${counted(distance, "bit")} of 64 ${distance === 1 ? "differs" : "differ"}: for k = ${about.k} ${near}`;
  showBits(...pair);
  const rows = values.flatMap((value, which) => [
    made("dt", which ? "second" : "first"),
    made("dd", `${hexOf(value)} = ${value}`),
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
    const told = ["first", "second"].map((name) => element(name).value);
    const query = about.texts
      ? { texts: told.map((text) => text.toWellFormed?.() ?? text) }
      : { fingerprints: told.map((text) => text.trim()) };
    show((await asked("v1/query", { ...query, limit: NEAREST })).results);
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
