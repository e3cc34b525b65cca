// Runs the public suite for HTTP caches (http-cache-tests) through a cache: its origin server and its client are in this process.
//
//   node run.mjs NODE_MODULES ORIGIN_PORT BASE_URL
//
// Prints a line for each test that counts: kind, id, `pass` or why it does not.

import path from 'node:path'
import { pathToFileURL } from 'node:url'

const [modules, port, base] = process.argv.slice(2)
Object.assign(process.env, {
  npm_config_protocol: 'http',
  npm_config_port: port,
  npm_config_pidfile: '/dev/null'
})
const load = (name) => import(pathToFileURL(path.join(modules, name)))
const suite = (name) => load(path.join('http-cache-tests', name))

await suite('server/server.mjs')
const { runTests, getResults } = await suite('client/runner.mjs')
const { default: groups } = await suite('tests/index.mjs')
const { default: fetch } = await load('node-fetch/lib/index.mjs')
await runTests(groups, fetch, false, base)
const results = getResults()
for (const test of groups.flatMap((group) => group.tests)) {
  const kind = test.kind || 'required'
  if (kind === 'check' || test.browser_only) continue
  const result = results[test.id]
  console.log(`${kind} ${test.id} ${result === true ? 'pass' : `${result}`.replaceAll('\n', ' ')}`)
}
process.exit(0)
