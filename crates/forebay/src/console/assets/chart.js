// Lines over time. What is drawn is changed in place, so that nothing flickers.

import { clock, h, moment, say, svg } from "./dom.js";
import { t } from "./language.js";

const HEIGHT = 132;
const LEFT = 52;
const BOTTOM = 20;
const TOP = 8;
/** Without a point for so many times the usual distance, a line has a gap. */
const GAP = 2.5;
/** Seconds that are shown where no span is chosen: the first of these that is enough for what there is, or else the last. */
const SPANS = [60, 120, 300];

/** The least of 1, 2, 2.5, 5 times a power of ten that is not below a value. */
function nice(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

/**
 * A chart. `title` and the names of series are translated here. `series` has names with functions from an overview to a number or null; `format` says a number with its unit; `top`, where
 * there is one, is the least that the axis reaches.
 */
export function chart({ title, series, format, top = 0, most = Infinity }) {
  const colour = (at) => (series[at].isError ? "error" : `s${at}`);
  const lines = series.map((_, at) => svg("path", { class: `line ${colour(at)}` }));
  const marks = series.map((_, at) => svg("circle", { class: `mark ${colour(at)}`, r: 3 }));
  const grid = [0, 1, 2].map(() => svg("line", { class: "grid" }));
  const labels = [0, 1, 2].map(() => svg("text", { class: "tick y" }));
  const times = [0, 1, 2].map((at) => svg("text", { class: "tick x", "text-anchor": ["start", "middle", "end"][at] }));
  const cross = svg("line", { class: "cross" });
  const values = series.map(() => h("b"));
  const keys = series.map(({ name }, at) => h("li", { class: `key ${colour(at)}` }, h("span", {}, t(name)), " ", values[at]));
  const when = h("span", { class: "when" });
  const picture = svg("svg", { role: "img", height: HEIGHT, "aria-label": t(title) }, grid, labels, times, lines, cross, marks);
  const element = h("figure", { class: "chart" }, h("figcaption", {}, h("h3", {}, t(title)), when), h("ul", { class: "keys" }, keys), picture);
  let scale = 0;
  let hovered = null;
  let history = [];
  let width = 0;
  let shown = SPANS[0];
  let span = null;
  let every = 5;

  const place = (at, end) => LEFT + ((at - (end - shown)) / shown) * (width - LEFT - 8);
  const rise = (value) => HEIGHT - BOTTOM - (value / scale) * (HEIGHT - BOTTOM - TOP);

  function fit(points) {
    const greatest = points.reduce((all, state) => Math.max(all, ...series.map(({ of }) => of(state) ?? 0)), top);
    const wanted = Math.min(nice(greatest), most);
    // Smaller only where much is left: otherwise the axis would jump to and fro.
    if (wanted > scale || wanted < scale / 3) scale = wanted;
  }

  function frame(end) {
    [0, 0.5, 1].forEach((share, at) => {
      const y = rise(scale * share);
      set(grid[at], { x1: LEFT, x2: width - 8, y1: y, y2: y });
      set(labels[at], { x: LEFT - 8, y: y + 4, "text-anchor": "end" });
      say(labels[at], format(scale * share));
      set(times[at], { x: place(end - shown * (1 - share), end), y: HEIGHT - 4 });
      say(times[at], clock(end - shown * (1 - share)));
    });
  }

  function draw() {
    width = element.clientWidth;
    if (width === 0) return;
    const end = history.at(-1)?.atSeconds ?? Date.now() / 1000;
    const known = end - (history[0]?.atSeconds ?? end);
    shown = span ?? SPANS.find((one) => known <= one) ?? SPANS.at(-1);
    const points = history.filter((state) => state.atSeconds >= end - shown);
    fit(points);
    set(picture, { width, viewBox: `0 0 ${width} ${HEIGHT}` });
    frame(end);
    series.forEach(({ of }, at) => set(lines[at], { d: path(points, of, end) }));
    read(points, end);
  }

  /** A gap in time, or without a value, is a gap in the line. */
  function path(points, of, end) {
    let before = -Infinity;
    return points.map((state) => {
      const value = of(state);
      if (value === null || value === undefined) {
        before = -Infinity;
        return "";
      }
      const step = state.atSeconds - before > every * GAP ? "M" : "L";
      before = state.atSeconds;
      return `${step}${place(state.atSeconds, end).toFixed(1)} ${rise(Math.min(value, scale)).toFixed(1)}`;
    }).join("");
  }

  /** The values at the pointer, or else the latest. */
  function read(points, end) {
    const at = hovered === null ? end : end - shown + ((hovered - LEFT) / (width - LEFT - 8)) * shown;
    const nearest = points.reduce((best, state) =>
      !best || Math.abs(state.atSeconds - at) < Math.abs(best.atSeconds - at) ? state : best, null);
    const isRead = hovered !== null && nearest !== null;
    picture.classList.toggle("reading", isRead);
    say(when, isRead ? (shown > 6 * 3600 ? moment : clock)(nearest.atSeconds) : "");
    series.forEach(({ of }, index) => {
      const value = nearest ? of(nearest) ?? null : null;
      say(values[index], value === null ? "–" : format(value));
      if (!isRead) return;
      const x = place(nearest.atSeconds, end);
      set(cross, { x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM });
      set(marks[index], { cx: x, cy: value === null ? -9 : rise(Math.min(value, scale)) });
    });
  }

  picture.addEventListener("pointermove", (event) => {
    hovered = event.clientX - picture.getBoundingClientRect().left;
    draw();
  });
  picture.addEventListener("pointerleave", () => {
    hovered = null;
    draw();
  });
  const resized = new ResizeObserver(draw);
  resized.observe(element);
  return {
    element,
    /** Draws these points: those of so many seconds, as far apart as `every` says; of the last minutes where that is not said. */
    update(all, seconds = null, distance = 5) {
      history = all;
      span = seconds;
      every = distance;
      draw();
    },
  };
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = String(value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}
