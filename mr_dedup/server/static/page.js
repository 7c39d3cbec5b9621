"use strict";

const BITS = 64;
const NEAREST = 10;
const MAX_FOUND = 50;
const MAX_PATH = 60_000;
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

function sizeOf(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let power = 0;
  for (let left = bytes; left >= 999.5 && power < units.length - 1; left /= 1000) power++;
  const value = bytes / 1000 ** power;
  return `${value.toLocaleString("en", { maximumFractionDigits: power ? 1 : 0 })} ${units[power]}`;
}

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
    throw new Error("The server does not respond. Is it still running?");
  }
  if (response.status === 401) element("token-line").hidden = false;
  let content;
  try {
    content = await response.json();
  } catch {
    throw new Error(`The server responded with status ${response.status}, and not in JSON.`);
  }
  if (!response.ok) throw new Error(content.error);
  return content;
}

function showFailure(name, error) {
  const { message } = error;
  const end = /[.?!]$/.test(message) ? "" : ".";
  element(name).textContent = message.charAt(0).toUpperCase() + message.slice(1) + end;
  element(name).hidden = false;
}

function entry(name, value, ...notes) {
  const group = create("div");
  group.append(create("dt", name), create("dd", value, "value"));
  for (const note of notes.filter((note) => note)) group.append(create("dd", note, "note"));
  return group;
}

function showState() {
  const { segments } = about;
  const tables = segments.reduce((sum, segment) => sum + segment.tables, 0);
  const removed = segments.reduce((sum, segment) => sum + segment.dead, 0);
  const withToken = element("token").value.trim() !== "";
  const last = about.last_segment_time;
  const entries = [
    entry("Documents", about.documents.toLocaleString("en"),
      `${about.memory_documents.toLocaleString("en")} of them not in a segment yet`),
    entry("Matches", `within ${counted(about.k, "bit")}`, `k = ${about.k}`),
    entry("Fingerprints", about.texts ? "of texts" : "of clients",
      about.features === null ? "it does not record how they are made" : about.features,
      about.named ? "documents have ids" : "documents have no ids of their own"),
    entry("Segments", segments.length.toLocaleString("en"), counted(tables, "table"),
      removed ? `${counted(removed, "document")} removed or replaced` : ""),
    entry("On disk", sizeOf(about.disk_bytes), `log of changes: ${sizeOf(about.log_bytes)}`),
    entry("Last segment", last === null ? "none yet" : last.slice(0, 10),
      last === null ? "all changes are in the log" : `${last.slice(11, 16)} UTC, a full log, merge or compaction`),
    entry("Access", withToken ? "with a token" : "without a token",
      withToken ? "from any machine that reaches it" : "from this machine only",
      "to read and to write; other processes may read the index"),
  ];
  if (about.memory_bytes !== null) {
    entries.splice(5, 0, entry("In memory", sizeOf(about.memory_bytes), "of the server, mapped files included"));
  }
  if (about.merge_failure !== null) {
    const warning = create("div", undefined, "warning");
    warning.append(create("dt", "The last merge of segments failed"), create("dd", about.merge_failure));
    entries.unshift(warning);
  }
  element("state").replaceChildren(...entries);
  element("segments").hidden = segments.length === 0;
  const rows = segments.map((segment) => {
    const row = create("tr");
    for (const [text, kind] of [
      [segment.file, ""], [segment.documents.toLocaleString("en"), "count"],
      [segment.dead.toLocaleString("en"), "count"], [segment.tables.toLocaleString("en"), "count"],
      [segment.design, ""], [sizeOf(segment.bytes), "count"],
    ]) {
      row.append(create("td", text, kind));
    }
    return row;
  });
  element("segment-rows").replaceChildren(...rows);
}

async function load() {
  try {
    const stats = await request("v1/stats");
    ({ designs } = await request("v1/designs"));
    about = stats;
  } finally {
    element("loading").hidden = true;
  }
  element("token-line").hidden = true;
  element("state-failure").hidden = true;
  showState();
  element("distance").max = about.k;
  if (element("distance").value === "") element("distance").value = about.k;
  element("id-choice").hidden = !about.named;
  element("text-choice").hidden = !about.texts;
  if (!about.texts) {
    for (const [name, which] of [["first", "First"], ["second", "Second"]]) {
      document.querySelector(`label[for=${name}]`).textContent = `${which} fingerprint`;
      element(name).rows = 2;
    }
    element("compare-title").textContent = "Compare two fingerprints, bit by bit";
  }
  const kinds = { text: about.texts, id: about.named, fingerprint: true };
  // what was chosen stays chosen, if the index has it
  if (!kinds[kindOf()]) {
    const first = Object.keys(kinds).find((kind) => kinds[kind]);
    document.querySelector(`input[value=${first}]`).checked = true;
  }
  showKind();
  element("design").replaceChildren(
    ...designs.map((design, index) => {
      const use = design.documents ? `, of ${counted(design.documents, "document")}` : "";
      const option = create("option", `${design.name}${use}`);
      option.value = index;
      return option;
    }),
  );
}

// Load once; again if that failed, and where a form asks for it.
let loaded = null;
function ready(again = false) {
  if (again || loaded === null) {
    loaded = load();
    loaded.catch(() => (loaded = null));
  }
  return loaded;
}

const kindOf = () => document.querySelector("input[name=kind]:checked").value;

function showKind() {
  const kind = kindOf();
  element("wanted-label").textContent = { text: "Text", id: "Id", fingerprint: "Fingerprint" }[kind];
  element("wanted").rows = kind === "text" ? 6 : 2;
  element("wanted-note").textContent = {
    text: "Paste a text, as it was added to the index.",
    id: "The id of a document of the index, as it was added.",
    fingerprint: "A decimal number, or hexadecimal after 0x.",
  }[kind];
}

function bitRows(first, second, names) {
  const words = [];
  for (let start = 0; start < BITS; start += 16) {
    const word = create("div", undefined, "word");
    const rows = [first, second].map((bits, which) => {
      const row = create("div", undefined, "row");
      row.setAttribute("role", "img");
      const part = bits.slice(start, start + 16);
      row.setAttribute("aria-label", `${names[which]}: ${part}`);
      for (let bit = start; bit < start + 16; bit++) {
        row.append(create("span", bits[bit], first[bit] === second[bit] ? "" : "differs"));
      }
      return row;
    });
    word.append(create("div", `bits ${BITS - 1 - start} to ${BITS - 16 - start}`, "position"), ...rows);
    words.push(word);
  }
  return words;
}

function strip(first, second) {
  const bits = [...first].map((bit, index) => bit !== second[index]);
  const numbers = bits.flatMap((differs, index) => (differs ? [BITS - 1 - index] : []));
  const drawn = create("div", undefined, "strip");
  drawn.setAttribute("role", "img");
  drawn.setAttribute("aria-label", numbers.length ? `bits that differ: ${numbers.join(", ")}` : "no bit differs");
  drawn.append(...bits.map((differs) => create("span", undefined, differs ? "differs" : "")));
  return drawn;
}

function matchRow(match, wanted) {
  const row = create("li");
  const line = create("div", undefined, "match");
  line.append(create("bdi", displayed(match.id)));
  const distance = match.distance ? `${counted(match.distance, "bit")} away` : "same fingerprint";
  line.append(create("span", distance, "note"));
  const bits = [wanted, match.fingerprint].map(bitsOf);
  const more = create("details");
  more.append(create("summary", "64 bits"));
  more.addEventListener("toggle", () => {
    if (more.children.length > 1) return;
    const drawn = create("div", undefined, "bits");
    drawn.append(...bitRows(...bits, ["wanted", "found"]));
    const value = create("p", `${hexOf(match.fingerprint)} = ${match.fingerprint}`, "note");
    more.append(drawn, value);
  });
  row.append(line, strip(...bits), more);
  return row;
}

function largestDistance() {
  const text = element("distance").value.trim();
  if (!/^[0-9]+$/.test(text) || Number(text) > about.k) {
    throw new Error(`The largest distance is a number from 0 to ${about.k}, the k of the index.`);
  }
  return Number(text);
}

async function queryOf(kind, given) {
  if (given.trim() === "") throw new Error(`Give ${kind === "id" ? "an" : "a"} ${kind} first.`);
  if (kind === "text") return { texts: [given.toWellFormed?.() ?? given] };
  if (kind === "fingerprint") return { fingerprints: [given.trim()] };
  const path = `v1/documents/${encodeURIComponent(given)}`;
  if (path.length > MAX_PATH) throw new Error("The id is too long to be sent.");
  return { fingerprints: [(await request(path)).fingerprint] };
}

async function find() {
  const kind = kindOf();
  const given = element("wanted").value.toWellFormed?.() ?? element("wanted").value;
  const k = largestDistance();
  // one more to know whether there are more, and one since a document is a match of itself
  const query = { ...(await queryOf(kind, given)), k, limit: MAX_FOUND + 2 };
  const [result] = (await request("v1/query", query)).results;
  const matches = result.matches.filter((match) => kind !== "id" || match.id !== given);
  const shown = matches.slice(0, MAX_FOUND);
  element("found-title").textContent = shown.length
    ? `${shown.length < matches.length ? "The nearest " : ""}${counted(shown.length, kind === "id" ? "other document" : "document")} within ${counted(k, "bit")}`
    : `No ${kind === "id" ? "other " : ""}document is within ${counted(k, "bit")}`;
  element("found-note").textContent =
    `Compared with ${hexOf(result.fingerprint)} = ${result.fingerprint}. Each bar is the 64 bits, the most significant first; marked are those that differ.`;
  element("matches").replaceChildren(...shown.map((match) => matchRow(match, result.fingerprint)));
  element("found-documents").hidden = false;
  element("found-title").focus();
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
    side.append(create("h4", which ? "Near the second" : "Near the first"));
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
  element("bits").replaceChildren(...bitRows(...pair, ["first", "second"]));
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

async function compare() {
  const inputs = ["first", "second"].map((name) => element(name).value);
  const query = about.texts
    ? { texts: inputs.map((text) => text.toWellFormed?.() ?? text) }
    : { fingerprints: inputs.map((text) => text.trim()) };
  show((await request("v1/query", { ...query, limit: NEAREST })).results);
}

// Have a form call a function when it is submitted, and show why that failed.
function onSubmit(form, work, failure, result) {
  element(form).addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = element(form).querySelector("button");
    button.disabled = true;
    element(failure).hidden = true;
    try {
      await work();
    } catch (error) {
      if (result) element(result).hidden = true;
      showFailure(failure, error);
    } finally {
      button.disabled = false;
    }
  });
}

onSubmit("token-line", () => ready(true), "state-failure");
onSubmit("find-form", () => ready().then(find), "find-failure", "found-documents");
onSubmit("form", () => ready().then(compare), "failure", "result");
element("kinds").addEventListener("change", showKind);
element("design").addEventListener("change", showTables);
showKind();
ready().catch((error) => showFailure("state-failure", error));
