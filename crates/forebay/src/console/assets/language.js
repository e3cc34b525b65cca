// The language of the page: the browser's, until one is chosen. What the server says of objects stays English.

import { zh } from "./zh.js";

function chosen() {
  try {
    return localStorage.getItem("language");
  } catch {
    return null;
  }
}

export const language = (chosen() ?? navigator.language).startsWith("zh") ? "zh" : "en";

/** Texts without a translation that were asked for; the page's tests look at it. */
export const missing = new Set();

/** A text in the language of the page, with values in place of `{0}`, `{1}` and so on. */
export function t(text, ...values) {
  if (language === "zh" && !(text in zh)) missing.add(text);
  const pattern = language === "zh" ? zh[text] ?? text : text;
  return values.length === 0 ? pattern : pattern.replace(/\{(\d)\}/g, (_, at) => values[at]);
}

/** A finding of the doctor, with its texts in the language of the page. */
export const inLanguage = (finding) => (language === "zh" && finding.zh?.message ? { ...finding, ...finding.zh } : finding);
