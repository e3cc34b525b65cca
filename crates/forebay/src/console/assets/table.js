// A table of which only the rows that are seen exist, however many there are.

import { h, plain, say } from "./dom.js";

const ROW = 36;
const SPARE = 6;
/** Browsers cannot make elements much taller than this. */
const TALLEST = 15_000_000;

/**
 * `columns` have a `name`, `of(row)` with the text, and may be `end` (aligned to the right), `wide` (left out on narrow screens), have a
 * `link(row)`, a `tone(row)`, and `by(row)` where the table can be sorted by them.
 */
export function table({ label, columns, empty }) {
  let rows = [];
  let shown = [];
  let sorted = null;
  const heads = columns.map((column, at) => head(column, () => sort(at)));
  const body = h("div", { class: "rows", role: "rowgroup" });
  const view = h("div", { class: "view", tabindex: 0, role: "group", "aria-label": `${label}, rows` });
  const nothing = h("p", { class: "empty" }, empty);
  const header = h("div", { class: "row head", role: "row", "aria-rowindex": 1 }, heads);
  const element = h("div", { class: "table", role: "table", "aria-label": label },
    h("div", { role: "rowgroup" }, header), body);
  view.append(element);
  const pool = [];

  function sort(at) {
    sorted = sorted && sorted.at === at ? (sorted.down ? { at, down: false } : null) : { at, down: true };
    heads.forEach((one, index) => {
      const is = sorted?.at === index;
      if (columns[index].by) one.setAttribute("aria-sort", is ? (sorted.down ? "descending" : "ascending") : "none");
    });
    arrange();
    view.scrollTop = 0;
    draw();
  }

  function arrange() {
    shown = rows;
    if (!sorted) return;
    const { by } = columns[sorted.at];
    const turn = sorted.down ? -1 : 1;
    const keyed = rows.map((row) => [by(row), row]);
    keyed.sort(([one], [other]) => (one === other ? 0 : one === null ? 1 : other === null ? -1 : one < other ? -turn : turn));
    shown = keyed.map(([, row]) => row);
  }

  function draw() {
    nothing.hidden = rows.length > 0;
    view.hidden = rows.length === 0;
    const height = Math.min(shown.length * ROW, TALLEST);
    body.style.height = `${height}px`;
    element.setAttribute("aria-rowcount", shown.length + 1);
    const fits = Math.ceil(view.clientHeight / ROW) + 2 * SPARE;
    const first = Math.max(0, Math.min(Math.floor(view.scrollTop / ROW) - SPARE, shown.length - fits));
    const count = Math.min(fits, shown.length);
    while (pool.length < count) {
      const one = line(columns);
      pool.push(one);
      body.append(one.element);
    }
    pool.forEach((one, at) => {
      one.element.hidden = at >= count;
      if (at < count) one.show(shown[first + at], first + at);
    });
  }

  view.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  new ResizeObserver(draw).observe(view);
  return {
    element: h("div", { class: "listed" }, nothing, view),
    show(all) {
      rows = all;
      arrange();
      draw();
    },
    /** Says the same rows anew, whose numbers may have changed. */
    refresh() {
      arrange();
      draw();
    },
  };
}

function head(column, sort) {
  const classes = cellClass(column);
  if (!column.by) return h("div", { class: classes, role: "columnheader" }, column.name);
  const button = h("button", { type: "button", class: "sort", onclick: sort }, column.name);
  return h("div", { class: classes, role: "columnheader", "aria-sort": "none" }, button);
}

function cellClass(column) {
  return ["cell", column.end && "end", column.wide && "wide", column.size].filter(Boolean).join(" ");
}

function line(columns) {
  const cells = columns.map((column) => {
    const text = column.link ? h("a") : h("span");
    const cell = h("div", { class: cellClass(column), role: "cell" }, text);
    return { column, cell, text, tone: "" };
  });
  const element = h("div", { class: "row", role: "row" }, cells.map(({ cell }) => cell));
  return {
    element,
    show(row, at) {
      element.style.transform = `translateY(${at * ROW}px)`;
      element.setAttribute("aria-rowindex", at + 2);
      element.classList.toggle("below", Boolean(row.isBelow));
      for (const one of cells) {
        const text = plain(one.column.of(row));
        say(one.text, text);
        if (one.text.title !== text) one.text.title = text;
        if (one.column.link) {
          const link = one.column.link(row);
          if (link) one.text.setAttribute("href", link);
          else one.text.removeAttribute("href");
        }
        const tone = one.column.tone?.(row) ?? "";
        if (tone !== one.tone) {
          if (one.tone) one.cell.classList.remove(one.tone);
          if (tone) one.cell.classList.add(tone);
          one.tone = tone;
        }
      }
    },
  };
}
