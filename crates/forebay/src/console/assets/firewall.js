// What firewalls refused lately, by rule, with the exclusion that would let each request pass.

import { counted, h, moment, NOTHING, say } from "./dom.js";
import { t } from "./language.js";
import { ask } from "./live.js";

const EVERY_MS = 3000;

export function firewall() {
  const lead = h("p", { class: "facts", role: "status" });
  const rules = h("div", {});
  const element = h("div", {}, h("h1", {}, t("Firewall")), lead, rules);
  const open = new Set();
  let [timer, ended, last] = [0, false, ""];

  async function look() {
    try {
      const told = await ask("firewall");
      say(lead, told.requests === 0
        ? t("No request was refused by a rule since the start.")
        : [t("The last {0} that rules refused, or would have refused.", counted(told.requests, "request")), told.missed > 0 ? t("{0} were not kept.", counted(told.missed, "request")) : ""].filter(Boolean).join(" "));
      // Nothing moves under somebody who reads.
      const seen = JSON.stringify(told.rules);
      if (seen !== last) rules.replaceChildren(...told.rules.map((rule) => group(rule, open)));
      last = seen;
    } catch (error) {
      say(lead, error.message || t("The server does not answer."));
    }
    if (!ended) timer = setTimeout(look, EVERY_MS);
  }

  return {
    element,
    title: t("Firewall"),
    begin: look,
    end() {
      ended = true;
      clearTimeout(timer);
    },
  };
}

function group({ rule, message, count, matches }, open) {
  const title = rule === 0 ? message : `${rule} ${message}`;
  return h("section", {}, h("h2", {}, title), h("p", { class: "note" }, counted(count, "match", "matches")),
    matches.map((match) => one(rule, match, open)));
}

function one(rule, match, open) {
  const key = [rule, match.atSeconds, match.path, match.variable].join(" ");
  const what = `${moment(match.atSeconds)} ${match.method} ${match.host}${match.path} `;
  const verdict = match.isBlocked ? t("refused with {0}", String(match.status)) : t("only reported");
  const details = h("details", { open: open.has(key), ontoggle: () => (details.open ? open.add(key) : open.delete(key)) },
    h("summary", {}, what, h("span", { class: match.isBlocked ? "bad" : "warn" }, verdict)),
    h("dl", { class: "pairs" },
      pair("Variable", match.variable || NOTHING), pair("Value", match.value || NOTHING), pair("Client address", match.client),
      pair("Object", match.object ?? NOTHING), pair("Decided by", match.decidedBy === 0 ? NOTHING : String(match.decidedBy))),
    exclusion(match.exclusion));
  return details;
}

/** The YAML for both kinds of objects. A rule that adds scores up has none: those that scored are excluded. */
function exclusion(of) {
  if (!of) return h("p", { class: "note" }, t("There is no exclusion for this match: its variable is not the client's, or its name cannot be written in a rule."));
  return [["Ingress", of.ingress], ["ForebayPolicy", of.policy]].map(([kind, text]) => {
    const copy = h("button", { type: "button", class: "plain", onclick: async () => {
      await navigator.clipboard.writeText(text).then(() => say(copy, t("Copied")), () => {});
    } }, t("Copy"));
    return h("div", {}, h("h3", {}, t("Exclusion for {0}", kind), " ", copy), h("pre", { tabindex: 0 }, text));
  });
}

function pair(name, value) {
  return h("div", {}, h("dt", {}, t(name)), h("dd", {}, value));
}
