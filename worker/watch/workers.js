// The view "Workers" of the page of tools/watch: the workers and buffers of parallel runs that live, what has happened to runs on a
// time line, and orders of operators. watch.js, which comes after it, has what both use.
'use strict';

const WORKER_PERIOD = 2000;  // milliseconds
const MAX_WORKER_BOXES = 12;
const MAX_FAULTS = 20;
// The lanes of the time line, from above.
const LANES = ['fault', 'refusal', 'leave', 'join', 'evaluation', 'checkpoint', 'start', 'end'];
const BAD = ['fault', 'refusal'];
const ORDERS = {
  grow: ['Add collectors', 'The run is to have more collectors. They join as soon as they are started.'],
  shrink: ['Remove collectors', 'The run is to have fewer collectors. Idle ones and the newest leave first, each when its task is over.'],
  drain: ['Drain', 'This collector finishes its task, gets no other, and leaves. The run is to have one collector fewer.'],
  stop: ['Stop the run', 'The run ends as when its budget is used up: it saves checkpoints and writes its result.'],
};
let operatorToken = '';  // as long as the page is open

const clockTime = (seconds) => new Date(seconds * 1000).toLocaleTimeString();
const ago = (seconds) => (seconds < 90 ? `${Math.round(seconds)} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${short(seconds / 3600)} h`);

// -- Tables -------------------------------------------------------------------------------------

// Cells are texts, or elements. A column whose name ends in "..." has sentences, which are broken into lines.
function tableOf(label, columns, rows) {
  const table = make('table');
  table.createTHead().insertRow().append(...columns.map((name) => make('th', name.replace('...', ''), {scope: 'col'})));
  const body = table.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((cell, i) => {
      line.append(make('td', undefined, columns[i].endsWith('...') ? {class: 'text'} : {}));
      line.lastChild.append(cell);
    });
  }
  const box = make('div', undefined, {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label});
  box.append(table);
  return box;
}

function troubleOf(worker) {
  const parts = [worker.waits_for];
  if (worker.stalled_seconds !== null) parts.push(`no progress for ${ago(worker.stalled_seconds)}`);
  if (worker.bad_chunks > 0) parts.push(`${worker.bad_chunks} bad chunks`);
  if (worker.draining) parts.push('leaves after its task');
  return parts.filter(Boolean).join(', ');
}

// Of `lease` seconds; null: it is not known.
function leaseLeft(left, lease) {
  if (left === null) return '';
  const cell = make('span');
  if (lease !== null) cell.append(make('meter', undefined, {max: lease, low: lease / 3, value: left, 'aria-label': 'what is left of its lease'}));
  cell.append(`${left.toFixed(1)} s`);
  return cell;
}

function workerTable(run, status, lease) {
  const row = (worker, member) => [
    member ? `– ${worker.name}` : worker.name, worker.role, worker.evaluates ? `${worker.task}, evaluates` : worker.task ?? '',
    `${short(worker.steps_per_second)}/s`, worker.staleness === null ? '' : short(worker.staleness),
    leaseLeft(worker.lease_seconds_left, lease), ago(worker.alive_seconds),
    ...(state.orders ? [worker.role === 'collector' && !worker.draining ? orderButton(run, 'drain', worker.name) : ''] : []),
    troubleOf(worker),
  ];
  const order = (a, b) => -a.role.localeCompare(b.role) || a.name.localeCompare(b.name, undefined, {numeric: true});
  const columns = ['worker', 'role', 'task', 'rate', 'behind', 'lease left', 'alive', ...(state.orders ? [''] : []), 'waits for...'];
  const rows = status.workers.sort(order).flatMap((worker) => [row(worker, false), ...worker.members.map((member) => row(member, true))]);
  const note = 'Rate: env steps, or train iterations. Behind: train iterations, of a collector\'s policy or of a learner\'s rows.';
  const box = make('div');
  box.append(tableOf('Workers', columns, rows), make('p', note, {class: 'note'}));
  return box;
}

function bufferTable(reply) {
  const rows = reply.status.buffers.map((buffer) => {
    const fill = make('span');
    if (reply.capacity !== null && reply.status.buffers.length === 1) {
      fill.append(make('meter', undefined, {max: reply.capacity, value: buffer.rows, 'aria-label': 'how full it is'}), `${short(buffer.rows)} of ${short(reply.capacity)}`);
    } else {
      fill.append(short(buffer.rows));
    }
    const lost = [[buffer.too_old, 'too old'], [buffer.lost, 'lost'], [buffer.bad_chunks, 'bad chunks']].filter(([count]) => count > 0);
    return [
      buffer.buffer, fill, short(buffer.pushed), short(buffer.drawn), buffer.pushed > 0 ? short(buffer.drawn / buffer.pushed) : '', short(buffer.replay_ratio),
      short(buffer.staleness), lost.map(([count, what]) => `${short(count)} ${what}`).join(', '),
    ];
  });
  return tableOf('Buffers', ['buffer', 'rows', 'pushed', 'drawn', 'drawn/pushed', 'replay ratio', 'iterations old', 'not used'], rows);
}

// -- The time line ------------------------------------------------------------------------------

async function eventsOf(run, filter) {
  if (!state.runs[run].logs.includes('events.jsonl')) return [];
  const text = await (await fetch(`api/log?${new URLSearchParams({run, log: 'events.jsonl', filter})}`)).text();
  return text.split('\n').flatMap((line) => {
    try {
      const event = JSON.parse(line);
      return LANES.includes(event.event) && Number.isFinite(event.time) ? [event] : [];
    } catch {
      return [];  // the line is not whole yet
    }
  });
}

function timeLine(events, ended) {
  const from = events[0].time;
  const to = Math.max(ended ? events[events.length - 1].time : Date.now() / 1000, from + 1);
  const box = make('div');
  const addLane = (name, content) => {
    box.append(make('div', undefined, {class: 'lane'}));
    box.lastChild.append(make('span', name), content);
  };
  for (const lane of LANES) {
    const here = events.filter((event) => event.event === lane);
    if (here.length === 0 && lane !== 'fault') continue;
    const marks = here.map((event) => makeSvg(
        'circle', {cx: `${(100 * (event.time - from) / (to - from)).toFixed(2)}%`, cy: '50%', r: 4, class: BAD.includes(lane) ? 'bad' : 'good'},
        makeSvg('title', {}, `${clockTime(event.time)} ${event.text}`)));
    addLane(`${lane} ${here.length}`, makeSvg('svg', {role: 'img', 'aria-label': `${lane}: ${here.length} on the time line`}, ...marks));
  }
  const times = make('div', undefined, {class: 'times'});
  times.append(make('span', new Date(from * 1000).toLocaleString()), make('span', ended ? clockTime(to) : 'now'));
  addLane('', times);
  const faults = events.filter((event) => BAD.includes(event.event)).slice(-MAX_FAULTS).reverse();
  if (faults.length > 0) {
    box.append(tableOf('Faults, the newest first', ['time', 'event', 'env step', 'who...', 'what...'],
                       faults.map((e) => [clockTime(e.time), e.event, short(e.env_step), e.name ?? '', e.text ?? ''])));
  }
  return box;
}

// -- Orders -------------------------------------------------------------------------------------

function orderButton(run, order, argument) {
  const button = make('button', ORDERS[order][0], {type: 'button', 'data-order': `${run} ${order} ${argument ?? ''}`});
  button.onclick = () => confirmOrder(run, order, argument);
  return button;
}

function confirmOrder(run, order, argument) {
  const counts = order === 'grow' || order === 'shrink';
  const {name, folder} = state.runs[run];
  $('order-title').textContent = `${ORDERS[order][0]}: ${argument ?? name}`;
  $('order-text').textContent = ORDERS[order][1];
  $('order-confirm').textContent = ORDERS[order][0];
  $('order-count').hidden = !counts;
  $('order-token').value = operatorToken;
  $('order-answer').textContent = '';
  $('order-form').onsubmit = (event) => {
    event.preventDefault();
    sendOrder(name, folder, order, counts ? $('order-number').value : argument).catch((error) => { $('order-answer').textContent = String(error); });
  };
  $('order-cancel').onclick = () => $('order').close();
  $('order').showModal();
  $(operatorToken ? 'order-cancel' : 'order-token').focus();
}

async function sendOrder(name, folder, order, argument) {
  const query = new URLSearchParams({folder, order});
  if (argument !== undefined) query.set('argument', argument);
  $('order-confirm').disabled = true;
  try {
    const headers = {Authorization: `Bearer ${$('order-token').value}`};
    const reply = await fetch(`api/order?${query}`, {method: 'POST', headers});
    const answer = reply.ok ? await reply.json() : {done: false, answer: await reply.text()};
    operatorToken = reply.status === 403 ? '' : $('order-token').value;
    if (!answer.done) {
      $('order-answer').textContent = answer.answer;
      return;
    }
    $('order-note').textContent = `${clockTime(Date.now() / 1000)} ${name}: ${answer.answer}`;
    $('order').close();
    drawWorkers();
  } finally {
    $('order-confirm').disabled = false;
  }
}

// -- The view -----------------------------------------------------------------------------------

async function workerBox(i) {
  const run = state.runs[i];
  // Faults by themselves, too: there may be thousands of other events after them.
  const [reply, all, faults] = await Promise.all([fetch(`api/workers?run=${i}`).then((r) => r.json()), eventsOf(i, ''), eventsOf(i, '"event":"fault"')]);
  const events = [...all.filter((event) => event.event !== 'fault'), ...faults].sort((a, b) => a.time - b.time);
  const box = make('div', undefined, {class: 'stage workers'});
  box.append(make('h2', run.name));
  const status = reply.status;
  if (reply.error) box.append(make('p', `It does not answer: ${reply.error}`, {class: 'damage'}));
  if (status) {
    const parts = [`env step ${short(status.env_step)}`, `train iteration ${short(status.train_iter)}`, `${status.workers.length} workers`, `${status.workers_lost} lost`];
    if (status.wanted_collectors !== null) parts.push(`${status.wanted_collectors} collectors wanted`);
    if (reply.lease_seconds !== null) parts.push(`a worker that is silent for ${short(reply.lease_seconds)} s (its lease) is lost`);
    if (reply.age > 5) parts.push(`as it was ${ago(reply.age)} ago`);
    box.append(make('p', parts.join(', '), {class: 'note'}));
    const orders = make('div', undefined, {class: 'orders'});
    if (state.orders) orders.append(...['grow', 'shrink', 'stop'].map((order) => orderButton(i, order)));
    box.append(orders, workerTable(i, status, reply.lease_seconds), make('h3', 'Buffers'), bufferTable(reply));
    for (const warning of status.warnings) box.append(make('p', warning, {class: 'damage'}));
  } else if (!reply.error) {
    const why = status === null ? 'It is being asked.' : run.ended ? run.state : 'It is no parallel run that can be asked.';
    box.append(make('p', why, {class: 'note'}));
  }
  if (events.length > 0) box.append(make('h3', 'What happened'), timeLine(events, run.ended));
  return box;
}

let workersBusy = false;
async function drawWorkers() {
  if (workersBusy) return;
  workersBusy = true;
  try {
    const runs = shownRuns();
    const boxes = await Promise.all(runs.slice(0, MAX_WORKER_BOXES).map(workerBox));
    if (runs.length > MAX_WORKER_BOXES) boxes.push(make('p', `${runs.length - MAX_WORKER_BOXES} runs more: hide some to see them.`, {class: 'note'}));
    const tables = () => [...document.querySelectorAll('#worker-boxes .scroll')];
    const [focused, scrolled] = [document.activeElement?.dataset.order, tables().map((table) => table.scrollLeft)];
    $('worker-boxes').replaceChildren(...boxes);
    tables().forEach((table, i) => { table.scrollLeft = scrolled[i] ?? 0; });
    if (focused !== undefined) document.querySelector(`[data-order="${CSS.escape(focused)}"]`)?.focus();
  } finally {
    workersBusy = false;
  }
}

setInterval(() => {
  if (view === 'workers' && !document.hidden) drawWorkers().catch(() => {});
}, WORKER_PERIOD);
