// Requests as they end: the newest first, those that have all words of the filter.

import { clock, counted, h, NOTHING, number, say, seconds } from "./dom.js";
import { t } from "./language.js";
import { clusterLink, search } from "./lists.js";
import { table } from "./table.js";

/** Requests that the page keeps; older ones are forgotten. */
const KEPT_MAX = 500;
/** Time after the last key until the filter holds: each filter is a connection of its own. */
const TYPING_MS = 400;
const RETRY_MS = 3000;

/** The page with a filter. */
export const requestsWith = (words) => `#/requests?${new URLSearchParams({ q: words })}`;

const tone = ({ status }) => (status >= 500 || status === 0 ? "bad" : status >= 400 ? "warn" : "good");

const endpointText = ({ endpoint, tries }) => (endpoint ? (tries > 1 ? t("{0}, try {1}", endpoint, tries) : endpoint) : NOTHING);

export function requests(parameters) {
  const rows = table({
    label: "Requests",
    empty: "No request has ended since this page was opened.",
    columns: [
      { name: "Time", of: ({ atSeconds }) => clock(atSeconds) },
      { name: "Status", of: ({ status }) => (status ? String(status) : NOTHING), tone, dot: true },
      { name: "Request", of: ({ method, host, path }) => `${method} ${host}${path}`.trim(), size: "huge", full: true },
      { name: "Took", of: (row) => seconds(row.seconds), end: true },
      { name: "Upstream", of: ({ upstreamSeconds }) => seconds(upstreamSeconds), end: true, wide: true },
      { name: "Reason", of: ({ reason }) => reason ?? NOTHING, tone: ({ reason }) => (reason ? "bad" : ""), wide: true, size: "large" },
      { name: "Endpoint", of: endpointText, link: ({ cluster, endpoint }) => endpoint && cluster && clusterLink(cluster), wide: true, size: "huge" },
      { name: "Object", of: ({ object }) => object ?? NOTHING, link: ({ object }) => object && search(object), wide: true, size: "large" },
      { name: "Client", of: ({ client }) => client, wide: true, size: "large" },
    ],
  });
  const box = h("input", { type: "search", autocomplete: "off", spellcheck: "false", placeholder: "5xx host.example/path", value: parameters.get("q") ?? "", oninput: typed });
  const pause = h("button", { type: "button", class: "plain", "aria-pressed": "false", onclick: hold }, t("Pause"));
  const sum = h("span", { class: "note", role: "status" });
  const element = h("div", { class: "full" }, h("h1", {}, t("Requests")),
    h("p", { class: "facts" }, t("Requests as they end, the newest first. All words of the filter have to be in a request: method, host and path, status or class (5xx), reason, object, cluster, endpoint, client. At most 200 a second are shown.")),
    h("p", { class: "filter" }, h("label", {}, t("Filter"), box), pause, sum), rows.element);
  let all = [];
  let waiting = [];
  let [matched, shown] = [0, 0];
  let isHeld = false;
  let [source, typing, retry] = [null, 0, 0];

  function typed() {
    clearTimeout(typing);
    typing = setTimeout(() => {
      history.replaceState(null, "", requestsWith(box.value.trim()));
      begin();
    }, TYPING_MS);
  }

  function hold() {
    isHeld = !isHeld;
    pause.setAttribute("aria-pressed", String(isHeld));
    draw();
  }

  function take(told) {
    matched += told.matched;
    waiting = [...told.requests.reverse(), ...waiting].slice(0, KEPT_MAX);
    draw();
  }

  /** Rows keep their places while the list is held, or somebody points at it. */
  function draw() {
    if (!isHeld && !rows.element.querySelector(".view").matches(":hover")) {
      all = [...waiting, ...all].slice(0, KEPT_MAX);
      shown += waiting.length;
      waiting = [];
      rows.show(all);
    }
    const held = waiting.length > 0 ? t("{0} wait", counted(waiting.length, "request")) : "";
    say(sum, [t("{0} of {1} that matched", number(shown), counted(matched, "request")), held].filter(Boolean).join(", "));
  }

  function begin() {
    end();
    [all, waiting, matched, shown] = [[], [], 0, 0];
    draw();
    open();
  }

  function open() {
    const current = new EventSource(`requests?${new URLSearchParams({ q: box.value.trim() })}`);
    source = current;
    current.addEventListener("requests", (event) => take(JSON.parse(event.data)));
    current.addEventListener("error", () => {
      if (source !== current) return;
      current.close();
      say(sum, t("Not connected: the server is away, or as many watch as may. Trying again."));
      retry = setTimeout(open, RETRY_MS);
    });
  }

  /** A page that nobody sees asks for nothing. */
  function seen() {
    if (document.hidden) end();
    else if (!source) open();
  }

  function end() {
    source?.close();
    source = null;
    clearTimeout(typing);
    clearTimeout(retry);
  }

  document.addEventListener("visibilitychange", seen);
  return {
    element,
    title: t("Requests"),
    begin,
    change(changed) {
      box.value = changed.get("q") ?? "";
      begin();
    },
    end() {
      document.removeEventListener("visibilitychange", seen);
      end();
    },
  };
}
