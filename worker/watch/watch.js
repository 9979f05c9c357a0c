// The page of tools/watch. Text of runs (names, tags, lines of logs) only ever becomes textContent.
'use strict';

const $ = (id) => document.getElementById(id);
// Colours that people with any colour vision can tell apart, with a contrast of 3:1 and more.
const PALETTES = {
  light: ['#0072b2', '#c44e00', '#007a5a', '#a64d8c', '#1b1f24', '#8a6d00', '#3a7fd5', '#8b1a1a'],
  dark: ['#56b4e9', '#ff9e4a', '#2bc89b', '#e39dc2', '#e8eaed', '#f0e442', '#9bb8ff', '#ff8f87'],
};
// A curve beyond the colours is dashed.
const DASHES = [null, [8, 4], [2, 3], [8, 3, 2, 3]];
const AXES = {step: 'env steps', iter: 'iterations', seconds: 'seconds'};
const VIEWS = ['curves', 'stages', 'videos', 'configs', 'logs', 'workers', 'histograms'];
const MAX_VIDEOS = 24;
// The legend of dygraphs has inline styles, which the policy of the page forbids. The cards have their own.
Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);

let state = {runs: [], metrics: []};
const hidden = new Set();  // numbers of runs that are not shown
const cards = new Map();   // metric -> card
let view = 'curves';
let theme = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';

function make(name, text, attributes = {}) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function later(work, milliseconds) {  // the last call of several, once
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...args), milliseconds);
  };
}

function short(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '';
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e9, 'G'], [1e6, 'M'], [1e4, 'k']]) {
    if (size >= unit) return +(value / (letter === 'k' ? 1e3 : unit)).toPrecision(4) + letter;
  }
  return String(+value.toPrecision(4));
}

// -- Runs and their colours ---------------------------------------------------------------------

const grouping = () => $('group').checked;
const shownRuns = () => state.runs.map((_, i) => i).filter((i) => !hidden.has(i));

// The number of a run's curve, which decides its colour: the same for the seeds of a median.
function colourNumber(run) {
  return grouping() ? [...new Set(state.runs.map((r) => r.group))].indexOf(state.runs[run].group) : run;
}
const colourOf = (run) => PALETTES[theme][colourNumber(run) % PALETTES[theme].length];
const dashOf = (run) => DASHES[Math.floor(colourNumber(run) / PALETTES[theme].length) % DASHES.length];

function makeSvg(name, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function swatch(colour, dash) {
  const fields = {x1: 0, x2: 26, y1: 6, y2: 6, stroke: colour, 'stroke-width': 4, 'stroke-dasharray': dash ? dash.join(' ') : 'none'};
  return makeSvg('svg', {class: 'swatch', 'aria-hidden': 'true'}, makeSvg('line', fields));
}

function drawRuns() {
  $('run-count').textContent = `(${shownRuns().length} of ${state.runs.length})`;
  const focused = document.activeElement?.dataset.run;
  $('runs').replaceChildren(...state.runs.map((run, i) => {
    const box = make('input', undefined, {type: 'checkbox', 'data-run': i});
    box.checked = !hidden.has(i);
    box.onchange = () => {
      box.checked ? hidden.delete(i) : hidden.add(i);
      drawAll();
    };
    const label = make('label');
    label.append(box, swatch(colourOf(i), dashOf(i)), make('span', run.name));
    label.title = run.folder;
    const item = make('li');
    item.append(label);
    const reward = run.numbers['evaluator/reward_mean'];
    const parts = [run.state, `step ${short(run.step)}`];
    if (reward !== undefined && reward !== null) parts.push(`eval ${short(reward)}`);
    item.append(make('small', parts.join(', ')));
    if (run.damage) item.append(make('small', run.damage, {class: 'damage'}));
    return item;
  }));
  if (focused !== undefined) document.querySelector(`[data-run="${focused}"]`)?.focus();
}

// -- Curves -------------------------------------------------------------------------------------

class Card {
  constructor(metric) {
    this.metric = metric;
    this.element = make('article', undefined, {class: 'card', tabindex: 0, 'aria-label': metric});
    const title = make('h2', metric);
    this.button = make('button', 'Large', {'aria-pressed': 'false'});
    this.button.onclick = () => this.enlarge();
    title.append(this.button);
    this.plot = make('div', undefined, {class: 'plot'});
    this.readout = make('p', '', {class: 'readout'});
    this.element.append(title, this.plot, this.readout);
    this.visible = false;
    this.range = null;
    this.drawn = 0;
    this.refreshSoon = later(() => this.refresh(), 50);
  }

  enlarge() {
    const large = this.element.classList.toggle('large');
    this.button.textContent = large ? 'Small' : 'Large';
    this.button.setAttribute('aria-pressed', large);
    this.graph?.resize();
    this.refresh();
  }

  zoom(range) {
    this.range = range;
    this.refreshSoon();
  }

  async refresh() {
    if (!this.visible || view !== 'curves') return;
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    const query = new URLSearchParams({
      metric: this.metric, x: $('x-axis').value, smooth: $('smooth').value || 1,
      group: grouping() ? 1 : 0, runs: shownRuns().join(','), points: Math.min(2000, Math.max(200, this.plot.clientWidth)),
    });
    if (this.range) {
      query.set('from', this.range[0]);
      query.set('to', this.range[1]);
    }
    try {
      const reply = await fetch(`api/curve?${query}`);
      if (reply.ok) this.draw(await reply.json());
    } catch { /* the connection is lost, which the header says */ }
    this.busy = false;
    if (this.again) {
      this.again = false;
      this.refreshSoon();
    }
  }

  draw(table) {
    this.table = table;
    this.drawn = Date.now();
    const series = table.series.filter((s) => s.mid.some((v) => v !== null));
    this.series = series;
    if (series.length === 0) {
      this.graph?.destroy();
      this.graph = null;
      this.readout.textContent = `No values over ${AXES[$('x-axis').value]}.`;
      return;
    }
    const rows = table.x.map((x, i) => [x, ...series.map((s) => (s.mid[i] === null ? null : [s.low[i], s.mid[i], s.high[i]]))]);
    const style = getComputedStyle(document.documentElement);
    const options = {
      file: rows,
      labels: ['x', ...series.map((_, i) => `s${i}`)],
      customBars: true,
      connectSeparatedPoints: true,
      logscale: $('log-scale').checked,
      colors: series.map((s) => colourOf(s.run)),
      series: Object.fromEntries(series.map((s, i) => [`s${i}`, {strokePattern: dashOf(s.run)}])),
      fillAlpha: series.length > 8 ? 0.06 : 0.16,
      drawPoints: rows.length <= 60,
      pointSize: 2.5,
      strokeWidth: 1.6,
      axisLineColor: style.getPropertyValue('--line'),
      gridLineColor: style.getPropertyValue('--grid'),
      dateWindow: this.range,
    };
    if (this.graph) {
      this.graph.updateOptions(options);
    } else {
      const {file, ...rest} = options;
      this.graph = new Dygraph(this.plot, file, {
        ...rest,
        axes: {
          x: {axisLabelFormatter: short, axisLabelWidth: 60},
          y: {axisLabelFormatter: short, axisLabelWidth: 52},
        },
        highlightCallback: (_event, x, _points, row) => this.show(row, x),
        unhighlightCallback: () => this.show(),
        zoomCallback: (from, to) => this.zoom(this.graph.isZoomed('x') ? [from, to] : null),
      });
    }
    this.show();
  }

  // The values at a row, or the last ones.
  show(row, x) {
    this.readout.replaceChildren();
    const names = this.series.length > 6 && row === undefined ? [] : this.series;
    if (row !== undefined) this.readout.append(`${AXES[$('x-axis').value]} ${short(x)}: `);
    names.slice(0, 12).forEach((s, i) => {
      const value = row === undefined ? s.mid.findLast((v) => v !== null) : s.mid[row];
      if (value === null || value === undefined) return;
      this.readout.append(i > 0 ? ', ' : '', swatch(colourOf(s.run), dashOf(s.run)), ` ${s.name} `, make('b', short(value)));
    });
    if (names.length === 0) this.readout.append(`${this.series.length} curves; point at one`);
  }
}

const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const card = cards.get(entry.target.dataset.metric);
    card.visible = entry.isIntersecting;
    if (card.visible) card.refreshSoon();
  }
}, {rootMargin: '200px'});

// Evaluations first, then what is collected, then losses.
function rank(metric) {
  const order = ['evaluator/reward_mean', 'evaluator/', 'collector/reward_mean', 'collector/', 'learner/'];
  const place = order.findIndex((start) => metric.startsWith(start));
  return place < 0 ? order.length : place;
}

function listCards() {
  const words = $('metric-filter').value.toLowerCase().split(' ').filter(Boolean);
  const wanted = state.metrics.filter((m) => words.every((w) => m.toLowerCase().includes(w)));
  wanted.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
  const elements = wanted.map((metric) => {
    if (!cards.has(metric)) {
      const card = new Card(metric);
      card.element.dataset.metric = metric;
      cards.set(metric, card);
      watcher.observe(card.element);
    }
    return cards.get(metric).element;
  });
  const now = [...$('cards').children];
  if (now.length !== elements.length || now.some((e, i) => e !== elements[i])) $('cards').replaceChildren(...elements);
  const iterations = $('x-axis').value === 'iter' && !state.has_iter;
  $('curve-note').textContent =
      state.metrics.length === 0 ? 'No metrics yet.' :
      wanted.length === 0 ? 'No metric has all these words.' :
      iterations ? 'These runs have no values over iterations: metrics { x_axis: BOTH } in a config writes them.' : '';
}

function refreshCards(force) {
  for (const card of cards.values()) {
    // A card of many runs costs the server some milliseconds: not more often than needed.
    const wait = force ? 0 : card.drawn + 1900 - Date.now();
    if (wait <= 0) card.refreshSoon();
    else card.waiting ??= setTimeout(() => { card.waiting = undefined; card.refresh(); }, wait);
  }
}

function focusCard(by) {
  const all = [...$('cards').children];
  const at = all.indexOf(document.activeElement.closest?.('.card'));
  const next = all[Math.min(all.length - 1, Math.max(0, at + by))];
  next?.focus();
  next?.scrollIntoView({block: 'nearest'});
}

// -- Stages -------------------------------------------------------------------------------------

// What a run spends its time on: [name, seconds].
function stagesOf(numbers) {
  const serial = ['collect', 'learn', 'evaluate', 'save'].map((name) => [name, numbers[`run/${name}_seconds`]]);
  if (serial.some(([, value]) => value > 0)) return serial.filter(([, value]) => value > 0);
  const [train, data] = [numbers['learner/train_time_avg'], numbers['learner/data_time_avg']];
  return train === undefined || data === undefined ? [] : [['learn', train], ['wait for data', data]];
}

function verdict(stages) {
  const total = stages.reduce((sum, [, value]) => sum + value, 0);
  const [name, most] = stages.reduce((a, b) => (b[1] > a[1] ? b : a));
  const share = Math.round(100 * most / total);
  if (name === 'wait for data') return `The learner waits for data ${share} % of its time: more collectors would help.`;
  if (name === 'learn' && stages.some(([n]) => n === 'wait for data')) return `The learner computes ${share} % of its time: it does not wait for collectors.`;
  return `The others wait for "${name}" ${share} % of the time.`;
}

function drawStages() {
  const boxes = shownRuns().map((i) => {
    const run = state.runs[i];
    const box = make('div', undefined, {class: 'stage'});
    box.append(make('h2', run.name));
    const stages = stagesOf(run.numbers);
    const total = stages.reduce((sum, [, value]) => sum + value, 0);
    if (total > 0) {
      const bar = make('div', undefined, {class: 'bar', role: 'img', 'aria-label': stages.map(([n, v]) => `${n} ${Math.round(100 * v / total)} %`).join(', ')});
      const legend = make('ul', undefined, {class: 'legend'});
      stages.forEach(([name, value], k) => {
        const part = make('div');
        part.style.flex = String(value / total);
        part.style.background = PALETTES[theme][k];
        bar.append(part);
        const item = make('li');
        item.append(swatch(PALETTES[theme][k], null), `${name} ${short(value)} s (${Math.round(100 * value / total)} %)`);
        legend.append(item);
      });
      box.append(bar, legend, make('p', verdict(stages), {class: 'note'}));
    } else {
      box.append(make('p', 'It has written no times of stages yet.', {class: 'note'}));
    }
    const others = Object.entries(run.numbers).filter(([name]) => !/_seconds$|_time_avg$|^evaluator/.test(name));
    if (others.length > 0) box.append(make('p', others.map(([name, value]) => `${name} ${short(value)}`).join(', ')));
    return box;
  });
  $('stages').replaceChildren(...boxes);
}

// -- Videos, configs, logs ----------------------------------------------------------------------

let shownVideos = '';
function drawVideos() {
  const videos = shownRuns().flatMap((i) => state.runs[i].videos.slice(0, 6).map((name) => [i, name])).slice(0, MAX_VIDEOS);
  if (JSON.stringify(videos) === shownVideos) return;
  shownVideos = JSON.stringify(videos);
  const figures = videos.map(([run, name]) => {
    const source = `video?${new URLSearchParams({run, name})}`;
    const label = `${state.runs[run].name}, ${name}`;
    const picture = name.endsWith('.mp4') ? make('video', undefined, {src: source, controls: '', loop: '', muted: '', preload: 'metadata', 'aria-label': label}) :
                                            make('img', undefined, {src: source, alt: label, loading: 'lazy'});
    const figure = make('figure');
    figure.append(picture, make('figcaption', label));
    return figure;
  });
  const grid = make('div', undefined, {class: 'grid'});
  grid.append(...figures);
  const none = 'No videos. A config with env { evaluator_wrapper { type: "record_video" } } makes them.';
  $('videos').replaceChildren(figures.length > 0 ? grid : make('p', none, {class: 'note'}));
}

async function drawConfigs() {
  const {rows} = await (await fetch(`api/configs?all=${$('config-all').checked ? 1 : 0}`)).json();
  const words = $('config-filter').value.toLowerCase().split(' ').filter(Boolean);
  const runs = shownRuns();
  const table = make('table');
  const head = table.createTHead().insertRow();
  head.append(make('th', 'field', {scope: 'col'}), ...runs.map((i) => make('th', state.runs[i].name, {scope: 'col'})));
  const body = table.createTBody();
  for (const row of rows) {
    if (!words.every((w) => row.path.toLowerCase().includes(w))) continue;
    const line = body.insertRow();
    line.append(make('th', row.path, {scope: 'row'}));
    runs.forEach((i) => line.append(make('td', row.values[i] || '(not set)')));
  }
  $('config-table').replaceChildren(body.rows.length > 0 ? table : make('p', 'The configs do not differ.', {class: 'note'}));
}

function fillLogChoices() {
  const fill = (select, names) => {
    if (JSON.stringify([...select.options].map((o) => o.textContent)) === JSON.stringify(names)) return;
    const old = select.value;
    select.replaceChildren(...names.map((name, i) => make('option', name, {value: select.id === 'log-run' ? i : name})));
    if ([...select.options].some((o) => o.value === old)) select.value = old;
  };
  fill($('log-run'), state.runs.map((run) => run.name));
  // Logs for people first.
  fill($('log-name'), [...state.runs[$('log-run').value]?.logs ?? []].sort((a, b) => a.endsWith('.jsonl') - b.endsWith('.jsonl')));
}

async function drawLog() {
  fillLogChoices();
  const query = new URLSearchParams({run: $('log-run').value, log: $('log-name').value, filter: $('log-filter').value});
  const reply = await fetch(`api/log?${query}`);
  const box = $('log-text');
  const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 20;
  const text = await reply.text();
  if (text === box.textContent) return;
  box.textContent = text || 'No line has all these words.';
  if (atEnd) box.scrollTop = box.scrollHeight;
}

// -- The whole page -----------------------------------------------------------------------------

function drawView(force) {
  const draw = {curves: () => { listCards(); refreshCards(force); }, stages: drawStages, videos: drawVideos, configs: drawConfigs, logs: drawLog, workers: drawWorkers, histograms: drawHistograms};
  Promise.resolve(draw[view]()).catch(() => {});
}

function drawAll() {
  drawRuns();
  drawView(true);
}

function show(name) {
  view = name;
  for (const other of VIEWS) {
    $(other).hidden = other !== name;
    $(`tab-${other}`).setAttribute('aria-selected', other === name);
  }
  drawView(true);
}

function setTheme(name) {
  theme = name;
  document.documentElement.dataset.theme = name;
  drawAll();
}

async function update() {
  const reply = await fetch('api/state');
  if (!reply.ok) return;
  state = await reply.json();
  drawRuns();
  drawView(false);
}

function connect() {
  const events = new EventSource('api/events');
  events.onopen = () => {
    $('connection').textContent = 'live';
    $('connection').classList.remove('lost');
  };
  events.onmessage = () => update().catch(() => {});
  events.onerror = () => {
    $('connection').textContent = 'not connected';
    $('connection').classList.add('lost');
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
  };
}

function smoothBy(factor) {
  const now = Number($('smooth').value) || 1;
  $('smooth').value = Math.min(10000, Math.max(1, factor > 1 ? Math.ceil(now * factor + 1) : Math.floor(now * factor)));
  refreshCards(true);
}

function turnX() {
  $('x-axis').selectedIndex = ($('x-axis').selectedIndex + 1) % $('x-axis').options.length;
  $('x-axis').onchange();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== 'checkbox') {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  const filter = {curves: 'metric-filter', configs: 'config-filter', logs: 'log-filter'}[view];
  const card = cards.get(event.target.closest?.('.card')?.dataset.metric);
  const keys = {
    '/': () => filter && $(filter).focus(),
    '?': () => $('help').showModal(),
    'j': () => focusCard(1),
    'k': () => focusCard(-1),
    'x': turnX,
    '+': () => smoothBy(2),
    '-': () => smoothBy(0.5),
    'l': () => $('log-scale').click(),
    'g': () => $('group').click(),
    'r': () => card?.zoom(null),
    't': () => $('theme').click(),
  };
  if (event.key === 'Enter' && card && event.target === card.element) {
    card.enlarge();
  } else if (/^[1-7]$/.test(event.key)) {
    show(VIEWS[event.key - 1]);
  } else if (keys[event.key]) {
    keys[event.key]();
  } else {
    return;
  }
  event.preventDefault();
}

for (const button of document.querySelectorAll('[data-view]')) button.onclick = () => show(button.dataset.view);
for (const form of document.forms) {
  if (form.method !== 'dialog') form.onsubmit = () => false;
}
$('metric-filter').oninput = later(() => drawView(false), 100);
$('x-axis').onchange = () => {
  for (const card of cards.values()) card.range = null;
  drawView(true);
};
$('smooth').oninput = later(() => refreshCards(true), 150);
$('log-scale').onchange = () => refreshCards(true);
$('group').onchange = drawAll;
$('config-filter').oninput = later(() => drawView(true), 100);
$('config-all').onchange = () => drawView(true);
$('log-run').onchange = () => drawView(true);
$('log-name').onchange = () => drawView(true);
$('log-filter').oninput = later(() => drawView(true), 150);
$('all-runs').onclick = () => { hidden.clear(); drawAll(); };
$('no-runs').onclick = () => { state.runs.forEach((_, i) => hidden.add(i)); drawAll(); };
$('theme').onclick = () => setTheme(theme === 'dark' ? 'light' : 'dark');
$('help-open').onclick = () => $('help').showModal();
document.addEventListener('keydown', onKey);
if (innerWidth <= 700) $('runs-box').open = false;
setTheme(theme);
show('curves');
connect();
