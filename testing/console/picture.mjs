// Draws the console's overview as it looks with numbers that are made up, as a PNG for documents. The picture has a digest of the page and its
// styles in it, by which one that has grown old is found: the same page has other pixels where the fonts are others.

import { createHash } from 'node:crypto'

const [WIDTH, HEIGHT] = [1280, 1060]
/** Length of a digest in letters. */
const DIGEST_BYTES = 64
const SECONDS = 120
const END = Date.UTC(2026, 10, 2, 9, 30) / 1000

/** The overview of a busy afternoon: the rate climbs, an endpoint fails for a while, connections are reused all along. */
function overviewAt (second) {
  const wave = Math.sin(second / 9) + 0.4 * Math.sin(second / 2.3)
  const rate = Math.round(14800 + 55 * second + 420 * wave)
  const trouble = second > 70 && second < 84 ? 1 : 0
  const quantile = (estimateSeconds) => ({ aboveSeconds: estimateSeconds * 0.8, atMostSeconds: estimateSeconds * 1.2, estimateSeconds })
  return {
    version: '0.1.0',
    name: 'forebay-controller-7c9d8-x2x7p',
    atSeconds: END - SECONDS + second,
    uptimeSeconds: 16 * 86400 + 5 * 3600 + second,
    windowSeconds: 1,
    revision: 7,
    configuration: { generation: 412, acknowledged: 412, hosts: 186, routes: 1240, clusters: 391, endpoints: 1566, services: 3, troubles: [], waiting: [], isFromDisk: false },
    requests: {
      total: 21_480_933_102 + 17_000 * second,
      perSecond: rate,
      byClass: { informational: 0, success: rate - 160, redirection: 0, clientError: 150 + 20 * wave, serverError: 420 * trouble },
      latency: { p50: quantile(0.0064 + 0.0004 * wave), p99: quantile(0.031 + 0.003 * wave + 0.03 * trouble) },
      upstreamLatency: { p50: quantile(0.0059), p99: quantile(0.028 + 0.003 * wave + 0.028 * trouble) },
      faults: [{ reason: 'connect_refused', side: 'upstream', meaning: 'The endpoint refused the connection.', total: 5880, perSecond: 0 }]
    },
    connections: { active: 2104 + Math.round(30 * wave), reading: 12, writing: 310, waiting: 1782, acceptedPerSecond: 22 },
    upstream: {
      open: 640 + Math.round(12 * wave), idle: 418 - Math.round(8 * wave), requestsPerSecond: rate, failuresPerSecond: 420 * trouble,
      openedPerSecond: 3 + 40 * trouble, reuseRatio: 0.9991, evictedPerSecond: 0, regrettedPerSecond: 0, ejected: 1, portsInUseMax: 64,
      portsAvailable: 28232, portsExhausted: 0, queued: 0
    },
    tls: { handshakesPerSecond: 20, resumedRatio: 0.7 },
    process: { cpuUsed: 0.8, cpuQuota: 2, cpus: 8, residentBytes: 58_000_000 },
    shortages: [],
    findings: {
      ok: 27, unknown: 2, warning: 1, failure: 0,
      worst: [{ id: 'cpu-quota', verdict: 'warning', message: 'The CPU quota of Pod shop/cart-5d8f stalled it in 38 of 100 periods: its p99 is 100 ms longer for it.' }]
    },
    failing: trouble === 0 && second < 84 ? [] : [{
      host: 'shop.example.com', path: '/cart', namespace: 'shop', object: 'shop', rule: '', service: 'cart', servicePort: '80', cluster: 'shop-cart-80',
      serverErrorsPerSecond: 14, errorRatio: 0.31, causes: [{ reason: 'connect_refused', meaning: 'The endpoint refused the connection.', perSecond: 14 }]
    }],
    problems: { error: 0, warning: 2, notice: 5 },
    certificates: { total: 44, expired: 0, endingSoon: 1, firstEndSeconds: END + 9 * 86400 }
  }
}

/** Stands for the browser's own: tells all at once, and then nothing. */
function tellOnce (states) {
  window.EventSource = class {
    addEventListener (kind, callback) {
      if (kind === 'state') setTimeout(() => states.forEach((state) => callback({ data: JSON.stringify(state) })))
    }

    close () {}
  }
}

/** The picture, and the digest of what it shows. */
export async function picture (browser, console) {
  const context = await browser.newContext({ viewport: { width: WIDTH, height: HEIGHT }, timezoneId: 'UTC', locale: 'en-GB', colorScheme: 'light' })
  const page = await context.newPage()
  await page.addInitScript(tellOnce, Array.from({ length: SECONDS + 1 }, (_, second) => overviewAt(second)))
  await page.goto(console)
  await page.locator('#link', { hasText: /^live$/ }).waitFor()
  const shown = await page.evaluate(async () => [document.body.innerText, await (await fetch('style.css')).text()])
  const digest = createHash('sha256').update(shown.join()).digest('hex')
  const png = await page.screenshot()
  await context.close()
  // Whatever shows a PNG passes over what comes behind its last chunk.
  return { png: Buffer.concat([png, Buffer.from(digest)]), digest }
}

/** The digest behind a picture. */
export const digestOf = (png) => png.subarray(-DIGEST_BYTES).toString()
