// A table of which only the rows that are seen exist, however many there are.

import { h, plain, say } from "./dom.js";
import { t } from "./language.js";

const SPARE = 6;
/** Browsers cannot make elements much taller than this. */
const TALLEST = 15_000_000;
/** Longest text, in characters, that a column with `fit` is as wide as. */
const FIT_MAX = 44;
/** On narrow screens a row has two lines. */
const narrow = matchMedia("(max-width: 46rem)");
const rowHeight = () => (narrow.matches ? 60 : 36);

/**
 * `label`, `empty` and the names of columns are translated here. `columns` have a `name`, `of(row)` with the text, and may be `end` (aligned to the right), `wide` (left out on narrow screens), `full`
 * (a line of its own on narrow screens), `fit` (as wide as its longest text), `dot` (the tone is a dot before the text); have a
 * `link(row)`, a `tone(row)`, and `by(row)` where the table can be sorted by them. `sortBy` is the name of the column by which it is
 * sorted first, from the greatest on. A row with `isBelow` belongs to the one before it without, and stays behind it.
 */
export function table({ label, columns, empty, sortBy = null }) {
  let rows = [];
  let shown = [];
  let sorted = sorting(sortBy);
  let words = [];
  const heads = columns.map((column, at) => head(column, () => sort(at)));
  const body = h("div", { class: "rows", role: "rowgroup" });
  const view = h("div", { class: "view", tabindex: 0, role: "group", "aria-label": t("{0}, rows", t(label)) });
  const nothing = h("p", { class: "empty" }, t(empty));
  const header = h("div", { class: "row head", role: "row", "aria-rowindex": 1 }, heads);
  const element = h("div", { class: "table", role: "table", "aria-label": t(label) },
    h("div", { role: "rowgroup" }, header), body);
  view.append(element);
  const pool = [];

  function sorting(name) {
    const at = columns.findIndex((column) => column.name === name && column.by);
    return at < 0 ? null : { at, down: true };
  }

  function sort(at) {
    sorted = sorted && sorted.at === at ? (sorted.down ? { at, down: false } : null) : { at, down: true };
    mark();
    arrange();
    view.scrollTop = 0;
    draw();
  }

  function mark() {
    heads.forEach((one, index) => {
      const is = sorted?.at === index;
      if (columns[index].by) one.setAttribute("aria-sort", is ? (sorted.down ? "descending" : "ascending") : "none");
    });
  }

  const has = (row) => {
    const text = columns.map((column) => column.of(row)).join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };

  /** A row with those below it that are shown; null where none of them has the words of the filter. */
  function chosen(group) {
    if (words.length === 0 || has(group.row)) return group;
    const below = group.below.filter(has);
    return below.length > 0 ? { row: group.row, below } : null;
  }

  function arrange() {
    const groups = [];
    for (const row of rows) {
      if (row.isBelow && groups.length > 0) groups.at(-1).below.push(row);
      else groups.push({ row, below: [] });
    }
    const kept = groups.map(chosen).filter(Boolean);
    if (sorted) {
      const { by } = columns[sorted.at];
      const order = inOrder(by, sorted.down ? -1 : 1);
      for (const group of kept) if (group.below.length > 1) group.below = order(group.below, (row) => row);
      shown = order(kept, ({ row }) => row).flatMap(({ row, below }) => [row, ...below]);
    } else {
      shown = kept.flatMap(({ row, below }) => [row, ...below]);
    }
  }

  function draw() {
    nothing.hidden = rows.length > 0;
    view.hidden = rows.length === 0;
    const high = rowHeight();
    const height = Math.min(shown.length * high, TALLEST);
    body.style.height = `${height}px`;
    element.setAttribute("aria-rowcount", shown.length + 1);
    const fits = Math.ceil(view.clientHeight / high) + 2 * SPARE;
    const first = Math.max(0, Math.min(Math.floor(view.scrollTop / high) - SPARE, shown.length - fits));
    const count = Math.min(fits, shown.length);
    while (pool.length < count) {
      const one = line(columns);
      pool.push(one);
      body.append(one.element);
    }
    pool.forEach((one, at) => {
      one.element.hidden = at >= count;
      if (at < count) one.show(shown[first + at], first + at, high);
    });
  }

  function fit() {
    const column = columns.find((one) => one.fit);
    if (!column) return;
    const longest = rows.reduce((most, row) => Math.max(most, column.of(row).length), 8);
    // Not in ch: the letters of the heading are smaller.
    element.style.setProperty("--fit", `${Math.min(FIT_MAX, longest) / 2}rem`);
  }

  mark();
  view.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  new ResizeObserver(draw).observe(view);
  narrow.addEventListener("change", draw);
  return {
    element: h("div", { class: "listed" }, nothing, view),
    show(all) {
      rows = all;
      fit();
      arrange();
      draw();
    },
    /** Shows the same rows again, whose numbers may have changed. Rows keep their places while somebody points at them. */
    refresh() {
      if (!view.matches(":hover")) arrange();
      draw();
    },
    /** Shows the rows that have all of these words. Returns how many there are, without those below others. */
    filter(text) {
      words = text.toLowerCase().split(/\s+/).filter(Boolean);
      arrange();
      view.scrollTop = 0;
      draw();
      return shown.filter((row) => !row.isBelow).length;
    },
    /** Sorts by the column of this name, where there is one. */
    sortBy(name) {
      sorted = sorting(name) ?? sorted;
      mark();
      arrange();
      draw();
    },
  };
}

/** Sorts by a value; rows without one come last. */
function inOrder(by, turn) {
  return (all, rowOf) => {
    const keyed = all.map((one) => [by(rowOf(one)), one]);
    keyed.sort(([one], [other]) => (one === other ? 0 : one === null ? 1 : other === null ? -1 : one < other ? -turn : turn));
    return keyed.map(([, one]) => one);
  };
}

function head(column, sort) {
  const classes = cellClass(column);
  if (!column.by) return h("div", { class: classes, role: "columnheader" }, t(column.name));
  const button = h("button", { type: "button", class: "sort", onclick: sort }, t(column.name));
  return h("div", { class: classes, role: "columnheader", "aria-sort": "none" }, button);
}

function cellClass(column) {
  return ["cell", column.end && "end", column.wide && "wide", column.full && "full", column.fit && "fit", column.size].filter(Boolean).join(" ");
}

function line(columns) {
  const cells = columns.map((column) => {
    const text = column.link ? h("a") : h("span");
    const cell = h("div", { class: `${cellClass(column)}${column.dot ? " dot" : ""}`, role: "cell" }, text);
    return { column, cell, text, tone: "" };
  });
  const element = h("div", { class: "row", role: "row" }, cells.map(({ cell }) => cell));
  return {
    element,
    show(row, at, high) {
      element.style.transform = `translateY(${at * high}px)`;
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
