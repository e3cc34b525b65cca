// The pages that are lists: routes, clusters, certificates, services, changes, problems, and the search over all of them.

import { bytes, counted, day, h, moment, NOTHING, number, percent, quantile, say } from "./dom.js";
import { t } from "./language.js";
import { ask, list, live, watch } from "./live.js";
import { table } from "./table.js";

const TRAFFIC_EVERY_MS = 2000;

export const search = (words) => `#/search?q=${encodeURIComponent(words)}`;

/** The address of a route's page. */
export function routeLink(host, route) {
  return `#/route?${new URLSearchParams({ host: host.name, path: route.path, type: route.pathType, from: route.from ?? "" })}`;
}

/** The labels by which a route is known in the traffic. */
const keyOf = (one) => JSON.stringify([one.host, one.path, one.namespace, one.object, one.rule, one.service, one.servicePort]);

/**
 * A page with a table: `load` makes the rows of what the server lists; `renew`, where there is one, is called with the traffic every two
 * seconds, or `poll` without it.
 */
function listed({ title, lead, columns, empty, load, renew, poll, sortBy, parameters }) {
  const rows = table({ label: title, columns, empty: "Loading.", sortBy });
  const count = h("p", { class: "facts" }, typeof lead === "string" ? t(lead) : "");
  const box = h("input", { type: "search", autocomplete: "off", spellcheck: "false", oninput: () => filter() });
  const matches = h("span", { class: "note", role: "status" });
  const bar = h("p", { class: "filter" }, h("label", {}, t("Filter"), box), matches);
  const element = h("div", { class: "full" }, h("h1", {}, t(title)), count, bar, rows.element);
  let all = [];
  let revision = null;
  let timer = 0;
  let ended = false;

  function filter() {
    const found = rows.filter(box.value);
    say(matches, box.value.trim() ? counted(found, "match", "matches") : "");
  }

  function follow(parameters) {
    box.value = parameters?.get("q") ?? "";
    if (parameters?.has("sort")) rows.sortBy(parameters.get("sort"));
    filter();
  }

  async function fetchRows() {
    revision = live.state?.revision ?? null;
    try {
      all = await load();
      rows.element.querySelector(".empty").textContent = t(empty);
      rows.show(all);
      say(count, typeof lead === "function" ? lead(all) : t(lead));
      if (renew || poll) await traffic();
      filter();
    } catch (error) {
      rows.element.querySelector(".empty").textContent = error.message || t("The server does not answer.");
    }
  }

  async function traffic() {
    clearTimeout(timer);
    if (ended) return;
    try {
      if (poll) await poll(all);
      else renew(all, await ask("traffic"));
      rows.refresh();
    } catch {
      // The state of the connection is told at the top.
    }
    if (!ended) timer = setTimeout(traffic, TRAFFIC_EVERY_MS);
  }

  const unwatch = watch(() => {
    if (live.state && live.state.revision !== revision) fetchRows();
  });
  return {
    element,
    title: t(title),
    begin() {
      follow(parameters);
      fetchRows();
    },
    change: follow,
    end() {
      ended = true;
      clearTimeout(timer);
      unwatch();
    },
  };
}

// === routes ===

const errorTone = (field) => (row) => (row.traffic?.[field] > 0 ? "bad" : "");
/** The words of a filter of the routes, such as a reason. */
export const routesWith = (words) => `#/routes?${new URLSearchParams({ q: words })}`;

/** The page of clusters with one of them. */
export const clusterLink = (name) => `#/clusters?${new URLSearchParams({ q: name })}`;

/** What the reason of a failure is called; a cause without one is the endpoint's own status. */
export const causeName = ({ reason }) => reason ?? t("returned by the endpoint");

const rate = (field) => ({ of: (row) => number(row.traffic?.[field] ?? null), by: (row) => row.traffic?.[field] ?? 0, end: true });
const time = (name) => ({
  of: (row) => quantile(row.traffic?.latency[name]), by: (row) => row.traffic?.latency[name]?.estimateSeconds ?? null, end: true,
});

export function routes(parameters) {
  return listed({
    parameters,
    sortBy: "Requests/s",
    title: "Hosts and routes",
    lead: (rows) => t("{0}. Rates are those of the last seconds; – is for no request in that time.", counted(rows.length, "route")),
    empty: "No routes are served: no Ingress or HTTPRoute has been taken. Problems says why, if there is a reason.",
    columns: [
      { name: "Host", of: ({ host }) => host.name, by: ({ host }) => host.name, link: ({ host, route }) => routeLink(host, route), fit: true, full: true },
      { name: "Path", of: ({ route }) => route.path, by: ({ route }) => route.path, size: "large" },
      { name: "Object", of: ({ route }) => route.from ?? NOTHING, by: ({ route }) => route.from, link: ({ route }) => route.from && search(route.from), wide: true, size: "large" },
      { name: "Backend", of: ({ route }) => backendText(route), link: ({ route }) => route.backends[0] && clusterLink(route.backends[0].cluster), wide: true, size: "large" },
      { name: "Requests/s", ...rate("requestsPerSecond") },
      { name: "4xx/s", ...rate("clientErrorsPerSecond"), wide: true },
      { name: "5xx/s", ...rate("serverErrorsPerSecond"), tone: errorTone("serverErrorsPerSecond") },
      { name: "Reason", of: ({ traffic }) => traffic?.causes?.map(causeName).join(", ") || NOTHING, tone: ({ traffic }) => (traffic?.causes?.length > 0 ? "bad" : ""), wide: true, size: "large" },
      { name: "p50", ...time("p50"), wide: true },
      { name: "p99", ...time("p99") },
    ],
    load: async () => {
      const { hosts } = await list("objects");
      return hosts.flatMap((host) => host.routes.map((route) => ({ host, route, traffic: null, key: keyOf(route) })));
    },
    renew(rows, { routes }) {
      const known = new Map(routes.map((one) => [keyOf(one), one]));
      for (const row of rows) row.traffic = known.get(row.key) ?? null;
    },
  });
}

export function backendText(route) {
  if (route.action === "respond") return t("answers {0}", route.status);
  if (route.action === "files") return t("files");
  return route.backends.map(({ cluster, weight, canary, fallback }) =>
    fallback ? t("{0} (fallback)", cluster) : canary ? t("{0} (canary)", cluster) : weight === null ? cluster : `${cluster} (${weight})`).join(", ") || t("nobody");
}

// === clusters ===

export function clusters(parameters) {
  const column = (of, format = number) => ({ of: (row) => format(of(row)), by: of, end: true });
  const ofEndpoint = (field, format = number) => column((row) => (row.endpoint ? row.numbers?.[field] : row.sum?.[field]) ?? null, format);
  const latency = (name) => ({
    of: (row) => quantile(row.traffic?.latency[name]), by: (row) => row.traffic?.latency[name]?.estimateSeconds ?? null, end: true,
  });
  return listed({
    parameters,
    sortBy: "Requests/s",
    title: "Clusters and endpoints",
    lead: (rows) => t("{0}, {1}. An endpoint's connections are those of all clusters that it is in.", counted(rows.filter(({ endpoint }) => !endpoint).length, "cluster"), counted(rows.filter(({ endpoint }) => endpoint).length, "endpoint")),
    empty: "There are no clusters: nothing is served that leads to a Service.",
    columns: [
      { name: "Cluster or endpoint", of: (row) => row.endpoint?.address ?? row.cluster.name, by: (row) => row.endpoint?.address ?? row.cluster.name, fit: true, full: true },
      { name: "State", of: clusterState, tone: stateTone, dot: true, size: "large" },
      { name: "Requests/s", ...column((row) => (row.endpoint ? row.numbers : row.traffic)?.requestsPerSecond ?? null) },
      { name: "Errors/s", ...column(errors), tone: (row) => (errors(row) > 0 ? "bad" : "") },
      { name: "p50", ...latency("p50"), wide: true },
      { name: "p99", ...latency("p99") },
      { name: "In flight", of: (row) => inFlight(row), end: true, wide: true },
      { name: "Open", ...ofEndpoint("open"), wide: true },
      { name: "Idle", ...ofEndpoint("idle"), wide: true },
      { name: "Opened/s", ...ofEndpoint("openedPerSecond"), wide: true },
      { name: "Reused", ...ofEndpoint("reuseRatio", percent), wide: true },
      { name: "Closed early/s", ...ofEndpoint("regrettedPerSecond"), wide: true },
    ],
    load: async () => (await list("objects")).clusters.flatMap((cluster) => [
      { cluster },
      ...cluster.endpoints.map((endpoint) => ({ cluster, endpoint, isBelow: true })),
    ]),
    renew(rows, { clusters, endpoints }) {
      const byName = new Map(clusters.map((one) => [one.name, one]));
      const byAddress = new Map(endpoints.map((one) => [one.address, one]));
      for (const row of rows) {
        const traffic = byName.get(row.cluster.name) ?? null;
        if (row.endpoint) {
          row.numbers = byAddress.get(row.endpoint.address) ?? null;
          row.load = traffic?.loads.find(({ address }) => address === row.endpoint.address) ?? null;
          continue;
        }
        row.traffic = traffic;
        const own = row.cluster.endpoints.map(({ address }) => byAddress.get(address)).filter(Boolean);
        row.own = own;
        row.sum = Object.fromEntries(["open", "idle", "openedPerSecond", "regrettedPerSecond"].map((field) => [field, own.reduce((sum, one) => sum + one[field], 0)]));
      }
    },
  });
}

/** Failed requests and responses with 5xx, a second; null where nothing is known. */
function errors({ endpoint, numbers, traffic }) {
  if (!endpoint) return traffic?.serverErrorsPerSecond ?? null;
  return numbers ? numbers.failuresPerSecond + numbers.serverErrorsPerSecond : null;
}

/** Why an endpoint's health check fails, and whether it is used all the same. */
function checkTrouble({ checkFault, isUsedInPanic }) {
  const why = checkFault ?? t("passes again, not often enough yet");
  return isUsedInPanic ? t("health check: {0}; used since most fail", why) : t("health check: {0}", why);
}

/** What is wrong with a cluster or an endpoint; empty where nothing is. */
function trouble(row) {
  if (row.endpoint) return row.numbers?.failingChecks > 0 ? checkTrouble(row.numbers) : row.numbers?.ejected > 0 ? t("ejected") : row.numbers?.isFailing ? t("failing") : "";
  if (row.cluster.endpoints.length === 0) return t("no endpoint");
  const bad = row.own?.filter(({ ejected, failingChecks, isFailing }) => ejected > 0 || failingChecks > 0 || isFailing).length ?? 0;
  return bad > 0 ? t("{0} of {1} failing", bad, row.cluster.endpoints.length) : "";
}

function stateTone(row) {
  if (trouble(row)) return "bad";
  return row.endpoint?.isDraining ? "warn" : row.endpoint && !row.numbers ? "dim" : "good";
}

function clusterState(row) {
  const what = trouble(row);
  if (!row.endpoint) {
    const { protocol, encryption, balance } = row.cluster;
    return `${what ? `${what}, ` : ""}${protocol}${encryption === "clear" ? "" : `, ${encryption}`}, ${balance}`;
  }
  return what || (t(row.endpoint.isDraining ? "draining" : row.numbers ? "ready" : "ready, not asked yet"));
}

function inFlight({ load, traffic, endpoint }) {
  if (!endpoint) return traffic?.queued > 0 ? t("{0} waiting", number(traffic.queued)) : NOTHING;
  if (!load) return NOTHING;
  return load.limit === null ? number(load.inFlight) : t("{0} of {1}", number(load.inFlight), number(load.limit));
}

// === certificates ===

const daysLeft = (end) => Math.floor((end - (live.state?.atSeconds ?? Date.now() / 1000)) / 86400);

export function certificates(parameters) {
  return listed({
    parameters,
    title: "Certificates",
    lead: "Those that end first come first. Keys are never shown.",
    empty: "No host has a certificate: what is served over TLS is served with one that was made up at the start.",
    columns: [
      { name: "Hosts", of: ({ hosts }) => hosts.map((name) => (name === "_" ? t("all others") : name)).join(", "), by: ({ hosts }) => hosts[0], fit: true, full: true },
      { name: "Secret", of: ({ namespace, secret }) => `${namespace}/${secret}`, by: ({ namespace, secret }) => `${namespace}/${secret}`, size: "large" },
      { name: "Issuer", of: ({ issuer }) => issuer || NOTHING, by: ({ issuer }) => issuer, wide: true, size: "large" },
      { name: "Key", of: ({ keyAlgorithm }) => keyAlgorithm, wide: true },
      { name: "Ends", of: ({ notAfterSeconds }) => day(notAfterSeconds), by: ({ notAfterSeconds }) => notAfterSeconds, end: true },
      {
        name: "Days left", of: ({ notAfterSeconds }) => number(daysLeft(notAfterSeconds)), by: ({ notAfterSeconds }) => notAfterSeconds, end: true,
        tone: ({ notAfterSeconds }) => (daysLeft(notAfterSeconds) < 0 ? "bad" : daysLeft(notAfterSeconds) < 14 ? "warn" : ""),
      },
      { name: "Renewed", of: ({ obtained }) => obtainedText(obtained), by: ({ obtained }) => obtained?.renewedAt ?? null, tone: ({ obtained }) => (obtained?.fault ? "bad" : ""), end: true, size: "large" },
    ],
    load: async () => {
      const [{ certificates }, obtained] = await Promise.all([list("objects"), list("certificates")]);
      const known = new Map(obtained.certificates.map((one) => [one.host, one]));
      return certificates.map((one) => ({ ...one, obtained: one.hosts.map((host) => known.get(host)).find((found) => found) ?? null }));
    },
  });
}

/** When a certificate is renewed that is obtained from an authority, and why it was not. */
function obtainedText(obtained) {
  if (!obtained) return NOTHING;
  const at = obtained.renewedAt === null ? NOTHING : moment(obtained.renewedAt);
  return obtained.fault ? `${at}: ${obtained.fault}` : at;
}

// === services ===

export function services(parameters) {
  const of = (field, format = number) => ({ of: (row) => format(row.traffic?.[field] ?? null), by: (row) => row.traffic?.[field] ?? 0, end: true });
  return listed({
    parameters,
    sortBy: "Open",
    title: "TCP and UDP services",
    lead: "Ports whose bytes or datagrams are passed on as they are.",
    empty: "There are none: --tcp-services-configmap and --udp-services-configmap name ConfigMaps with such ports, and Gateways may have TCPRoutes.",
    columns: [
      { name: "Port", of: ({ protocol, port }) => `${protocol} ${port}`, by: ({ port }) => port },
      { name: "Service", of: ({ namespace, service, servicePort }) => `${namespace}/${service}:${servicePort}`, size: "large" },
      { name: "Open", ...of("active") },
      { name: "Opened/s", ...of("openedPerSecond"), wide: true },
      { name: "From clients/s", ...of("receivedBytesPerSecond", bytes), wide: true },
      { name: "To clients/s", ...of("sentBytesPerSecond", bytes), wide: true },
      { name: "p99", of: (row) => quantile(row.traffic?.latency.p99), end: true },
      { name: "Could not listen", ...of("listenFailures"), tone: (row) => (row.traffic?.listenFailures > 0 ? "bad" : ""), wide: true },
    ],
    load: async () => (await list("objects")).services.map((one) => ({ ...one, traffic: null })),
    renew(rows, { services }) {
      for (const row of rows) row.traffic = services.find(({ protocol, port }) => protocol === row.protocol && port === row.port) ?? null;
    },
  });
}

// === identity ===

const ofIssuer = ({ name, source, objects, keys, fetchedSeconds, failure }) => ({
  kind: "Tokens", issuer: name, detail: source, objects, atSeconds: fetchedSeconds, error: failure, isKnown: keys.length > 0,
  text: counted(keys.length, "key"),
});

const ofProvider = ({ issuer, clientId, objects, answeredSeconds, error, isKnown, signedIn, signedOut }) => ({
  kind: "Sign-in", issuer, detail: clientId, objects, atSeconds: answeredSeconds, error, isKnown,
  text: t("{0} signed in, {1} signed out", number(signedIn), number(signedOut)),
});

/** Issuers of tokens, and providers at which people sign in. */
async function identities() {
  const [issuers, providers] = await Promise.all([ask("issuers"), ask("providers")]);
  return [...issuers.map(ofIssuer), ...providers.map(ofProvider)];
}

export function identity(parameters) {
  const standing = ({ isKnown, error }) => (!isKnown ? "not known" : error ? "away" : "known");
  return listed({
    parameters,
    title: "Identity",
    lead: "Issuers whose tokens routes take, and providers at which people sign in.",
    empty: "There are none: no route has a forebay.io/auth-jwt or forebay.io/auth-oidc-issuer.",
    columns: [
      { name: "Issuer", of: ({ issuer }) => issuer, by: ({ issuer }) => issuer, size: "large" },
      { name: "For", of: ({ kind }) => t(kind), by: ({ kind }) => kind },
      { name: "State", of: (row) => t(standing(row)), by: standing, tone: (row) => ({ known: "dim", away: "warn" })[standing(row)] ?? "bad", dot: true },
      { name: "Keys, client", of: ({ detail }) => detail, by: ({ detail }) => detail, wide: true, size: "large" },
      { name: "Number", of: ({ text }) => text },
      { name: "Answered", of: ({ atSeconds }) => (atSeconds ? moment(atSeconds) : NOTHING), by: ({ atSeconds }) => atSeconds, wide: true },
      { name: "Objects", of: ({ objects }) => objects.join(", "), by: ({ objects }) => objects[0], wide: true, size: "large" },
      { name: "Error", of: ({ error }) => error ?? NOTHING, full: true, size: "giant" },
    ],
    load: identities,
    async poll(rows) {
      const now = await identities();
      for (const row of rows) Object.assign(row, now.find(({ kind, issuer, detail }) => kind === row.kind && issuer === row.issuer && detail === row.detail));
    },
  });
}

// === countries ===

export function countries(parameters) {
  return listed({
    parameters,
    sortBy: "Requests",
    title: "Countries of clients",
    lead: "Requests since the start, by the country that a database has for the client's address.",
    empty: "None are counted: forebay-client-country-metrics of the ConfigMap turns that on, and use-geoip2 the databases.",
    columns: [
      { name: "Code", of: ({ code }) => code },
      { name: "Country", of: ({ name }) => name ?? NOTHING, size: "large" },
      { name: "Requests", of: ({ requests }) => number(requests), by: ({ requests }) => requests, end: true },
    ],
    load: async () => (await ask("traffic")).countries,
    renew(rows, { countries }) {
      for (const row of rows) row.requests = countries.find(({ code }) => code === row.code)?.requests ?? row.requests;
    },
  });
}

// === problems ===

const SEVERITIES = ["notice", "warning", "error"];

export function problems(parameters) {
  return listed({
    parameters,
    sortBy: "Severity",
    title: "Problems",
    lead: "What objects ask for and do not get, and what they should know. The same is in their Events and in the log.",
    empty: "No object has a problem.",
    columns: [
      { name: "Severity", of: ({ severity }) => t(severity), by: ({ severity }) => SEVERITIES.indexOf(severity), tone: ({ severity }) => ({ error: "bad", warning: "warn" })[severity] ?? "dim", dot: true },
      { name: "Object", of: ({ object }) => object ?? NOTHING, by: ({ object }) => object, link: ({ object }) => object && search(object), size: "large" },
      { name: "Problem", of: ({ message }) => message, size: "giant", full: true },
      { name: "Where", of: ({ file, line }) => (file ? `${file}:${line ?? 1}` : NOTHING), wide: true, size: "large" },
    ],
    load: () => list("problems"),
  });
}

// === changes ===

const KINDS = [["hosts", "host"], ["clusters", "cluster"], ["endpoints", "endpoint"], ["services", "service"]];

export function changes() {
  const cards = h("ol", { class: "changes" });
  const empty = h("p", { class: "empty" }, t("There is no configuration yet."));
  const element = h("div", {}, h("h1", {}, t("Changes")),
    h("p", { class: "facts" }, t("What the latest 200 configurations of this process changed, the newest first.")), empty, cards);
  let revision = null;

  async function update() {
    if (live.state && live.state.revision === revision) return;
    revision = live.state?.revision ?? null;
    try {
      const all = await list("changes");
      empty.hidden = all.length > 0;
      cards.replaceChildren(...all.map(card));
    } catch {
      revision = null;
    }
  }
  const end = watch(update);
  return { element, title: t("Changes"), begin: update, end };
}

function card(change) {
  const parts = KINDS.flatMap(([field, name]) => [["added", "added"], ["removed", "gone"], ["changed", "changed"]].map(([what, word]) =>
    part(change[field][what], name, word)));
  const notes = [
    change.hasOtherSettings && !change.isFirst ? h("li", {}, t("Settings of the proxy changed.")) : null,
    part(change.problems, "new problem", ""),
    change.problemsSolved > 0 ? h("li", {}, t("{0} solved.", counted(change.problemsSolved, "problem"))) : null,
  ];
  const all = [...parts, ...notes].filter(Boolean);
  return h("li", {},
    h("h2", {}, t("Configuration {0}", change.generation), h("time", { datetime: new Date(change.atSeconds * 1000).toISOString() }, moment(change.atSeconds))),
    change.isFirst ? h("p", { class: "note" }, t("The first one of this process.")) : null,
    all.length > 0 ? h("ul", {}, all) : h("p", { class: "note" }, t("Nothing that is listed here: details of TLS, of listeners or of policies.")));
}

function part({ count, names }, name, word) {
  if (count === 0) return null;
  const more = count > names.length ? ` ${t("and {0} more", count - names.length)}` : "";
  return h("li", {}, h("b", {}, `${counted(count, name)} ${word && t(word)}`.trim()), h("span", { class: "names" }, `${names.join(", ")}${more}`));
}

// === search ===

let index = { objects: null, problems: null, entries: [] };

/** Everything that can be found, with its text in lower case. */
async function entries() {
  const [objects, problems] = await Promise.all([list("objects"), list("problems")]);
  if (index.objects === objects && index.problems === problems) return index.entries;
  const all = [];
  const add = (kind, name, detail, link) => all.push({ kind, name, detail, link, key: name.toLowerCase(), text: `${kind} ${name} ${detail}`.toLowerCase() });
  for (const host of objects.hosts) {
    for (const route of host.routes) {
      add("Route", `${host.name}${route.path}`, [route.from, backendText(route), ...route.features].filter(Boolean).join(", "), routeLink(host, route));
    }
  }
  for (const cluster of objects.clusters) {
    add("Cluster", cluster.name, cluster.endpoints.map(({ address }) => address).join(", ") || t("no endpoint"), clusterLink(cluster.name));
  }
  for (const one of objects.certificates) add("Certificate", `${one.namespace}/${one.secret}`, one.hosts.join(", "), "#/certificates");
  for (const one of objects.services) add("Service", `${one.protocol} ${one.port}`, `${one.namespace}/${one.service}:${one.servicePort}`, "#/services");
  for (const one of problems) add("Problem", one.object ?? one.reason, one.message, "#/problems");
  index = { objects, problems, entries: all };
  return all;
}

export function found(parameters) {
  const rows = table({
    label: "Found",
    empty: "Nothing has all of these words.",
    columns: [
      { name: "Kind", of: ({ kind }) => t(kind) },
      { name: "Name", of: ({ name }) => name, link: ({ link }) => link, size: "huge" },
      { name: "Detail", of: ({ detail }) => detail, size: "giant", wide: true },
    ],
  });
  const count = h("p", { class: "facts", role: "status" });
  const element = h("div", { class: "full" }, h("h1", {}, t("Search")), count, rows.element);
  let words = parameters.get("q") ?? "";

  async function update() {
    try {
      const all = await entries();
      const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
      const hits = all.filter(({ text }) => wanted.every((word) => text.includes(word)));
      // What is named so comes before what only has to do with it.
      const [named, others] = [true, false].map((is) => hits.filter(({ key }) => wanted.every((word) => key.includes(word)) === is));
      rows.show([...named, ...others]);
      say(count, t("{0} of {1} for “{2}”.", counted(hits.length, "result"), number(all.length), words));
    } catch (error) {
      say(count, error.message || t("The server does not answer."));
    }
  }
  return {
    element,
    title: t("Search"),
    begin: update,
    change(changed) {
      words = changed.get("q") ?? "";
      update();
    },
    end() {},
  };
}

