// All replicas on one page: each one's overview, as that replica says it.

import { bytes, counted, h, NOTHING, number, percent, quantile, say, span } from "./dom.js";
import { t } from "./language.js";
import { ask } from "./live.js";
import { table } from "./table.js";

const EVERY_MS = 2000;

const sum = (rows, of) => rows.reduce((all, { state }) => all + ((state && of(state)) || 0), 0);

/** What is wrong with a replica; empty where nothing is. */
function trouble({ state, error }) {
  if (!state) return error ?? t("no answer");
  const { problems, findings, shortages, configuration } = state;
  return [
    shortages.some(({ level }) => level > 0) && t("short of something"),
    configuration.acknowledged < configuration.generation && t("configuration not in force"),
    findings.failure > 0 && counted(findings.failure, "failed check"),
    problems.error > 0 && counted(problems.error, "error"),
  ].filter(Boolean).join(", ");
}

export function replicas() {
  const column = (of, format = number) => ({ of: ({ state }) => (state ? format(of(state)) : NOTHING), by: ({ state }) => (state ? of(state) ?? null : null), end: true });
  const time = (of) => ({ of: ({ state }) => (state ? quantile(of(state)) : NOTHING), by: ({ state }) => (state && of(state)?.estimateSeconds) ?? null, end: true });
  const rows = table({
    label: "Replicas",
    empty: "Loading.",
    columns: [
      { name: "Replica", of: ({ state, address }) => state?.name ?? address ?? NOTHING, by: ({ state, address }) => state?.name ?? address, fit: true, full: true },
      { name: "State", of: (row) => trouble(row) || t("ready"), tone: (row) => (trouble(row) ? (row.state ? "warn" : "bad") : "good"), dot: true, size: "large" },
      { name: "Address", of: ({ address }) => address ?? NOTHING, wide: true, size: "large" },
      { name: "Version", of: ({ state }) => state?.version ?? NOTHING, wide: true },
      { name: "Up", ...column((state) => state.uptimeSeconds, span), wide: true },
      { name: "Requests/s", ...column((state) => state.requests.perSecond) },
      { name: "5xx/s", ...column((state) => state.requests.byClass?.serverError), tone: ({ state }) => (state?.requests.byClass?.serverError > 0 ? "bad" : "") },
      { name: "p50", ...time((state) => state.requests.latency.p50), wide: true },
      { name: "p99", ...time((state) => state.requests.latency.p99) },
      { name: "Client connections", ...column((state) => state.connections.active), wide: true },
      { name: "Reused", ...column((state) => state.upstream.reuseRatio, percent), wide: true },
      { name: "CPU used", ...column((state) => state.process.cpuUsed, (value) => (value === null ? NOTHING : value.toFixed(2))), wide: true },
      { name: "Memory", ...column((state) => state.process.residentBytes, bytes), wide: true },
    ],
  });
  const lead = h("p", { class: "facts", role: "status" });
  const alone = h("p", { class: "note" }, t("Only this replica is known: with controller.replicas.enabled of the chart (--replicas-service, --replicas-secret), replicas know each other."));
  alone.hidden = true;
  const element = h("div", { class: "full" }, h("h1", {}, t("Replicas")), lead, alone, rows.element);
  let [timer, ended, isFirst] = [0, false, true];

  async function look() {
    try {
      const { replicas: all, isShared, omitted } = await ask("replicas");
      alone.hidden = isShared;
      rows.show(all);
      isFirst = false;
      const away = all.filter(({ state }) => !state).length;
      say(lead, [
        t("{0}: {1} requests/s, {2} responses with 5xx/s, {3} client connections.", counted(all.length + omitted, "replica"), number(sum(all, ({ requests }) => requests.perSecond)),
          number(sum(all, ({ requests }) => requests.byClass?.serverError)), number(sum(all, ({ connections }) => connections.active))),
        away > 0 ? t("{0} did not answer.", counted(away, "replica")) : "",
        omitted > 0 ? t("{0} were not asked.", counted(omitted, "replica")) : "",
      ].filter(Boolean).join(" "));
    } catch (error) {
      if (isFirst) say(lead, error.message || t("The server does not answer."));
    }
    if (!ended) timer = setTimeout(look, EVERY_MS);
  }

  return {
    element,
    title: t("Replicas"),
    begin: look,
    end() {
      ended = true;
      clearTimeout(timer);
    },
  };
}
