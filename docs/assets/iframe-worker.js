// Browsers refuse to start a worker from a file on disk. There, and only there, the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  // As in a worker: postMessage answers whoever started it, and importScripts adds scripts, one after the other.
  const prelude = `
    postMessage = data => parent.postMessage(data, "*")
    importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((loaded, failed) => {
      const script = document.createElement("script")
      Object.assign(script, { src: url, onload: loaded, onerror: failed })
      document.head.append(script)
    })), Promise.resolve())`

  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.srcdoc = `<script>${prelude}</script><script src="${new URL(url, document.baseURI)}"></script>`
      this.started = new Promise(resolve => (this.frame.onload = resolve))
      window.addEventListener("message", event => {
        if (event.source === this.frame.contentWindow) this.dispatchEvent(new MessageEvent("message", { data: event.data }))
      })
      document.body.append(this.frame)
    }

    async postMessage(data) {
      await this.started
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
