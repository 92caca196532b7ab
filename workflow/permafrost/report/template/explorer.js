// The entrance of the report. What is shown is kept in the address, so that a view can be sent to someone.
(() => {
  const root = document.getElementById("explorer");
  if (!root) return;
  const data = JSON.parse(document.getElementById("data").textContent);
  const level = 100 * data.confidence + " %", alpha = 1 - data.confidence;
  const at = (id) => document.getElementById(id);
  const NONE = "–", minus = (text) => text.replace("-", "−");
  const number = (value, digits = 3) => value == null ? NONE : minus((Math.round(value * 10 ** digits) / 10 ** digits + 0).toFixed(digits));
  const signed = (value) => value == null ? NONE : (value > 0 ? "+" : "") + number(value);
  const range = (low, high, write = number) => low == null || high == null ? "" : "[" + write(low) + ", " + write(high) + "]";
  const rounded = (share) => Math.round(100 * share);
  const percent = (share) => share == null ? "" : rounded(share) < 1 ? "< 1 %" : rounded(share) > 99 ? "> 99 %" : rounded(share) + " %";
  const big = (count) => count == null ? NONE : count >= 1e6 ? (count / 1e6).toFixed(count < 1e7 ? 1 : 0) + " M" : count.toLocaleString("en");
  const make = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
      else if (value === true) element.setAttribute(name, "");
      else if (value != null && value !== false) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child != null));
    return element;
  };

  // --- the data, by dataset, backbone and probe
  const names = { backbone: data.backbones.map((one) => one.name), dataset: data.datasets.map((one) => one.name) };
  const cells = new Map();
  data.cells.value.forEach((_, line) => {
    const cell = Object.fromEntries(Object.keys(data.cells).map((column) => [column, data.cells[column][line]]));
    cells.set([names.dataset[cell.dataset], data.probes[cell.probe], names.backbone[cell.backbone]].join("|"), cell);
  });
  // all tasks at once: each dataset by the probe that represents its task
  const EVERY = "*", study = data.study, everyTask = study && new Set(Object.values(study.probes)).size > 1;
  const probeFor = (dataset) => state.probe === EVERY ? study.probes[dataset] : state.probe;
  const cellOf = (dataset, backbone) => cells.get([dataset, probeFor(dataset), backbone].join("|"));
  const metricOf = (dataset) => data.metrics[dataset + "|" + probeFor(dataset)];
  const numbers = (text) => {
    const raw = atob(text), found = new Array(raw.length / 2);
    for (let i = 0; i < found.length; i++) {
      const step = raw.charCodeAt(2 * i) + 256 * raw.charCodeAt(2 * i + 1);
      found[i] = step === 65535 ? null : step / 65534;
    }
    return found;
  };
  const decoded = new Map();
  const pairOf = (dataset, a, b) => {
    const key = dataset + "|" + probeFor(dataset), pairs = data.pairs[key];
    if (!pairs) return null;
    if (!decoded.has(key)) decoded.set(key, { half: numbers(pairs.half), p: numbers(pairs.p), found: numbers(pairs.found), place: new Map(pairs.backbones.map((one, i) => [names.backbone[one], i])) });
    const found = decoded.get(key), n = found.place.size;
    let i = found.place.get(a), j = found.place.get(b);
    if (i == null || j == null || i === j) return null;
    if (i > j) [i, j] = [j, i];
    const place = i * n - i * (i + 1) / 2 + (j - i - 1);
    return { half: found.half[place] == null ? null : found.half[place] * pairs.scale, p: found.p[place], found: found.found[place] == null ? null : found.found[place] * pairs.most };
  };

  // --- the state, from the address and back
  const whose = ["own", "published", "both"], isShown = (one) => state.who === "both" || Boolean(one.published) === (state.who === "published");
  const first = (list) => list.length ? list[0] : "";
  const groups = Object.keys(data.standings);
  const defaults = { group: groups.includes("all") ? "all" : first(groups), probe: first(data.probes), cells: "value", q: "", dataset: "", task: "", sensor: "", size: "", licence: "", trained: "", alike: "", sort: "rank", who: "own", a: "", b: "" };
  // the probe of all tasks, or one that serves most datasets
  const alone = study && first(Object.values(study.probes));
  defaults.probe = everyTask ? EVERY : alone || first([...data.probes].sort((x, y) => served(y) - served(x) || (y === "linear") - (x === "linear")));
  function served(probe) { return data.datasets.filter((one) => !one.published && data.metrics[one.name + "|" + probe]).length; }
  // published methods are probes of their own: what has scores of the chosen kind, most first
  const scoredBy = (who) => {
    const counts = new Map(data.probes.map((probe) => [probe, 0]));
    data.cells.value.forEach((_, line) => {
      const probe = data.probes[data.cells.probe[line]], published = (data.cells.published || [])[line] != null;
      if (who === "both" || published === (who === "published")) counts.set(probe, counts.get(probe) + 1);
    });
    return counts;
  };
  const counts = Object.fromEntries(whose.map((who) => [who, scoredBy(who)]));
  const isProbe = (probe) => data.probes.includes(probe) || (everyTask && probe === EVERY);
  const probeOf = (probe, who) => counts[who].get(probe) || (probe === EVERY && who !== "published") ? probe : counts[who].get(defaults.probe) ? defaults.probe : first([...data.probes].sort((x, y) => counts[who].get(y) - counts[who].get(x)));
  let state = { ...defaults };
  const read = () => {
    state = { ...defaults };
    for (const [name, value] of new URLSearchParams(location.hash.slice(1))) if (name in defaults) state[name] = value;
    if (!isProbe(state.probe)) state.probe = defaults.probe;
    if (!groups.includes(state.group)) state.group = defaults.group;
    if (!whose.includes(state.who)) state.who = defaults.who;
    state.probe = probeOf(state.probe, state.who);
  };
  const set = (changes) => {
    Object.assign(state, changes);
    state.probe = probeOf(state.probe, state.who);
    const kept = new URLSearchParams(Object.entries(state).filter(([name, value]) => value !== defaults[name]));
    history.replaceState(null, "", String(kept) ? "#" + kept : location.pathname + location.search);
    draw();
  };

  // --- what is left by the filters
  const sizes = { "up to 10 M": [0, 1e7], "10 to 100 M": [1e7, 1e8], "over 100 M": [1e8, Infinity] };
  const answer = () => (data.standings[state.group] || {})[state.probe];
  const shownDatasets = () => {
    const of = (one) => [...one.datasets, ...one.left_out], every = Object.values(data.standings[state.group] || {}).flatMap(of);
    const found = answer(), inGroup = found ? of(found) : state.probe === EVERY && every.length ? every : names.dataset;
    return data.datasets.filter((one) => metricOf(one.name) && (one.published ? state.who !== "own" : inGroup.includes(one.name) || one.name === state.dataset)
      && (!state.task || one.task === state.task) && (!state.sensor || one.sensors.includes(state.sensor))
      && (!state.dataset || one.name === state.dataset)
      && (state.who !== "published" || data.backbones.some((each) => each.published && cellOf(one.name, each.name))))
      .sort((x, y) => state.probe === EVERY ? (x.task < y.task ? -1 : x.task > y.task ? 1 : 0) : 0).map((one) => one.name);
  };
  const shownBackbones = (datasets) => {
    const words = state.q.toLowerCase().split(/\s+/).filter(Boolean), size = sizes[state.size];
    return data.backbones.filter((one) => isShown(one) && names.dataset.some((dataset) => cellOf(dataset, one.name)) && (!one.published || datasets.some((dataset) => cellOf(dataset, one.name)))
      && words.every((word) => (one.name + " " + one.title).toLowerCase().includes(word))
      && (!state.licence || one.licence === state.licence) && (!state.trained || (one.trained_on || "nothing said") === state.trained)
      && (!size || (one.parameters != null && one.parameters > size[0] && one.parameters <= size[1]))
      && (!state.alike || datasets.some((dataset) => (cellOf(dataset, one.name) || {}).alike === 1))).map((one) => one.name);
  };

  // --- the parts
  const select = (name, label, options, all) => {
    const known = [...new Set(options.filter((option) => option !== "" && option != null))].sort();
    if (known.length < 2 && all != null) return null;
    return make("label", {}, label + " ", make("select", { id: "pick-" + name, on: { change: (event) => set({ [name]: event.target.value }) } },
      ...(all == null ? [] : [make("option", { value: "" }, all)]), ...known.map((option) => make("option", { value: option }, option))));
  };
  const buildTools = () => {
    const probes = make("div", { class: "chips", role: "group", "aria-label": "Probe" }, ...(everyTask ? [EVERY] : []).concat(data.probes).map((probe) =>
      make("button", { type: "button", "data-probe": probe, on: { click: () => set({ probe }) } }, probe === EVERY ? "all tasks" : probe, make("small", {}))));
    const tools = make("details", { class: "tools", open: filtered() }, make("summary", {}, "Filters and views"), make("div", {},
      groups.length > 1 ? make("label", {}, "rank over ", make("select", { id: "pick-group", on: { change: (event) => set({ group: event.target.value }) } }, ...groups.map((group) => make("option", { value: group }, group)))) : null,
      make("label", {}, "show ", make("select", { id: "pick-cells", on: { change: (event) => set({ cells: event.target.value }) } }, ...["value", "rank"].map((one) => make("option", { value: one }, one)), ...(names.backbone.includes("imagestats") ? [make("option", { value: "gain" }, "gain over imagestats")] : []))),
      make("label", {}, "find ", make("input", { id: "pick-q", type: "search", size: 14, placeholder: "a backbone", autocomplete: "off", on: { input: (event) => set({ q: event.target.value }) } })),
      select("task", "task", data.datasets.map((one) => one.task), "every task"),
      select("dataset", "dataset", names.dataset, "every dataset"),
      select("sensor", "sensor", data.datasets.flatMap((one) => one.sensors), "every sensor"),
      data.backbones.some((one) => one.parameters != null) ? select("size", "parameters", Object.keys(sizes), "any size") : null,
      select("licence", "licence", data.backbones.map((one) => one.licence), "any licence"),
      select("trained", "pre-training", data.backbones.filter((one) => !one.published).map((one) => one.trained_on || "nothing said"), "any pre-training"),
      make("label", {}, make("input", { id: "pick-alike", type: "checkbox", on: { change: (event) => set({ alike: event.target.checked ? "1" : "" }) } }), " only those best, or not significantly worse, on some dataset"),
      make("button", { type: "button", id: "reset", on: { click: () => set({ ...defaults, probe: state.probe }) } }, "clear filters")));
    at("tools").replaceChildren(probes, tools, make("div", { class: "tools" }, data.protocols ? select("who", "scores", whose) : null, make("output", { id: "count" }), make("button", { type: "button", id: "csv", on: { click: download } }, "CSV of this view")));
  };
  const filtered = () => Object.keys(defaults).some((name) => !["probe", "a", "b", "sort"].includes(name) && state[name] !== defaults[name]);

  const cost = (name) => {
    const one = data.backbones[names.backbone.indexOf(name)], says = [];
    if (one.parameters) says.push(big(one.parameters) + " parameters");
    if (one.throughput == null && one.extraction_ms != null) says.push(number(one.extraction_ms, 1) + " ms per image in extraction");
    if (one.throughput != null) says.push(number(one.throughput, 0) + " images per second on this machine");
    return says.length ? name + ": " + says.join(", ") + "." : "";
  };
  const drawAnswer = () => {
    const found = answer(), whole = study && state.group === defaults.group && (everyTask ? state.probe === EVERY : state.probe === alone) && state.who !== "published";
    const leads = whole ? make("p", { class: "leads" }, study.sentence) : null;
    const theirs = state.who === "own" ? "" : (state.who === "published" ? "These scores were published by others." : "Published scores have their own rows.") + " They are not ranked or tested and have no letters, because their test items are unknown here.";
    at("basis").textContent = "";
    if (state.probe === EVERY) {
      at("verdict").replaceChildren(leads || make("p", {}, "All tasks, over " + state.group + "."));
      at("basis").textContent = study.rule + (theirs ? " " + theirs : "");
      return;
    }
    if (!found || state.who === "published") {
      at("verdict").replaceChildren(make("p", {}, state.who === "published" ? theirs : "Nothing is ranked over " + state.group + " with " + state.probe + (theirs ? ". " + theirs : ": it takes two backbones.")));
      return;
    }
    const on = found.datasets.length === 1 ? "on " + found.datasets[0] : "over " + found.datasets.length + " datasets";
    const leader = found.rows.length && found.rows[0].rank != null ? cost(found.rows[0].backbone) : "";
    at("verdict").replaceChildren(...[leads].filter(Boolean),
      make("p", {}, make("strong", {}, state.probe + ", " + on + ": "), found.verdict, leader ? " " + leader : ""),
      make("p", { class: "note" }, "Intervals of " + level + " show how much values vary with " + found.uncertainty + ". "
        + (found.left_out.length ? "Omitted, because some backbone has no score there: " + found.left_out.join(", ") + ". " : "")
        + "Backbones that share a letter do not differ significantly. " + found.tests.join(" ") + (theirs ? " " + theirs : "")));
  };

  const facts = (name) => data.backbones[names.backbone.indexOf(name)];
  const columnsOf = (datasets) => {
    const found = answer(), rows = new Map((found ? found.rows : []).map((row) => [row.backbone, row]));
    const of = (name) => rows.get(name) || {};
    // many letters are hard to read: show the range of ranks that share one
    const order = [...rows.keys()], lettered = (name) => lettersIn(of(name).letters), many = new Set(order.flatMap(lettered)).size > 12;
    const reach = new Map(order.filter((name) => of(name).letters).map((name) => [name, order.filter((other) => lettered(other).some((letter) => lettered(name).includes(letter)))]));
    const some = (key) => [...rows.values()].some((row) => row[key] && row[key][0] != null);
    const columns = [{ key: "name", head: "backbone", title: "Name in the configuration. Click two to compare them.", sort: (name) => name, show: (name) => [name] }];
    const ranked = (key, head, title, digits = 3, up = false) => some(key) && columns.push({
      key, head, title, number: true, sort: (name) => of(name)[key] && of(name)[key][0] != null ? (up ? 1 : -1) * of(name)[key][0] : null,
      show: (name) => [number((of(name)[key] || [])[0], digits), make("br"), make("small", {}, range(...(of(name)[key] || []).slice(1), (value) => number(value, digits)))],
      csv: (name) => of(name)[key] || [null, null, null], wide: true });
    const ours = state.who !== "published" && state.probe !== EVERY;
    if (state.probe === EVERY) {
      const of = (name) => study.rows[name] || {}, count = Object.keys(study.probes).length, keys = ["best", "alike", "worse", "untested", "missing"];
      columns.push({ key: "rank", head: "mean rank", number: true, title: "Mean over the " + count + " datasets of the rank on each; without a score it is the last.", sort: (name) => of(name).mean_rank, show: (name) => [number(of(name).mean_rank, 2)], csv: (name) => [of(name).mean_rank], heads: ["mean rank"] },
        { key: "best", head: "best", number: true, title: "Datasets on which it is best, and further ones on which it does not differ significantly from the best.", sort: (name) => of(name).best == null ? null : -of(name).best - of(name).alike / 1000, show: (name) => of(name).best == null ? [NONE] : [String(of(name).best), of(name).alike ? " + " + of(name).alike : "", make("small", {}, " of " + count)], csv: (name) => keys.map((key) => of(name)[key]), heads: ["best", "not different from the best", "worse", "not tested", "no score"] });
    }
    if (ours) columns.push({ key: "rank", head: "rank", number: true, title: "Rank by mean rank, and its confidence set: all true ranks are in these sets with " + level + " confidence.",
      sort: (name) => of(name).rank, csv: (name) => [of(name).rank, ...(of(name).ranks || [null, null])], heads: ["rank", "rank_low", "rank_high"],
      show: (name) => { const row = of(name), sets = row.ranks || []; return [row.rank == null ? NONE : String(row.rank), make("br"), make("small", {}, sets[0] == null ? "" : level + ": " + (sets[0] === sets[1] ? sets[0] : sets[0] + "–" + sets[1]))]; } });
    if (ours && many) columns.push({ key: "strip", head: "not distinguishable", title: "From the first to the last rank of those that do not differ significantly; the mark is its own rank.", sort: (name) => of(name).rank, csv: (name) => [of(name).letters], heads: ["letters"],
      show: (name) => { const alike = reach.get(name); return alike ? [make("span", { class: "bar", title: alike.length - 1 + " others: " + alike.filter((one) => one !== name).join(", ") }, make("span", { class: "range" }), make("span", { class: "point" }))] : [""]; },
      dress: (name, td) => { const alike = reach.get(name); if (!alike) return; const place = (one) => 100 * (order.indexOf(one) + .5) / order.length, ends = alike.map(place), [range, point] = td.firstChild.children;
        td.className = "barcell"; range.style.left = Math.min(...ends) + "%"; range.style.width = Math.max(...ends) - Math.min(...ends) + "%"; point.style.left = place(name) + "%"; } });
    if (ours && !many) columns.push({ key: "letters", head: "letters", title: "Backbones that share a letter do not differ significantly.", sort: (name) => of(name).letters, show: (name) => [of(name).letters || ""], csv: (name) => [of(name).letters] });
    if (ours && some("best")) columns.push({ key: "best", head: "chance of best", number: true, title: "Probability of being the best, by the model of all scores (docs/ranking.md).", sort: (name) => of(name).best ? -of(name).best[0] : null, show: (name) => [percent((of(name).best || [])[0])], csv: (name) => [(of(name).best || [])[0]] });
    if (ours) ranked("loss", "loss", "Expected shortfall from the best, in the metric's units, with its interval.", 3, true);
    if (ours && found && found.datasets.length > 1) {
      ranked("mean_rank", "mean rank", "Mean over datasets of the rank on each.", 2, true);
      ranked("mean", "mean", "Mean over datasets of the primary metric.");
      ranked("normalised", "normalised", "Mean over datasets of (score - low) / (high - low), with the bounds of the configuration.");
      ranked("elo", "Elo", "Bradley-Terry strength; 400 points are odds of ten to one.", 0);
      ranked("gain", "gain", "Mean over datasets of the score minus the baseline's.");
    }
    const has = (key) => data.backbones.some((one) => isShown(one) && one[key] != null);
    if (has("parameters")) columns.push({ key: "parameters", head: "parameters", number: true, cost: true, title: "Parameters of the network that is run, without heads.", sort: (name) => facts(name).parameters, show: (name) => [big(facts(name).parameters)], csv: (name) => [facts(name).parameters] });
    if (has("width")) columns.push({ key: "width", head: "features", number: true, cost: true, title: "Numbers in the embedding of one image.", sort: (name) => facts(name).width, show: (name) => [big(facts(name).width)], csv: (name) => [facts(name).width] });
    if (has("throughput")) columns.push({ key: "throughput", head: "images/s", number: true, cost: true, title: "Throughput of the forward pass on the machine of this run.", sort: (name) => facts(name).throughput == null ? null : -facts(name).throughput, show: (name) => [number(facts(name).throughput, 0)], csv: (name) => [facts(name).throughput] });
    else if (has("extraction_ms")) columns.push({ key: "extraction_ms", head: "ms/image", number: true, cost: true, title: "Milliseconds per image of the extraction jobs: reading, network and writing, while other jobs may have run. Median over the datasets that all backbones share.", sort: (name) => facts(name).extraction_ms, show: (name) => [number(facts(name).extraction_ms, 1)], csv: (name) => [facts(name).extraction_ms] });
    for (const dataset of datasets) columns.push(datasetColumn(dataset, datasets.length < 5));
    return columns;
  };
  const unfit = (dataset, name) => data.unfit[dataset + "|" + name] || data.unfit[[dataset, name, probeFor(dataset)].join("|")];
  const datasetColumn = (dataset, roomy) => {
    const [metric, higher, units, unit] = metricOf(dataset), sign = higher ? 1 : -1, one = data.datasets[names.dataset.indexOf(dataset)];
    const values = data.backbones.filter(isShown).map(({ name }) => (cellOf(dataset, name) || {}).value).filter((value) => value != null);
    const low = Math.min(...values), high = Math.max(...values), baseline = (cellOf(dataset, "imagestats") || {}).value;
    const value = (cell) => cell == null || cell.value == null ? null : state.cells === "rank" ? cell.rank : state.cells === "gain" ? (baseline == null || cell.published != null ? null : cell.value - baseline) : cell.value;
    return {
      key: "d:" + dataset, head: dataset, dataset, roomy, task: one.task, probe: probeFor(dataset), number: true,
      title: (one.title || dataset) + ": " + (state.probe === EVERY ? probeFor(dataset) + ", " : "") + metric + (higher ? "" : ", less is better") + ", " + (units == null ? "as published." : level + " intervals over " + units + " " + unit + "s."),
      sort: (name) => { const cell = cellOf(dataset, name); return cell == null || cell.value == null ? null : -sign * cell.value; },
      csv: (name) => { const cell = cellOf(dataset, name) || {}; return [cell.value, cell.lower, cell.upper]; }, wide: true,
      show: (name) => { const cell = cellOf(dataset, name), shown = value(cell); if (cell == null && unfit(dataset, name)) return [make("small", {}, "does not fit")]; const text = [shown == null ? NONE : state.cells === "rank" ? String(shown) : state.cells === "gain" ? signed(shown) : number(shown)];
        return roomy && state.cells === "value" && cell ? [...text, make("br"), make("small", {}, range(cell.lower, cell.upper)), ...(cell.clean ? [make("br"), make("small", {}, "clean " + number(cell.clean[0]))] : [])] : text; },
      dress: (name, td) => {
        const cell = cellOf(dataset, name);
        if (cell == null || cell.value == null) { td.classList.add("absent"); td.title = cell == null && unfit(dataset, name) ? name + " does not fit " + dataset + ": " + unfit(dataset, name) : name + " has no score on " + dataset; return; }
        const share = high > low ? (cell.value - low) / (high - low) : 1;
        td.style.setProperty("--share", Math.round(100 * (higher ? share : 1 - share)) + "%");
        td.classList.add("heat");
        if (cell.alike === 1) td.classList.add("alike");
        if (cell.gates.length) td.classList.add("gated");
        if (cell.published != null) { td.classList.add("published"); td.title = name + " on " + dataset + ", published: " + metric + " " + number(cell.value) + " " + range(cell.lower, cell.upper) + "; " + data.protocols[cell.published]; return; }
        td.title = name + " on " + dataset + ": " + metric + " " + number(cell.value) + " " + range(cell.lower, cell.upper) + ", rank " + cell.rank
          + (cell.seed_std == null ? "" : ", \u00b1 " + number(cell.seed_std) + " over seeds")
          + (cell.alike == null ? "" : cell.alike ? "; the best, or not significantly worse" : "; worse than the best")
          + (cell.clean ? "; " + number(cell.clean[0]) + " " + range(cell.clean[1], cell.clean[2]) + " on the " + cell.clean[3] + " test images that training has not seen" : "")
          + (cell.gates.length ? ". Warnings: " + cell.gates.map((gate) => data.gates[gate]).join("; ") : "");
      },
    };
  };

  const order = (backbones, columns) => {
    const down = state.sort.startsWith("-"), column = columns.find((one) => one.key === state.sort.replace(/^-/, "")) || columns[0];
    const keyed = backbones.map((name) => [column.sort(name), name]);
    keyed.sort(([x, a], [y, b]) => {
      if (x == null || y == null) return (x == null) - (y == null) || (a < b ? -1 : 1);
      return (down ? -1 : 1) * (x < y ? -1 : x > y ? 1 : 0) || (a < b ? -1 : 1);
    });
    return keyed.map(([, name]) => name);
  };
  let view = { columns: [], backbones: [] };
  const drawTable = () => {
    const datasets = shownDatasets(), columns = columnsOf(datasets), backbones = order(shownBackbones(datasets), columns);
    view = { columns, backbones };
    at("count").textContent = backbones.length + " of " + data.backbones.filter(isShown).length + " backbones, " + datasets.length + " of " + data.datasets.filter((one) => !one.published || state.who !== "own").length + " datasets";
    const sorted = (column) => state.sort === column.key ? "ascending" : state.sort === "-" + column.key ? "descending" : null;
    const head = make("tr", {}, ...columns.map((column) => make("th", { scope: "col", class: column.dataset && !column.roomy ? "turned" : column.cost ? "cost" : column.number ? "" : "text", "aria-sort": sorted(column), title: column.title },
      make("button", { type: "button", "data-sort": column.key, on: { click: () => set({ sort: state.sort === column.key ? "-" + column.key : column.key }) } }, make("span", {}, column.head)),
      column.dataset && data.datasets[names.dataset.indexOf(column.dataset)].href ? make("a", { href: data.datasets[names.dataset.indexOf(column.dataset)].href, title: "page of " + column.dataset, "aria-label": "page of " + column.dataset }, "↗") : null)));
    const body = backbones.map((name) => make("tr", {}, ...columns.map((column, place) => {
      if (!place) return make("th", { scope: "row" }, make("button", { type: "button", class: "pick", "aria-pressed": String(state.a === name || state.b === name), title: "compare " + name, on: { click: () => pick(name) } }, name),
        " ", facts(name).published ? make("small", { class: "tag", title: facts(name).title }, "published") : make("a", { href: facts(name).href, title: "page of " + name, "aria-label": "page of " + name }, "↗"));
      const td = make("td", { class: column.cost ? "cost" : column.number ? null : "text" }, ...column.show(name));
      if (column.dress) column.dress(name, td);
      return td;
    })));
    const tasks = [];
    for (const { task, probe } of columns.filter((column) => state.probe === EVERY && column.dataset)) {
      const words = task + " · " + probe, last = tasks.at(-1);
      if (last && last[0] === words) last[1]++; else tasks.push([words, 1]);
    }
    const over = tasks.length ? make("tr", { class: "over" }, ...columns.filter((column) => !column.dataset).map((column) => make("td", { class: column.cost ? "cost" : null })), ...tasks.map(([words, count]) => make("th", { scope: "colgroup", colspan: count }, words))) : null;
    at("matrix").replaceChildren(make("thead", {}, ...[over, head].filter(Boolean)), make("tbody", {}, ...body));
  };

  const pick = (name) => {
    if (state.a === name) set({ a: state.b, b: "" });
    else if (state.b === name) set({ b: "" });
    else if (!state.a) set({ a: name });
    else set({ b: name });
  };
  const drawPair = () => {
    const options = (chosen) => [make("option", { value: "" }, "choose"), ...data.backbones.filter((one) => isShown(one) || one.name === chosen).map(({ name }) => make("option", { value: name, selected: name === chosen }, name))];
    at("pick-a").replaceChildren(...options(state.a));
    at("pick-b").replaceChildren(...options(state.b));
    const out = at("pair");
    if (!state.a || !state.b || state.a === state.b) { out.replaceChildren(make("p", { class: "note" }, "Choose two backbones, here or by their names in the table.")); return; }
    const theirs = [state.a, state.b].some((name) => (facts(name) || {}).published);
    let wins = 0, losses = 0, even = 0, untested = 0;
    const rows = shownDatasets().map((dataset) => {
      const x = cellOf(dataset, state.a), y = cellOf(dataset, state.b);
      if (!x || !y || x.value == null || y.value == null) return null;
      const [metric, higher] = metricOf(dataset), gap = x.value - y.value, pair = pairOf(dataset, state.a, state.b);
      const apart = pair && pair.p != null && pair.p <= alpha, better = (gap > 0) === higher ? state.a : state.b;
      if (!pair || pair.p == null) untested++; else if (!apart) even++; else if (better === state.a) wins++; else losses++;
      const half = pair && pair.half, protocol = [[x, state.b], [y, state.a]].filter(([cell]) => cell.published != null).map(([cell, other], place, all) =>
        cell.differs && all.length === 1 && facts(cell === x ? state.a : state.b).same === other ? cell.differs : (cell === x ? state.a : state.b) + ": " + data.protocols[cell.published]).join(". ");
      return make("tr", {}, make("th", { scope: "row" }, make("a", { href: data.datasets[names.dataset.indexOf(dataset)].href || null }, dataset)), make("td", { class: "text" }, metric),
        make("td", {}, number(x.value)), make("td", {}, number(y.value)), make("td", {}, signed(gap)),
        make("td", { class: "interval" }, half == null ? "" : range(gap - half, gap + half, signed)),
        make("td", {}, pair && pair.p != null ? (pair.p < 0.001 ? "< 0.001" : number(pair.p)) : NONE), make("td", { class: "text" }, theirs ? protocol : pair ? (apart ? better : pair.p == null ? "not tested" : "not significant" + (pair.found == null ? "" : ": can detect " + number(pair.found) + " or more")) : "not compared"));
    }).filter(Boolean);
    if (!rows.length) { out.replaceChildren(make("p", { class: "note" }, "No dataset shown has scores of both.")); return; }
    out.replaceChildren(theirs ? make("p", {}, "No test compares published scores: test items and protocol may differ. The last column states how.") : make("p", {}, make("strong", {}, state.a), " is better on " + wins + ", ", make("strong", {}, state.b), " on " + losses + "; on " + even + " of " + rows.length + " datasets they do not differ significantly" + (untested ? "; " + untested + " not tested." : ".")),
      make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Paired differences" }, make("table", {}, make("thead", {}, make("tr", {}, ...["dataset", "metric", state.a, state.b, "difference", "interval", "p", theirs ? "protocol" : "better"].map((head, place) =>
        make("th", { scope: "col", class: [0, 1, 5, 7].includes(place) ? "text" : "", title: head === "p" ? "Adjusted for all pairs of backbones that were compared on the dataset." : head === "difference" ? "On the same test items, " + level + " interval." : null }, head)))), make("tbody", {}, ...rows))));
  };

  function download() {
    const quote = (value) => value == null ? "" : /[",\n]/.test(String(value)) ? '"' + String(value).replaceAll('"', '""') + '"' : String(value);
    const heads = view.columns.flatMap((column) => column.heads || (column.wide ? [column.head, column.head + " lower", column.head + " upper"] : [column.head]));
    const lines = view.backbones.map((name) => view.columns.flatMap((column) => column.key === "name" ? [name] : column.csv(name)));
    const text = [heads, ...lines].map((line) => line.map(quote).join(",")).join("\n") + "\n";
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: ["permafrost", state.group, state.probe === EVERY ? "all-tasks" : state.probe].join("-").replace(/[^\w-]+/g, "-") + ".csv" });
    document.body.append(link);
    link.click();
    link.remove();
    URL.revokeObjectURL(link.href);
  }

  const draw = () => {
    for (const button of root.querySelectorAll("[data-probe]")) {
      const found = (data.standings[state.group] || {})[button.dataset.probe], best = found && found.rows[0], whole = button.dataset.probe === EVERY;
      button.setAttribute("aria-pressed", String(button.dataset.probe === state.probe));
      button.title = found ? found.verdict : "";
      button.hidden = (whole ? state.who === "published" : !counts[state.who].get(button.dataset.probe)) && button.dataset.probe !== state.probe;
      // who else has a letter of the first may be as good
      const alike = best && found.rows.filter((row) => lettersIn(row.letters).some((letter) => lettersIn(best.letters).includes(letter))).length > 1;
      button.lastChild.textContent = best && best.rank != null ? " " + best.backbone + (alike ? " or others" : "") : "";
    }
    for (const name of ["group", "cells", "who", "task", "dataset", "sensor", "size", "licence", "trained"]) if (at("pick-" + name)) at("pick-" + name).value = state[name];
    if (at("pick-q").value !== state.q) at("pick-q").value = state.q;
    at("pick-alike").checked = Boolean(state.alike);
    drawAnswer();
    drawTable();
    drawPair();
    root.dispatchEvent(new CustomEvent("view", { detail: { data, state, datasets: shownDatasets(), backbones: view.backbones.filter((name) => !facts(name).published) } }));
  };
  if (!/^#[\w-]+$/.test(location.hash)) read();
  root.hidden = false;
  buildTools();
  for (const name of ["a", "b"]) at("pick-" + name).addEventListener("change", (event) => set({ [name]: event.target.value }));
  addEventListener("hashchange", () => { if (!/^#[\w-]+$/.test(location.hash)) { read(); draw(); } });
  draw();
})();
