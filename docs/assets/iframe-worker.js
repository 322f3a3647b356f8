// Search in a site that is opened from a disk: browsers start no workers there, so the script of a worker runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.ready = new Promise((resolve) => {
        this.frame.onload = () => {
          const inside = this.frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          inside.importScripts = (...urls) => urls.reduce((last, each) => last.then(() => load(inside, each)), Promise.resolve());
          load(inside, url).then(resolve);
        };
      });
      this.frame.srcdoc = "<!doctype html>";
      document.documentElement.append(this.frame);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };

  function load(inside, url) {
    return new Promise((resolve, reject) => {
      const script = inside.document.createElement("script");
      Object.assign(script, { src: url, onload: resolve, onerror: reject });
      inside.document.head.append(script);
    });
  }
}
