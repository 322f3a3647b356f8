// The gallery: filters, sorts and pages through a block of columns, and shows one example at a time in a dialog.
"use strict";
(() => {
  const PAGE = {pictures: 60, rows: 24};
  const number = new Intl.NumberFormat("en");

  const {make, copy, card, details} = window.examples;

  class Gallery {
    constructor(root) {
      this.root = root;
      this.data = JSON.parse(root.querySelector("script").textContent);
      this.form = root.querySelector("form");
      this.list = root.querySelector(".examples");
      this.dialog = root.querySelector("dialog");
      this.place = new Map(this.data.shown.map((row, place) => [row, place]));
      this.pictured = this.data.pictures.length > 0;
      this.size = this.pictured ? PAGE.pictures : PAGE.rows;
      this.list.classList.toggle("pictured", this.pictured);
      this.ids = null;  // of a group of duplicates
      this.page = 0;
      this.fill();
      this.listen();
      this.update();
    }

    get columns() {  // of the file to download: a name, and the value of a row
      const {data} = this;
      const all = [["id", (row) => data.id[row]]];
      if (data.file) all.push(["file", (row) => this.path(row)]);
      for (const [name, values] of data.brought) all.push([name, (row) => values[row]]);
      if (data.label) all.push(["label", (row) => this.name("label", row)]);
      if (data.suggested) all.push([data.told, (row) => this.name("suggested", row)]);
      for (const name of ["expected", "low", "high", "probability", "trust", "signal"]) if (data[name]) all.push([name, (row) => data[name][row]]);
      if (data.issue) all.push(["is_issue", (row) => Boolean(data.issue[row])], ["reason", (row) => data.reasons[data.reason[row]] ?? ""]);
      if (data.weight) all.push(["weight", (row) => data.weight[row]]);
      if (data.truth) all.push(["truth", (row) => this.name("truth", row)]);
      return all;
    }

    name(column, row) {
      const value = this.data[column]?.[row];
      return this.data.classes ? (this.data.classes[value] ?? "") : value ?? "";
    }

    path(row) {
      return this.data.file ? (this.data.folders[this.data.folder[row]] ?? "") + this.data.file[row] : "";
    }

    title(row) {
      const brought = this.data.brought.find(([name]) => name === "row");
      return this.data.file ? this.path(row) : brought ? `row ${brought[1][row]}` : `example ${this.data.id[row]}`;
    }

    fill() {
      const {data, form} = this;
      const choose = (name, options) => form.elements[name].replaceChildren(...options.map(([value, text]) => make("option", {value, textContent: text})));
      const hide = (name) => { form.elements[name].closest("label").hidden = true; };
      const counted = (column, names) => {
        const counts = names.map(() => 0);
        data[column].forEach((value, row) => { if (!data.issue || data.issue[row]) counts[value] += 1; });
        const some = names.map((name, at) => [String(at), `${name} (${number.format(counts[at])})`, counts[at]]).filter((each) => each[2] > 0);
        return [["", "any"], ...some];
      };
      this.root.querySelector(".told").textContent = data.told === "suggested" ? "Suggested label" : "Predicted label";
      const all = ["all", `all examples (${number.format(data.id.length)})`];
      const issues = data.issue?.reduce((sum, value) => sum + value, 0);
      const corrupt = data.corrupt?.reduce((sum, value) => sum + (value ?? 0), 0);
      if (data.issue) choose("which", [["issues", `issues (${number.format(issues)})`], all]);
      else if (data.corrupt) choose("which", [all, ["corrupt", `truly corrupted (${number.format(corrupt)})`], ["clean", "truly clean"]]);
      else hide("which");
      if (data.classes) choose("label", counted("label", data.classes)); else hide("label");
      if (data.classes && data.suggested) choose("suggested", counted("suggested", data.classes)); else hide("suggested");
      if (data.reasons?.length) choose("reason", counted("reason", data.reasons)); else hide("reason");
      const sorts = [["worst", data.issue ? "worst first" : "least trusted first"], ["trust", "most trusted first"]];
      if (data.probability) sorts.push(["probability", "surest suggestion first"]);
      if (data.signal) sorts.push(["low", "lowest signal first"], ["high", "highest signal first"]);
      if (data.expected) sorts.push(["distance", "farthest from expected first"]);
      sorts.push([data.file ? "path" : "id", data.file ? "path" : "number"]);
      choose("sort", sorts);
    }

    listen() {
      const {root, form, list, dialog} = this;
      form.addEventListener("input", () => this.filter());
      form.addEventListener("submit", (event) => event.preventDefault());
      root.querySelector("[name=clear]").addEventListener("click", () => { form.reset(); this.filter(); });
      for (const button of root.querySelectorAll("[name=back]")) button.addEventListener("click", () => this.turn(-1));
      for (const button of root.querySelectorAll("[name=next]")) button.addEventListener("click", () => this.turn(1));
      root.querySelector("[name=download]").addEventListener("click", () => this.download());
      list.addEventListener("click", (event) => {
        const card = event.target.closest("button");
        if (card) this.open(this.page * this.size + [...list.querySelectorAll("button")].indexOf(card));
      });
      list.addEventListener("keydown", (event) => this.walk(event));
      dialog.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
        if (step) { event.preventDefault(); this.open(this.at + step); }
        if (event.key.toLowerCase() === "c") this.copyPath();
      });
      dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
      dialog.addEventListener("close", () => list.querySelectorAll("button")[this.at % this.size]?.focus());
    }

    pick(chosen) {  // what a cell of the matrix, a class or a group of duplicates asks for
      this.form.reset();
      const at = (name) => (chosen[name] === undefined ? "" : String(this.data.classes.indexOf(chosen[name])));
      if (this.data.classes) { this.form.elements.label.value = at("label"); this.form.elements.suggested.value = at("suggested"); }
      if (chosen.ids && this.data.issue) this.form.elements.which.value = "all";
      this.filter(chosen.ids ? new Set(chosen.ids.split(",").map(Number)) : null);
      this.root.scrollIntoView({block: "start"});
      this.list.querySelector("button")?.focus({preventScroll: true});
    }

    filter(ids = null) {
      this.ids = ids;
      this.page = 0;
      this.update();
    }

    selected() {
      const {data, ids} = this;
      const value = (name) => this.form.elements[name].value;
      const equal = ["label", "suggested", "reason"].filter((name) => value(name) !== "").map((name) => [data[name], Number(value(name))]);
      const [low, high] = [value("low") === "" ? -Infinity : Number(value("low")), value("high") === "" ? Infinity : Number(value("high"))];
      const [which, find, sort] = [value("which"), value("find").trim().toLowerCase(), value("sort")];
      const rows = [];
      for (let row = 0; row < data.id.length; row++) {
        if (ids && !ids.has(data.id[row])) continue;
        if (which === "issues" && !data.issue[row]) continue;
        if ((which === "corrupt" || which === "clean") && data.corrupt[row] !== Number(which === "corrupt")) continue;
        if (!equal.every(([values, wanted]) => values[row] === wanted)) continue;
        const trust = data.trust[row];
        if (trust === null ? low > 0 || high < 1 : trust < low || trust > high) continue;
        if (find && !this.title(row).toLowerCase().includes(find) && String(data.id[row]) !== find) continue;
        rows.push(row);
      }
      const last = (value, sign) => (value === null ? Infinity : sign * value);  // what no step saw comes last
      const by = {
        low: (row) => last(data.signal[row], 1), high: (row) => last(data.signal[row], -1),
        trust: (row) => -data.trust[row], probability: (row) => -data.probability[row], id: (row) => data.id[row],
        distance: (row) => -Math.abs(data.label[row] - data.expected[row]),
      }[sort];
      if (sort === "path") rows.sort((one, other) => (this.path(one) < this.path(other) ? -1 : 1));
      if (by) rows.sort((one, other) => (by(one) < by(other) ? -1 : by(one) > by(other) ? 1 : one - other));
      return rows;
    }

    update() {
      this.rows = this.selected();
      const known = this.data.id.length < this.data.total ? ` of the ${number.format(this.data.id.length)} worst` : "";
      const words = this.rows.length === 1 ? "1 example" : `${number.format(this.rows.length)} examples`;
      this.root.querySelector("[role=status]").textContent = (this.ids ? "A group of duplicates: " : "") + words + known;
      this.root.querySelector("[name=download]").disabled = this.rows.length === 0;
      this.draw();
    }

    draw() {
      const pages = Math.max(1, Math.ceil(this.rows.length / this.size));
      this.page = Math.min(Math.max(this.page, 0), pages - 1);
      for (const pager of this.root.querySelectorAll(".pager")) {
        pager.querySelector("span").textContent = `${number.format(this.page + 1)} of ${number.format(pages)}`;
        pager.querySelector("[name=back]").disabled = this.page === 0;
        pager.querySelector("[name=next]").disabled = this.page === pages - 1;
      }
      const shown = this.rows.slice(this.page * this.size, (this.page + 1) * this.size);
      this.list.replaceChildren(...shown.map((row) => make("li", {}, card(this, row))));
      if (!shown.length) this.list.append(make("li", {className: "none", textContent: "No example is like this: clear a filter."}));
    }

    turn(step) {
      this.page += step;
      this.draw();
      if (this.root.getBoundingClientRect().top < 0) this.root.scrollIntoView({block: "start"});
    }

    walk(event) {  // the arrow keys go from card to card
      const cards = [...this.list.querySelectorAll("button")];
      const at = cards.indexOf(document.activeElement);
      const wide = cards.filter((card) => card.offsetTop === cards[0].offsetTop).length;
      const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -wide, ArrowDown: wide}[event.key];
      if (at < 0) return;
      if (event.key.toLowerCase() === "c" && !event.ctrlKey && !event.metaKey) { this.at = this.page * this.size + at; this.copyPath(); }
      if (!step) return;
      event.preventDefault();
      if (cards[at + step]) { cards[at + step].focus(); return; }
      const page = this.page;
      this.turn(Math.sign(step));
      const there = this.list.querySelectorAll("button");
      if (this.page !== page) there[step > 0 ? 0 : there.length - 1].focus();
    }

    open(at) {
      if (at < 0 || at >= this.rows.length) return;
      this.at = at;
      if (Math.floor(at / this.size) !== this.page) { this.page = Math.floor(at / this.size); this.draw(); }
      this.dialog.replaceChildren(details(this, this.rows[at]));
      if (!this.dialog.open) this.dialog.showModal();
      this.dialog.querySelector("[name=close]").focus();
    }

    async copyPath() {
      await copy(this.title(this.rows[this.at]));
      const button = this.dialog.querySelector("[name=copy]");
      if (button) button.textContent = "Copied";
    }

    download() {
      const quoted = (value) => {
        const plain = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");  // never a formula
        return /[",\n\r]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
      };
      const {columns} = this;
      const lines = [columns.map(([name]) => quoted(name)), ...this.rows.map((row) => columns.map(([, value]) => quoted(value(row))))];
      const file = new Blob(["\ufeff" + lines.map((line) => line.join(",")).join("\n") + "\n"], {type: "text/csv"});
      const link = make("a", {href: URL.createObjectURL(file), download: "examples.csv"});
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    }
  }

  const galleries = new Map([...document.querySelectorAll("[data-gallery]")].map((root) => [root.dataset.gallery, new Gallery(root)]));
  document.addEventListener("click", (event) => {
    const asked = event.target.closest("[data-gallery-of]")?.dataset;
    if (asked) galleries.get(asked.galleryOf)?.pick(asked);
  });
  document.documentElement.dataset.galleries = "ready";
})();
