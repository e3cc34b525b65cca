// The time line of what the flight recorder holds: findings as bars, events as marks, traffic as charts, and one moment of it in words.

import { chart } from "./chart.js";
import { clock, h, moment, number, say, seconds, span as lengthOf, svg } from "./dom.js";
import { t } from "./language.js";
import { ask } from "./live.js";

/** Spans that can be shown at once, in seconds; the server shows no more than a day. */
const SPANS = [["1 h", 3600], ["6 h", 6 * 3600], ["1 day", 86400]];
/** How far before a moment its events are told, and how often the present is asked for again, both in milliseconds. */
const BEFORE_MS = 5 * 60 * 1000;
const EVERY_MS = 10000;
/** A busy server is asked again after this time. */
const AGAIN_MS = 1500;

const LANE = 22;
const TOP = 6;
const AXIS = 40;
const LEFT = 8;
const RIGHT = 8;

const charts = () => [
  chart({
    title: "Requests a second",
    format: (value) => number(value),
    series: [{ name: "all", of: (point) => point.requests }, { name: "5xx", isError: true, of: (point) => point.errors }],
  }),
  chart({ title: "Latency", format: seconds, series: [{ name: "upstream p99", of: (point) => point.p99 }] }),
  chart({ title: "Upstream connections a second", format: (value) => number(value), series: [{ name: "opened", of: (point) => point.connects }] }),
];

const FIGURES = [
  ["Requests", (point) => `${number(point?.requests)} /s`],
  ["Errors 5xx", (point) => `${number(point?.errors)} /s`],
  ["Latency p99", (point) => seconds(point?.p99)],
  ["Connections opened", (point) => `${number(point?.connects)} /s`],
];

export function past(parameters) {
  const picture = svg("svg", { role: "img", "aria-label": t("Findings and events over time") });
  const box = h("div", { class: "timeline" }, picture);
  const lead = h("p", { class: "facts", role: "status" }, t("Loading."));
  const slider = h("input", { type: "range", id: "moment", min: 0, max: 1, step: 1 });
  const reading = h("strong", { class: "moment" });
  const figures = FIGURES.map(([name, of]) => {
    const value = h("strong", {}, "–");
    return { of, value, element: h("li", {}, h("span", { class: "name" }, t(name)), value, h("span", { class: "note" })) };
  });
  const [found, happened, all] = [h("ul", { class: "concerns" }), h("ul", { class: "happened" }), h("tbody")];
  const table = h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["Finding", "Began", "Ended", "Lasted"].map((name) => h("th", { scope: "col" }, t(name))))), all);
  const plots = charts();
  let shownSeconds = SPANS[0][1];
  /** The end of what is shown, in milliseconds; null for the present. */
  let until = Number(parameters?.get("at")) || null;
  let at = until;
  let course = null;
  let [timer, ended, asked] = [0, false, 0];

  const buttons = SPANS.map(([name, length], index) => h("button", { type: "button", class: "plain", "aria-pressed": String(index === 0), onclick() {
    buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === buttons[index])));
    shownSeconds = length;
    look();
  } }, t(name)));
  const step = (name, move) => h("button", { type: "button", class: "plain", onclick: move }, t(name));
  const shift = (share) => {
    if (!course?.spanMs) return;
    const [first, last] = course.spanMs;
    const wanted = (until ?? last) + share * shownSeconds * 1000;
    until = wanted >= last ? null : Math.max(wanted, first + Math.min(shownSeconds * 1000, last - first));
    at = null;
    look();
  };
  const element = h("div", {}, h("h1", {}, t("Time line")), lead,
    h("p", { class: "choice", role: "group", "aria-label": t("Time that is shown") }, buttons, step("Earlier", () => shift(-0.5)), step("Later", () => shift(0.5)), step("Now", () => {
      until = null;
      at = null;
      look();
    })),
    box,
    h("p", { class: "ask" }, h("label", { class: "long", for: "moment" }, t("Moment"), slider), reading),
    h("ul", { class: "figures first" }, figures.map(({ element }) => element)),
    h("section", {}, h("h2", {}, t("Found at that moment")), found),
    h("section", {}, h("h2", {}, t("What happened in the five minutes before")), happened),
    h("section", {}, h("h2", {}, t("Findings of this time")), h("div", { class: "sideways", tabindex: 0, role: "group", "aria-label": t("Findings of this time") }, table)),
    h("div", { class: "charts" }, plots.map((one) => one.element)));

  async function look() {
    clearTimeout(timer);
    const own = ++asked;
    let again = until === null ? EVERY_MS : 0;
    try {
      const end = until ?? Date.now() + 60000;
      const answer = await ask(`past?since=${Math.floor(end - shownSeconds * 1000)}&until=${Math.ceil(end)}`);
      if (own !== asked || ended) return;
      course = answer;
      show();
    } catch (error) {
      if (own !== asked || ended) return;
      if (!course) say(lead, error.message || t("The server does not answer."));
      again = AGAIN_MS;
    }
    if (again > 0) timer = setTimeout(look, again);
  }

  function show() {
    const { spanMs, fromMs, untilMs, points, findings } = course;
    if (!spanMs) {
      say(lead, t("Nothing is recorded yet."));
      return;
    }
    say(lead, t("{0} to {1}. Recorded: {2}, from {3} on.", moment(fromMs / 1000), clock(untilMs / 1000), lengthOf((spanMs[1] - spanMs[0]) / 1000), moment(spanMs[0] / 1000)));
    slider.min = String(fromMs);
    slider.max = String(untilMs);
    slider.step = String(Math.max(1, Math.round((untilMs - fromMs) / 720)));
    const shown = points.map((point) => ({ ...point, atSeconds: point.atMs / 1000 }));
    const every = points.length > 1 ? (points.at(-1).atMs - points[0].atMs) / (points.length - 1) / 1000 : 10;
    plots.forEach((one) => one.update(shown, Math.max(1, (untilMs - fromMs) / 1000), every));
    all.replaceChildren(...findings.map((bar) => h("tr", {},
      h("td", {}, h("button", { type: "button", class: "plain", title: bar.text, onclick: () => choose(Math.max(bar.fromMs, fromMs)) }, bar.id)),
      h("td", {}, moment(bar.fromMs / 1000)), h("td", {}, bar.untilMs === null ? t("goes on") : moment(bar.untilMs / 1000)),
      h("td", {}, lengthOf(((bar.untilMs ?? untilMs) - bar.fromMs) / 1000)))));
    draw();
    tell();
  }

  /** The chosen moment; the end where none is chosen. */
  const chosen = () => Math.min(Math.max(at ?? course.untilMs, course.fromMs), course.untilMs);

  function choose(time) {
    at = time;
    draw();
    tell();
  }

  function draw() {
    const width = box.clientWidth;
    if (width === 0 || !course?.spanMs) return;
    const { fromMs, untilMs, findings, events } = course;
    const names = [...new Set(findings.map(({ id }) => id))];
    const height = TOP + Math.max(1, names.length) * LANE + AXIS;
    const x = (time) => LEFT + ((Math.min(Math.max(time, fromMs), untilMs) - fromMs) / Math.max(1, untilMs - fromMs)) * (width - LEFT - RIGHT);
    const base = height - AXIS + 4;
    const bars = findings.map((bar) => {
      const lane = TOP + names.indexOf(bar.id) * LANE;
      const [begin, end] = [x(bar.fromMs), x(bar.untilMs ?? untilMs)];
      return svg("rect", { class: `bar ${bar.isFailure ? "bad" : "warn"}`, x: begin, y: lane + 3, width: Math.max(3, end - begin), height: LANE - 6, rx: 2 }, svg("title", {}, bar.text));
    });
    const labels = names.map((name, index) => svg("text", { class: "tick", x: LEFT + 4, y: TOP + index * LANE + LANE / 2 + 4 }, name));
    const marks = events.map((event) => svg("path", { class: `event ${event.kind}`, d: `M${x(event.at)} ${base}l4 8h-8z` }, svg("title", {}, sentence(event))));
    const times = [0, 0.5, 1].map((share, index) => {
      const time = fromMs + share * (untilMs - fromMs);
      return svg("text", { class: "tick", x: x(time), y: height - 6, "text-anchor": ["start", "middle", "end"][index] }, clock(time / 1000));
    });
    const now = x(chosen());
    picture.setAttribute("width", String(width));
    picture.setAttribute("height", String(height));
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.replaceChildren(svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: base, y2: base }), ...bars, ...labels, ...marks, ...times,
      svg("line", { class: "cursor", x1: now, x2: now, y1: 0, y2: height - AXIS + 14 }));
  }

  function tell() {
    const time = chosen();
    slider.value = String(time);
    slider.setAttribute("aria-valuetext", moment(time / 1000));
    say(reading, moment(time / 1000));
    const point = course.points.reduce((best, one) => (!best || Math.abs(one.atMs - time) < Math.abs(best.atMs - time) ? one : best), null);
    figures.forEach(({ of, value }) => say(value, of(point)));
    const there = course.findings.filter(({ fromMs, untilMs }) => fromMs <= time && (untilMs ?? Infinity) >= time);
    found.replaceChildren(...(there.length === 0 ? [h("li", { class: "good" }, t("Nothing."))]
      : there.map((bar) => h("li", { class: bar.isFailure ? "bad" : "warn" }, h("code", {}, bar.id), " ", bar.text))));
    const before = course.events.filter((event) => event.at <= time && event.at >= time - BEFORE_MS).reverse();
    happened.replaceChildren(...(before.length === 0 ? [h("li", {}, t("Nothing."))] : before.map((event) => h("li", {}, h("time", {}, clock(event.at / 1000)), " ", sentence(event)))));
  }

  slider.addEventListener("input", () => choose(Number(slider.value)));
  picture.addEventListener("click", (event) => {
    if (!course?.spanMs) return;
    const { left, width } = picture.getBoundingClientRect();
    const share = (event.clientX - left - LEFT) / Math.max(1, width - LEFT - RIGHT);
    choose(Math.round(course.fromMs + Math.min(Math.max(share, 0), 1) * (course.untilMs - course.fromMs)));
  });
  const resized = new ResizeObserver(draw);
  return {
    element,
    title: t("Time line"),
    begin() {
      resized.observe(box);
      look();
    },
    end() {
      ended = true;
      clearTimeout(timer);
      resized.disconnect();
    },
  };
}

/** An event in one line. */
function sentence({ kind, object, text }) {
  return [kind, object, text].filter(Boolean).join(": ");
}
