// Signs in through Forebay at Dex, which lets everybody in as the same user, and fails where something is not as docs/auth.md says.
//
//   node dex.mjs HTTPS_ADDRESS SECONDS
//
// Forebay has to have the Ingress of xtask/conformance/dex.yaml, and tokens of Dex to last so many seconds. Prints a line for each thing
// that was looked at.

import { clients } from './client.mjs'

const [secureFront, seconds] = process.argv.slice(2)

const HOST = 'dex.test'
const PAGE = `https://${HOST}/api/page?a=b%20c&d=e`
const Client = clients(HOST, secureFront)

const faults = []
const check = (holds, what) => {
  console.log(`${holds ? 'ok' : 'FAILED'}: ${what}`)
  if (!holds) faults.push(what)
}
const pause = (time) => new Promise((done) => setTimeout(done, time * 1000))
const api = { headers: { Accept: 'application/json' } }
const cookiesOf = (client) => [...client.jar(HOST).keys()].filter((name) => name.startsWith('__Host-forebay-session'))

try {
  // The Ingress is a moment old, and Dex too.
  for (let tries = 0; tries < 100 && (await new Client().ask(PAGE)).status !== 302; tries += 1) await pause(0.1)
  const client = new Client()
  let told = await client.visit(PAGE)
  check(told.status === 200 && told.url === PAGE, `a sign-in at Dex ends at the page that was asked for: ${told.status} ${told.way.join(' -> ')}`)
  const seen = JSON.parse(told.text).headers
  check(Boolean(seen['x-auth-request-user']), 'the endpoint gets the user of Dex')
  check(seen['x-auth-request-email'] === 'kilgore@kilgore.trout', 'the endpoint gets the address of the user of Dex')
  check(seen['x-auth-request-groups'] === 'authors', 'the endpoint gets the groups of the user of Dex')

  const old = client.copy()
  await pause(Number(seconds) + 1)
  const all = await Promise.all(Array.from({ length: 100 }, () => client.copy().ask(PAGE, api)))
  check(all.every(({ status }) => status === 200), '100 requests at once pass after the tokens of Dex have ended')
  // Dex refuses a refresh token that comes twice.
  check((await old.ask(PAGE, api)).status === 200, 'the old cookie goes on')
  check((await client.ask(PAGE, api)).status === 200, 'the session goes on')
  await pause(Number(seconds) + 1)
  check((await client.ask(PAGE, api)).status === 200, 'it is renewed once more, with the refresh token that Dex gave last')

  const copy = client.copy()
  told = await client.ask(`https://${HOST}/oauth2/sign_out`)
  check(told.status === 302 && told.headers.location === '/bye', `Dex has no page to sign out: ${told.status} ${told.headers.location}`)
  check(cookiesOf(client).length === 0 && (await client.ask(PAGE, api)).status === 401, 'the session is over')
  check((await copy.ask(PAGE, api)).status === 401, 'a copy of the cookie counts no more')
} catch (error) {
  check(false, `${error.stack}`)
}
process.exit(faults.length === 0 ? 0 : 1)
