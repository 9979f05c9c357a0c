// The view "Histograms" of the page of tools/watch: how values are distributed, over steps. watch.js, which comes after it, has what
// both use.
'use strict';

const HISTOGRAM_PERIOD = 5000;  // milliseconds
const MAX_HISTOGRAMS = 24;
let histogramsOf = '';  // what is drawn, and when
let histogramsAt = 0;

// The value below which a share of a histogram's values is.
function quantile({edges, counts}, share) {
  let left = share * counts.reduce((sum, n) => sum + n, 0);
  for (let i = 0; i < counts.length; i++) {
    if (counts[i] > 0 && left <= counts[i]) return edges[i] + (edges[i + 1] - edges[i]) * left / counts[i];
    left -= counts[i];
  }
  return edges[edges.length - 1];
}

function drawHistogram(canvas, histograms, low, high) {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth * ratio, canvas.clientHeight * ratio];
  Object.assign(canvas, {width, height});
  const paint = canvas.getContext('2d');
  const [first, last] = [histograms[0].step, histograms[histograms.length - 1].step];
  const place = (i) => (i >= histograms.length ? width : last === first ? i * width : (histograms[i].step - first) / (last - first) * width * (1 - 1 / histograms.length));
  const y = (value) => height * (high - value) / (high - low);
  paint.fillStyle = PALETTES[theme][0];
  histograms.forEach(({edges, counts}, i) => {
    const most = Math.max(...counts);
    counts.forEach((count, k) => {
      if (count === 0) return;
      paint.globalAlpha = 0.1 + 0.9 * Math.sqrt(count / most);
      const [top, bottom] = [y(edges[k + 1]), y(edges[k])];
      paint.fillRect(place(i), top, Math.max(1, place(i + 1) - place(i)), Math.max(1, bottom - top));
    });
  });
  paint.globalAlpha = 1;
  paint.strokeStyle = PALETTES[theme][4];
  paint.lineWidth = 1.5 * ratio;
  paint.beginPath();
  histograms.forEach((h, i) => paint.lineTo((place(i) + place(i + 1)) / 2, y(quantile(h, 0.5))));
  paint.stroke();
}

function histogramCard(run, tag, histograms) {
  // The range of nearly all values: one that is far away must not hide the others.
  const low = Math.min(...histograms.map((h) => quantile(h, 0.01)));
  let high = Math.max(...histograms.map((h) => quantile(h, 0.99)));
  if (high <= low) high = low + 1;
  const last = histograms[histograms.length - 1];
  const [few, mid, most] = [0.05, 0.5, 0.95].map((share) => short(quantile(last, share)));
  const text = `Step ${short(histograms[0].step)} to ${short(last.step)}, values ${short(low)} to ${short(high)}. The last: median ${mid} (the line), 90 % from ${few} to ${most}.`;
  const card = make('article', undefined, {class: 'card', tabindex: 0, 'aria-label': tag});
  const canvas = make('canvas', undefined, {class: 'plot', role: 'img', 'aria-label': text});
  card.append(make('h2', `${state.runs[run].name}: ${tag}`), canvas, make('p', text, {class: 'readout'}));
  return [card, () => drawHistogram(canvas, histograms, low, high)];
}

async function drawHistograms() {
  const wanted = JSON.stringify([shownRuns(), theme]);
  if (wanted === histogramsOf && Date.now() < histogramsAt + HISTOGRAM_PERIOD) return;
  [histogramsOf, histogramsAt] = [wanted, Date.now()];
  const cards = [];
  const notes = [];
  for (const run of shownRuns()) {
    let reply;
    do {  // Large files are read in pieces.
      reply = await (await fetch(`api/histograms?run=${run}`)).json();
    } while (reply.more);
    if (reply.damage) notes.push(make('p', reply.damage, {class: 'damage'}));
    for (const tag of reply.tags) {
      if (cards.length === MAX_HISTOGRAMS) break;
      const {histograms} = await (await fetch(`api/histograms?${new URLSearchParams({run, tag})}`)).json();
      cards.push(histogramCard(run, tag, histograms));
    }
  }
  if (cards.length === 0) notes.push(make('p', 'These runs have no histograms. DQN and R2D2 write some, and so can a learner of your own.', {class: 'note'}));
  const grid = make('div', undefined, {class: 'cards'});
  grid.append(...cards.map(([card]) => card));
  $('histograms').replaceChildren(...notes, grid);
  for (const [, draw] of cards) draw();
}
