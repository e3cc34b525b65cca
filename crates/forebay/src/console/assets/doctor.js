// "Where did the QPS go?": the doctor's findings, what it looks at over time, and reports of `forebay bench`.

import { chart } from "./chart.js";
import { counted, h, number, percent, say, seconds } from "./dom.js";
import { inLanguage, t } from "./language.js";
import { ask, live, watch } from "./live.js";
import { connectionChart, latencyChart, portShare, requestChart, reuseChart } from "./overview.js";
import { report } from "./report.js";

const EVERY_MS = 10000;
const ORDER = { failure: 0, warning: 1, unknown: 2, ok: 3 };
const TONES = { failure: "bad", warning: "warn", unknown: "dim", ok: "good" };

const shortage = (state, of) => state.shortages.find((one) => one.of === of)?.ratio ?? null;

const charts = () => [
  requestChart(), latencyChart(), reuseChart(), connectionChart(),
  chart({
    title: "CPUs",
    format: (value) => (value === 0 ? "0" : value.toFixed(2)),
    series: [
      { name: "used", of: (state) => state.process.cpuUsed },
      { name: "allowed", of: (state) => state.process.cpuQuota ?? state.process.cpus },
    ],
  }),
  chart({
    title: "What is used of what there is",
    format: percent,
    top: 0.1,
    series: [
      { name: "local ports", of: portShare },
      { name: "descriptors", of: (state) => shortage(state, "descriptors") },
      { name: "memory", of: (state) => shortage(state, "memory") },
      { name: "accept queue", of: (state) => shortage(state, "accept_queue") },
    ],
  }),
  chart({
    title: "CPU quota used up, threads without a CPU",
    format: percent,
    top: 0.1,
    series: [
      { name: "throttled", of: (state) => shortage(state, "cpu_throttled") },
      { name: "stalled", of: (state) => shortage(state, "cpu_stalled") },
    ],
  }),
  chart({
    title: "Time until a worker's loop comes round",
    format: seconds,
    series: [{ name: "loop lag", of: (state) => shortage(state, "loop_lag") }],
  }),
];

export function doctor() {
  const all = charts();
  const cards = h("ul", { class: "findings" });
  const lead = h("p", { class: "facts" }, t("The doctor has not looked yet; it does so a second after the start, and each half minute from then on."));
  const shown = h("div");
  const input = h("input", { type: "file", id: "report", accept: ".json,.html,application/json,text/html" });
  const drop = h("div", { class: "drop" }, h("p", {}, t("Drop a report of forebay bench here, as JSON or HTML, or choose one. It stays in this page: nothing is uploaded.")),
    h("label", { for: "report" }, t("Report of forebay bench")), input);
  const element = h("div", {}, h("h1", {}, t("Where did the QPS go?")), lead, cards,
    h("section", {}, h("h2", {}, t("What was seen since this page was opened")), h("div", { class: "charts" }, all.map((one) => one.element))),
    h("section", {}, h("h2", {}, t("A report to compare with")), drop, shown));
  let told = "";
  let timer = 0;
  let ended = false;

  async function look() {
    const { ok = 0, unknown = 0, warning = 0, failure = 0 } = live.state?.findings ?? {};
    const hasLooked = ok + unknown + warning + failure > 0;
    try {
      if (hasLooked) show((await ask("/doctor")).findings);
    } catch {
      // The state of the connection is told at the top.
    }
    if (!ended) timer = setTimeout(look, hasLooked ? EVERY_MS : 500);
  }

  function show(findings) {
    const text = JSON.stringify(findings);
    if (text === told) return;
    told = text;
    const count = (verdict) => findings.filter((one) => one.verdict === verdict).length;
    say(lead, t("{0}: {1} failed, {2} warned, {3} not checked, {4} in order.", counted(findings.length, "check"), ...["failure", "warning", "unknown", "ok"].map((verdict) => number(count(verdict)))));
    const open = new Set([...cards.querySelectorAll("details[open]")].map(({ dataset }) => dataset.id));
    const sorted = [...findings].sort((one, other) => ORDER[one.verdict] - ORDER[other.verdict]);
    cards.replaceChildren(...sorted.map((one) => finding(one, open.has(one.id))));
  }

  async function read(file) {
    try {
      shown.replaceChildren(h("h3", {}, file.name), report(await file.text()));
    } catch (error) {
      shown.replaceChildren(h("p", { class: "empty" }, t("{0} cannot be shown: {1}", file.name, error.message)));
    }
  }
  input.addEventListener("change", () => input.files[0] && read(input.files[0]));
  element.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  element.addEventListener("dragleave", () => drop.classList.remove("over"));
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files[0]) read(event.dataTransfer.files[0]);
  });
  const update = () => all.forEach((one) => one.update(live.history));
  const unwatch = watch(update);
  return {
    element,
    title: t("Where did the QPS go?"),
    begin() {
      update();
      look();
    },
    end() {
      ended = true;
      clearTimeout(timer);
      unwatch();
    },
  };
}

function finding(told, isOpen) {
  const { id, verdict, message, evidence, remedy, doc } = inLanguage(told);
  const figures = Object.entries(evidence).map(([name, value]) => h("div", {}, h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, typeof value === "number" ? number(value) : value)));
  return h("li", { class: TONES[verdict] },
    h("details", { "data-id": id, open: isOpen || verdict === "failure" || verdict === "warning" },
      h("summary", {}, h("span", { class: "mark" }, t(verdict)), h("code", {}, id), message),
      figures.length > 0 ? h("dl", { class: "pairs" }, figures) : null,
      remedy ? h("pre", { tabindex: 0, "aria-label": t("Remedy") }, remedy) : null,
      h("p", { class: "note" }, doc)));
}
