// Drives a real browser through the console, and fails where something is not as docs/console.md says.
//
//   node run.mjs NODE_MODULES CHROMIUM CONSOLE_URL ROUTES LATE_MANIFEST ORIGIN_PORT PROXY_URL [SCREENSHOTS]
//
// ROUTES is how many routes are served; LATE_MANIFEST is a file that the script writes, which Forebay reads as a manifest. The script is
// the endpoint of all routes at ORIGIN_PORT, and a client that asks PROXY_URL now and then. Prints a line for each thing that was looked
// at.

import fs from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

import { digestOf, picture } from './picture.mjs'

const [modules, executablePath, base, routes, late, originPort, front, screenshots] = process.argv.slice(2)
const playwright = await import(pathToFileURL(path.join(modules, 'playwright-core/index.mjs')))
const axe = fs.readFileSync(path.join(modules, 'axe-core/axe.min.js'), 'utf8')

/** What a page may weigh compressed, and how long things may take. */
const BYTES_MAX = 150 * 1024
const PAINT_MS = 300
const ROUTES_MS = 1000
const SEARCH_MS = 100

const PAGES = ['overview', 'routes', 'requests', 'firewall', 'clusters', 'replicas', 'certificates', 'countries', 'services', 'problems', 'changes', 'past', 'doctor', 'search?q=web']
/** Names of routes, and how they are to be seen. */
const HOSTILE = [['<script>', '<script>'], ['\u202e', '\\u{202e}txt.exe'], ['onerror=', 'onerror=']]

const faults = []
const check = (holds, what) => {
  console.log(`${holds ? 'ok' : 'FAILED'}: ${what}`)
  if (!holds) faults.push(what)
}

/** The same of something that the documents have figures of. */
const figure = (holds, what) => {
  check(holds, what)
  console.log(`figure: ${what}`)
}

const browser = await playwright.chromium.launch({
  executablePath,
  args: process.getuid?.() === 0 ? ['--no-sandbox'] : []
})

// Some traffic, of which the rate is never twice the same.
let originFails = false
const origin = http.createServer((request, response) => {
  response.statusCode = originFails ? 500 : 200
  response.end('hello')
}).listen(Number(originPort), '127.0.0.1')
const agent = new http.Agent({ keepAlive: true })
const client = setInterval(() => {
  for (let count = Math.ceil(Math.random() * 9); count > 0; count--) {
    const request = http.get(front, { agent, headers: { host: 'web.test' } }, (response) => response.resume())
    request.on('error', () => {})
  }
}, 50)

/** A page of its own, of which everything is noted that must not be. */
async function open (options, address = base) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options })
  const page = await context.newPage()
  const said = []
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && said.push(message.text()))
  page.on('pageerror', (error) => said.push(String(error)))
  page.on('request', (request) => {
    if (!request.url().startsWith(new URL(base).origin) && !request.url().startsWith('data:')) said.push(`asks ${request.url()}`)
  })
  await page.goto(address)
  return { page, said, close: () => context.close() }
}

const shown = (page) => page.locator('#link', { hasText: /^(live|实时)$/ }).waitFor()

async function go (page, name) {
  await page.evaluate((hash) => { location.hash = hash }, `#/${name}`)
  await page.locator('main h1').waitFor()
}

async function settled (page, name) {
  await go(page, name)
  if (['routes', 'requests', 'clusters', 'replicas', 'problems'].includes(name)) await page.locator('.rows .row').first().waitFor()
  if (name === 'changes') await page.locator('.changes > li').first().waitFor()
  if (name === 'past') await page.locator('.timeline line.cursor').waitFor({ state: 'attached' })
  if (name === 'doctor') await page.locator('.findings > li').first().waitFor()
}

/** Playwright's own way of waiting makes functions of texts, which the policy of the page does not let it. */
async function until (page, holds, argument) {
  const end = Date.now() + 20_000
  while (!await page.evaluate(holds, argument)) {
    if (Date.now() > end) throw new Error(`waited in vain for ${holds}`)
    await page.waitForTimeout(50)
  }
}

async function violations (page) {
  // The policy of the page keeps scripts out that a page adds; what the debugger evaluates is not the page's.
  await page.evaluate(axe)
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }))
  return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html }) => html).join(' ')}`)
}

async function everyPage (locale = 'en-GB') {
  for (const colorScheme of ['light', 'dark']) {
    for (const width of [1440, 390]) {
      const { page, said, close } = await open({ colorScheme, locale, viewport: { width, height: 900 } })
      await shown(page)
      for (const name of PAGES) {
        await settled(page, name)
        const label = `${name} in ${colorScheme} at ${width} px, ${locale}`
        const found = await violations(page)
        check(found.length === 0, `${label}: nothing that keeps people out (axe) ${found.join('; ')}`)
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
        check(wide <= 0, `${label}: nothing to scroll sideways for (${wide} px)`)
        if (screenshots) {
          await page.waitForTimeout(name === 'overview' ? 2500 : 500)
          await page.screenshot({ path: path.join(screenshots, `${name.split('?')[0]}-${colorScheme}-${width}-${locale}.png`) })
        }
      }
      const missing = await page.evaluate(async () => [...(await import('/console/language.js')).missing])
      check(missing.length === 0, `${colorScheme} at ${width} px: every text has a translation ${missing.join('; ')}`)
      check(said.length === 0, `${colorScheme} at ${width} px, ${locale}: no error and no request to elsewhere ${said.join('; ')}`)
      await close()
    }
  }
}

async function weight () {
  const { page, close } = await open({})
  const sizes = await page.evaluate(() => performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))
    .filter(({ name }) => !/\/(events|requests|replicas|objects|traffic|problems|changes|doctor|history|past)(\?|$)|data:/.test(name)).map(({ encodedBodySize }) => encodedBodySize))
  const total = sizes.reduce((sum, size) => sum + size, 0)
  figure(sizes.length > 3 && total > 0 && total <= BYTES_MAX, `the page is small: ${total} bytes compressed of ${BYTES_MAX}`)
  await close()
  const times = []
  for (let round = 0; round < 5; round++) {
    const { page, close } = await open({})
    await page.locator('main h1').waitFor()
    const paint = () => page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null)
    let painted = await paint()
    while (painted === null) painted = await paint()
    times.push(painted)
    await close()
  }
  times.sort((one, other) => one - other)
  figure(times[0] <= PAINT_MS, `the first paint is soon: ${times.map(Math.round).join(', ')} ms, of ${PAINT_MS}`)
}

async function manyRoutes () {
  const { page, close } = await open({})
  await shown(page)
  const rendered = await page.evaluate(async () => {
    const begun = performance.now()
    location.hash = '#/routes'
    while (!document.querySelector('.rows .row:not([hidden])')) await new Promise(requestAnimationFrame)
    // How long the server takes for the list is a matter of its build and of what else the machine does.
    const [list] = performance.getEntriesByType('resource').filter(({ name }) => name.endsWith('/objects'))
    const waited = list.responseStart - list.requestStart
    return { time: performance.now() - begun - waited, waited, rows: document.querySelectorAll('.rows .row').length }
  })
  await page.locator('.facts', { hasText: `${Number(routes).toLocaleString('en')} routes` }).waitFor()
  figure(rendered.time <= ROUTES_MS, `${routes} routes are there within ${ROUTES_MS} ms: ${Math.round(rendered.time)} ms, beside ${Math.round(rendered.waited)} ms of the server`)
  check(rendered.rows < 200, `only rows that are seen exist: ${rendered.rows}`)
  await page.locator('.view').evaluate((view) => { view.scrollTop = view.scrollHeight })
  await page.locator(`.rows .row[aria-rowindex="${Number(routes) + 1}"]`).waitFor()
  check(true, 'the last of them can be scrolled to')
  await page.keyboard.press('/')
  await page.locator('#search').fill('warm')
  await page.locator('.facts', { hasText: '“warm”' }).waitFor()
  const searched = await page.evaluate(async () => {
    const box = document.getElementById('search')
    const times = []
    for (const words of ['host-0', 'host-00042', 'ingress host-99', 'default/many-00099', 'path-7 host']) {
      const begun = performance.now()
      box.value = words
      box.dispatchEvent(new Event('input', { bubbles: true }))
      while (!document.querySelector('.facts').textContent.includes(`“${words}”`)) await new Promise(requestAnimationFrame)
      times.push(performance.now() - begun)
    }
    return { times, text: document.querySelector('.facts').textContent }
  })
  // The greatest of some is what else the machine does.
  const median = [...searched.times].sort((one, other) => one - other)[2]
  figure(median <= SEARCH_MS, `searched within ${SEARCH_MS} ms: ${searched.times.map(Math.round).join(', ')} ms (${searched.text})`)
  await close()
}

async function hostileNames () {
  const { page, said, close } = await open({})
  let dialog = false
  page.on('dialog', (one) => { dialog = true; one.dismiss() })
  await shown(page)
  for (const [name, seen] of HOSTILE) {
    await go(page, `search?q=${encodeURIComponent(name)}`)
    await page.locator('.rows .row').first().waitFor()
    const text = await page.locator('.rows').innerText()
    check(text.includes(seen) && !text.includes('\u202e'), `${JSON.stringify(name)} is shown as text`)
  }
  const hosts = await page.evaluate(async () => (await (await fetch('objects')).json()).hosts.map(({ name }) => name))
  const longest = hosts.reduce((one, other) => (one.length > other.length ? one : other), '')
  check(longest.length === 253, `a host of ${longest.length} characters is served`)
  await go(page, `search?q=${longest}`)
  await page.locator('.rows .row a').first().click()
  await page.locator('.outcome').waitFor()
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
  check(wide <= 0, 'its page is not wider than the window')
  const scripts = await page.evaluate(() => document.querySelectorAll('main script, main img, main iframe').length)
  check(scripts === 0 && !dialog && said.length === 0, `nothing of a name became an element ${said.join('; ')}`)
  await close()
}

async function explained () {
  const { page, close } = await open({}, `${base}#/routes`)
  await page.locator('.rows .row a', { hasText: 'web.test' }).first().click()
  await page.locator('.outcome').waitFor()
  const text = await page.locator('main').innerText()
  check(text.includes('passed on to default-web-80') || text.includes('Passed on to default-web-80'), 'a route says what becomes of a request')
  const found = await violations(page)
  check(found.length === 0, `the page of a route keeps nobody out (axe) ${found.join('; ')}`)
  if (screenshots) await page.screenshot({ path: path.join(screenshots, 'route.png') })
  const source = page.locator('.sources a').first()
  await source.waitFor()
  const object = await source.innerText()
  await source.click()
  await page.locator('.facts', { hasText: object }).waitFor()
  check(true, `a field links to the object that said it: ${object}`)
  await close()
}

/** The console as a Chinese reader's browser asks for it, and the choice of the language. */
async function chinese () {
  await everyPage('zh-CN')
  const { page, close } = await open({ locale: 'zh-CN' })
  await page.locator('#link', { hasText: /^实时$/ }).waitFor()
  await page.locator('h1', { hasText: '概览' }).waitFor()
  check(await page.evaluate(() => document.documentElement.lang) === 'zh-CN', 'the page says that it is Chinese')
  await page.locator('#language').click()
  await shown(page)
  await page.locator('h1', { hasText: 'Overview' }).waitFor()
  check(true, 'another language can be chosen')
  await close()
}

/** Requests as they end, with a filter, and held. */
async function requestsLive () {
  const { page, said, close } = await open({}, `${base}#/requests`)
  await shown(page)
  await page.locator('.rows .row', { hasText: 'web.test' }).first().waitFor()
  const first = await page.locator('.filter .note').innerText()
  await until(page, (before) => document.querySelector('.filter .note').innerText !== before, first)
  check(true, 'requests are shown as they end')
  await page.locator('.filter input').fill('4xx elsewhere.test')
  await until(page, () => document.querySelectorAll('.rows .row:not([hidden])').length === 0)
  // A filter counts once the page has another stream of requests: one that ends before that is not in it.
  const asking = setInterval(() => http.get(front, { agent, headers: { host: 'elsewhere.test' } }, (response) => response.resume()), 100)
  await page.locator('.rows .row', { hasText: 'elsewhere.test' }).first().waitFor().finally(() => clearInterval(asking))
  const text = await page.locator('.rows').innerText()
  check(text.includes('404') && text.includes('unknown_host') && !text.includes('web.test'), `a filter leaves those with its words: ${text.replace(/\s+/g, ' ')}`)
  await page.locator('.filter input').fill('')
  await page.locator('.rows .row', { hasText: 'web.test' }).first().waitFor()
  await page.locator('.filter button').click()
  await until(page, () => /wait/.test(document.querySelector('.filter .note').innerText))
  const held = await page.locator('.rows').innerText()
  await page.waitForTimeout(1200)
  check(await page.locator('.rows').innerText() === held, 'a list that is held does not move')
  check(said.length === 0, `no error meanwhile ${said.join('; ')}`)
  await close()
}

/** From an endpoint that fails to its route, its reason and its state: two clicks. */
async function failing () {
  const { page, said, close } = await open({ viewport: { width: 1440, height: 900 } })
  await shown(page)
  await go(page, 'overview')
  originFails = true
  try {
    const begun = Date.now()
    await page.locator('.failing a', { hasText: 'web.test/' }).waitFor()
    figure(Date.now() - begun < 10_000, `a route that fails is on the overview within 10 s: ${Date.now() - begun} ms`)
    const found = await violations(page)
    check(found.length === 0, `the list of failing routes keeps nobody out (axe) ${found.join('; ')}`)
    await page.locator('.failing a', { hasText: 'returned by the endpoint' }).click()
    await page.locator('.rows .row', { hasText: 'web.test' }).first().waitFor()
    const rows = await page.locator('.rows .row:not([hidden])').count()
    check(rows === 1, `its reason leads to the routes that have it: ${rows}`)
    await page.locator('.rows .row a', { hasText: 'default-web-80' }).click()
    await page.locator('.rows .row .cell.dot.bad', { hasText: 'failing' }).first().waitFor()
    check(true, 'and its backend to the endpoint, which is failing')
    if (screenshots) await page.screenshot({ path: path.join(screenshots, 'failing.png') })
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: 900 })
      for (const name of ['overview', 'clusters']) {
        await go(page, name)
        await page.locator(name === 'overview' ? '.failing td.bad' : '.rows .cell.dot.bad').first().waitFor()
        if (screenshots) await page.screenshot({ path: path.join(screenshots, `failing-${name}-${width}.png`) })
      }
    }
    const seen = await page.locator('.rows .cell.dot.bad').first().evaluate((cell) => {
      const { left, right } = cell.getBoundingClientRect()
      return left >= 0 && right <= window.innerWidth
    })
    check(seen, 'a narrow screen shows the state')
    check(said.length === 0, `no error meanwhile ${said.join('; ')}`)
  } finally {
    originFails = false
    await close()
  }
}

async function sortedAndFiltered () {
  const { page, close } = await open({})
  await shown(page)
  await go(page, 'routes')
  await page.locator('.rows .row').first().waitFor()
  const sorted = await page.locator('[aria-sort="descending"]').innerText()
  check(sorted.startsWith('Requests/s'), `the busiest routes come first: ${sorted}`)
  await page.locator('.rows .row', { hasText: 'web.test' }).first().waitFor()
  await page.locator('.filter input').fill('host-00042 path-7')
  await page.locator('.filter .note', { hasText: '1 match' }).waitFor()
  check(await page.locator('.rows .row:not([hidden])').count() === 1, 'a filter leaves the rows that have its words')
  const gap = await page.evaluate(() => {
    const [view, row] = ['.view', '.rows .row:not([hidden])'].map((one) => document.querySelector(one).getBoundingClientRect())
    return view.bottom - row.bottom
  })
  check(gap < 24, `a table is as tall as its rows: ${Math.round(gap)} px below`)
  await go(page, 'overview')
  await page.locator('.choice button', { hasText: '1 h' }).click()
  await until(page, () => document.querySelector('.chart .line')?.getAttribute('d') !== null)
  check(true, 'the charts show an hour')
  await close()
}

async function reports () {
  const { page, said, close } = await open({}, `${base}#/doctor`)
  const measurement = {
    kind: 'rps', url: 'http://web.test/', requests: 1000, errors: {}, duration_seconds: 2, rate: 500, bytes: 12345,
    connections_opened: 4, latency_us: { p50: 250, p90: 300, p99: 1500, p999: 2000, p9999: 2500, max: 3000 },
    phases_us: { dns: null, connect: 80, tls: null, first_byte: 200, body: 10 }, generator: { cpu_seconds: 1, peak_rss_bytes: 1, limited: false }
  }
  const give = (name, mimeType, text) => page.locator('#report').setInputFiles({ name, mimeType, buffer: Buffer.from(text) })
  await give('a.json', 'application/json', JSON.stringify(measurement))
  await page.locator('.report .figures', { hasText: '1.5 ms' }).waitFor()
  check(true, 'a report as JSON is shown')
  await give('a.html', 'text/html', '<main><h1>A report</h1><p onclick="alert(1)">Text</p><script>alert(2)</script><img src="http://elsewhere.test/x"><svg viewBox="0 0 1 1"><rect fill="url(http://elsewhere.test/y)" width="1"/></svg></main>')
  await page.locator('.report h4', { hasText: 'A report' }).waitFor()
  const kept = await page.locator('.report').evaluate((report) => report.querySelectorAll('script, img, [onclick], [fill]').length)
  // That the browser did not even make a handler of the attribute, it says as an error.
  const other = said.filter((one) => !one.includes('inline event handler'))
  check(kept === 0 && other.length === 0, `of a report as HTML nothing is taken over that does anything ${other.join('; ')}`)
  await give('b.json', 'application/json', '{"x": 1}')
  await page.locator('.empty', { hasText: 'cannot be shown' }).waitFor()
  check(true, 'what is no report is said to be none')
  await close()
}

async function alive () {
  const { page, close } = await open({})
  await shown(page)
  await go(page, 'overview')
  const first = await page.locator('.figures strong').first().innerText()
  await until(page, (before) => document.querySelector('.figures strong').innerText !== before, first)
  check(true, 'numbers change while one looks')
  await until(page, () => document.querySelector('.chart .line')?.getAttribute('d')?.includes('L'))
  await page.locator('.chart svg').first().hover()
  await page.locator('.chart .when', { hasText: /\d\d:\d\d:\d\d/ }).first().waitFor()
  check(true, 'a chart is read by pointing at it')
  await go(page, 'changes')
  fs.writeFileSync(late, JSON.stringify({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'Ingress',
    metadata: { name: 'late' },
    spec: { rules: [{ host: 'late.test', http: { paths: [{ path: '/', pathType: 'Prefix', backend: { service: { name: 'web', port: { number: 80 } } } }] } }] }
  }))
  await page.locator('.changes', { hasText: 'late.test' }).waitFor()
  check(true, 'a change of the configuration is told without being asked for')
  await page.keyboard.press('Tab')
  check(await page.evaluate(() => document.activeElement !== document.body), 'the page can be walked through by the keyboard')
  await close()
}

/** Back over the time line: what was then, and what happened before. */
async function timeLine () {
  const { page, said, close } = await open({ viewport: { width: 1440, height: 900 } }, `${base}#/past`)
  await shown(page)
  await page.locator('.timeline line.cursor').waitFor({ state: 'attached' })
  await until(page, () => document.querySelectorAll('.timeline .event').length > 0)
  check(true, 'events are marks on the time line')
  await until(page, () => document.querySelector('.charts .line')?.getAttribute('d')?.includes('L'))
  const requests = () => page.locator('.figures strong').first().innerText()
  await until(page, () => /[1-9]/.test(document.querySelector('.figures strong').innerText))
  check(true, `the latest moment has its figures: ${await requests()}`)
  const moment = () => page.locator('.moment').innerText()
  const latest = await moment()
  await page.locator('.timeline svg').click({ position: { x: 12, y: 12 } })
  const first = await moment()
  check(first < latest, `a click goes back: from ${latest} to ${first}`)
  await page.locator('#moment').focus()
  for (let count = 0; count < 400; count++) await page.keyboard.press('ArrowRight')
  check(await moment() > first, 'the keyboard goes on from there')
  await page.locator('#moment').evaluate((slider) => {
    slider.value = slider.max
    slider.dispatchEvent(new Event('input', { bubbles: true }))
  })
  await page.locator('.happened time').first().waitFor()
  check(true, `what happened before is told: ${(await page.locator('.happened li').first().innerText()).slice(0, 80)}`)
  await page.locator('.choice button', { hasText: '1 day' }).click()
  await page.locator('.choice button[aria-pressed="true"]', { hasText: '1 day' }).waitFor()
  const found = await violations(page)
  check(found.length === 0, `the time line keeps nobody out (axe) ${found.join('; ')}`)
  if (screenshots) await page.screenshot({ path: path.join(screenshots, 'past.png') })
  check(said.length === 0, `no error meanwhile ${said.join('; ')}`)
  await close()
}

async function theme () {
  const { page, close } = await open({ colorScheme: 'light' })
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor)
  const light = await paper()
  const button = page.locator('#theme')
  await button.click()
  await button.click()
  check(await paper() !== light && (await button.innerText()).includes('dark'), 'the theme can be chosen')
  await page.reload()
  check(await paper() !== light, 'the choice lasts')
  await page.keyboard.press('Tab')
  check(await page.evaluate(() => document.activeElement.className === 'skip'), 'the first stop leads past the navigation')
  await close()
}

/** A relay stands for the server: it goes away, with all its connections, and comes back. */
async function awayAndBack () {
  const target = new URL(base)
  const sockets = new Set()
  const relay = net.createServer((socket) => {
    const onward = net.connect(Number(target.port), target.hostname)
    for (const [from, to] of [[socket, onward], [onward, socket]]) {
      sockets.add(from)
      from.on('error', () => to.destroy()).on('close', () => { sockets.delete(from); to.destroy() }).pipe(to)
    }
  })
  const listen = (port) => new Promise((resolve) => relay.listen(port, '127.0.0.1', resolve))
  await listen(0)
  const { port } = relay.address()
  const { page, close } = await open({}, `http://127.0.0.1:${port}${target.pathname}`)
  await shown(page)
  const gone = new Promise((resolve) => relay.close(resolve))
  sockets.forEach((socket) => socket.destroy())
  await gone
  await page.locator('#link', { hasText: /^No answer since \d\d:\d\d:\d\d/ }).waitFor()
  const kept = await page.locator('.figures strong').first().innerText()
  check(/\d/.test(kept), `while the server is away, the page says so and keeps what it had: ${kept}`)
  await listen(port)
  await shown(page)
  check(true, 'when the server is back, the page is live again')
  await close()
  relay.close()
  sockets.forEach((socket) => socket.destroy())
}

/** The picture in the documents. With FOREBAY_WRITE_DOCS it is written anew. */
async function documented () {
  const file = new URL('../../docs/console.png', import.meta.url)
  const { png, digest } = await picture(browser, base)
  if (process.env.FOREBAY_WRITE_DOCS) fs.writeFileSync(file, png)
  check(digestOf(fs.readFileSync(file)) === digest, 'docs/console.png shows what the console shows (FOREBAY_WRITE_DOCS=1 draws it)')
}

for (const part of [weight, manyRoutes, everyPage, chinese, requestsLive, hostileNames, explained, failing, sortedAndFiltered, reports, alive, timeLine, theme, awayAndBack, documented]) {
  try {
    await part()
  } catch (error) {
    check(false, `${part.name}: ${error}`)
  }
}
await browser.close()
clearInterval(client)
agent.destroy()
origin.close()
process.exitCode = faults.length > 0 ? 1 : 0
