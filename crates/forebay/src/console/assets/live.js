// What the server tells: the overview as it comes, and lists that are asked for when they may have changed.

/** Seconds of history that are kept since the page was opened. */
const HISTORY_MAX = 1800;
/** Without an event for so long, the connection counts as lost. The server sends one each second, or each 5 s where it is busy. */
const SILENCE_MS = 12000;
/** A page that nobody sees lets go of its connection after this time: browsers allow few to one server. */
const HIDDEN_MS = 5 * 60 * 1000;
const RETRY_MS = 2000;

const listeners = new Set();
let source = null;
let lastEvent = 0;
let retry = 0;

export const live = {
  /** The latest overview; null before the first. */
  state: null,
  /** All since the page was opened, the oldest first. */
  history: [],
  /** What the server kept before the page was opened: `day` and `hour`, each with `every` and `points` in the form of overviews. */
  past: { day: { every: 300, points: [] }, hour: { every: 10, points: [] } },
  /** Since when the server is away, in milliseconds; null while it is there. */
  awaySince: null,
  /** Why, where it says so. */
  why: "",
  /** The name of the user who has signed in; empty without a sign-in. */
  user: "",
};

/** Calls back with every overview, and when the server goes away or comes back. Returns what ends that. */
export function watch(callback) {
  listeners.add(callback);
  return () => listeners.delete(callback);
}

function tell() {
  for (const callback of listeners) callback();
}

function take(state) {
  lastEvent = Date.now();
  live.awaySince = null;
  const last = live.history.at(-1);
  // Another process has other counts.
  const isOther = last && state.uptimeSeconds + 5 < last.uptimeSeconds;
  if (isOther) live.history = [];
  if (isOther || !live.state) recall();
  if (live.state && live.state.uptimeSeconds > state.uptimeSeconds + 5) lists.clear();
  live.state = state;
  if (state.windowSeconds !== null) live.history.push(state);
  if (live.history.length > HISTORY_MAX) live.history.shift();
  tell();
}

// === history ===

/** The past is asked for again before the page forgets what it saw itself. */
const RECALL_EVERY_MS = 10 * 60 * 1000;

async function recall() {
  try {
    const [day, hour] = (await ask("history")).spans.map(({ everySeconds, atSeconds, columns, values }) => {
      const of = Object.fromEntries(columns.map((name, at) => [name, values[at]]));
      return { every: everySeconds, points: atSeconds.map((at, index) => point(at, (name) => of[name]?.[index] ?? null)) };
    });
    live.past = { day, hour };
    tell();
  } catch {
    // Charts begin with the page then.
  }
}

/** A point of the past in the form of an overview, as far as charts need it. */
function point(atSeconds, of) {
  const time = (name) => (of(name) === null ? null : { estimateSeconds: of(name) });
  return {
    atSeconds,
    requests: {
      perSecond: of("requests"),
      byClass: { clientError: of("clientErrors"), serverError: of("serverErrors") },
      latency: { p50: time("p50"), p99: time("p99") },
      upstreamLatency: { p99: time("upstreamP99") },
    },
    upstream: {
      requestsPerSecond: of("upstreamRequests"), openedPerSecond: of("opened"), regrettedPerSecond: of("regretted"),
      open: of("upstreamOpen"), idle: of("upstreamIdle"),
    },
    connections: { active: of("clients") },
  };
}

/** Points of the last so many seconds, at most about as close to each other as `every` says, the oldest first. */
export function pastOf(seconds, every) {
  const end = live.history.at(-1)?.atSeconds ?? Date.now() / 1000;
  const own = live.history[0]?.atSeconds ?? end;
  const hour = live.past.hour.points.filter(({ atSeconds }) => atSeconds < own);
  const day = live.past.day.points.filter(({ atSeconds }) => atSeconds < (hour[0]?.atSeconds ?? own));
  let last = -Infinity;
  return [...day, ...hour, ...live.history].filter(({ atSeconds }) => {
    if (atSeconds < end - seconds || atSeconds - last < every * 0.9) return false;
    last = atSeconds;
    return true;
  });
}

function lose(why) {
  live.awaySince ??= Date.now();
  live.why = why;
  close();
  clearTimeout(retry);
  retry = setTimeout(open, RETRY_MS);
  tell();
}

function close() {
  source?.close();
  source = null;
}

function open() {
  close();
  lastEvent = Date.now();
  const current = new EventSource("events");
  let hasEvents = false;
  source = current;
  current.addEventListener("state", (event) => {
    hasEvents = true;
    take(JSON.parse(event.data));
  });
  current.addEventListener("error", async () => {
    if (source !== current) return;
    close();
    // Of an EventSource nobody learns what the server said.
    const answer = await fetch("changes").catch(() => null);
    if (answer?.status === 401) signIn();
    // The stream of somebody who has signed in ends now and then, so that the session is examined again.
    else if (answer?.ok && hasEvents && source === null) open();
    else lose(answer?.ok ? "as many watch as may" : ((await answer?.text().catch(() => "")) ?? ""));
  });
}

export function connect() {
  open();
  setInterval(() => document.hidden || recall(), RECALL_EVERY_MS);
  setInterval(() => {
    if (source && Date.now() - lastEvent > SILENCE_MS) lose("");
  }, 1000);
  let hidden = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(close, HIDDEN_MS);
    else if (!source) open();
  });
}

// === lists ===

const lists = new Map();

const LIST_EVERY_MS = 2000;

/** A list of the server. It is asked for again where the configuration has changed since, but not more often than each two seconds. */
export async function list(name) {
  const revision = live.state?.revision ?? null;
  const known = lists.get(name);
  if (known?.revision === revision) return known.value;
  const at = Math.max(Date.now(), known ? known.at + LIST_EVERY_MS : 0);
  const value = new Promise((resolve) => setTimeout(resolve, at - Date.now())).then(() => ask(name));
  const entry = { revision, at, value };
  lists.set(name, entry);
  value.catch(() => lists.get(name) === entry && lists.delete(name));
  return value;
}

/** Opens the page again, which leads to the sign-in. */
function signIn() {
  location.reload();
}

/** What changes all the time and is not kept. */
export async function ask(path) {
  const answer = await fetch(path);
  if (answer.status === 401) signIn();
  live.user = decodeURIComponent(answer.headers.get("forebay-user") ?? "");
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}
