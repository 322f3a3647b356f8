// Draws the charts of the page in its colours, and again when these change.
"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let drawn = [];

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue("--" + name).trim();
    const [paper, ink, quiet, line] = ["paper", "ink", "quiet", "line"].map(colour);
    const font = getComputedStyle(document.body).fontFamily;
    return {
      background: null, font, view: {stroke: null},
      params: [{name: "paper", value: paper}, {name: "ink", value: ink}, {name: "quiet", value: quiet}],
      range: {heatmap: [colour("low"), colour("high")], ramp: [colour("low"), colour("high")]},
      axis: {
        labelColor: quiet, titleColor: quiet, titleFontWeight: 500, labelFontSize: 11, titleFontSize: 11,
        gridColor: line, domainColor: line, tickColor: line, labelLimit: 110, labelOverlap: true, labelSeparation: 6, titlePadding: 8,
      },
      axisY: {domain: false, ticks: false},
      legend: {labelColor: ink, labelFontSize: 12, symbolType: "circle", labelLimit: 260, columns: 3},
    };
  }

  async function draw() {
    drawn.forEach((result) => result.finalize());
    const options = {mode: "vega-lite", renderer: "svg", actions: false, config: theme(), tooltip: {theme: dark.matches ? "dark" : "light"}};
    drawn = await Promise.all(charts.map((chart) => vegaEmbed("#" + chart.element, chart.spec, options)));
    document.documentElement.dataset.charts = "drawn";
  }

  dark.addEventListener("change", draw);
  draw();
})();
