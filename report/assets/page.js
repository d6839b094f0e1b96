'use strict';
// Interactive parts of the page: the picture of a run and the table of events with a search field. The picture has lanes, such as the time lines of
// the ranks or a curve over time, with a common time axis, zoom and cursor.
(() => {
  const tip = document.getElementById('tip');
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
  // Kinds of activity of a rank. The time line of a rank is divided into bins, each with one byte per kind. The rest of a bin is waiting time.
  const KINDS = ['computes', 'no core', 'set-up', 'messages', 'not known', 'parked'];
  // Heights in pixels of the time axis, the row of decisions, the title of a lane, a lane of curves, a row of planned tasks, and the space between
  // lanes.
  const AXIS = 20, MARKS = 18, TITLE = 20, CURVE = 66, PLAN = 7, GAP = 6;
  const DASHES = [[], [7, 3], [2, 2], [9, 3, 2, 3], [12, 4], [4, 2], [1, 3], [6, 2, 1, 2]];

  // Formats a number with three significant digits and a prefix of its unit.
  function numberText(x, unit = '') {
    const size = Math.abs(x);
    if (unit === 'MiB' && size > 0 && size < 1) return numberText(x * 1024, 'KiB');
    if (unit === 'MiB' && size >= 1024) return numberText(x / 1024, 'GiB');
    const [factor, prefix] = size >= 1e9 ? [1e-9, 'G'] : size >= 1e6 ? [1e-6, 'M'] : size >= 1e4 ? [1e-3, 'k'] : size === 0 || size >= 0.1 ? [1, ''] : size >= 1e-4 ? [1e3, 'm'] : [1e6, 'µ'];
    return String(Number((x * factor).toPrecision(3))) + (prefix || unit ? ' ' + prefix + unit : '');
  }

  // Formats seconds as a length of time, such as `2 min 5 s`, in the form that the tables of the page have.
  function timeText(s) {
    const two = (small, per, large, name) => { const n = Math.round(s / small); return Math.floor(n / per) + ' ' + large + ' ' + n % per + ' ' + name; };
    if (s >= 172800) return two(3600, 24, 'd', 'h');
    if (s >= 7200) return two(60, 60, 'h', 'min');
    if (s >= 120) return two(1, 60, 'min', 's');
    return s >= 1 ? Number(s.toPrecision(4)) + ' s' : s >= 1e-3 ? Number((s * 1e3).toPrecision(4)) + ' ms' : Number((s * 1e6).toPrecision(3)) + ' µs';
  }

  // Returns the distance of marks on a time axis, the unit of their labels, and a function that formats a label.
  function axis(from, to, width) {
    const least = (to - from) / Math.max(2, width / 90), long = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000];
    const power = Math.pow(10, Math.floor(Math.log10(least)));
    let step = [1, 2, 5, 10].map((n) => n * power).find((s) => s >= least * 0.999);
    if (step > 30) step = long.find((s) => s >= least) || step;
    if (step > 10 && step < 60) step = 30;
    const [unit, factor] = to < 1e-3 ? ['µs', 1e6] : to < 1 ? ['ms', 1e3] : ['s', 1];
    const places = (size) => Math.max(0, -Math.floor(Math.log10(size * 1.0001)));
    if (to < 120) return [step, unit, (at) => (at * factor).toFixed(places(step * factor))];
    const two = (n, digits) => n.toFixed(digits).padStart(digits ? 3 + digits : 2, '0');
    const digits = places(step), seconds = step % 60 !== 0;
    return [step, to < 3600 ? 'min:s' : seconds ? 'h:min:s' : 'h:min', (at) => {
      const whole = Math.round(at / step) * step, hours = Math.floor(whole / 3600 + 1e-9), minutes = Math.floor((whole - 3600 * hours) / 60 + 1e-9);
      const rest = two(Math.max(0, whole - 3600 * hours - 60 * minutes), digits);
      if (to < 3600) return minutes + ':' + rest;
      return hours + ':' + two(minutes, 0) + (seconds ? ':' + rest : '');
    }];
  }

  // Returns a repeated pattern for the area of a kind of activity. Patterns distinguish the kinds without colours.
  function pattern(context, name, draw) {
    const tile = document.createElement('canvas');
    tile.width = tile.height = 6;
    const c = tile.getContext('2d');
    c.fillStyle = colour('page');
    c.fillRect(0, 0, 6, 6);
    c.strokeStyle = c.fillStyle = colour(name);
    c.lineWidth = 1.6;
    draw(c);
    return context.createPattern(tile, 'repeat');
  }
  const slanted = (t) => { t.beginPath(); t.moveTo(-1, 7); t.lineTo(7, -1); t.moveTo(-4, 4); t.lineTo(4, -4); t.moveTo(2, 10); t.lineTo(10, 2); t.stroke(); };

  // Mixes the colour `name` of the style sheet, with the fraction `part`, and the colour of the page.
  function mixed(name, part) {
    const parts = (hex) => [1, 3, 5].map((n) => parseInt(hex.slice(n, n + 2), 16));
    const a = parts(colour(name)), b = parts(colour('page'));
    return 'rgb(' + a.map((x, n) => Math.round(part * x + (1 - part) * b[n])).join(',') + ')';
  }

  // Converts the data of a lane into arrays of times in seconds.
  function decode(lane, step) {
    if (lane.kind === 'activity') {
      for (const row of lane.rows) row.bytes = Uint8Array.from(atob(row.cells), (c) => c.charCodeAt(0));
    } else if (lane.kind === 'boxes') {
      for (const row of lane.rows) {
        let at = 0;
        row.items = [];
        for (let n = 0; n < row.boxes.length; n += 5) {
          at += row.boxes[n];
          row.items.push({ begin: at * step, end: (at + row.boxes[n + 1]) * step, text: lane.texts[row.boxes[n + 2]], about: lane.texts[row.boxes[n + 3]] || '', look: row.boxes[n + 4] });
        }
      }
    } else {
      for (const curve of lane.curves) {
        let at = 0;
        curve.at = []; curve.value = []; curve.end = lane.end * step;
        for (let n = 0; n < curve.points.length; n += 2) { at += curve.points[n]; curve.at.push(at * step); curve.value.push(curve.points[n + 1]); }
      }
    }
    return lane;
  }

  // Returns the value of a curve at a time, or undefined outside of it.
  function valueAt(curve, time) {
    let low = 0, high = curve.at.length;
    while (low < high) { const middle = (low + high) >> 1; if (curve.at[middle] <= time) low = middle + 1; else high = middle; }
    if (low === 0) return undefined;
    if (low === curve.at.length && !(curve.stepped && time <= curve.end)) return undefined;
    if (curve.stepped) return curve.value[low - 1];
    const part = (time - curve.at[low - 1]) / (curve.at[low] - curve.at[low - 1] || 1);
    return curve.value[low - 1] + part * (curve.value[low] - curve.value[low - 1]);
  }

  // Returns the mean share of each kind of activity between two times, for a row (a rank or a group of ranks) of the lane `lane`.
  function shares(lane, row, begin, end) {
    const sum = Array(KINDS.length).fill(0), first = begin / lane.width, last = end / lane.width;
    let weight = 0;
    for (let bin = Math.max(0, Math.floor(first)); bin < last && bin < lane.bins; bin++) {
      const part = Math.min(last, bin + 1) - Math.max(first, bin);
      for (let k = 0; k < KINDS.length; k++) sum[k] += part * row.bytes[KINDS.length * bin + k] / 255;
      weight += part;
    }
    return sum.map((x) => weight > 0 ? x / weight : 0);
  }

  function picture(section, data, number) {
    const box = section.querySelector('.picture');
    if (!box) return;
    if (!data.lanes.length) { box.hidden = true; return; }
    const base = box.querySelector('canvas.time-line'), over = box.querySelector('canvas.cursor');
    const whole = data.seconds > 0 ? data.seconds : 1, lanes = data.lanes.map((lane) => decode(lane, data.step));
    const opened = new Set(), saved = 'armature-zoom-' + number;
    let from = 0, to = whole, drag = null, cursor = null, rows = [], height = 0, left = 132, wide = 0;

    // Places the rows of all lanes below each other.
    function layout() {
      wide = Math.max(280, box.clientWidth);
      left = wide < 620 ? 100 : 136;
      rows = [];
      let y = AXIS;
      const add = (kind, high, more) => { rows.push(Object.assign({ kind, y, high }, more)); y += high; };
      if (data.marks.length) add('marks', MARKS, {});
      for (const lane of lanes) {
        const isOneRow = lane.kind === 'boxes' && lane.rows.length === 1;
        if (!isOneRow) add('title', TITLE, { lane });
        if (lane.kind === 'activity') {
          const some = lane.rows.map((row, place) => ({ row, place })).filter(({ row }) => row.group === undefined || opened.has(lane.rows[row.group]));
          const high = some.length <= 16 ? 20 : some.length <= 40 ? 15 : 13;
          for (const { row } of some) add('activity', high, { lane, row });
        } else if (lane.kind === 'boxes') {
          const high = lane.rows.length > 24 ? 14 : 19;
          for (const row of lane.rows) add('boxes', row.plan ? PLAN : high, { lane, row });
        } else add('curves', CURVE, { lane });
        y += GAP;
      }
      height = y;
    }
    const xOf = (time) => left + (time - from) / (to - from) * (wide - left - 8);
    const timeAt = (x) => from + (to - from) * Math.min(1, Math.max(0, (x - left) / (wide - left - 8)));

    function prepared(canvas) {
      const scale = window.devicePixelRatio || 1;
      canvas.width = wide * scale;
      canvas.height = height * scale;
      canvas.style.height = height + 'px';
      const c = canvas.getContext('2d');
      c.scale(scale, scale);
      c.textBaseline = 'middle';
      return c;
    }

    function draw() {
      layout();
      const c = prepared(base), labels = base.labels = [], end = wide - 8;
      c.fillStyle = colour('page');
      c.fillRect(0, 0, wide, height);
      // Writes a label, shortened to `most` pixels. A label that would touch another one is left out. Returns its width.
      function label(text, x, y, { align = 'left', ink = 'text', most = wide, size = 12, bold = false, inside = false } = {}) {
        c.font = (bold ? '600 ' : '') + size + 'px system-ui, sans-serif';
        let shown = text, width = c.measureText(shown).width;
        while (width > most && shown.length > 1) {
          const keep = Math.max(0, Math.min(shown.length - 2, Math.floor(shown.length * most / width)));
          shown = shown.slice(0, keep) + '…';
          width = c.measureText(shown).width;
        }
        if (width > most || shown === '…' || !shown) return 0;
        const x0 = align === 'right' ? x - width : align === 'center' ? x - width / 2 : x, one = { text: shown, x0, x1: x0 + width, y0: y - size / 2, y1: y + size / 2 };
        if (x0 < 0 || one.x1 > wide || !inside && labels.some((l) => l.x0 < one.x1 + 3 && one.x0 < l.x1 + 3 && l.y0 < one.y1 && one.y0 < l.y1)) return 0;
        labels.push(one);
        c.fillStyle = colour(ink);
        c.fillText(shown, x0, y);
        return width;
      }
      const [step, unit, tickText] = axis(from, to, end - left);
      label(unit, left - 6, AXIS / 2, { align: 'right', ink: 'soft', size: 11 });
      base.ticks = [];
      for (let n = Math.ceil(from / step - 1e-6); n * step <= to + step * 1e-6; n++) {
        const x = xOf(n * step);
        base.ticks.push(x);
        c.fillStyle = mixed('edge', 0.6);
        c.fillRect(x - 0.25, AXIS, 0.5, height - AXIS);
        label(tickText(n * step), Math.min(x, end - 4), AXIS / 2, { align: x > end - 20 ? 'right' : 'center', ink: 'soft', size: 11 });
      }
      const kinds = [
        colour('useful'),
        pattern(c, 'lost', (t) => { t.fillRect(0, 0, 2, 6); t.fillRect(3, 0, 2, 6); }),
        pattern(c, 'set-up', (t) => { t.fillRect(0, 0, 6, 2); t.fillRect(0, 3, 6, 2); }),
        pattern(c, 'other', slanted),
        pattern(c, 'unknown', (t) => { t.lineWidth = 0.8; t.beginPath(); t.moveTo(-1, -1); t.lineTo(7, 7); t.stroke(); }),
        pattern(c, 'parked', (t) => { t.fillRect(1, 1, 2, 2); t.fillRect(4, 4, 2, 2); }),
      ];
      const waits = pattern(c, 'edge', slanted), tints = [0, 1, 2, 3, 4, 5, 6, 7].map((n) => mixed('l' + n, 0.33)), plain = [mixed('useful', 0.28), mixed('useful', 0.12)];
      const swatch = (x, y, style) => { c.fillStyle = style; c.fillRect(x, y - 5, 14, 10); c.strokeStyle = colour('soft'); c.lineWidth = 0.5; c.strokeRect(x, y - 5, 14, 10); };

      function drawTitle({ lane, y, high }) {
        const middle = y + high / 2 + 1;
        let x = 4 + label(lane.title, 4, middle, { bold: true }) + 14;
        const entries = lane.kind === 'boxes' ? lane.legend.map(([name, n]) => [name, n]) : lane.kind === 'curves' && lane.curves.length > 1 ? lane.curves.map((curve, n) => [curve.name, n]) : [];
        for (const [name, n] of entries) {
          const width = label(name, x + 20, middle, { most: Math.min(160, end - x - 24) });
          if (!width) break;
          if (lane.kind === 'boxes') swatch(x, middle, tints[n]);
          else { c.strokeStyle = colour('l' + n % 8); c.setLineDash(DASHES[n % 8]); c.lineWidth = 1.8; c.beginPath(); c.moveTo(x, middle); c.lineTo(x + 16, middle); c.stroke(); c.setLineDash([]); }
          x += width + 34;
        }
      }

      function drawActivity({ lane, row, y, high }) {
        const isGroup = row.ranks > 1, sign = isGroup ? (opened.has(row) ? '▾ ' : '▸ ') : row.group === undefined ? '' : '  ';
        const used = label(row.useful + ' %', left - 6, y + high / 2, { align: 'right', ink: 'soft', size: 11 });
        label(sign + row.name, 4, y + high / 2, { most: left - 18 - used });
        // Each kind of activity is drawn as one area between its edge and the edge of the kind below, because drawing many small boxes would take
        // seconds.
        const columns = Math.floor(end - left), span = (to - from) / columns, edges = Array.from({ length: KINDS.length + 1 }, () => new Float32Array(columns));
        for (let x = 0; x < columns; x++) {
          const parts = shares(lane, row, from + x * span, from + (x + 1) * span);
          for (let k = 0; k < KINDS.length; k++) edges[k + 1][x] = edges[k][x] + parts[k] * (high - 3);
        }
        const floor = y + high - 1;
        for (let k = 0; k < KINDS.length; k++) {
          if (!edges[k + 1].some((edge, x) => edge - edges[k][x] > 0.05)) continue;
          c.beginPath();
          c.moveTo(left, floor - edges[k][0]);
          for (let x = 0; x < columns; x++) { c.lineTo(left + x, floor - edges[k + 1][x]); c.lineTo(left + x + 1, floor - edges[k + 1][x]); }
          for (let x = columns - 1; x >= 0; x--) { c.lineTo(left + x + 1, floor - edges[k][x]); c.lineTo(left + x, floor - edges[k][x]); }
          c.fillStyle = kinds[k];
          c.fill();
        }
        c.fillStyle = colour('edge');
        c.fillRect(left, floor, end - left, 0.5);
      }

      function drawBoxes({ lane, row, y, high }) {
        if (lane.rows.length === 1) label(lane.title, 4, y + high / 2, { bold: true, most: left - 12 });
        else if (!row.plan && row.name) label(row.name, 4, y + high / 2, { most: left - 12 });
        let filled = -1, style = null;
        for (const item of row.items) {
          if (item.end < from || item.begin > to) continue;
          const x0 = Math.max(left, xOf(item.begin)), x1 = Math.min(end, Math.max(xOf(item.end), x0 + 0.6)), look = item.look;
          const paint = look === -4 ? waits : look === -3 ? colour('page') : look < 0 ? plain[-1 - look] : tints[look % 10];
          if (x1 <= filled + 0.4 && paint === style) continue;
          filled = x1;
          style = paint;
          c.fillStyle = paint;
          // A box wider than three pixels leaves a gap of one pixel before the next box.
          c.fillRect(x0, y + 1, x1 - x0 - (x1 - x0 > 3 ? 1 : 0), high - 2);
          if (look === -3 || look >= 10) {
            c.strokeStyle = colour(look === -3 ? 'l4' : 'text');
            c.lineWidth = 1.6;
            c.setLineDash(look === -3 ? [4, 2] : []);
            c.strokeRect(x0 + 0.5, y + 1.5, Math.max(0.1, x1 - x0 - 1), high - 3);
            c.setLineDash([]);
          }
          if (!row.plan && x1 - x0 > 18) label(item.text, x0 + 4, y + high / 2, { most: x1 - x0 - 8, size: 11, inside: true });
        }
      }

      function drawCurves({ lane, y, high }) {
        const floor = y + high - 4, scale = (high - 10) / (lane.top || 1), yOf = (value) => floor - Math.min(value, lane.top) * scale;
        label(numberText(lane.top, lane.unit), left - 6, y + 10, { align: 'right', ink: 'soft', size: 11 });
        label('0', left - 6, floor - 5, { align: 'right', ink: 'soft', size: 11 });
        c.fillStyle = colour('edge');
        c.fillRect(left, floor, end - left, 0.7);
        c.save();
        c.beginPath();
        c.rect(left, y, end - left, high);
        c.clip();
        lane.curves.forEach((curve, n) => {
          c.strokeStyle = colour('l' + n % 8);
          c.setLineDash(DASHES[n % 8]);
          c.lineWidth = 1.5;
          c.beginPath();
          curve.at.forEach((at, m) => {
            const x = xOf(at), py = yOf(curve.value[m]);
            if (m === 0) c.moveTo(x, py);
            else { if (curve.stepped) c.lineTo(x, yOf(curve.value[m - 1])); c.lineTo(x, py); }
          });
          if (curve.stepped && curve.at.length) c.lineTo(xOf(lane.end * data.step), yOf(curve.value[curve.value.length - 1]));
          c.stroke();
          c.setLineDash([]);
        });
        c.restore();
        // If curves leave the lane at its top, their greatest value is written at its time.
        let most = null;
        for (const curve of lane.curves) curve.at.forEach((at, m) => { if (curve.value[m] > lane.top && at >= from && at <= to && (!most || curve.value[m] > most[1])) most = [at, curve.value[m]]; });
        if (most) label('▲ ' + numberText(most[1], lane.unit), Math.min(xOf(most[0]), end - 70), y + 6, { size: 11 });
      }

      function drawMarks({ y, high }) {
        label('Decisions', 4, y + high / 2, { bold: true, most: left - 10 });
        let before = -9;
        for (const mark of data.marks) {
          if (mark.at < from || mark.at > to) continue;
          const x = xOf(mark.at);
          if (mark.changed) {
            c.strokeStyle = colour('soft');
            c.lineWidth = 0.8;
            c.setLineDash([2, 3]);
            c.beginPath(); c.moveTo(x, y + 4); c.lineTo(x, height); c.stroke();
            c.setLineDash([]);
            c.fillStyle = colour('l4');
            c.beginPath(); c.moveTo(x - 5, y + 3); c.lineTo(x + 5, y + 3); c.lineTo(x, y + 13); c.fill();
          } else if (x - before >= 3) {
            c.fillStyle = colour('soft');
            c.fillRect(x - 1, y + 6, 2, 6);
            before = x;
          }
        }
      }
      const drawers = { title: drawTitle, activity: drawActivity, boxes: drawBoxes, curves: drawCurves, marks: drawMarks };
      rows.forEach((row) => drawers[row.kind](row));
      base.left = left;
      base.rows = rows.map((row) => [row.kind, row.y, row.high]);
      over.dataset.from = from;
      over.dataset.to = to;
      drawCursor();
    }

    function drawCursor() {
      const c = prepared(over);
      c.fillStyle = c.strokeStyle = colour('text');
      if (drag && drag.moved) {
        c.globalAlpha = 0.18;
        c.fillRect(Math.min(drag.x, drag.now), AXIS, Math.abs(drag.now - drag.x), height - AXIS);
        c.globalAlpha = 1;
      }
      if (cursor === null) return;
      const x = xOf(cursor);
      c.lineWidth = 1;
      c.beginPath(); c.moveTo(x, AXIS - 3); c.lineTo(x, height); c.stroke();
      for (const { kind, lane, y, high } of rows) {
        if (kind !== 'curves') continue;
        for (const curve of lane.curves) {
          const value = valueAt(curve, cursor);
          if (value === undefined) continue;
          c.beginPath(); c.arc(x, y + high - 4 - Math.min(value, lane.top) * (high - 10) / (lane.top || 1), 2.5, 0, 7); c.fill();
        }
      }
    }

    // Describes what all lanes show at the time `at`. The row under the pointer comes first.
    function describe(at, row) {
      const span = (to - from) / (wide - left), text = ['at ' + timeText(at)];
      if (row && row.kind === 'activity') {
        const parts = shares(row.lane, row.row, at - span / 2, at + span / 2).map((x) => Math.round(100 * x));
        const here = parts.map((part, k) => part > 0 ? KINDS[k] + ' ' + part + ' %' : '').concat([100 - parts.reduce((a, b) => a + b, 0)].map((idle) => idle > 0 ? 'waits ' + idle + ' %' : '')).filter((x) => x);
        text.push(row.row.about, 'here: ' + here.join(', '));
        // Finds the first recorded call that covers this time, or the last one that ended at most one pixel before.
        const { calls } = row.row, { width, names } = row.lane;
        let best = -1;
        for (let n = 0; n < calls.length; n += 3) {
          const end = (calls[n] + 1) * width, begin = end - calls[n + 2] - width;
          if (begin - span <= at && at <= end + span) { best = n; if (end >= at) break; }
        }
        if (best >= 0) text.push('longest call here: ' + names[calls[best + 1]] + ', ' + timeText(calls[best + 2]));
      }
      const found = (items) => items.find((item) => item.begin - span <= at && at <= item.end + span && (at <= item.end || item.end - item.begin < span));
      if (row && row.kind === 'boxes') {
        const item = found(row.row.items);
        if (item) text.push((row.row.name ? row.row.name + ': ' : '') + item.text + (row.row.plan ? ', planned' : '') + ' from ' + timeText(item.begin) + ' to ' + timeText(item.end) + ', ' + timeText(item.end - item.begin) + (item.about ? '; ' + item.about : ''));
      }
      for (const lane of lanes) {
        if (lane.kind === 'curves') {
          const values = lane.curves.slice(0, 6).map((curve) => { const value = valueAt(curve, at); return value === undefined ? '' : (curve.name ? curve.name + ' ' : '') + numberText(value, lane.unit); }).filter((x) => x);
          if (values.length) text.push(lane.title + ': ' + values.join(', '));
        } else if (lane.kind === 'boxes' && lane.rows.length <= 8) {
          const values = lane.rows.filter((one) => !(row && one === row.row)).map((one) => { const item = found(one.items); return item ? one.name + ' ' + item.text : ''; }).filter((x) => x);
          if (values.length) text.push(lane.title + ': ' + values.join('; '));
        }
      }
      data.marks.filter((mark) => Math.abs(mark.at - at) < 4 * span).slice(0, 3).forEach((mark) => text.push(mark.text));
      return text.join('\n');
    }

    function read(at, row, x, y) {
      cursor = Math.min(to, Math.max(from, at));
      drawCursor();
      tip.textContent = describe(cursor, row);
      tip.hidden = false;
      const beyond = x + 20 + tip.offsetWidth > window.innerWidth;
      tip.style.left = Math.max(4, beyond ? x - 16 - tip.offsetWidth : x + 16) + 'px';
      tip.style.top = Math.max(4, Math.min(window.innerHeight - tip.offsetHeight - 4, y + 14)) + 'px';
    }
    function leave() { cursor = null; tip.hidden = true; drawCursor(); }

    function show(begin, end) {
      const span = Math.min(whole, Math.max(end - begin, whole / 4000));
      from = Math.min(Math.max(0, begin), whole - span);
      to = from + span;
      try { sessionStorage.setItem(saved, from + ' ' + to); } catch { /* Pages without storage forget the zoom when they load again. */ }
      draw();
    }
    const zoom = (by, at = (from + to) / 2) => show(at - (at - from) * by, at + (to - at) * by);
    const shift = (part) => show(from + part * (to - from), to + part * (to - from));
    const place = (event) => { const b = over.getBoundingClientRect(); return [event.clientX - b.left, event.clientY - b.top]; };
    const rowAt = (y) => rows.find((row) => row.y <= y && y < row.y + row.high);

    over.addEventListener('pointerdown', (event) => {
      const [x, y] = place(event);
      if (event.button !== 0) return;
      const row = rowAt(y);
      if (x < left) {
        if (row && row.kind === 'activity' && row.row.ranks > 1) { if (!opened.delete(row.row)) opened.add(row.row); draw(); }
        return;
      }
      drag = { x, now: x, moved: false };
      over.setPointerCapture(event.pointerId);
    });
    over.addEventListener('pointermove', (event) => {
      const [x, y] = place(event);
      if (drag) {
        drag.now = Math.max(left, Math.min(wide - 8, x));
        drag.moved = drag.moved || Math.abs(drag.now - drag.x) > 4;
        drawCursor();
      } else if (x < left) {
        const row = rowAt(y);
        leave();
        if (row && row.kind === 'activity') { tip.textContent = row.row.about; tip.hidden = false; tip.style.left = event.clientX + 16 + 'px'; tip.style.top = event.clientY + 14 + 'px'; }
      } else read(timeAt(x), rowAt(y), event.clientX, event.clientY);
    });
    over.addEventListener('pointerup', () => {
      const done = drag;
      drag = null;
      if (done && done.moved) show(timeAt(Math.min(done.x, done.now)), timeAt(Math.max(done.x, done.now)));
    });
    over.addEventListener('pointercancel', () => { drag = null; drawCursor(); });
    over.addEventListener('pointerleave', leave);
    over.addEventListener('blur', leave);
    over.addEventListener('dblclick', () => show(0, whole));
    over.addEventListener('wheel', (event) => {
      const sideways = event.deltaX || (event.shiftKey ? event.deltaY : 0);
      if (!event.ctrlKey && !sideways) return;
      event.preventDefault();
      if (event.ctrlKey) zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(place(event)[0]));
      else shift(Math.sign(sideways) * 0.1);
    }, { passive: false });
    // Moves the cursor with keys, so that the lanes can be read without a pointer.
    const step = (part) => { const b = over.getBoundingClientRect(), at = (cursor === null ? (from + to) / 2 : cursor) + part * (to - from); read(at, rows.find((row) => row.kind === 'activity'), b.left + xOf(Math.min(to, Math.max(from, at))), Math.max(b.top, 0) + 40); };
    const keys = { '+': () => zoom(0.5), '-': () => zoom(2), ArrowLeft: () => shift(-0.25), ArrowRight: () => shift(0.25), '0': () => show(0, whole), Escape: leave };
    over.addEventListener('keydown', (event) => {
      const act = event.shiftKey && event.key === 'ArrowLeft' ? () => step(-0.02) : event.shiftKey && event.key === 'ArrowRight' ? () => step(0.02) : keys[event.key];
      if (act && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); }
    });
    const button = (name, act) => { const one = box.querySelector('button.' + name); one.addEventListener('click', act); return one; };
    button('in', () => zoom(0.5));
    button('out', () => zoom(2));
    button('left', () => shift(-0.5));
    button('right', () => shift(0.5));
    button('all', () => show(0, whole));
    const grouped = lanes.flatMap((lane) => lane.kind === 'activity' ? lane.rows.filter((row) => row.ranks > 1) : []);
    const open = button('open', () => { const all = grouped.every((row) => opened.has(row)); grouped.forEach((row) => { if (all) opened.delete(row); else opened.add(row); }); open.textContent = all ? 'each rank' : 'groups of ranks'; draw(); });
    open.hidden = grouped.length === 0;
    box.querySelector('.legend').hidden = !lanes.some((lane) => lane.kind === 'activity');
    if (document.querySelector('meta[http-equiv=refresh]')) {
      try { const [begin, end] = (sessionStorage.getItem(saved) || '').split(' ').map(Number); if (end > begin && end < whole) { from = begin; to = end; } } catch { /* See above. */ }
    }
    let width = 0;
    new ResizeObserver(() => { if (box.clientWidth !== width) { width = box.clientWidth; draw(); } }).observe(box);
    window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
    draw();
  }

  function table(section, lines) {
    const body = section.querySelector('table.events tbody');
    if (!body) return;
    const search = section.querySelector('input.search'), position = section.querySelector('.page-of'), PAGE = 50;
    let found = lines, page = 0;
    function show() {
      const pages = Math.max(1, Math.ceil(found.length / PAGE));
      page = Math.min(pages - 1, Math.max(0, page));
      const rows = found.slice(page * PAGE, (page + 1) * PAGE).map(([at, rank, text]) => {
        const row = document.createElement('tr');
        [timeText(at), rank, text].forEach((value) => { row.insertCell().textContent = value; });
        return row;
      });
      body.replaceChildren(...rows);
      position.textContent = 'page ' + (page + 1) + ' of ' + pages + ', ' + found.length + ' of ' + lines.length + ' events';
    }
    search.addEventListener('input', () => {
      const words = search.value.toLowerCase().split(/\s+/).filter((word) => word);
      found = lines.filter((line) => { const text = line.join(' ').toLowerCase(); return words.every((word) => text.includes(word)); });
      page = 0;
      show();
    });
    section.querySelector('button.before').addEventListener('click', () => { page--; show(); });
    section.querySelector('button.after').addEventListener('click', () => { page++; show(); });
    show();
  }

  document.querySelectorAll('section.run').forEach((section, number) => {
    const data = section.querySelector('script.data');
    if (!data) return;
    const { picture: drawn, lines } = JSON.parse(data.textContent);
    picture(section, drawn, number);
    table(section, lines);
  });
})();
