// Interactive figures of the first page: rows for the specifications, from the view that explorer.js announces.
const lettersIn = (text) => (text || "").match(/[a-z]'*/g) || [];  // the letter after z is a'
(() => {
  const section = document.getElementById("overview");
  if (!section) return;
  const given = JSON.parse(document.getElementById("overview-data").textContent);
  section.classList.add("live");

  // the library runs when the first figure is wanted
  let library;
  const load = () => library ??= new Promise((resolve) => {
    addEventListener("vega", resolve, { once: true });
    const script = document.createElement("script");
    script.type = "module";
    script.textContent = document.getElementById("vega").textContent;
    document.head.append(script);
  });

  // --- what `overview.py` makes for the SVG, of what is left by the filters
  const tablesOf = ({ data, state, datasets, backbones }) => {
    const names = data.backbones.map((one) => one.name), shown = new Set(backbones);
    const answers = data.standings[state.group] || {}, answer = answers[state.probe];
    const whole = state.probe === "*", probe = whole ? "all tasks" : state.probe;
    const alone = datasets.length === 1 && !whole ? datasets[0] : null;
    const points = [], add = (name, row) => {
      if (!shown.has(name)) return;
      const { parameters, throughput } = data.backbones[names.indexOf(name)];
      points.push({ backbone: name, ...row, parameters, ms: throughput ? 1000 / throughput : null });
    };
    if (whole) Object.entries(data.study.rows).forEach(([name, { mean_rank }]) => {
      const rank = 1 + Object.values(data.study.rows).filter((other) => other.mean_rank < mean_rank).length;
      add(name, { probe, score: mean_rank, lower: null, upper: null, rank, letters: "", alike: rank === 1 });
    });
    else if (alone != null) {
      const place = data.datasets.findIndex((one) => one.name === alone), cells = data.cells;
      const letters = (name, probe) => Object.values(data.standings).map((group) => group[probe])
        .filter((one) => one && one.datasets.length === 1 && one.datasets[0] === alone).flatMap((one) => one.rows).find((row) => row.backbone === name)?.letters;
      cells.value.forEach((score, at) => {
        if (cells.dataset[at] !== place) return;
        const name = names[cells.backbone[at]], probe = data.probes[cells.probe[at]];
        add(name, { probe, score, lower: cells.lower[at], upper: cells.upper[at], rank: cells.rank[at], letters: letters(name, probe) || "", alike: cells.alike[at] === 1 || cells.rank[at] === 1 });
      });
    } else for (const [probe, one] of Object.entries(answers)) for (const row of one.rows) {
      const best = lettersIn(one.rows[0].letters);
      const [score, lower, upper] = row.mean_rank;
      add(row.backbone, { probe, score, lower, upper, rank: row.rank, letters: row.letters || "", alike: row.rank === one.rows[0].rank || lettersIn(row.letters).some((letter) => best.includes(letter)) });
    }
    const metric = alone != null ? data.metrics[alone + "|" + state.probe] : null, level = 100 * data.confidence + " %";
    const agreement = (given.agreement[alone ?? state.group] || []).filter((one) => one.a === state.probe || one.b === state.probe)
      .map((one) => ({ other: one.a === state.probe ? one.b : one.a, label: (one.a === state.probe ? one.b : one.a) + one.label }));
    const tests = alone == null && !whole && (given.cliques[state.group] || {})[state.probe];
    const scored = points.filter((one) => one.probe === probe && one.score != null), drawn = diagram(scored, tests);
    const priced = (cost) => scored.some((one) => one[cost] != null);
    return {
      tables: { points, agreement, ...drawn },
      rows: { ranked: scored.length, critical: drawn.bars.length + Math.ceil(scored.length / 2) },
      has: { ranked: scored.length > 0, cost_parameters: priced("parameters"), cost_ms: priced("ms"), critical: Boolean(tests) && scored.length > 0, probes: data.probes.length > 1 && agreement.length > 0 && scored.length > 0 },
      parameters: {
        probe,
        measure: metric ? metric[0] + " on " + alone : "mean rank over " + (whole ? Object.keys(data.study.probes).length : answer ? answer.datasets.length : 0) + " datasets",
        higher: Boolean(metric && metric[1]),
        how: metric ? level + " interval over " + metric[2] + " " + metric[3] + "s" : answer ? "Mean of the ranks on " + answer.datasets.length + " datasets; " + level + " interval over " + answer.uncertainty : whole ? "Each task by one probe; the mean has no interval" : "",
      },
    };
  };
  const diagram = (points, tests) => {
    if (!tests) return { leaders: [], bars: [] };
    const ranked = [...points].sort((x, y) => x.score - y.score || (x.backbone < y.backbone ? -1 : 1)), half = Math.ceil(ranked.length / 2);
    const score = new Map(ranked.map((one) => [one.backbone, one.score]));
    const bars = tests.cliques.map((clique) => clique.filter((name) => score.has(name))).filter((clique) => clique.length > 1);
    return {
      leaders: ranked.map((one, at) => ({ ...one, left: at < half, row: at < half ? at + 1 : ranked.length - at })),
      bars: bars.map((clique, at) => ({ row: at - bars.length, low: score.get(clique[0]), high: score.get(clique.at(-1)),
        said: clique.join(", ") + " do not differ significantly: mean ranks within the critical difference " + tests.difference + " (Nemenyi)." })),
    };
  };

  // --- a figure is drawn when it is seen, and anew when the view changes
  const figures = [...section.querySelectorAll("figure")], dark = matchMedia("(prefers-color-scheme: dark)");
  const seen = new Set();
  let view = null, stale = new Set();
  const draw = async (figure) => {
    if (!view || !stale.has(figure) || figure.hidden) return;
    stale.delete(figure);
    const { tables, parameters, rows } = view, name = figure.dataset.figure, spec = given.specifications[name], title = figure.querySelector("h3").textContent;
    await load();
    await vegaEmbed(figure.querySelector(".chart"), {
      // the library warns of rows of a given height in an element of a given width
      ...spec, height: spec.height.step ? spec.height.step * rows[name] : spec.height, description: title + ", " + parameters.probe + ", " + parameters.measure + ".", datasets: tables,
      params: spec.params.map((one) => ({ ...one, value: parameters[one.name] })),
    }, { ast: true, renderer: "svg", logLevel: 1, actions: { export: true, source: false, compiled: false, editor: false }, downloadFileName: name, mode: "vega-lite", tooltip: { theme: dark.matches ? "dark" : "light" } });
    figure.classList.add("drawn");
  };
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      seen[isIntersecting ? "add" : "delete"](target);
      if (isIntersecting) draw(target);
    }
  }, { rootMargin: "200px" });
  document.getElementById("explorer").addEventListener("view", ({ detail }) => {
    view = tablesOf(detail);
    stale = new Set(figures);
    for (const figure of figures) figure.hidden = view.has[figure.dataset.figure] === false;
    // figures are of one's own scores: of published ones alone nothing is left
    section.hidden = figures.every((figure) => figure.hidden);
    seen.forEach(draw);
  });
  for (const figure of figures) watch.observe(figure);
  addEventListener("beforeprint", () => figures.forEach(draw));
})();
