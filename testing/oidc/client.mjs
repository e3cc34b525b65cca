// A client that keeps cookies and goes where it is sent.

import http from 'node:http'
import https from 'node:https'

/** The class of clients that reach a host at an address of Forebay, over TLS, and all others at their own. */
export function clients(host, secureFront) {
  return class Client {
    jars = new Map()

    jar(host) {
      if (!this.jars.has(host)) this.jars.set(host, new Map())
      return this.jars.get(host)
    }

    copy() {
      const other = new this.constructor()
      for (const [name, jar] of this.jars) other.jars.set(name, new Map(jar))
      return other
    }

    ask(url, { method = 'GET', headers = {}, body } = {}) {
      const { protocol, host: authority, hostname, pathname, search } = new URL(url)
      const isForebay = hostname === host
      const [address, number] = isForebay ? secureFront.split(':') : authority.split(':')
      const jar = this.jar(hostname)
      const cookies = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
      const options = {
        host: address,
        port: number,
        method,
        path: pathname + search,
        servername: isForebay ? host : undefined,
        rejectUnauthorized: false,
        agent: false,
        headers: { Host: authority, Accept: 'text/html', ...(cookies && { Cookie: cookies }), ...headers },
      }
      return new Promise((done, fail) => {
        const request = (protocol === 'https:' ? https : http).request(options, (response) => {
          const pieces = []
          response.on('data', (piece) => pieces.push(piece))
          response.on('end', () => {
            for (const cookie of response.headers['set-cookie'] ?? []) {
              const [pair, ...attributes] = cookie.split(';').map((part) => part.trim())
              const [name, value] = [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]
              const isOver = attributes.some((one) => /^max-age=0$/i.test(one) || /^expires=Thu, 01 Jan 1970/i.test(one))
              if (isOver || value === '') jar.delete(name)
              else jar.set(name, value)
            }
            done({ status: response.statusCode, headers: response.headers, text: Buffer.concat(pieces).toString() })
          })
        })
        request.on('error', fail)
        request.end(body)
      })
    }

    /** Asks, and goes where it is sent. */
    async visit(url, way = []) {
      way.push(url)
      const told = await this.ask(url)
      const to = told.headers.location
      if (told.status < 300 || told.status > 399 || !to) return { ...told, url, way }
      if (way.length > 15) throw new Error(`it goes round in circles: ${way}`)
      return this.visit(new URL(to, url).href, way)
    }
  }
}
