// Reports of `forebay bench`. Of a report in HTML only known elements and attributes are taken over, one by one; nothing else of it gets
// into this page.

import { bytes, counted, h, number, seconds, svg } from "./dom.js";
import { t } from "./language.js";

const ELEMENTS = new Set(["h1", "h2", "h3", "p", "span", "strong", "ul", "ol", "li", "dl", "dt", "dd", "div", "section", "figure", "header", "pre",
  "code", "table", "thead", "tbody", "tr", "th", "td"]);
const SHAPES = new Set(["svg", "g", "line", "polyline", "polygon", "rect", "circle", "path", "text"]);
const CLASSES = /^[a-z0-9 -]{1,60}$/;
const ATTRIBUTES = new Set(["viewBox", "role", "aria-label", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "d", "points", "width", "height",
  "fill", "stroke", "stroke-width", "opacity", "text-anchor", "dy", "font-size", "font-family", "transform", "scope"]);
/** Colours and numbers; what refers to something (`url(...)`) has letters that are followed by a bracket. */
const VALUES = /^(?!.*\w\s*\()[^<>]*$|^(translate|rotate)\([-0-9., ]*\)$/;

/** A report's text as an element. */
export function report(text) {
  if (text.trimStart().startsWith("<")) return page(text);
  const value = JSON.parse(text);
  const all = Array.isArray(value) ? value : [value];
  if (!all.every((one) => typeof one?.url === "string" && typeof one?.rate === "number" && one.latency_us)) {
    throw new Error(t("it is not what forebay bench --output json writes"));
  }
  return h("div", { class: "report" }, all.map(measurement));
}

function measurement(it) {
  const unit = { rps: "requests/s", tps: "TLS connections/s", throughput: "Gbit/s" }[it.kind] ?? "a second";
  const time = (micros) => (typeof micros === "number" ? seconds(micros / 1e6) : "–");
  const figure = (name, value, note = "") => h("li", {}, h("span", { class: "name" }, t(name)), h("strong", {}, value), h("span", { class: "note" }, note));
  const errors = Object.entries(it.errors ?? {});
  return h("section", {}, h("h4", {}, it.url),
    h("ul", { class: "figures" },
      figure("Rate", number(it.rate), unit),
      figure("p50", time(it.latency_us.p50)), figure("p99", time(it.latency_us.p99)), figure("p99.9", time(it.latency_us.p999)),
      figure("Requests", number(it.requests), t("in {0}", seconds(it.duration_seconds))),
      figure("Connections opened", number(it.connections_opened)),
      figure("Received", bytes(it.bytes))),
    it.generator?.limited ? h("p", { class: "warn" }, t("The load generator was the limit, not the server.")) : null,
    h("p", {}, errors.length === 0 ? t("No errors.") : errors.map(([kind, count]) => `${kind}: ${counted(count, "error")}`).join(", ")),
    live(it));
}

/** What the report says beside what is measured now is for the reader to judge; the phases help with that. */
function live({ phases_us: phases = {} }) {
  const known = Object.entries(phases).filter(([, micros]) => typeof micros === "number");
  return known.length === 0 ? null : h("dl", { class: "pairs" }, known.map(([name, micros]) =>
    h("div", {}, h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, seconds(micros / 1e6)))));
}

function page(text) {
  // A document that was parsed so runs no script and loads nothing.
  const parsed = new DOMParser().parseFromString(text, "text/html");
  const main = parsed.querySelector("main");
  if (!main) throw new Error(t("it is not a page that forebay bench --report writes"));
  return h("div", { class: "report" }, [...main.childNodes].map(copy));
}

function copy(node) {
  if (node.nodeType === Node.TEXT_NODE) return node.textContent;
  if (node.nodeType !== Node.ELEMENT_NODE) return null;
  const name = node.localName;
  const children = [...node.childNodes].map(copy);
  if (SHAPES.has(name)) return svg(name, attributes(node), children);
  if (!ELEMENTS.has(name)) return null;
  // The page has its own headings above.
  const tag = { h1: "h4", h2: "h4", h3: "h5" }[name] ?? name;
  return h(tag, attributes(node), children);
}

function attributes(node) {
  const kept = {};
  for (const { name, value } of node.attributes) {
    if (name === "class" && CLASSES.test(value)) kept.class = value;
    else if (ATTRIBUTES.has(name) && VALUES.test(value)) kept[name] = value;
  }
  return kept;
}
