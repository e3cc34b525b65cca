// Elements, and numbers as people read them. Everything is set as text: nothing that a server says is ever taken as HTML.

import { language, t } from "./language.js";

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; children that are null are left out. `class`, `on...` and properties by name. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "string" ? plain(child) : child);
  }
  return element;
}

/** Characters that are not seen, and that turn others around or make them look like others. */
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** A text in which all characters are seen: a name that is written from right to left in part would look like another name. */
export function plain(text) {
  return text.replaceAll("\r\n", "\n").replace(UNSEEN, (char) => `\\u{${char.codePointAt(0).toString(16)}}`);
}

/** Sets a text only where it differs, so that nothing flickers and no selection is lost. */
export function say(element, text) {
  const seen = plain(text);
  if (element.textContent !== seen) element.textContent = seen;
}

/** What stands for a number that is not known. */
export const NOTHING = "–";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** A rate or a count. */
export function number(value) {
  if (!isNumber(value)) return NOTHING;
  if (value === 0) return "0";
  if (value < 0.05) return "< 0.1";
  return value < 100 && !Number.isInteger(value) ? tenths.format(value) : whole.format(value);
}

export function seconds(value) {
  if (!isNumber(value)) return NOTHING;
  const digits = (number) => (number < 10 ? number.toFixed(1).replace(/\.0$/, "") : number.toFixed(0));
  if (value === 0) return "0";
  if (value < 1e-3) return `${digits(value * 1e6)} µs`;
  if (value < 1) return `${digits(value * 1e3)} ms`;
  return `${digits(value)} s`;
}

/** A quantile of a histogram: where only its first or last bucket is known, just that is said. */
export function quantile(of) {
  if (!of) return NOTHING;
  if (of.aboveSeconds === 0) return `≤ ${seconds(of.atMostSeconds)}`;
  if (of.atMostSeconds === null) return `> ${seconds(of.aboveSeconds)}`;
  return seconds(of.estimateSeconds);
}

export function percent(share) {
  if (!isNumber(share)) return NOTHING;
  const value = share * 100;
  if (value > 0 && value < 0.05) return "< 0.1 %";
  return `${value >= 99.95 || value === 0 || value >= 10 && value < 99 ? value.toFixed(0) : value.toFixed(1)} %`;
}

export function bytes(value) {
  if (!isNumber(value)) return NOTHING;
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (value >= size) return `${(value / size).toFixed(value / size < 10 ? 1 : 0)} ${unit}`;
  }
  return `${value.toFixed(0)} B`;
}

/** A span of time in its two greatest units. */
export function span(total) {
  if (!isNumber(total)) return NOTHING;
  const rest = Math.max(0, Math.floor(total));
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => rest >= size);
  if (first < 0) return "0 s";
  const parts = units.slice(first, first + 2).map(([unit, size], at) => {
    const count = at === 0 ? Math.floor(rest / size) : Math.floor((rest % units[first][1]) / size);
    return count > 0 ? `${count} ${unit}` : "";
  });
  return parts.filter(Boolean).join(" ");
}

const two = (value) => String(value).padStart(2, "0");

/** The time of day here. */
export function clock(atSeconds) {
  const at = new Date(atSeconds * 1000);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** Date and time here. */
export function moment(atSeconds) {
  const at = new Date(atSeconds * 1000);
  return `${day(atSeconds)} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function day(atSeconds) {
  const at = new Date(atSeconds * 1000);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** A number of things: `1 host`, `2 hosts`. Chinese has one form for both, with its measure word. */
export function counted(count, one, many = `${one}s`) {
  return `${whole.format(count)} ${language === "zh" ? t(one) : count === 1 ? one : many}`;
}

/** What this browser keeps under a name; sets it where there is a value. It may keep nothing: then a choice lasts as long as the page. */
export function kept(name, value) {
  try {
    if (value) localStorage.setItem(name, value);
    return localStorage.getItem(name);
  } catch {
    return value ?? null;
  }
}
