// How an example looks: as a card of the gallery, and enlarged with all that is known of it.
"use strict";
window.examples = (() => {
  function make(tag, properties = {}, ...children) {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }

  function spark(values, width, height, label) {
    const known = values.filter((value) => value !== null);
    if (known.length < 2) return null;
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("class", "spark");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    svg.setAttribute("preserveAspectRatio", "none");
    const line = document.createElementNS(space, "path");
    const across = (at) => 1 + (at * (width - 2)) / (values.length - 1);
    const up = (value) => 2 + (1 - value / 100) * (height - 4);
    const points = values.map((value, at) => (value === null ? null : `${across(at).toFixed(1)} ${up(value).toFixed(1)}`));
    line.setAttribute("d", "M" + points.filter((point) => point !== null).join("L"));
    line.setAttribute("vector-effect", "non-scaling-stroke");
    svg.append(line);
    return svg;
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {  // a page in a file may have no clipboard
      const area = make("textarea", {value: text, className: "away"});
      (document.querySelector("dialog[open]") ?? document.body).append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  }

  const percent = (value) => `${(100 * value).toFixed(value < 0.9995 && (value > 0.995 || value < 0.005) ? 1 : 0)}%`;
  const digits = (value) => (value === null || value === undefined ? "–" : typeof value === "number" ? value.toLocaleString("en", {maximumSignificantDigits: 6}) : String(value) || "–");
  const trusted = (value) => (value === null ? "–" : value.toFixed(3));

  function picture({data, place}, row, className) {
    const encoded = data.pictures[place.get(row)];
    if (!encoded) return data.pictures.length ? make("span", {className: `${className} unseen`, textContent: "no picture"}) : null;
    const kind = encoded.startsWith("iVBOR") ? "png" : "webp";
    return make("img", {src: `data:image/${kind};base64,${encoded}`, alt: "", className: `${className} ${kind}`});
  }

  function cells({data, place}, row, most) {
    const values = data.cells[place.get(row)] ?? [];
    const rows = values.slice(0, most).map((value, at) => make("div", {}, make("dt", {textContent: data.names[at]}), make("dd", {textContent: value})));
    const hidden = data.names.length + data.hidden - rows.length;
    if (rows.length && hidden > 0) rows.push(make("div", {}, make("dt", {textContent: `and ${hidden} more`})));
    return rows.length ? make("dl", {className: "cells"}, ...rows) : null;
  }

  function truth(gallery, row) {
    const known = gallery.data.corrupt?.[row];
    if (known === null || known === undefined) return null;
    const told = gallery.data.truth ? digits(gallery.name("truth", row)) : "corrupted";
    return known ? make("span", {className: "mark corrupted", textContent: gallery.data.truth ? `✗ truly ${told}` : "✗ corrupted"}) : make("span", {className: "mark clean", textContent: "✓ clean"});
  }

  function verdict(gallery, row) {  // given, an arrow, and what is suggested or expected instead
    const {data} = gallery;
    const other = data.suggested ? digits(gallery.name("suggested", row)) : data.expected ? digits(data.expected[row]) : null;
    if (!data.label) return null;
    const given = make("span", {className: "given", textContent: digits(gallery.name("label", row))});
    const same = other === null || other === given.textContent;
    const pair = make("span", {className: "pair"}, given);
    if (!same) pair.append(make("span", {className: "arrow", textContent: " → "}), make("span", {className: "other", textContent: other}));
    return pair;
  }

  function card(gallery, row) {
    const {data, place} = gallery;
    const trace = data.traces[place.get(row)] ?? [];
    const facts = make("span", {className: "facts"}, make("span", {textContent: `trust ${trusted(data.trust[row])}`}));
    if (data.probability?.[row] !== undefined && data.probability[row] !== null) facts.append(make("span", {textContent: percent(data.probability[row])}));
    if (data.signal) facts.append(make("span", {textContent: `signal ${digits(data.signal[row] && Number(data.signal[row].toPrecision(3)))}`}));
    if (!gallery.pictured) facts.append(make("span", {textContent: gallery.title(row)}));
    const reason = data.reasons?.[data.reason[row]];
    return make("button", {type: "button", className: "card", title: gallery.title(row)},
      picture(gallery, row, "picture"),
      make("span", {className: "told"}, verdict(gallery, row), facts, spark(trace, 100, 18, "trust over the epochs"),
        reason && reason !== "disagreement" ? make("span", {className: "mark", textContent: reason.split(" ")[0], title: reason}) : null, truth(gallery, row)),
      gallery.pictured ? null : cells(gallery, row, 6));
  }

  function details(gallery, row) {
    const {data, place} = gallery;
    const fact = (name, ...said) => make("div", {}, make("dt", {textContent: name}), make("dd", {}, ...said));
    const facts = make("dl", {className: "known"}, data.label ? fact("given", digits(gallery.name("label", row))) : null);
    const sure = data.probability?.[row] ?? null;
    if (data.suggested) facts.append(fact(data.told, digits(gallery.name("suggested", row)) + (sure === null ? "" : `, ${percent(sure)} sure`)));
    if (data.expected) facts.append(fact("expected", `${digits(data.expected[row])} (${digits(data.low[row])} to ${digits(data.high[row])})`));
    if (truth(gallery, row)) facts.append(fact("truth", truth(gallery, row)));
    facts.append(fact("trust", trusted(data.trust[row])));
    if (data.signal) facts.append(fact("signal, mean", digits(data.signal[row])));
    if (data.issue) facts.append(fact("reason", data.reasons[data.reason[row]] ?? "no issue"), fact("weight", digits(data.weight[row])));
    for (const [name, values] of data.brought) facts.append(fact(name, digits(values[row])));
    facts.append(fact("number", String(data.id[row])));
    const trace = data.traces[place.get(row)] ?? [];
    const line = spark(trace, 300, 70, "trust over the epochs");
    const button = (name, text, label, click) => {
      const made = make("button", {type: "button", name, textContent: text, ariaLabel: label});
      made.addEventListener("click", click);
      return made;
    };
    return make("div", {className: "sheet"},
      make("header", {},
        make("p", {className: "path", textContent: gallery.title(row)}),
        button("copy", "Copy", data.file ? "Copy the path" : "Copy the name", () => gallery.copyPath()),
        button("before", "‹", "Example before", () => gallery.open(gallery.at - 1)),
        button("after", "›", "Next example", () => gallery.open(gallery.at + 1)),
        button("close", "×", "Close", () => gallery.dialog.close())),
      make("div", {className: "body"}, picture(gallery, row, "large"),
        make("div", {}, facts, line ? make("figure", {className: "trace"}, make("figcaption", {textContent: "trust over the epochs, 0 to 1"}), line) : null, cells(gallery, row, 100))));
  }

  return {make, copy, card, details};
})();
