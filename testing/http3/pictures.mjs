// Loads a page with 200 pictures over HTTP/3 in a real browser, and fails where a picture is missing or came by another protocol.
//
//   node pictures.mjs NODE_MODULES CHROMIUM HOST PORT CERTIFICATE ORIGIN_PORT
//
// The script is the endpoint behind Forebay, at ORIGIN_PORT. Forebay listens at PORT of 127.0.0.1 with the certificate for HOST. Prints a
// line for each thing that was looked at.

import crypto from 'node:crypto'
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const [modules, executablePath, host, port, certificate, originPort] = process.argv.slice(2)
const playwright = await import(pathToFileURL(path.join(modules, 'playwright-core/index.mjs')))

const PICTURES = 200
/** Pixels of the side of picture N. */
const side = (number) => 10 + number

const faults = []
const check = (holds, what) => {
  console.log(`${holds ? 'ok' : 'FAILED'}: ${what}`)
  if (!holds) faults.push(what)
}

const images = Array.from({ length: PICTURES }, (_, number) => `<img src="/picture/${number}.svg">`).join('')
// Some pictures are large, so that streams share the connection.
const padding = '<!--' + 'x'.repeat(30_000) + '-->'
const origin = http.createServer((request, response) => {
  const number = /^\/picture\/(\d+)\.svg$/.exec(request.url)?.[1]
  if (number === undefined) {
    response.setHeader('content-type', 'text/html')
    response.end(`<!doctype html><title>pictures</title><link rel="icon" href="data:,"><body>${images}`)
    return
  }
  const pixels = side(Number(number))
  response.setHeader('content-type', 'image/svg+xml')
  response.setHeader('cache-control', 'no-store')
  response.end(`<svg xmlns="http://www.w3.org/2000/svg" width="${pixels}" height="${pixels}">${number % 7 ? '' : padding}</svg>`)
}).listen(Number(originPort), '127.0.0.1')

const key = new crypto.X509Certificate(fs.readFileSync(certificate)).publicKey.export({ type: 'spki', format: 'der' })
const browser = await playwright.chromium.launch({
  executablePath,
  args: [
    '--enable-quic',
    `--origin-to-force-quic-on=${host}:${port}`,
    `--ignore-certificate-errors-spki-list=${crypto.createHash('sha256').update(key).digest('base64')}`,
    `--host-resolver-rules=MAP ${host} 127.0.0.1`,
    ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])
  ]
})

/** What the browser knows of the page and of everything on it. */
const seen = () => {
  const entries = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
  return {
    sides: [...document.images].map((image) => image.naturalWidth),
    protocols: entries.filter(({ name }) => name.startsWith('https:')).map(({ nextHopProtocol }) => nextHopProtocol)
  }
}

try {
  const page = await browser.newPage()
  // The second time the connection is there already.
  for (const time of ['first', 'second']) {
    const started = Date.now()
    await page.goto(`https://${host}:${port}/page`, { waitUntil: 'load' })
    const { sides, protocols } = await page.evaluate(seen)
    check(sides.every((pixels, number) => pixels === side(number)) && sides.length === PICTURES, `${sides.length} pictures are shown the ${time} time`)
    const others = protocols.filter((name) => name !== 'h3')
    check(protocols.length === PICTURES + 1 && others.length === 0, `the page and its pictures came over HTTP/3, and ${others.length} otherwise`)
    console.log(`figure: loaded in ${Date.now() - started} ms the ${time} time`)
  }
  const length = await page.evaluate(async () => {
    const response = await fetch('/1k', { method: 'POST', body: new Uint8Array(100_000) })
    return (await response.arrayBuffer()).byteLength
  })
  check(length === 1024, 'a body of 100,000 bytes is sent and answered')
} finally {
  await browser.close()
  origin.close()
}
process.exit(faults.length > 0 ? 1 : 0)
