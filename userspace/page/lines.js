// SPDX-License-Identifier: Apache-2.0
// Charts of a picture's tables, drawn by uPlot: lines or stacked areas on a shared time axis, with
// the thresholds, spans and moments of the picture.
'use strict';

const Lines = (() => {
  const kLeft = 72; // for the amounts; equal in all charts, so that their times are aligned
  const kRight = 14;
  const kNarrow = 560;
  const kSyncKey = 'forestall';

  // ---- amounts as text ----

  function trim(number, digits) {
    return number.toFixed(digits).replace(/\.0+$|(\.\d*?)0+$/, '$1');
  }
  function bytes(amount) {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let value = amount;
    let unit = 0;
    while (Math.abs(value) >= 1024 && unit < units.length - 1) {
      value /= 1024;
      unit += 1;
    }
    const size = Math.abs(value);
    return trim(value, unit === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2) + ' ' + units[unit];
  }
  function count(amount) {
    const size = Math.abs(amount);
    if (size >= 1e9) return trim(amount / 1e9, 2) + 'G';
    if (size >= 1e6) return trim(amount / 1e6, 2) + 'M';
    if (size >= 1e4) return trim(amount / 1e3, 1) + 'k';
    return trim(amount, size < 10 ? 2 : 0);
  }
  const percent = (thousandths) => trim(thousandths / 1000, thousandths < 10000 ? 2 : 1) + ' %';
  function length(ns) {
    const size = Math.abs(ns);
    if (size < 1e3) return trim(ns, 0) + ' ns';
    if (size < 1e6) return trim(ns / 1e3, size < 1e4 ? 1 : 0) + ' µs';
    if (size < 1e9) return trim(ns / 1e6, size < 1e7 ? 2 : size < 1e8 ? 1 : 0) + ' ms';
    if (size < 120e9) return trim(ns / 1e9, size < 1e10 ? 2 : 1) + ' s';
    if (size < 7200e9) return trim(ns / 60e9, 1) + ' min';
    return trim(ns / 3600e9, 1) + ' h';
  }
  const kUnits = {
    bytes: { text: bytes, base: 1024 },
    inodes: { text: count, base: 10 },
    tasks: { text: count, base: 10 },
    percent: { text: percent, base: 10 },
    pages: { text: (n) => count(n) + '/s', base: 10 },
    rate: { text: (thousandths) => count(thousandths / 1000) + '/s', base: 10 },
  };

  // `seconds` since 1970, with the digits needed for steps of `step` seconds.
  function clock(seconds, step) {
    const iso = new Date(Math.round(seconds * 1e6) / 1e3).toISOString();
    if (step >= 86400) return iso.slice(5, 10);
    if (step >= 60) return iso.slice(11, 16);
    if (step >= 1) return iso.slice(11, 19);
    return iso.slice(11, step >= 0.1 ? 21 : step >= 0.01 ? 22 : 23);
  }

  // ---- tables ----

  // A table in uPlot's form: times, and an array for each line, null where it is unknown.
  function columns(table, originUs) {
    const times = (table.atUs || []).map((at) => (originUs + at) / 1e6);
    const lines = (table.lines || []).map((line) => {
      const values = new Array(times.length).fill(null);
      for (const run of line.runs || []) {
        run.values.forEach((value, i) => {
          values[run.first + i] = value;
        });
      }
      return { name: line.name, values };
    });
    return { times, lines };
  }

  const role = (name) =>
    getComputedStyle(document.documentElement)
      .getPropertyValue('--' + name)
      .trim();

  // A round step of which about `wanted` fit.
  function niceStep(range, wanted, base) {
    const raw = range / wanted;
    if (base === 1024) {
      const power = Math.pow(1024, Math.max(0, Math.floor(Math.log(raw) / Math.log(1024))));
      const factor = [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 200, 256, 500, 512, 1024];
      return power * (factor.find((f) => f * power >= raw) || 1024);
    }
    const power = Math.pow(10, Math.floor(Math.log10(raw)));
    return power * [1, 2, 2.5, 5, 10].find((f) => f * power >= raw * 0.999);
  }

  function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
      else if (key === 'tint') node.style.setProperty('--tint', value);
      else node.setAttribute(key, value === true ? '' : String(value));
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }

  // The right edge of a label of this width, between `left` and `right`, that none of the vertical
  // lines crosses: as far right as possible, or `right` if there is no such place.
  function freeRight(lines, left, right, width, gap) {
    let edge = right;
    for (const x of [...lines].sort((a, b) => b - a)) {
      if (x - gap < edge && x + gap > edge - width) edge = x - gap;
    }
    return edge - width < left ? right : edge;
  }

  // ---- one chart ----

  // `about`: title, unit, height, stacked, lines [{name, label, role, fill}], and functions for
  // values that change: table(), thresholds(), spans(), moments(), max(). All charts share
  // `timeline`.
  class Chart {
    constructor(about, timeline) {
      this.about = about;
      this.timeline = timeline;
      this.hidden = new Set(about.hidden || []);
      this.head = el('div', { class: 'chart-head' });
      this.host = el('div', { class: 'plot' });
      this.tip = el('div', { class: 'tip', hidden: true });
      this.root = el('div', { class: 'chart', id: 'chart-' + about.id }, this.head, this.host);
      this.plot = null;
    }

    unit() {
      return kUnits[this.about.unit()];
    }

    read() {
      const origin = this.timeline.originUs();
      const { times, lines } = columns(this.about.table(), origin);
      this.times = times;
      this.lines = this.about.lines().map((line) => {
        const found = lines.find((each) => each.name === line.name);
        return { ...line, values: found ? found.values : new Array(times.length).fill(null) };
      });
    }

    shown() {
      return this.lines.filter((line) => !this.hidden.has(line.name));
    }

    // Areas: the topmost first, each down to zero, so that the next one covers it.
    data() {
      const shown = this.shown();
      if (!this.about.stacked) return [this.times, ...shown.map((line) => line.values)];
      const sum = new Array(this.times.length).fill(0);
      const known = sum.map((_, i) => this.lines.some((line) => line.values[i] !== null));
      const stacked = shown.map((line) =>
        line.values.map((value, i) => {
          sum[i] += value || 0;
          return known[i] ? sum[i] : null;
        }),
      );
      return [this.times, ...stacked.reverse()];
    }

    drawHead() {
      const title = this.about.select ? this.about.select() : el('b', {}, this.about.title);
      const legend = el('div', {
        class: 'legend',
        role: 'group',
        'aria-label': 'Lines of ' + this.about.title,
      });
      for (const line of this.lines) {
        legend.append(
          el(
            'button',
            {
              type: 'button',
              'aria-pressed': String(!this.hidden.has(line.name)),
              title: line.name,
              onclick: () => this.toggle(line.name),
            },
            el('i', { tint: role(line.role) }),
            el('span', {}, line.label),
          ),
        );
      }
      for (const extra of this.about.extras ? this.about.extras() : []) legend.append(extra);
      this.head.replaceChildren(title, legend);
    }

    toggle(name) {
      if (this.hidden.has(name)) this.hidden.delete(name);
      else this.hidden.add(name);
      this.rebuild();
      const pressed = [...this.head.querySelectorAll('.legend button')];
      const again = pressed.find((button) => button.title === name);
      if (again) again.focus();
    }

    rebuild() {
      this.read();
      this.drawHead();
      if (this.plot) this.plot.destroy();
      this.plot = null;
      this.host.replaceChildren();
      if (this.times.length === 0) {
        this.host.append(el('p', { class: 'none' }, this.about.none || 'Nothing was recorded.'));
        return;
      }
      this.plot = new uPlot(this.options(), this.data(), this.host);
      this.plot.over.append(this.tip);
      this.plot.over.addEventListener('mouseenter', () => {
        this.hovered = true;
      });
      this.plot.over.addEventListener('mouseleave', () => {
        this.hovered = false;
        this.tip.hidden = true;
      });
      this.plot.over.addEventListener('dblclick', () => this.timeline.zoom(null));
    }

    // New rows only.
    refresh() {
      if (!this.plot) {
        this.rebuild();
        return;
      }
      const before = this.lines.map((line) => line.name).join('\n');
      this.read();
      if (this.lines.map((line) => line.name).join('\n') !== before) {
        this.rebuild();
        return;
      }
      this.plot.setData(this.data(), false);
      this.show(this.timeline.view());
    }

    show(view) {
      if (this.plot) this.plot.setScale('x', { min: view[0], max: view[1] });
    }
    resize() {
      if (this.plot) this.plot.setSize({ width: this.width(), height: this.about.height });
    }
    width() {
      return Math.max(240, Math.floor(this.host.clientWidth));
    }

    options() {
      const [min, max] = this.timeline.view();
      const quiet = role('quiet');
      const narrow = this.width() < kNarrow;
      // Whole pixels: uPlot multiplies the last number before "px" by the screen's pixel ratio.
      const font = '12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
      const grid = { stroke: role('grid'), width: 1 };
      return {
        width: this.width(),
        height: this.about.height,
        padding: [8, kRight, 0, 0],
        legend: { show: false },
        tzDate: (s) => uPlot.tzDate(new Date(s * 1e3), 'Etc/UTC'),
        cursor: {
          y: false,
          sync: { key: kSyncKey, scales: ['x', null] },
          points: { size: 6 },
          drag: { x: true, y: false, setScale: false },
          bind: { dblclick: () => null },
        },
        select: { show: true },
        scales: {
          x: { time: true, min, max, auto: false, range: (u, a, b) => [a, b] },
          y: { range: (u, a, b) => this.range(a, b) },
        },
        axes: [
          {
            stroke: quiet,
            font,
            grid,
            ticks: { show: false },
            size: 26,
            space: narrow ? 64 : 96,
            values: (u, splits, axis, space, step) => splits.map((s) => clock(s, step)),
          },
          {
            stroke: quiet,
            font,
            grid,
            ticks: { show: false },
            size: kLeft,
            gap: 8,
            splits: (u, axis, low, high) => this.splits(low, high),
            values: (u, splits) => splits.map((value) => this.unit().text(value)),
          },
        ],
        series: [{}, ...this.series()],
        hooks: {
          drawClear: [(u) => this.drawSpans(u)],
          draw: [
            (u) => this.drawGapLabels(u),
            (u) => this.drawMoments(u),
            (u) => this.drawThresholds(u),
          ],
          setSelect: [(u) => this.selected(u)],
          setCursor: [(u) => this.drawTip(u)],
        },
      };
    }

    series() {
      const card = role('card');
      const shown = this.shown().map((line) => {
        const colour = role(line.role);
        if (this.about.stacked) {
          return {
            stroke: card,
            width: this.lines.length > 8 ? 0.4 : 0.8,
            fill: colour,
            // A sample shows nothing of the time before it.
            paths: uPlot.paths.stepped({ align: 1 }),
            points: { show: false },
          };
        }
        const fill = line.fill ? colour + '24' : undefined;
        return {
          stroke: colour,
          width: line.width || 1.75,
          fill,
          points: { show: this.times.length < 2 },
        };
      });
      return this.about.stacked ? shown.reverse() : shown;
    }

    range(low, high) {
      const limit = this.about.max ? this.about.max(high) : null;
      const top = limit === null ? Math.max(high === null ? 0 : high, 0) * 1.06 : limit;
      return [Math.min(0, low === null ? 0 : low), top > 0 ? top : 1];
    }

    splits(low, high) {
      const wanted = Math.max(2, Math.round(this.about.height / 48));
      const step = niceStep(high - low, wanted, this.unit().base);
      const splits = [];
      for (let at = Math.ceil(low / step) * step; at <= high; at += step) splits.push(at);
      return splits;
    }

    // ---- layers over and under the lines ----

    inside(u, draw) {
      const box = u.bbox;
      u.ctx.save();
      u.ctx.beginPath();
      u.ctx.rect(box.left, box.top, box.width, box.height);
      u.ctx.clip();
      draw(u.ctx, box, window.devicePixelRatio || 1);
      u.ctx.restore();
    }

    x(u, us) {
      return u.valToPos((this.timeline.originUs() + us) / 1e6, 'x', true);
    }

    drawSpans(u) {
      this.inside(u, (ctx, box, ratio) => {
        for (const span of this.about.spans ? this.about.spans() : []) {
          const left = this.x(u, span.fromUs);
          const width = Math.max(this.x(u, span.toUs) - left, 1.5 * ratio);
          if (left + width < box.left || left > box.left + box.width) continue;
          ctx.fillStyle = role(span.kind);
          ctx.fillRect(left, box.top, width, box.height);
        }
      });
    }

    // Over the grid.
    drawGapLabels(u) {
      this.inside(u, (ctx, box, ratio) => {
        for (const span of this.about.spans ? this.about.spans() : []) {
          if (span.kind !== 'lost') continue;
          const left = Math.max(this.x(u, span.fromUs), box.left);
          const right = Math.min(this.x(u, span.toUs), box.left + box.width);
          this.labelGap(ctx, box, ratio, span, left, right - left);
        }
      });
    }

    // "no data for 10.8 s", if there is room.
    labelGap(ctx, box, ratio, span, left, width) {
      const full = `no data for ${length((span.toUs - span.fromUs) * 1e3)}`;
      ctx.font = `${11 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
      const fits = (text) => ctx.measureText(text).width + 8 * ratio <= width;
      const text = [full, 'no data'].find(fits);
      if (!text) return;
      ctx.textAlign = 'center';
      ctx.lineWidth = 3 * ratio;
      ctx.strokeStyle = role('card');
      ctx.strokeText(text, left + width / 2, box.top + 16 * ratio);
      ctx.fillStyle = role('quiet');
      ctx.fillText(text, left + width / 2, box.top + 16 * ratio);
    }

    drawThresholds(u) {
      if (!this.about.thresholds) return;
      this.inside(u, (ctx, box, ratio) => {
        ctx.font = `600 ${11 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
        ctx.textAlign = 'right';
        const moments = this.timeline.moments().map((moment) => this.x(u, moment.atUs));
        for (const each of this.about.thresholds()) {
          const y = u.valToPos(each.limit, 'y', true);
          const from = Math.max(this.x(u, each.fromUs), box.left);
          const to = Math.min(
            Math.max(this.x(u, each.toUs), from + 2 * ratio),
            box.left + box.width,
          );
          ctx.strokeStyle = ctx.fillStyle = role(each.soft ? 'soft' : 'limit');
          ctx.lineWidth = 1.5 * ratio;
          ctx.setLineDash(each.soft ? [3 * ratio, 4 * ratio] : [7 * ratio, 4 * ratio]);
          ctx.beginPath();
          ctx.moveTo(from, y);
          ctx.lineTo(to, y);
          ctx.stroke();
          ctx.lineWidth = 3 * ratio;
          ctx.setLineDash([]);
          ctx.strokeStyle = role('card');
          const right = freeRight(
            moments,
            box.left,
            box.left + box.width - 6 * ratio,
            ctx.measureText(each.label).width,
            4 * ratio,
          );
          ctx.strokeText(each.label, right, y - 5 * ratio);
          ctx.fillText(each.label, right, y - 5 * ratio);
        }
      });
    }

    drawMoments(u) {
      this.inside(u, (ctx, box, ratio) => {
        for (const moment of this.timeline.moments()) {
          const x = this.x(u, moment.atUs);
          if (x < box.left - 1 || x > box.left + box.width + 1) continue;
          ctx.strokeStyle = role(moment.role);
          ctx.globalAlpha = moment.current ? 1 : 0.55;
          ctx.lineWidth = (moment.current ? 2.25 : 1.25) * ratio;
          ctx.beginPath();
          ctx.moveTo(x, box.top);
          ctx.lineTo(x, box.top + box.height);
          ctx.stroke();
        }
      });
    }

    selected(u) {
      if (u.select.width > 4) {
        const from = u.posToVal(u.select.left, 'x');
        const to = u.posToVal(u.select.left + u.select.width, 'x');
        this.timeline.zoom([from, to]);
      }
      if (u.select.width > 0) u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    }

    drawTip(u) {
      const at = u.cursor.idx;
      if (!this.hovered || at === null || at === undefined || u.cursor.left < 0) {
        this.tip.hidden = true;
        return;
      }
      const text = this.unit().text;
      let lines = this.shown().filter((line) => line.values[at] !== null);
      const more = lines.length > 9;
      if (this.about.stacked)
        lines = [...lines].sort((a, b) => b.values[at] - a.values[at]).slice(0, 9);
      const rows = lines.map((line) =>
        el(
          'tr',
          {},
          el('td', {}, el('i', { tint: role(line.role) }), line.label),
          el('td', {}, text(line.values[at])),
        ),
      );
      if (this.about.stacked) {
        const sum = this.shown().reduce((all, line) => all + (line.values[at] || 0), 0);
        rows.push(
          el(
            'tr',
            {},
            el('td', {}, more ? 'all, smaller ones too' : 'together'),
            el('td', {}, text(sum)),
          ),
        );
      }
      this.tip.replaceChildren(
        el('div', { class: 'quiet' }, clock(this.times[at], 0.001)),
        el('table', {}, el('tbody', {}, ...rows)),
      );
      this.tip.hidden = false;
      const right = u.cursor.left > u.over.clientWidth / 2;
      this.tip.style.left = right ? 'auto' : u.cursor.left + 14 + 'px';
      this.tip.style.right = right ? u.over.clientWidth - u.cursor.left + 14 + 'px' : 'auto';
    }
  }

  return {
    Chart,
    el,
    role,
    bytes,
    count,
    percent,
    length,
    clock,
    freeRight,
    kLeft,
    kRight,
    kUnits,
  };
})();
