// The first page: how it goes at a glance, and what needs a look.

import { chart } from "./chart.js";
import { bytes, counted, day, h, number, percent, quantile, say, seconds, span } from "./dom.js";
import { causeName, clusterLink, routesWith } from "./lists.js";
import { inLanguage, t } from "./language.js";
import { live, pastOf, watch } from "./live.js";

/** Name, value, what it is compared with, tone, and the page behind it. The first four are what people look at first. */
const FIGURES = [
  ["Requests", (state) => `${number(state.requests.perSecond)} /s`, (state) => t("{0} since the start", number(state.requests.total)), null, "#/routes?sort=Requests/s"],
  ["Errors 5xx", (state) => `${number(state.requests.byClass?.serverError)} /s`, (state) => `4xx: ${number(state.requests.byClass?.clientError)} /s`,
    (state) => (state.requests.byClass?.serverError > 0 ? "bad" : ""), "#/routes?sort=5xx/s"],
  ["Latency p50", (state) => quantile(state.requests.latency.p50), (state) => t("upstream: {0}", quantile(state.requests.upstreamLatency.p50)), null, "#/routes?sort=p50"],
  ["Latency p99", (state) => quantile(state.requests.latency.p99), (state) => t("upstream: {0}", quantile(state.requests.upstreamLatency.p99)), null, "#/routes?sort=p99"],
  ["Connections reused", (state) => percent(state.upstream.reuseRatio), (state) => t("{0} opened /s", number(state.upstream.openedPerSecond)), null, "#/clusters?sort=Opened/s"],
  ["Client connections", (state) => number(state.connections.active), (state) => t("{0} accepted /s", number(state.connections.acceptedPerSecond))],
  ["Upstream connections", (state) => number(state.upstream.open), (state) => t("{0} idle", number(state.upstream.idle)), null, "#/clusters?sort=Open"],
  ["Local ports in use", (state) => percent(portShare(state)), (state) => t("{0} of {1}", number(state.upstream.portsInUseMax), number(state.upstream.portsAvailable)),
    (state) => (portShare(state) > 0.8 ? "bad" : ""), "#/doctor"],
  ["CPU used", (state) => (state.process.cpuUsed === null ? "–" : state.process.cpuUsed.toFixed(2)), cpus, null, "#/doctor"],
  ["Memory", (state) => bytes(state.process.residentBytes), () => t("resident")],
];
const FIRST_FIGURES = 4;

/** Seconds that the charts show, and how far apart their points are. */
const SPANS = [["5 min", null, 1], ["1 h", 3600, 10], ["1 day", 86400, 300]];

function cpus(state) {
  const { cpuQuota, cpus } = state.process;
  return cpuQuota === null ? t("of {0}, no quota", counted(cpus, "CPU")) : t("of {0} allowed by the quota", cpuQuota);
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
    { name: "5xx", isError: true, of: (state) => state.requests.byClass?.serverError },
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
    { name: "closed too early", isError: true, of: (state) => state.upstream.regrettedPerSecond },
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
  for (const trouble of configuration.troubles) all.push(["bad", t("A watch fails: {0}", trouble), null]);
  if (configuration.isFromDisk) all.push(["warn", t("The API server was not reached: what was kept on disk is served."), null]);
  if (configuration.acknowledged < configuration.generation) {
    all.push(["warn", t("Configuration {0} is not in force at every worker yet.", configuration.generation), "#/changes"]);
  }
  for (const one of shortages.filter(({ level }) => level > 0)) {
    all.push(["bad", t("The process is short of something: {0} (level {1}).", one.of.replaceAll("_", " "), one.level), "#/doctor"]);
  }
  for (const one of findings.worst) all.push([one.verdict === "failure" ? "bad" : "warn", inLanguage(one).message, "#/doctor"]);
  if (upstream.failingChecks > 0) all.push(["warn", `${counted(upstream.failingChecks, "endpoint fails its health check", "endpoints fail their health checks")}.`, "#/clusters?q=health"]);
  if (upstream.ejected > 0) all.push(["warn", `${counted(upstream.ejected, "endpoint is ejected", "endpoints are ejected")}.`, "#/clusters?q=ejected"]);
  if (problems.error > 0) all.push(["bad", t("{0} in objects: something that they ask for is not served.", counted(problems.error, "error")), "#/problems"]);
  if (problems.warning > 0) all.push(["warn", t("{0} about objects.", counted(problems.warning, "warning")), "#/problems"]);
  if (certificates.expired > 0) all.push(["bad", `${counted(certificates.expired, "certificate has ended", "certificates have ended")}.`, "#/certificates"]);
  if (certificates.endingSoon > 0) all.push(["warn", `${counted(certificates.endingSoon, "certificate ends within 14 days", "certificates end within 14 days")}.`, "#/certificates"]);
  for (const one of state.canaries) {
    const filter = `#/routes?q=${encodeURIComponent(one.ingress)}`;
    if (one.state === "stopped") all.push(["bad", t("The canary {0} gets nothing: {1}.", one.ingress, one.message), filter]);
    if (one.state === "running") all.push(["note", t("The canary {0} is in step {1} of {2}, with {3} of the requests.", one.ingress, one.step, one.steps, percent(one.shareRatio)), filter]);
  }
  const rank = { bad: 0, warn: 1, note: 2 };
  return all.sort(([one], [other]) => rank[one] - rank[other]);
}

/** Buttons of which one is chosen. */
function choice(label, names, choose) {
  const buttons = names.map((name, at) => h("button", { type: "button", class: "plain", "aria-pressed": String(at === 0), onclick() {
    buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === buttons[at])));
    choose(at);
  } }, t(name)));
  return h("p", { class: "choice", role: "group", "aria-label": label }, buttons);
}

/** The routes that fail, each with its reasons: links to its page, to its endpoints, and to the other routes with a reason. */
function failingList() {
  const body = h("tbody");
  const nothing = h("p", { class: "empty good dot" }, t("No route has returned 5xx within the last half minute."));
  const table = h("table", { class: "plain failing" },
    h("thead", {}, h("tr", {}, ["Route", "5xx/s", "Share", "Reason", "Endpoints"].map((name, at) =>
      h("th", { scope: "col", class: [1, 2].includes(at) ? "end" : null }, t(name))))), body);
  let shown = "";
  const reason = (cause) => h("li", {}, h("a", { href: routesWith(causeName(cause)), title: cause.meaning }, causeName(cause)), ` ${number(cause.perSecond)} /s`);
  const row = (one) => h("tr", {},
    h("td", {}, h("a", { href: routesWith(`${one.host} ${one.path}`) }, `${one.host}${one.path}`),
      h("span", { class: "names" }, `${one.namespace}/${one.object}`)),
    h("td", { class: "end bad" }, number(one.serverErrorsPerSecond)),
    h("td", { class: "end bad" }, percent(one.errorRatio)),
    h("td", {}, h("ul", {}, one.causes.map(reason))),
    h("td", {}, h("a", { href: clusterLink(one.cluster) }, one.cluster)));
  return {
    element: h("section", {}, h("h2", {}, t("Failing now")), nothing,
      h("div", { class: "sideways", tabindex: 0, role: "group", "aria-label": t("Routes that fail") }, table)),
    update(all) {
      nothing.hidden = all.length > 0;
      table.parentElement.hidden = all.length === 0;
      const text = JSON.stringify(all);
      // Somebody may be about to click a link.
      if (text === shown || body.matches(":hover")) return;
      shown = text;
      body.replaceChildren(...all.map(row));
    },
  };
}

export function overview() {
  const figures = FIGURES.map(([name, , , , link]) => {
    const [value, note] = [h("strong", {}, "–"), h("span", { class: "note" })];
    const title = h("span", { class: "name" }, link ? h("a", { href: link }, t(name)) : t(name));
    return { value, note, element: h("li", {}, title, value, note) };
  });
  const failing = failingList();
  let chosen = SPANS[0];
  const charts = [requestChart(), latencyChart(), reuseChart(), connectionChart()];
  const list = h("ul", { class: "concerns" });
  const faults = h("tbody");
  const faultTable = h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, ["Reason", "Whose", "What it means", "Since the start", "A second"].map((name, at) =>
      h("th", { scope: "col", class: at > 2 ? "end" : null }, t(name))))), faults);
  const noFaults = h("p", { class: "empty" }, t("No request has gone wrong since the start."));
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
    showCharts();
    failing.update(state.failing ?? []);
    const { configuration: of } = state;
    const numbers = [
      counted(of.hosts, "host"), counted(of.routes, "route"), counted(of.clusters, "cluster"), counted(of.endpoints, "endpoint"),
      counted(of.services, "TCP or UDP service"), counted(state.certificates.total, "certificate"),
    ].join(", ");
    const end = state.certificates.firstEndSeconds;
    const sentences = [t("Version {0}, up {1}. Configuration {2}: {3}.", state.version, span(state.uptimeSeconds), of.generation, numbers), end ? t("The first certificate ends on {0}.", day(end)) : ""];
    say(facts, sentences.filter(Boolean).join(" "));
    showConcerns(state);
    showFaults(state.requests.faults);
  }

  function showCharts() {
    const [, seconds, every] = chosen;
    const points = pastOf(seconds ?? 300, every);
    charts.forEach((one) => one.update(points, seconds, Math.max(every, 10)));
  }

  function showConcerns(state) {
    const all = concerns(state);
    const text = JSON.stringify(all);
    if (text === told) return;
    told = text;
    const looked = state.findings.ok + state.findings.unknown + state.findings.warning + state.findings.failure;
    const nothing = looked === 0 ? t("Nothing so far; the doctor has not looked yet.") : t("Nothing. {0} of the doctor found nothing that costs QPS.", counted(looked, "check"));
    list.replaceChildren(...(all.length === 0 ? [h("li", { class: "good" }, nothing)]
      : all.map(([tone, sentence, link]) => h("li", { class: tone }, link ? h("a", { href: link }, sentence) : sentence))));
  }

  function showFaults(all) {
    noFaults.hidden = all.length > 0;
    faultTable.hidden = all.length === 0;
    const rows = [...faults.children];
    all.forEach((fault, at) => {
      const texts = [fault.reason, t(fault.side), fault.meaning, number(fault.total), number(fault.perSecond)];
      const row = rows[at] ?? faults.appendChild(h("tr", {}, texts.map((_, column) => h("td", { class: column > 2 ? "end" : null }))));
      texts.forEach((text, column) => say(row.children[column], text));
      row.lastElementChild.classList.toggle("bad", fault.perSecond > 0);
    });
    rows.slice(all.length).forEach((row) => row.remove());
  }

  const element = h("div", {},
    h("h1", {}, t("Overview")), facts,
    h("ul", { class: "figures first" }, figures.slice(0, FIRST_FIGURES).map(({ element }) => element)),
    failing.element,
    h("section", {}, h("h2", {}, t("What needs a look")), list),
    h("ul", { class: "figures" }, figures.slice(FIRST_FIGURES).map(({ element }) => element)),
    choice(t("Time of the charts"), SPANS.map(([name]) => name), (at) => {
      chosen = SPANS[at];
      showCharts();
    }),
    h("div", { class: "charts" }, charts.map(({ element }) => element)),
    h("section", {}, h("h2", {}, t("Failures")), noFaults,
      h("p", { class: "note" }, t("Cause and remedy of each reason: docs/troubleshooting.md.")), h("div", { class: "sideways", tabindex: 0, role: "group", "aria-label": t("Failures by reason") }, faultTable)));
  const end = watch(update);
  return { element, title: t("Overview"), begin: update, end };
}
