// A provider of OpenID Connect for the sign-in suite: it knows one client, and its only user has always just agreed.
'use strict';
const crypto = require('node:crypto');
const http = require('node:http');

const [host, port, client, secret] = process.argv.slice(2);
const issuer = `http://${host}:${port}`;
const user = { sub: 'user-1', email: 'somebody@signin.test', name: 'Somebody' };
const { privateKey, publicKey } = crypto.generateKeyPairSync('rsa', { modulusLength: 2048 });
const key = { ...publicKey.export({ format: 'jwk' }), kid: 'one', use: 'sig', alg: 'RS256' };
// What was asked for with each code that has not been redeemed, and the access tokens.
const codes = new Map();
const tokens = new Set();

const encoded = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');

function token(nonce) {
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: issuer, aud: client, iat: now, exp: now + 600, nonce, ...user };
  const text = `${encoded({ alg: 'RS256', typ: 'JWT', kid: key.kid })}.${encoded(claims)}`;
  return `${text}.${crypto.sign('sha256', Buffer.from(text), privateKey).toString('base64url')}`;
}

function say(response, status, value, fields) {
  response.writeHead(status, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store', ...fields });
  response.end(JSON.stringify(value));
}

function authorize(url, response) {
  const asked = url.searchParams;
  if (asked.get('client_id') !== client || asked.get('response_type') !== 'code') return say(response, 400, { error: 'invalid_request' });
  const code = crypto.randomBytes(16).toString('hex');
  codes.set(code, { redirect: asked.get('redirect_uri'), nonce: asked.get('nonce') ?? undefined });
  const back = new URL(asked.get('redirect_uri'));
  back.searchParams.set('code', code);
  back.searchParams.set('state', asked.get('state'));
  response.writeHead(302, { Location: back.href }).end();
}

function redeem(request, form, response) {
  const [name, password] = Buffer.from((request.headers.authorization ?? '').replace(/^Basic /, ''), 'base64').toString().split(':');
  if (name !== client || password !== secret) return say(response, 401, { error: 'invalid_client' });
  const asked = codes.get(form.get('code'));
  codes.delete(form.get('code'));
  if (!asked || asked.redirect !== form.get('redirect_uri')) return say(response, 400, { error: 'invalid_grant' });
  const access = crypto.randomBytes(16).toString('hex');
  tokens.add(access);
  say(response, 200, { access_token: access, token_type: 'Bearer', expires_in: 600, id_token: token(asked.nonce) });
}

http
  .createServer(async (request, response) => {
    const url = new URL(request.url, issuer);
    const form = [];
    for await (const piece of request) form.push(piece);
    const routes = {
      '/.well-known/openid-configuration': () =>
        say(response, 200, {
          issuer,
          authorization_endpoint: `${issuer}/authorize`,
          token_endpoint: `${issuer}/token`,
          jwks_uri: `${issuer}/keys`,
          userinfo_endpoint: `${issuer}/userinfo`,
          response_types_supported: ['code'],
          subject_types_supported: ['public'],
          id_token_signing_alg_values_supported: ['RS256'],
          token_endpoint_auth_methods_supported: ['client_secret_basic'],
        }),
      '/keys': () => say(response, 200, { keys: [key] }),
      '/authorize': () => authorize(url, response),
      '/token': () => redeem(request, new URLSearchParams(Buffer.concat(form).toString()), response),
      '/userinfo': () => {
        const bearer = (request.headers.authorization ?? '').replace(/^Bearer /, '');
        if (tokens.has(bearer)) say(response, 200, user);
        else say(response, 401, { error: 'invalid_token' });
      },
    };
    (routes[url.pathname] ?? (() => say(response, 404, { error: 'not_found' })))();
  })
  .listen(Number(port), host);
