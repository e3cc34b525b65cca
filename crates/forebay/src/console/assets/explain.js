// One route: what it is, and what becomes of a request to it, step by step (the server's /explain).

import { counted, h } from "./dom.js";
import { t } from "./language.js";
import { backendText, clusterLink, search } from "./lists.js";
import { ask, list } from "./live.js";
import { requestsWith } from "./requests.js";

export function route(parameters) {
  const [host, path, type, from] = ["host", "path", "type", "from"].map((name) => parameters.get(name) ?? "");
  const facts = h("dl", { class: "pairs" });
  const url = h("input", { id: "url", name: "url", value: address(host, path), spellcheck: "false", autocomplete: "off" });
  const method = h("input", { id: "method", name: "method", value: "GET", size: 8, autocomplete: "off" });
  const client = h("input", { id: "client", name: "client", placeholder: "127.0.0.1", size: 14, spellcheck: "false", autocomplete: "off" });
  const headers = h("textarea", { id: "headers", name: "headers", rows: 2, placeholder: "Cookie: a=b", spellcheck: "false", autocomplete: "off" });
  const answer = h("div", { "aria-live": "polite" });
  const form = h("form", { class: "ask", onsubmit: (event) => {
    event.preventDefault();
    explain();
  } }, h("label", {}, t("Request"), method), h("label", { class: "long" }, "URL", url), h("label", {}, t("Client address"), client),
    h("label", { class: "long" }, t("Headers, one in a line"), headers), h("button", { type: "submit" }, t("Explain")));
  const element = h("div", {}, h("h1", {}, `${host}${path}`), facts, h("section", {}, h("h2", {}, t("What becomes of a request")), form, answer));

  async function begin() {
    const { hosts } = await list("objects").catch(() => ({ hosts: [] }));
    const table = hosts.find(({ name }) => name === host);
    const found = table?.routes.find((one) => one.path === path && one.pathType === type && (one.from ?? "") === from);
    if (!found) {
      facts.replaceChildren(h("div", {}, h("dd", {}, t("There is no such route any more."))));
      return;
    }
    if (table.hasCertificate && url.value.startsWith("http://")) url.value = url.value.replace("http://", "https://");
    facts.replaceChildren(...describe(table, found));
    explain();
  }

  async function explain() {
    const query = new URLSearchParams({ url: url.value, method: method.value });
    if (client.value.trim()) query.append("client-ip", client.value.trim());
    for (const line of headers.value.split("\n").map((one) => one.trim()).filter(Boolean)) query.append("header", line);
    try {
      answer.replaceChildren(...told(await ask(`/explain?${query}`)));
    } catch (error) {
      answer.replaceChildren(h("p", { class: "empty" }, error.message || t("The server does not answer.")));
    }
  }
  return { element, title: `${host}${path}`, begin, end() {} };
}

/** A URL that the route may take. A wildcard has some name in place of its star; an expression is for who asks to fill in. */
function address(host, path) {
  const name = host === "*" || host === "_" ? "any.invalid" : host.replace(/^\*/, "www");
  return `http://${name}${path}`;
}

function pair(name, ...values) {
  return h("div", {}, h("dt", {}, t(name)), h("dd", {}, values));
}

function describe(host, route) {
  const clusters = route.backends.map(({ cluster }) => h("a", { href: clusterLink(cluster) }, cluster));
  return [
    pair("Path", `${route.pathType} ${route.path}`),
    pair("Declared by", route.from ? h("a", { href: search(route.from) }, route.from) : t("nobody")),
    route.file ? pair("In", `${route.file}:${route.line ?? 1}`) : null,
    pair("Backend", clusters.length > 1 ? backendText(route) : clusters.length === 1 ? clusters[0] : backendText(route)),
    pair("TLS", host.passthrough ? t("passed through to {0}", host.passthrough) : t(host.hasCertificate ? "with a certificate of its own" : "with the default certificate")),
    pair("Besides", [...route.features, route.hasConditions && t("conditions"), host.asksForCertificates && t("asks for client certificates")].filter(Boolean).join(", ") || t("nothing")),
    pair("Live", h("a", { href: requestsWith(`${host.name.replace(/^\*/, "")}${route.pathType === "ImplementationSpecific" ? "" : ` ${route.path}`}`) }, t("Requests as they end"))),
  ].filter(Boolean);
}

/** What the server has told. */
function told(it) {
  const steps = it.steps.map((step) => h("li", { class: `is-${step.verdict}` },
    h("h3", {}, step.step, h("span", { class: "mark" }, step.verdict)), h("p", {}, step.text), sources(step)));
  const destinations = it.destinations.map((to) => h("li", {},
    h("h3", {}, h("a", { href: search(to.upstream) }, to.upstream), h("span", { class: "mark" }, to.protocol)),
    to.choice ? h("p", {}, to.choice) : null, h("p", {}, to.how),
    h("p", {}, to.endpoints.length > 0 ? to.endpoints.join(", ") : t("no endpoint")),
    h("pre", { tabindex: 0, "aria-label": t("What {0} is sent", to.upstream) }, to.request)));
  return [
    h("p", { class: it.isServed ? "outcome good" : "outcome bad" }, capital(it.outcome)),
    h("h3", {}, counted(it.steps.length, "step")), h("ol", { class: "steps" }, steps),
    destinations.length > 0 ? h("h3", {}, t("What the endpoint gets")) : null,
    destinations.length > 0 ? h("ul", { class: "steps" }, destinations) : null,
    it.answer ? h("h3", {}, t("What the client gets")) : null,
    it.answer ? h("pre", { tabindex: 0, "aria-label": t("What the client gets") }, it.answer) : null,
  ].filter(Boolean);
}

/** The annotations and keys that put a step there, each with its object. */
function sources({ from, isDefault }) {
  if (from.length === 0) return isDefault ? h("p", { class: "note" }, t("So by default.")) : null;
  return h("ul", { class: "sources" }, from.map(({ name, value, object, file, line }) => h("li", {},
    h("code", {}, `${name}: ${value}`), h("a", { href: search(object) }, object), file ? ` ${file}:${line ?? 1}` : "")));
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
