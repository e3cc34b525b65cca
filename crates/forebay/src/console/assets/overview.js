// The first page: how it goes at a glance, and what needs a look.

import { chart } from "./chart.js";
import { bytes, counted, day, h, number, percent, quantile, say, seconds, span } from "./dom.js";
import { live, watch } from "./live.js";

/** Name, value, and what it is compared with. */
const FIGURES = [
  ["Requests", (state) => `${number(state.requests.perSecond)} /s`, (state) => `${number(state.requests.total)} since the start`],
  ["Errors 5xx", (state) => `${number(state.requests.byClass?.serverError)} /s`, (state) => `4xx: ${number(state.requests.byClass?.clientError)} /s`,
    (state) => (state.requests.byClass?.serverError > 0 ? "bad" : "")],
  ["Latency p50", (state) => quantile(state.requests.latency.p50), (state) => `upstream: ${quantile(state.requests.upstreamLatency.p50)}`],
  ["Latency p99", (state) => quantile(state.requests.latency.p99), (state) => `upstream: ${quantile(state.requests.upstreamLatency.p99)}`],
  ["Connections reused", (state) => percent(state.upstream.reuseRatio), (state) => `${number(state.upstream.openedPerSecond)} opened /s`],
  ["Client connections", (state) => number(state.connections.active), (state) => `${number(state.connections.acceptedPerSecond)} accepted /s`],
  ["Upstream connections", (state) => number(state.upstream.open), (state) => `${number(state.upstream.idle)} idle`],
  ["Local ports in use", (state) => percent(portShare(state)), (state) => `${number(state.upstream.portsInUseMax)} of ${number(state.upstream.portsAvailable)}`,
    (state) => (portShare(state) > 0.8 ? "bad" : "")],
  ["CPU", (state) => (state.process.cpuUsed === null ? "–" : state.process.cpuUsed.toFixed(2)), (state) => `of ${cpus(state)}`],
  ["Memory", (state) => bytes(state.process.residentBytes), () => "resident"],
];

function cpus(state) {
  const { cpuQuota, cpus } = state.process;
  return cpuQuota === null ? `${counted(cpus, "CPU")}, no quota` : `${cpuQuota} allowed by the quota`;
}

export function portShare({ upstream }) {
  return upstream.portsAvailable ? upstream.portsInUseMax / upstream.portsAvailable : null;
}

export const requestChart = () => chart({
  title: "Requests a second",
  format: (value) => number(value),
  series: [
    { name: "all", of: (state) => state.requests.perSecond },
    { name: "4xx", of: (state) => state.requests.byClass?.clientError },
    { name: "5xx", of: (state) => state.requests.byClass?.serverError },
  ],
});

export const latencyChart = () => chart({
  title: "Latency",
  format: seconds,
  series: [
    { name: "p50", of: (state) => state.requests.latency.p50?.estimateSeconds },
    { name: "p99", of: (state) => state.requests.latency.p99?.estimateSeconds },
    { name: "upstream p99", of: (state) => state.requests.upstreamLatency.p99?.estimateSeconds },
  ],
});

export const reuseChart = () => chart({
  title: "Upstream connections a second",
  format: (value) => number(value),
  series: [
    { name: "requests", of: (state) => state.upstream.requestsPerSecond },
    { name: "opened", of: (state) => state.upstream.openedPerSecond },
    { name: "regretted evictions", of: (state) => state.upstream.regrettedPerSecond },
  ],
});

export const connectionChart = () => chart({
  title: "Open connections",
  format: (value) => number(value),
  series: [
    { name: "clients", of: (state) => state.connections.active },
    { name: "upstream", of: (state) => state.upstream.open },
    { name: "upstream idle", of: (state) => state.upstream.idle },
  ],
});

/** What somebody should look at, each with the page that has it in full. */
function concerns(state) {
  const { configuration, findings, problems, certificates, upstream, shortages } = state;
  const all = [];
  for (const trouble of configuration.troubles) all.push(["bad", `A watch fails: ${trouble}`, null]);
  if (configuration.isFromDisk) all.push(["warn", "The API server was not reached: what was kept on disk is served.", null]);
  if (configuration.acknowledged < configuration.generation) {
    all.push(["warn", `Configuration ${configuration.generation} is not in force at every worker yet.`, "#/changes"]);
  }
  for (const one of shortages.filter(({ level }) => level > 0)) {
    all.push(["bad", `The process is short of something: ${one.of.replaceAll("_", " ")} (level ${one.level}).`, "#/doctor"]);
  }
  for (const one of findings.worst) all.push([one.verdict === "failure" ? "bad" : "warn", one.message, "#/doctor"]);
  if (upstream.ejected > 0) all.push(["warn", `${counted(upstream.ejected, "endpoint is", "endpoints are")} left out.`, "#/clusters"]);
  if (problems.error > 0) all.push(["bad", `${counted(problems.error, "error")} in objects: something that they ask for is not served.`, "#/problems"]);
  if (problems.warning > 0) all.push(["warn", `${counted(problems.warning, "warning")} about objects.`, "#/problems"]);
  if (certificates.expired > 0) all.push(["bad", `${counted(certificates.expired, "certificate has", "certificates have")} ended.`, "#/certificates"]);
  if (certificates.endingSoon > 0) all.push(["warn", `${counted(certificates.endingSoon, "certificate ends", "certificates end")} within 14 days.`, "#/certificates"]);
  return all;
}

export function overview() {
  const figures = FIGURES.map(([name]) => {
    const [value, note] = [h("strong", {}, "–"), h("span", { class: "note" })];
    return { value, note, element: h("li", {}, h("span", { class: "name" }, name), value, note) };
  });
  const charts = [requestChart(), latencyChart(), reuseChart(), connectionChart()];
  const list = h("ul", { class: "concerns" });
  const faults = h("tbody");
  const faultTable = h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, ["Reason", "Whose", "What it means", "Since the start", "A second"].map((name, at) =>
      h("th", { scope: "col", class: at > 2 ? "end" : null }, name)))), faults);
  const noFaults = h("p", { class: "empty" }, "No request has gone wrong since the start.");
  const facts = h("p", { class: "facts" });
  let told = "";

  function update() {
    const { state } = live;
    if (!state) return;
    FIGURES.forEach(([, value, note, tone], at) => {
      say(figures[at].value, value(state));
      say(figures[at].note, note(state));
      figures[at].element.className = tone?.(state) ?? "";
    });
    charts.forEach((one) => one.update(live.history));
    const { configuration: of } = state;
    say(facts, `Version ${state.version}, up ${span(state.uptimeSeconds)}. Configuration ${of.generation}: ${[
      counted(of.hosts, "host"), counted(of.routes, "route"), counted(of.clusters, "cluster"), counted(of.endpoints, "endpoint"),
      counted(of.services, "TCP or UDP service"), counted(state.certificates.total, "certificate"),
    ].join(", ")}.${state.certificates.firstEndSeconds ? ` The first certificate ends on ${day(state.certificates.firstEndSeconds)}.` : ""}`);
    showConcerns(state);
    showFaults(state.requests.faults);
  }

  function showConcerns(state) {
    const all = concerns(state);
    const text = JSON.stringify(all);
    if (text === told) return;
    told = text;
    const looked = state.findings.ok + state.findings.unknown + state.findings.warning + state.findings.failure;
    const nothing = looked === 0 ? "Nothing so far; the doctor has not looked yet." : `Nothing. ${counted(looked, "check")} of the doctor found nothing that costs QPS.`;
    list.replaceChildren(...(all.length === 0 ? [h("li", { class: "good" }, nothing)]
      : all.map(([tone, sentence, link]) => h("li", { class: tone }, link ? h("a", { href: link }, sentence) : sentence))));
  }

  function showFaults(all) {
    noFaults.hidden = all.length > 0;
    faultTable.hidden = all.length === 0;
    const rows = [...faults.children];
    all.forEach((fault, at) => {
      const texts = [fault.reason, fault.side, fault.meaning, number(fault.total), number(fault.perSecond)];
      const row = rows[at] ?? faults.appendChild(h("tr", {}, texts.map((_, column) => h("td", { class: column > 2 ? "end" : null }))));
      texts.forEach((text, column) => say(row.children[column], text));
    });
    rows.slice(all.length).forEach((row) => row.remove());
  }

  const element = h("div", {},
    h("h1", {}, "Overview"), facts,
    h("ul", { class: "figures" }, figures.map(({ element }) => element)),
    h("section", {}, h("h2", {}, "What needs a look"), list),
    h("div", { class: "charts" }, charts.map(({ element }) => element)),
    h("section", {}, h("h2", {}, "What went wrong"), noFaults, h("div", { class: "sideways", tabindex: 0, role: "group", "aria-label": "What went wrong, by reason" }, faultTable)));
  const end = watch(update);
  return { element, title: "Overview", begin: update, end };
}
