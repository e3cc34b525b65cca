// Signs in through Forebay at npm's oidc-provider, with a client of its own and with a real browser, and fails where something is not as
// docs/auth.md says.
//
//   node run.mjs NODE_MODULES HTTP_ADDRESS HTTPS_ADDRESS PROVIDER_PORT [PLAYWRIGHT_MODULES CHROMIUM]
//
// Forebay has to have the Ingresses of xtask/conformance/oidc.yaml. Prints a line for each thing that was looked at.

import http from 'node:http'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

import { clients } from './client.mjs'

const [modules, front, secureFront, port, playwrightModules, executablePath] = process.argv.slice(2)
const { default: Provider } = await import(pathToFileURL(path.join(modules, 'oidc-provider/lib/index.js')))

const HOST = 'oidc.test'
const PAGE = `https://${HOST}/api/page?a=b%20c&d=e`
/** Seconds of access tokens: Forebay renews a session in the last quarter of them. */
const LIFETIME = 12
const issuer = `http://127.0.0.1:${port}`

const faults = []
const check = (holds, what) => {
  console.log(`${holds ? 'ok' : 'FAILED'}: ${what}`)
  if (!holds) faults.push(what)
}
const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000))

// --- The provider ---

/** The page that asks whether to sign out. */
const logoutSource = (ctx, form) => {
  ctx.body = form
}

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'forebay',
      client_secret: 'a secret: with %, + and ='.repeat(2),
      redirect_uris: [`https://${HOST}/oauth2/callback`],
      post_logout_redirect_uris: [`https://${HOST}/bye`],
      grant_types: ['authorization_code', 'refresh_token'],
      backchannel_logout_uri: `http://${front}/oauth2/backchannel_logout`,
      backchannel_logout_session_required: true,
    },
  ],
  // The claims of scopes are at the userinfo endpoint alone, as OpenID Connect Core section 5.4 has it.
  claims: { openid: ['sub', 'sid'], email: ['email'], profile: ['name', 'groups'] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@a.test`, name: 'Ann', groups: ['staff'] }) }),
  renderError: (ctx, out) => {
    ctx.body = out
  },
  features: { devInteractions: { enabled: false }, backchannelLogout: { enabled: true }, rpInitiatedLogout: { enabled: true, logoutSource } },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  pkce: { required: () => true },
  // By default it refuses to ask addresses of its own machine.
  fetch: (url, { dispatcher, ...options }) => globalThis.fetch(url, options),
  rotateRefreshToken: true,
  ttl: { AccessToken: LIFETIME, IdToken: LIFETIME, RefreshToken: 3600, Session: 3600, Grant: 3600, Interaction: 600 },
  cookies: { keys: ['a key of the provider'] },
})
let renewals = 0
let isAway = false
provider.on('grant.success', (ctx) => {
  if (ctx.oidc.params.grant_type === 'refresh_token') renewals += 1
})
const errors = []
const complaint = (values) => {
  const error = values.find((value) => value instanceof Error)
  return `${error} ${error?.error_description ?? ''}`
}
for (const event of ['grant.error', 'authorization.error', 'backchannel.error', 'server_error']) {
  provider.on(event, (...values) => errors.push(`${event}: ${complaint(values)}`))
}

/** The only user agrees to everything. */
async function interact(request, response) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response)
  if (prompt.name === 'login') return provider.interactionFinished(request, response, { login: { accountId: 'ann' } })
  const grant = grantId ? await provider.Grant.find(grantId) : new provider.Grant({ accountId: session.accountId, clientId: params.client_id })
  grant.addOIDCScope(params.scope)
  return provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true })
}

const answer = provider.callback()
const server = http
  .createServer((request, response) => {
    if (isAway) return response.writeHead(503).end()
    if (!request.url.startsWith('/interaction/')) return answer(request, response)
    interact(request, response).catch((error) => {
      errors.push(`interaction: ${error}`)
      response.writeHead(500).end()
    })
  })
  .listen(Number(port), '127.0.0.1')

const Client = clients(HOST, secureFront)
const api = { headers: { Accept: 'application/json' } }
const cookiesOf = (client) => [...client.jar(HOST).keys()].filter((name) => name.startsWith('__Host-forebay-session'))

// --- What is looked at ---

try {
  const client = new Client()
  let told = await client.ask(PAGE, api)
  // Forebay has yet to read the Ingresses, and the documents of the provider that has just started.
  for (let tries = 0; tries < 200 && [404, 503].includes(told.status); tries += 1) {
    await pause(0.1)
    told = await client.ask(PAGE, api)
  }
  check(told.status === 401 && told.headers['www-authenticate'] === 'OpenIDConnect', 'a client without a browser is refused with 401')
  told = await client.visit(PAGE)
  check(told.status === 200 && told.url === PAGE, `a sign-in ends at the page that was asked for: ${told.status} ${told.way.join(' -> ')}`)
  const seen = JSON.parse(told.text)
  check(seen.headers['x-auth-request-user'] === 'ann', 'the endpoint gets the user')
  check(seen.headers['x-auth-request-email'] === 'ann@a.test', 'the endpoint gets a claim of the userinfo endpoint')
  check(!JSON.stringify(seen.headers).includes('__Host-'), 'the endpoint gets no cookie of Forebay')
  check(cookiesOf(client).length > 0, 'there is a session')
  told = await client.ask(PAGE, { headers: { ...api.headers, 'X-Auth-Request-User': 'root' } })
  check(told.status === 200 && JSON.parse(told.text).headers['x-auth-request-user'] === 'ann', 'no client says who it is')

  const old = client.copy()
  await pause(LIFETIME + 1)
  const before = renewals
  const all = await Promise.all(Array.from({ length: 100 }, () => client.copy().ask(PAGE, api)))
  check(all.every(({ status }) => status === 200), '100 requests at once pass after the tokens have ended')
  check(renewals === before + 1, `they renew the session once: ${renewals - before}`)
  check((await old.ask(PAGE, api)).status === 200 && renewals === before + 1, 'the old cookie goes on without another renewal')
  check((await client.ask(PAGE, api)).status === 200, 'the session goes on')

  isAway = true
  await pause(LIFETIME + 1)
  check((await client.ask(PAGE, api)).status === 200, 'a session outlasts a provider that is away')
  isAway = false
  await pause(4)
  check((await client.ask(PAGE, api)).status === 200 && renewals === before + 2, 'it is renewed when the provider is back')

  const stolen = client.copy()
  told = await client.ask(`https://${HOST}/oauth2/sign_out`)
  const form = await client.ask(told.headers.location)
  check(told.status === 302 && form.status === 200 && form.text.includes('name="xsrf"'), 'who signs out is sent to the provider')
  const xsrf = /name="xsrf" value="([^"]+)"/.exec(form.text)?.[1] ?? ''
  told = await client.ask(`${issuer}/session/end/confirm`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
    body: `xsrf=${xsrf}&logout=yes`,
  })
  check(told.headers.location?.startsWith(`https://${HOST}/bye`), `the provider sends the user back: ${told.status} ${told.headers.location}`)
  check(cookiesOf(client).length === 0 && (await client.ask(PAGE, api)).status === 401, 'the session is over')
  check((await stolen.ask(PAGE, api)).status === 401, 'a copy of the cookie counts no more')

  const one = new Client()
  await one.visit(PAGE)
  const two = one.copy()
  check((await two.ask(PAGE, api)).status === 200, 'another sign-in')
  // The provider's own page, without Forebay: only the back channel tells.
  const page = await one.ask(`${issuer}/session/end`)
  const token = /name="xsrf" value="([^"]+)"/.exec(page.text)?.[1] ?? ''
  await one.ask(`${issuer}/session/end/confirm`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
    body: `xsrf=${token}&logout=yes`,
  })
  let status = 200
  for (let tries = 0; tries < 50 && status === 200; tries += 1) {
    status = (await two.ask(PAGE, api)).status
    await pause(0.1)
  }
  check(status === 401, `the provider ends the session through the back channel: ${status}`)

  if (executablePath) await browse()
} catch (error) {
  check(false, `${error.stack}`)
}
check(errors.length === 0, `the provider has no complaint: ${errors.join('; ')}`)
server.close()
server.closeAllConnections()
process.exit(faults.length === 0 ? 0 : 1)

/** A real browser, which has opinions about cookies. */
async function browse() {
  const playwright = await import(pathToFileURL(path.join(playwrightModules, 'playwright-core/index.mjs')))
  const rules = `--host-resolver-rules=MAP ${HOST}:443 ${secureFront}`
  const browser = await playwright.chromium.launch({ executablePath, args: ['--no-sandbox', rules] })
  try {
    const context = await browser.newContext({ ignoreHTTPSErrors: true })
    const page = await context.newPage()
    await page.goto(PAGE)
    check(page.url() === PAGE, `Chromium signs in and is back: ${page.url()}`)
    check((await page.textContent('body')).includes('ann@a.test'), 'Chromium shows the page of the user')
    const cookies = await context.cookies(`https://${HOST}`)
    const session = cookies.filter(({ name }) => name.startsWith('__Host-forebay-session'))
    check(session.length > 0 && session.every((one) => one.httpOnly && one.secure && one.sameSite === 'Lax'), 'Chromium takes the cookies as they are meant')
    check(!cookies.some(({ name }) => name.includes('-login-')), 'Chromium keeps no cookie of the sign-in')
    const status = await page.evaluate(() => fetch('/api/other').then((answer) => answer.status))
    check(status === 200, 'a script of the page asks with the session')
    await context.clearCookies({ name: /__Host-forebay-session/ })
    const refused = await page.evaluate(() => fetch('/api/other').then((answer) => answer.status))
    check(refused === 401, 'a script without a session is refused, and not sent to the provider')
    await page.goto(PAGE)
    check(page.url() === PAGE, 'Chromium is signed in again without a question')
  } finally {
    await browser.close()
  }
}
