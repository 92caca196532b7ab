// The map of test images on a dataset's page, from the data of report/sections/image_map.py.
(() => {
  const source = document.getElementById("image-map-data");
  if (!source) return;
  const data = JSON.parse(source.textContent), count = data.ids.length, coloured = data.kind === "class";
  const at = (id) => document.getElementById("image-map-" + id), canvas = at("canvas"), chosen = at("chosen");
  const dark = matchMedia("(prefers-color-scheme: dark)"), ink = canvas.getContext("2d");
  const make = (tag, about = {}, ...children) => { const made = Object.assign(document.createElement(tag), about); made.append(...children.filter((one) => one != null)); return made; };
  const unpacked = (text) => { const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0)); return new Uint16Array(bytes.buffer); };
  const percent = (share) => (share >= 0.0995 ? (100 * share).toFixed(0) : (100 * share).toPrecision(2)) + " %";
  const number = (value) => value == null ? "–" : String(Number(value.toPrecision(3)));
  for (const one of data.backbones) {
    one.at = unpacked(one.at); one.near = unpacked(one.near);
    one.wrong = coloured ? one.answers.map((answer, image) => answer != null && answer !== data.truth[image]) : one.errors.map((error) => error != null && error > 0);
  }
  const state = { backbone: 0, view: "features", errors: false, classes: new Set(), image: null, zoom: 1, middle: [0.5, 0.5] };
  const own = () => data.backbones[state.backbone];

  // --- where a point is, from 0 to 1 on both axes of a square; places keep their proportions
  const places = (() => {
    if (!data.places) return null;
    const [lon, lat] = data.places, known = lon.map((one, image) => image).filter((image) => lon[image] != null && lat[image] != null);
    const ends = (values) => known.reduce(([low, high], image) => [Math.min(low, values[image]), Math.max(high, values[image])], [Infinity, -Infinity]);
    const [west, east] = ends(lon), [south, north] = ends(lat), narrow = Math.max(0.05, Math.cos(((south + north) / 2) * Math.PI / 180));
    const span = Math.max((east - west) * narrow, north - south) || 0.01, x = (value) => 0.5 + ((value - (west + east) / 2) * narrow) / span, y = (value) => 0.5 + (value - (south + north) / 2) / span;
    return { x, y, longitude: (share) => (west + east) / 2 + ((share - 0.5) * span) / narrow, latitude: (share) => (south + north) / 2 + (share - 0.5) * span, of: (image) => lon[image] == null || lat[image] == null ? null : [x(lon[image]), y(lat[image])] };
  })();
  const spot = (image) => state.view === "places" ? places.of(image) : [own().at[2 * image] / 65535, own().at[2 * image + 1] / 65535];
  const frame = () => { const { clientWidth: width, clientHeight: height } = canvas, side = Math.min(width, height) - 28; return { width, height, side: side * state.zoom }; };
  // a wide canvas is filled by stretching nothing: one step is as long on both axes
  const screen = ([x, y]) => { const { width, height, side } = frame(); return [width / 2 + (x - state.middle[0]) * side * wide(), height / 2 - (y - state.middle[1]) * side * wide()]; };
  const shares = ([left, top]) => { const { width, height, side } = frame(); return [state.middle[0] + (left - width / 2) / side / wide(), state.middle[1] - (top - height / 2) / side / wide()]; };
  let extent = [1, 1];
  const wide = () => { const { clientWidth: width, clientHeight: height } = canvas; return Math.min((width - 28) / extent[0], (height - 28) / extent[1]) / (Math.min(width, height) - 28); };
  const measure = () => {
    const known = [...Array(count).keys()].map(spot).filter(Boolean);
    const span = (axis) => { const values = known.map((one) => one[axis]); return Math.max(...values) - Math.min(...values); };
    extent = [Math.max(span(0), 0.02), Math.max(span(1), 0.02)];
  };

  // --- colours
  const mixed = (colour, with_, share) => "#" + [1, 3, 5].map((from) => Math.round(parseInt(colour.slice(from, from + 2), 16) * (1 - share) + parseInt(with_.slice(from, from + 2), 16) * share).toString(16).padStart(2, "0")).join("");
  const hue = (colour) => dark.matches ? mixed(colour, "#ffffff", 0.35) : colour;
  const ramp = (share) => mixed(dark.matches ? "#465a68" : "#d5e3ec", dark.matches ? "#ffd27a" : "#7a1f00", share);
  let largest = 1, end = null;
  const colour = (image) => coloured ? (data.truth[image] == null ? "#888888" : hue(data.colours[data.truth[image]])) : own().errors[image] == null ? "#888888" : ramp(own().errors[image] / largest);
  const shown = (image) => (!state.errors || own().wrong[image]) && (!state.classes.size || state.classes.has(data.truth[image]));

  // --- drawing
  const steps = (span) => [90, 45, 30, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001].find((step) => span / step >= 2.5) || 0.0005;
  const graticule = (style) => {
    const { clientWidth: width, clientHeight: height } = canvas, [left, top] = shares([0, 0]), [right, bottom] = shares([width, height]);
    const lines = [[places.longitude(left), places.longitude(right), (value) => screen([places.x(value), 0])[0], true, "E", "W", 180], [places.latitude(bottom), places.latitude(top), (value) => screen([0, places.y(value)])[1], false, "N", "S", 90]];
    ink.strokeStyle = style.getPropertyValue("--line"); ink.fillStyle = style.getPropertyValue("--soft"); ink.lineWidth = 1; ink.font = "11px system-ui, sans-serif";
    for (const [low, high, place, upright, plus, minus, most] of lines) {
      const step = steps(high - low), digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
      for (let tick = Math.ceil(low / step); tick * step <= high; tick++) {
        const value = tick * step; if (Math.abs(value) > most) continue;
        const here = place(value); ink.beginPath();
        upright ? (ink.moveTo(here, 0), ink.lineTo(here, height)) : (ink.moveTo(0, here), ink.lineTo(width, here)); ink.stroke();
        const words = Math.abs(value).toFixed(digits) + "° " + (Math.abs(value) < step / 2 ? "" : value > 0 ? plus : minus);
        upright ? ink.fillText(words, here + 3, height - 5) : ink.fillText(words, 4, here - 3);
      }
    }
  };
  const draw = () => {
    const { clientWidth: width, clientHeight: height } = canvas, scale = devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
    canvas.width = width * scale; canvas.height = height * scale; ink.setTransform(scale, 0, 0, scale, 0, 0);
    measure(); ink.clearRect(0, 0, width, height);
    if (state.view === "places") graticule(style);
    const radius = Math.max(2.6, Math.min(5, 90 / Math.sqrt(count))) * Math.min(2, Math.sqrt(state.zoom));
    const dot = (image, size) => { const [x, y] = screen(spot(image)); ink.beginPath(); ink.arc(x, y, size, 0, 7); };
    const all = [...Array(count).keys()].filter((image) => spot(image));
    ink.globalAlpha = 0.14; ink.fillStyle = style.getPropertyValue("--soft");
    for (const image of all) if (!shown(image)) { dot(image, radius * 0.8); ink.fill(); }
    for (const wrong of [false, true]) for (const image of all) if (shown(image) && own().wrong[image] === wrong) {
      ink.globalAlpha = wrong || !coloured ? 0.95 : 0.7; ink.fillStyle = colour(image); dot(image, radius); ink.fill();
      if (wrong && coloured) { ink.globalAlpha = 1; ink.strokeStyle = style.getPropertyValue("--ink"); ink.lineWidth = 1.3; dot(image, radius + 1.4); ink.stroke(); }
    }
    ink.globalAlpha = 1;
    if (state.image == null || !spot(state.image)) return;
    ink.strokeStyle = style.getPropertyValue("--blue");
    for (const other of neighbours(state.image)) if (spot(other)) { ink.lineWidth = 1; ink.beginPath(); ink.moveTo(...screen(spot(state.image))); ink.lineTo(...screen(spot(other))); ink.stroke(); }
    ink.lineWidth = 3; dot(state.image, radius + 5); ink.stroke();
  };

  // --- the chosen image
  const neighbours = (image) => [...own().near.slice(image * own().neighbours, (image + 1) * own().neighbours)];
  const picture = (image, size) => {
    const sheet = data.pictures, tile = sheet?.tiles[image];
    if (tile == null) return null;
    const made = make("span", { className: "picture" }), zoom = size / sheet.side;
    Object.assign(made.style, { width: size + "px", height: size + "px", backgroundImage: `url("../figures/${encodeURI(sheet.file)}")`, backgroundSize: sheet.across * size + "px auto", backgroundPosition: `${-(tile % sheet.across) * size}px ${-Math.floor(tile / sheet.across) * sheet.side * zoom}px` });
    return made;
  };
  const words = (answer) => answer == null ? "–" : Array.isArray(answer) ? answer.map((one) => data.classes[one]).join(", ") || "none" : coloured ? data.classes[answer] : number(answer);
  const swatch = (answer) => { if (!coloured || answer == null) return null; const made = make("span", { className: "swatch" }); made.style.background = hue(data.colours[answer]); return made; };
  const tell = () => {
    const image = state.image;
    if (image == null) return;
    const lines = make("dl"), add = (name, ...value) => lines.append(make("dt", {}, name), ...value);
    add("image", make("dd", {}, data.ids[image]));
    if (data.truth) add("true", make("dd", {}, swatch(data.truth[image]), words(data.truth[image])));
    if (data.truth && own().evaluation) add("predicted", make("dd", { className: own().wrong[image] ? "wrong" : "" }, swatch(own().answers[image]), words(own().answers[image])));
    if (!coloured && data.unit && own().errors[image] != null) add(data.unit, make("dd", {}, number(own().errors[image])));
    if (own().evaluation) add("by", make("dd", {}, own().evaluation));
    if (data.places && data.places[0][image] != null) add("place", make("dd", {}, `${data.places[1][image].toFixed(4)}, ${data.places[0][image].toFixed(4)}`));
    const near = make("div", { className: "near" }, ...neighbours(image).map((other) => { const made = make("button", { type: "button", title: data.ids[other] }, picture(other, 72), make("span", {}, data.truth ? words(data.truth[other]) : data.ids[other])); made.addEventListener("click", () => choose(other)); return made; }));
    chosen.replaceChildren(...[picture(image, 192), lines, near.childElementCount ? make("p", { className: "note" }, "Nearest in all features of " + own().name + ", of the images shown:") : null, near].filter(Boolean));
  };
  const choose = (image) => { state.image = image; tell(); draw(); };
  const closest = (left, top, most) => {
    let best = null, least = most * most;
    for (let image = 0; image < count; image++) {
      if (!shown(image) || !spot(image)) continue;
      const [x, y] = screen(spot(image)), far = (x - left) ** 2 + (y - top) ** 2;
      if (far < least) [best, least] = [image, far];
    }
    return best;
  };
  const towards = (right, up) => {
    if (state.image == null || !spot(state.image)) return choose(closest(canvas.clientWidth / 2, canvas.clientHeight / 2, Infinity) ?? 0);
    const [left, top] = screen(spot(state.image));
    let best = null, least = Infinity;
    for (let image = 0; image < count; image++) {
      if (!shown(image) || !spot(image) || image === state.image) continue;
      const [x, y] = screen(spot(image)), ahead = (x - left) * right - (y - top) * up, aside = Math.abs((x - left) * up + (y - top) * right);
      if (ahead > 0.5 && ahead + 2 * aside < least) [best, least] = [image, ahead + 2 * aside];
    }
    if (best != null) { choose(best); keep(); }
  };
  const keep = () => { const [x, y] = screen(spot(state.image)); if (x < 10 || y < 10 || x > canvas.clientWidth - 10 || y > canvas.clientHeight - 10) { state.middle = spot(state.image); draw(); } };
  const zoom = (factor) => { state.zoom = Math.min(60, Math.max(1, state.zoom * factor)); if (state.zoom === 1) state.middle = [0.5, 0.5]; else if (state.image != null && spot(state.image)) state.middle = spot(state.image); draw(); };

  // --- controls
  const select = (label, options, change) => { const made = make("select", {}, ...options.map(([value, text]) => make("option", { value }, text))); made.addEventListener("change", () => change(made.value)); return make("label", {}, label + " ", made); };
  const button = (text, title, click) => { const made = make("button", { type: "button", title }, text); made.setAttribute("aria-label", title); made.addEventListener("click", click); return made; };
  const renew = () => {
    const first = own(), errors = coloured ? [] : first.errors.filter((one) => one != null);
    largest = Math.max(...errors, 0) || 1;
    const wrong = first.wrong.filter(Boolean).length;
    at("words").textContent = (state.view === "places" ? "They are at their longitudes and latitudes."
      : `The axes are the first two principal components of the features of ${first.name}, which have ${percent(first.shares[0])} and ${percent(first.shares[1])} of the variance; the rest is not on the map.`)
      + (coloured ? " Colours are true classes" + (data.shared ? ", some of which share one." : ".") : data.unit ? " Colours are errors: " + data.unit + "." : "")
      + (!first.evaluation ? "" : coloured ? ` Rings mark the ${wrong} errors of ${first.evaluation}.` : data.unit ? ` ${first.evaluation} has an error on ${wrong} of them.` : "");
    if (end) end.textContent = ` ${number(largest)}`;
    tell(); draw();
  };
  at("tools").append(...[
    select("Backbone", data.backbones.map((one, place) => [place, one.name]), (value) => { state.backbone = Number(value); renew(); }),
    places && select("Map of", [["features", "features"], ["places", "places"]], (value) => { Object.assign(state, { view: value, zoom: 1, middle: [0.5, 0.5] }); renew(); }),
    (() => { const box = make("input", { type: "checkbox" }); box.addEventListener("change", () => { state.errors = box.checked; draw(); }); return make("label", {}, box, " only errors"); })(),
    button("+", "Zoom in, to the chosen image", () => zoom(1.6)), button("−", "Zoom out", () => zoom(1 / 1.6)),
  ].filter(Boolean));
  if (coloured) at("classes").append(...data.classes.map((name, number) => {
    const sample = swatch(number), made = make("button", { type: "button" }, sample, name);
    made.setAttribute("aria-pressed", "false");
    made.addEventListener("click", () => { state.classes[state.classes.has(number) ? "delete" : "add"](number); made.setAttribute("aria-pressed", String(state.classes.has(number))); draw(); });
    dark.addEventListener("change", () => { sample.style.background = hue(data.colours[number]); });
    return made;
  }));
  else if (data.unit) { const bar = make("span", { className: "ramp" }), paint = () => { bar.style.background = `linear-gradient(90deg, ${ramp(0)}, ${ramp(1)})`; }; paint(); dark.addEventListener("change", paint); end = make("span"); at("classes").append(`${data.unit}: 0 `, bar, end); }
  const here = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse") { const image = closest(...here(event), 14); if (image != null && image !== state.image) choose(image); } });
  canvas.addEventListener("click", (event) => { const image = closest(...here(event), 30); if (image != null) choose(image); });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (moves[event.key]) towards(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") zoom(1.6);
    else if (event.key === "-") zoom(1 / 1.6);
    else return;
    event.preventDefault();
  });
  new ResizeObserver(draw).observe(canvas);
  dark.addEventListener("change", renew);
  addEventListener("beforeprint", draw);
  renew();
})();
