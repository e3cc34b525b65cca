// The frame around the pages: which one is shown, the search, the theme, and whether the server is there.

import { clock, h, kept, say } from "./dom.js";
import { doctor } from "./doctor.js";
import { route } from "./explain.js";
import { firewall } from "./firewall.js";
import { language, t } from "./language.js";
import { certificates, changes, clusters, countries, found, identity, problems, routes, search, services } from "./lists.js";
import { connect, live, watch } from "./live.js";
import { overview } from "./overview.js";
import { past } from "./past.js";
import { replicas } from "./replicas.js";
import { requests } from "./requests.js";

const PAGES = [
  ["overview", "Overview", overview],
  ["routes", "Routes", routes],
  ["requests", "Requests", requests],
  ["firewall", "Firewall", firewall],
  ["clusters", "Clusters", clusters],
  ["replicas", "Replicas", replicas],
  ["certificates", "Certificates", certificates],
  ["services", "Services", services],
  ["identity", "Identity", identity],
  ["countries", "Countries", countries],
  ["problems", "Problems", problems],
  ["changes", "Changes", changes],
  ["past", "Time line", past],
  ["doctor", "Where did the QPS go?", doctor],
];
const OTHERS = { route, search: found };

const byId = (id) => document.getElementById(id);
const [main, nav, box, link, theme] = ["main", "nav", "search", "link", "theme"].map(byId);
const links = PAGES.map(([name, title]) => h("a", { href: `#/${name}` }, t(title)));
nav.append(...links);
let shown = null;
let name = "";

function show() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parameters = new URLSearchParams(query);
  const wanted = path || "overview";
  if (wanted === name && shown?.change) {
    shown.change(parameters);
    return;
  }
  const make = OTHERS[wanted] ?? PAGES.find(([one]) => one === wanted)?.[2] ?? overview;
  shown?.end();
  name = wanted;
  shown = make(parameters);
  main.replaceChildren(shown.element);
  document.title = `${shown.title} – Forebay`;
  links.forEach((one, at) => {
    const is = PAGES[at][0] === wanted;
    if (is) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
    if (is) one.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  if (wanted !== "search") box.value = "";
  else box.value = parameters.get("q") ?? "";
  main.scrollTop = 0;
  shown.begin();
}

window.addEventListener("hashchange", show);

// === search ===

box.addEventListener("input", () => {
  const words = box.value.trim();
  if (words) history.replaceState(null, "", search(words));
  else history.replaceState(null, "", "#/routes");
  show();
});
document.querySelector(".find").addEventListener("submit", (event) => event.preventDefault());

// === keys ===

const isTyping = (target) => target instanceof HTMLInputElement;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && !isTyping(event.target)) {
    event.preventDefault();
    box.focus();
    box.select();
  } else if (event.key === "Escape" && event.target === box) {
    box.blur();
  } else if (["ArrowRight", "ArrowLeft"].includes(event.key) && links.includes(event.target)) {
    const step = event.key === "ArrowRight" ? 1 : -1;
    links[(links.indexOf(event.target) + step + links.length) % links.length].focus();
    event.preventDefault();
  }
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

// === theme ===

const THEMES = ["auto", "light", "dark"];

function dress(choice) {
  document.documentElement.dataset.theme = choice;
  say(theme, t("Theme: {0}", t(choice)));
}

theme.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  kept("theme", next);
  dress(next);
});
dress(THEMES.includes(kept("theme")) ? kept("theme") : "auto");

// === language ===

document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
nav.setAttribute("aria-label", t("Pages"));
box.placeholder = t("Search");
say(document.querySelector(".skip"), t("Skip to the content"));
say(document.querySelector(".find label"), t("Search hosts, routes, clusters, certificates, services and problems"));
// Each language is named in itself.
say(byId("language"), language === "zh" ? "English" : "中文");
byId("language").addEventListener("click", () => {
  kept("language", language === "zh" ? "en" : "zh");
  location.reload();
});

// === the server ===

watch(() => {
  const { state, awaySince, why } = live;
  if (state) say(byId("who"), state.name);
  const out = byId("out");
  out.hidden = live.user === "";
  out.title = live.user;
  say(out, t("Sign out"));
  document.body.classList.toggle("away", awaySince !== null);
  if (awaySince !== null) {
    say(link, t("No answer since {0}{1}. Trying again.", clock(awaySince / 1000), why ? `: ${why.trim()}` : ""));
  } else if (state) {
    say(link, t("live"));
  }
});

show();
connect();
