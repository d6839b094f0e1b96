'use strict';
// Interactive parts of the page: time lines that can be zoomed, and tables with a search field.
(() => {
  const tip = document.getElementById('tip');
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
  const time = (s) => s >= 1 ? s.toFixed(3) + ' s' : s >= 1e-3 ? (s * 1e3).toFixed(3) + ' ms' : (s * 1e6).toFixed(1) + ' µs';
  // Width of the names and height of the axis in pixels, and number of kinds with a byte in each bin. The rest of a bin is waiting time.
  const LEFT = 64, AXIS = 22, KINDS = 6;

  // Returns a repeated pattern, so that the kinds are distinguishable without colours.
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

  function timeLine(section, data) {
    const canvas = section.querySelector('canvas.time-line');
    if (!canvas) return;
    const bytes = Uint8Array.from(atob(data.cells), (c) => c.charCodeAt(0));
    const row = Math.max(7, Math.min(26, Math.floor(900 / Math.max(1, data.ranks))));
    const height = row * data.ranks + AXIS;
    const whole = data.seconds > 0 ? data.seconds : 1;
    let from = 0, to = whole, drag = null, paints = null;

    const palette = (c) => [
      colour('useful'),
      pattern(c, 'lost', (t) => { t.fillRect(0, 0, 2, 6); t.fillRect(3, 0, 2, 6); }),
      pattern(c, 'set-up', (t) => { t.fillRect(0, 0, 6, 2); t.fillRect(0, 3, 6, 2); }),
      pattern(c, 'other', (t) => { t.beginPath(); t.moveTo(-1, 7); t.lineTo(7, -1); t.moveTo(-4, 4); t.lineTo(4, -4); t.moveTo(2, 10); t.lineTo(10, 2); t.stroke(); }),
      pattern(c, 'unknown', (t) => { t.lineWidth = 0.8; t.beginPath(); t.moveTo(-1, -1); t.lineTo(7, 7); t.stroke(); }),
      pattern(c, 'parked', (t) => { t.fillRect(1, 1, 2, 2); t.fillRect(4, 4, 2, 2); }),
    ];

    // Returns the mean share of each kind of a rank's time between two times.
    function shares(rank, begin, end) {
      const sum = Array(KINDS).fill(0);
      let first = begin / data.width, last = end / data.width, weight = 0;
      for (let bin = Math.floor(first); bin < last && bin < data.bins; bin++) {
        const part = Math.min(last, bin + 1) - Math.max(first, bin);
        const at = KINDS * (rank * data.bins + bin);
        for (let k = 0; k < KINDS; k++) sum[k] += part * bytes[at + k] / 255;
        weight += part;
      }
      return sum.map((x) => weight > 0 ? x / weight : 0);
    }

    function draw() {
      const wide = Math.max(320, canvas.clientWidth), scale = window.devicePixelRatio || 1;
      canvas.width = wide * scale;
      canvas.height = height * scale;
      canvas.style.height = height + 'px';
      const c = canvas.getContext('2d');
      c.scale(scale, scale);
      c.fillStyle = colour('page');
      c.fillRect(0, 0, wide, height);
      paints = palette(c);
      const span = (to - from) / (wide - LEFT);
      c.font = Math.min(12, row - 1) + 'px system-ui, sans-serif';
      c.textBaseline = 'middle';
      for (let rank = 0; rank < data.ranks; rank++) {
        const y = rank * row;
        const step = Math.ceil(12 / row);
        if (rank % step === 0) {
          c.fillStyle = colour('text');
          c.fillText('rank ' + rank, 4, y + row / 2);
        }
        // Each kind is drawn as one area between its edge and the edge of the kind below, because many small boxes would take seconds.
        const columns = Math.floor(wide - LEFT), edges = Array.from({ length: KINDS + 1 }, () => new Float32Array(columns));
        for (let x = 0; x < columns; x++) {
          const parts = shares(rank, from + x * span, from + (x + 1) * span);
          for (let k = 0; k < KINDS; k++) edges[k + 1][x] = edges[k][x] + parts[k] * (row - 2);
        }
        const base = y + row - 1;
        for (let k = 0; k < KINDS; k++) {
          if (!edges[k + 1].some((edge, x) => edge - edges[k][x] > 0.05)) continue;
          c.beginPath();
          c.moveTo(LEFT, base - edges[k][0]);
          for (let x = 0; x < columns; x++) { c.lineTo(LEFT + x, base - edges[k + 1][x]); c.lineTo(LEFT + x + 1, base - edges[k + 1][x]); }
          for (let x = columns - 1; x >= 0; x--) { c.lineTo(LEFT + x + 1, base - edges[k][x]); c.lineTo(LEFT + x, base - edges[k][x]); }
          c.fillStyle = paints[k];
          c.fill();
        }
        c.fillStyle = colour('edge');
        c.fillRect(0, y + row - 1, wide, 0.5);
      }
      c.font = '11px system-ui, sans-serif';
      const rough = (to - from) / 6, power = Math.pow(10, Math.floor(Math.log10(rough)));
      const tick = [1, 2, 5, 10].map((n) => n * power).find((s) => s >= rough);
      c.textAlign = 'center';
      for (let at = Math.ceil(from / tick) * tick; at <= to; at += tick) {
        const x = LEFT + (at - from) / span;
        c.fillStyle = colour('soft');
        c.fillRect(x, height - AXIS, 1, 4);
        if (x < wide - 24) c.fillText(String(Number(at.toPrecision(6))) + ' s', x, height - 9);
      }
      c.textAlign = 'start';
      data.marks.forEach(([at, name], n) => {
        if (at < from || at > to) return;
        const x = LEFT + (at - from) / span;
        c.strokeStyle = colour('text');
        c.setLineDash([3, 3]);
        c.beginPath(); c.moveTo(x, 0); c.lineTo(x, height - AXIS); c.stroke();
        c.setLineDash([]);
        c.fillStyle = colour('page');
        c.fillRect(x + 1, 1 + 12 * (n % 3), c.measureText(name).width + 4, 12);
        c.fillStyle = colour('text');
        c.fillText(name, x + 3, 7 + 12 * (n % 3));
      });
      if (drag && drag.moved) {
        c.fillStyle = colour('text');
        c.globalAlpha = 0.2;
        c.fillRect(Math.min(drag.x, drag.now), 0, Math.abs(drag.now - drag.x), height - AXIS);
        c.globalAlpha = 1;
      }
      canvas.dataset.from = from;
      canvas.dataset.to = to;
    }

    function show(begin, end) {
      const span = Math.min(whole, Math.max(end - begin, whole / data.bins * 4));
      from = Math.min(Math.max(0, begin), whole - span);
      to = from + span;
      draw();
    }
    const zoom = (by, at = (from + to) / 2) => show(at - (at - from) * by, at + (to - at) * by);
    const shift = (part) => show(from + part * (to - from), to + part * (to - from));
    const timeAt = (x) => from + (to - from) * Math.min(1, Math.max(0, (x - LEFT) / (canvas.clientWidth - LEFT)));

    function describe(rank, at) {
      const span = (to - from) / (canvas.clientWidth - LEFT);
      const parts = shares(rank, at - span / 2, at + span / 2).map((x) => Math.round(100 * x));
      const names = ['computes', 'ready, has no core', 'set-up', 'messages', 'not known', 'parked'];
      const text = ['rank ' + rank + (data.hosts[rank] ? ' on ' + data.hosts[rank] : '') + ', at ' + time(at)];
      parts.forEach((part, k) => { if (part > 0) text.push(part + ' % ' + names[k]); });
      const idle = 100 - parts.reduce((a, b) => a + b, 0);
      if (idle > 0) text.push(idle + ' % waits');
      // Finds the first recorded call that covers this time, or the last one that ended at most one pixel before.
      const calls = data.calls[rank] || [];
      let best = -1;
      for (let n = 0; n < calls.length; n += 3) {
        const end = (calls[n] + 1) * data.width, begin = end - calls[n + 2] - data.width;
        if (begin - span <= at && at <= end + span) { best = n; if (end >= at) break; }
      }
      if (best >= 0) text.push('longest call here: ' + data.names[calls[best + 1]] + ', ' + time(calls[best + 2]));
      const mark = data.marks.find(([when]) => Math.abs(when - at) < 4 * span);
      if (mark) text.push('here: ' + mark[1]);
      return text.join('\n');
    }

    function hover(event) {
      const box = canvas.getBoundingClientRect();
      const x = event.clientX - box.left, rank = Math.floor((event.clientY - box.top) / row);
      if (x < LEFT || rank < 0 || rank >= data.ranks) { tip.hidden = true; return; }
      tip.textContent = describe(rank, timeAt(x));
      tip.hidden = false;
      const right = event.clientX + 360 > window.innerWidth;
      tip.style.left = (right ? Math.max(4, event.clientX - 14 - tip.offsetWidth) : event.clientX + 14) + 'px';
      tip.style.top = Math.min(window.innerHeight - tip.offsetHeight - 4, event.clientY + 14) + 'px';
    }

    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      const x = event.clientX - canvas.getBoundingClientRect().left;
      drag = { x, now: x, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!drag) return hover(event);
      drag.now = event.clientX - canvas.getBoundingClientRect().left;
      drag.moved = drag.moved || Math.abs(drag.now - drag.x) > 4;
      draw();
    });
    canvas.addEventListener('pointerup', () => {
      const done = drag;
      drag = null;
      if (done && done.moved) show(timeAt(Math.min(done.x, done.now)), timeAt(Math.max(done.x, done.now)));
    });
    canvas.addEventListener('pointercancel', () => { drag = null; draw(); });
    canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
    canvas.addEventListener('dblclick', () => show(0, whole));
    canvas.addEventListener('wheel', (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event.clientX - canvas.getBoundingClientRect().left));
    }, { passive: false });
    const keys = { '+': () => zoom(0.5), '-': () => zoom(2), ArrowLeft: () => shift(-0.25), ArrowRight: () => shift(0.25), '0': () => show(0, whole) };
    canvas.addEventListener('keydown', (event) => {
      const act = keys[event.key];
      if (act && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); }
    });
    const button = (name, act) => section.querySelector('button.' + name).addEventListener('click', act);
    button('in', () => zoom(0.5));
    button('out', () => zoom(2));
    button('left', () => shift(-0.5));
    button('right', () => shift(0.5));
    button('all', () => show(0, whole));
    let width = 0;
    new ResizeObserver(() => { if (canvas.clientWidth !== width) { width = canvas.clientWidth; draw(); } }).observe(canvas);
    window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
    draw();
  }

  function table(section, lines) {
    const body = section.querySelector('table.events tbody'), search = section.querySelector('input.search');
    const position = section.querySelector('.page-of'), PAGE = 50;
    let found = lines, page = 0;
    function show() {
      const pages = Math.max(1, Math.ceil(found.length / PAGE));
      page = Math.min(pages - 1, Math.max(0, page));
      const rows = found.slice(page * PAGE, (page + 1) * PAGE).map((line) => {
        const row = document.createElement('tr');
        line.forEach((value) => { row.insertCell().textContent = value; });
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

  for (const section of document.querySelectorAll('section.run')) {
    const data = JSON.parse(section.querySelector('script.data').textContent);
    timeLine(section, data);
    table(section, data.lines);
  }
})();
