// SPDX-License-Identifier: Apache-2.0
// Draws a picture (forestall/internal/picture.proto), its only input. A report contains it; a running
// agent serves it at /picture and its changes at /live.
//
// Names are added to the document as text: no markup is made from strings.
'use strict';

(() => {
  const { el, bytes, count, length, clock } = Lines;
  const $ = (id) => document.getElementById(id);

  const { kKinds, kReasons, kInaction } = Words;

  let picture = null;
  let gauge = 0; // index of the one drawn
  let gaugeChosen = false; // by the user; otherwise the first, which came nearest to its threshold
  let near = false; // scale to values near the thresholds
  let zoomed = null; // [from, to] in seconds since 1970; null: all
  let current = null; // id of the moment shown
  let charts = [];

  // ---- time ----

  const seconds = (us) => (picture.originUnixUs + us) / 1e6;
  function whole() {
    const from = seconds(picture.fromUs);
    const to = Math.max(seconds(picture.toUs), from + 0.001);
    return [from, to + (to - from) * 0.01];
  }
  const view = () => zoomed || whole();

  function zoom(wanted) {
    if (wanted) {
      const [low, high] = whole();
      const least = 0.002;
      const size = Math.min(Math.max(wanted[1] - wanted[0], least), high - low);
      const from = Math.min(Math.max(wanted[0], low), high - size);
      zoomed = size >= (high - low) * 0.999 ? null : [from, from + size];
    } else {
      zoomed = null;
    }
    for (const chart of charts) chart.show(view());
    drawLane();
    drawSpan();
  }
  function scale(factor) {
    const [from, to] = view();
    const middle = (from + to) / 2;
    zoom([middle - ((to - from) * factor) / 2, middle + ((to - from) * factor) / 2]);
  }
  function shift(share) {
    const [from, to] = view();
    zoom([from + (to - from) * share, to + (to - from) * share]);
  }
  function drawSpan() {
    const [from, to] = view();
    const day = new Date(from * 1e3).toISOString().slice(0, 10);
    const fine = to - from < 5 ? 0.001 : 1;
    $('span').textContent =
      `${day}, ${clock(from, fine)} – ${clock(to, fine)} (${length((to - from) * 1e9)})`;
  }

  // ---- header ----

  function drawHead() {
    const origin = picture.origin || {};
    const live = !origin.file;
    $('kind').textContent = live ? 'status' : 'report';
    const parts = [
      origin.node,
      origin.kernel && 'Linux ' + origin.kernel,
      origin.tier && 'tier ' + origin.tier,
      origin.version && 'version ' + origin.version,
      origin.recorder === 'session'
        ? 'recorded without acting: no signals were sent'
        : origin.dryRun
          ? 'dry run: no signals are sent'
          : null,
      origin.file || null,
    ];
    $('origin').textContent = parts.filter(Boolean).join(' · ');
    document.title =
      'Forestall' + (origin.node ? ' · ' + origin.node : '') + (live ? '' : ' · report');
    const remarks = $('remarks');
    remarks.hidden = picture.remarks.length === 0;
    remarks.replaceChildren(
      el('b', {}, 'Incomplete'),
      el('ul', {}, ...picture.remarks.map((text) => el('li', {}, text))),
    );
  }

  function tile(kind, name, value, small, of) {
    return el(
      'div',
      { class: 'tile ' + kind },
      el('div', { class: 'name' }, name),
      el('div', { class: 'value' }, value, small ? el('small', {}, ' ' + small) : null),
      el('div', { class: 'of' }, of),
    );
  }

  function greatest(table, name) {
    let most = null;
    for (const line of table.lines) {
      if (line.name !== name) continue;
      for (const run of line.runs)
        for (const value of run.values) if (most === null || value > most) most = value;
    }
    return most;
  }

  function drawTiles() {
    const sum = picture.summary;
    const tiles = [];
    const first = picture.gauges[gauge];
    if (first) {
      const met = first.thresholds.some((each) => first.least < each.limit);
      const amount = Lines.kUnits[first.unit].text(first.least).split(' ');
      tiles.push(
        tile(
          met ? 'kill' : 'good',
          'Least available',
          amount[0],
          amount[1] || '',
          `${first.subject === 'node' ? first.signal : first.subject} at ${clock(seconds(first.leastAtUs), 1)}`,
        ),
      );
    }
    const dry = sum.wouldKills > 0;
    if (dry)
      tiles.push(
        tile(
          'would',
          'Would have been killed',
          String(sum.wouldKills),
          '',
          'dry run: no signals were sent',
        ),
      );
    const elsewhere = sum.kernelOomsElsewhere || 0;
    const kernelOoms = sum.kernelOoms - elsewhere;
    if (!dry || sum.kills > 0) {
      tiles.push(
        tile(
          sum.kills > 0 ? 'kill' : 'good',
          'Killed by Forestall',
          String(sum.kills),
          '',
          sum.kills > 0 ? bytes(sum.freedBytes) + ' released' : 'no evictions',
        ),
      );
    }
    tiles.push(
      tile(
        kernelOoms > 0 ? 'oom' : 'good',
        'Killed by the kernel',
        String(kernelOoms),
        '',
        (kernelOoms > 0 ? 'OOM kills before Forestall acted' : 'no OOM kill') +
          (elsewhere > 0 ? `; ${elsewhere} where no threshold evicts` : ''),
      ),
    );
    if (sum.medianToSignalNs !== undefined) {
      const median = length(sum.medianToSignalNs).split(' ');
      tiles.push(
        tile(
          '',
          'Crossing to SIGKILL, at most',
          median[0],
          median[1],
          'median; longest ' + length(sum.longestToSignalNs),
        ),
      );
    }
    const some = greatest(picture.pressure, 'some');
    if (some !== null) {
      const full = greatest(picture.pressure, 'full');
      tiles.push(
        tile(
          '',
          'Most pressure (PSI)',
          Lines.percent(some).split(' ')[0],
          '% some',
          full === null ? '' : Lines.percent(full) + ' full',
        ),
      );
    }
    const often = [...picture.wakes]
      .sort((a, b) => b.count - a.count)
      .slice(0, 2)
      .map((each) => `${each.source} ${count(each.count)}`)
      .join(', ');
    tiles.push(
      tile(
        '',
        'Evaluations',
        count(sum.evaluations),
        '',
        often || `in ${length((picture.toUs - picture.fromUs) * 1e3)}`,
      ),
    );
    $('tiles').replaceChildren(...tiles);
  }

  // ---- the charts ----

  const momentsDrawn = () =>
    picture.moments
      .filter((each) => kKinds[each.kind].worth > 1 || each.id === current)
      .map((each) => ({
        atUs: each.atUs,
        role: { kill: 'kill', 'would-kill': 'would', 'kernel-oom': 'oom' }[each.kind] || 'held',
        current: each.id === current,
      }));

  function gaugeName(each) {
    return each.subject === 'node' ? each.signal : `${each.signal} of ${each.subject}`;
  }
  const gaugeNames = () => picture.gauges.map(gaugeName);
  // Replaces the picture. A gauge that the user chose stays selected at its new index. Returns whether the
  // gauges or their order changed.
  function take(next) {
    const before = gaugeNames();
    picture = next;
    const after = gaugeNames();
    gauge = gaugeChosen ? Math.max(after.indexOf(before[gauge]), 0) : 0;
    return before.join('\n') !== after.join('\n');
  }
  function gaugeSelect() {
    if (picture.gauges.length < 2) {
      return el('b', {}, picture.gauges[0] ? gaugeName(picture.gauges[0]) : 'Available');
    }
    const select = el(
      'select',
      {
        id: 'gauge',
        'aria-label': 'Signal',
        onchange: () => {
          gauge = select.selectedIndex;
          gaugeChosen = true;
          charts[0].rebuild();
          drawTiles();
        },
      },
      ...picture.gauges.map((each) => el('option', {}, gaugeName(each))),
    );
    if (picture.gaugesLeftOut > 0)
      select.append(el('option', { disabled: true }, `${picture.gaugesLeftOut} more are left out`));
    select.selectedIndex = gauge;
    return select;
  }
  function gaugeThresholds() {
    const each = picture.gauges[gauge];
    return !each
      ? []
      : each.thresholds.map((threshold) => {
          const soft = threshold.graceNs > 0 || threshold.response !== 'evict';
          const how =
            threshold.response !== 'evict'
              ? threshold.response
              : threshold.graceNs > 0
                ? 'soft, ' + length(threshold.graceNs)
                : 'hard';
          return {
            limit: threshold.limit,
            fromUs: threshold.fromUs,
            toUs: threshold.toUs,
            soft,
            label: `${threshold.quantity} ${how}`,
          };
        });
  }
  function gaugeMax(high) {
    const limits = gaugeThresholds().map((each) => each.limit);
    const most = limits.length ? Math.max(...limits) : 0;
    if (near && most > 0) return most * 4;
    return Math.max(high || 0, most * 1.25) * 1.05;
  }
  function gaugeSpans() {
    const each = picture.gauges[gauge];
    if (!each) return [];
    const suffix = each.subject === 'node' ? '' : ' of ' + each.subject;
    return picture.spans.filter(
      (span) =>
        span.kind === 'lost' ||
        ((span.kind === 'met' || span.kind === 'grace') &&
          span.name.startsWith(each.signal + '<') &&
          (suffix ? span.name.endsWith(suffix) : !span.name.includes(' of '))),
    );
  }
  const lostSpans = () => picture.spans.filter((span) => span.kind === 'lost');

  function workloadLines() {
    const names = picture.workloadNames;
    return picture.workloads.lines.map((line, i) => {
      if (line.name === 'others' && i >= names.length) {
        return { name: 'others', label: `${picture.workloadsLeftOut} others`, role: 'others' };
      }
      return {
        name: line.name,
        label: names[i] || line.name,
        role: i < 12 ? 'c' + i : 'c' + (i % 12),
      };
    });
  }

  const table = (of) => of || { atUs: [], lines: [] };
  function makeCharts() {
    const timeline = { originUs: () => picture.originUnixUs, view, zoom, moments: momentsDrawn };
    const nearButton = () =>
      el(
        'button',
        {
          type: 'button',
          id: 'near',
          class: 'how',
          'aria-pressed': String(near),
          onclick: () => {
            near = !near;
            charts[0].rebuild();
            $('near').focus();
          },
        },
        el('span', {}, 'near the thresholds'),
      );
    const about = [
      {
        id: 'available',
        title: 'Available',
        unit: () => (picture.gauges[gauge] || { unit: 'bytes' }).unit,
        height: 230,
        table: () => table((picture.gauges[gauge] || {}).table),
        select: gaugeSelect,
        thresholds: gaugeThresholds,
        lines: () => [
          { name: 'available', label: 'available', role: 'available', fill: true, width: 2 },
        ],
        spans: gaugeSpans,
        max: gaugeMax,
        extras: () => (gaugeThresholds().length ? [nearButton()] : []),
        none: 'No signal could be computed.',
      },
      {
        id: 'workloads',
        title: 'Working sets',
        unit: () => 'bytes',
        height: 230,
        stacked: true,
        table: () => table(picture.workloads),
        lines: workloadLines,
        spans: lostSpans,
        none: 'No workload was read.',
      },
      {
        id: 'pressure',
        title: 'Memory pressure (PSI)',
        unit: () => 'percent',
        height: 130,
        spans: lostSpans,
        table: () => table(picture.pressure),
        max: (high) => Math.min(Math.max((high || 0) * 1.1, 5000), 100000),
        lines: () => [
          { name: 'some', label: 'some', role: 'some', fill: true },
          { name: 'full', label: 'full', role: 'full', fill: true },
        ],
        none: 'Pressure was not recorded.',
      },
      {
        id: 'reclaim',
        title: 'Reclaim',
        unit: () => 'pages',
        height: 120,
        spans: lostSpans,
        table: () => table(picture.reclaim),
        lines: () => [
          { name: 'scanned', label: 'pages scanned', role: 'scanned' },
          { name: 'reclaimed', label: 'pages freed', role: 'reclaimed' },
        ],
        none: 'Reclaim was not recorded.',
      },
      {
        id: 'stalls',
        title: 'Direct reclaim',
        unit: () => 'rate',
        height: 100,
        spans: lostSpans,
        table: () => table(picture.reclaim),
        lines: () => [
          { name: 'stalls', label: 'allocations that had to reclaim', role: 'stalls', fill: true },
        ],
        max: (high) => Math.max((high || 0) * 1.1, 1000),
        none: 'Stalls were not recorded.',
      },
    ];
    charts = about.map((each) => new Lines.Chart(each, timeline));
    $('charts').replaceChildren(...charts.map((chart) => chart.root));
    for (const chart of charts) chart.rebuild();
  }

  // ---- marks over the charts ----

  function drawLane() {
    const lane = $('lane');
    const width = lane.clientWidth - Lines.kLeft - Lines.kRight;
    const [from, to] = view();
    const groups = [];
    for (const each of picture.moments) {
      const kind = kKinds[each.kind];
      const at = (seconds(each.atUs) - from) / (to - from);
      if (kind.worth < 2 || at < 0 || at > 1) continue;
      const x = Lines.kLeft + at * width;
      const last = groups[groups.length - 1];
      if (last && x - last.x < 26) last.moments.push(each);
      else groups.push({ x, moments: [each] });
    }
    lane.replaceChildren(
      ...groups.map((group) => {
        const shown = group.moments.find((each) => each.id === current);
        const first =
          shown ||
          group.moments.reduce((a, b) => (kKinds[b.kind].worth > kKinds[a.kind].worth ? b : a));
        const many = group.moments.length;
        const button = el(
          'button',
          {
            type: 'button',
            class: first.kind,
            'aria-current': shown ? 'true' : null,
            'aria-label':
              many > 1 ? `${many} decisions` : `${kKinds[first.kind].word} ${first.victim}`,
            title:
              many > 1
                ? `${many}: zoom in to separate them`
                : `${kKinds[first.kind].word} ${first.victim}`,
            onclick: () => {
              const next =
                group.moments[(group.moments.findIndex((each) => each.id === current) + 1) % many];
              choose(next.id);
            },
          },
          many > 1 ? String(many) : kKinds[first.kind].sign,
        );
        button.style.left = group.x + 'px';
        return button;
      }),
    );
  }

  // ---- what happened ----

  function listed() {
    const all = $('held').checked;
    return picture.moments.filter((each) => all || kKinds[each.kind].worth > 0);
  }
  function drawMoments() {
    $('left-out').textContent =
      picture.momentsLeftOut > 0 ? `${picture.momentsLeftOut} more are left out` : '';
    const rows = listed().map((each) =>
      el(
        'li',
        { class: each.kind },
        el(
          'button',
          {
            type: 'button',
            'aria-current': each.id === current ? 'true' : null,
            'data-id': each.id,
            onclick: () => choose(each.id, true),
          },
          el('i', {}),
          el('b', {}, each.victim || kKinds[each.kind].word),
          el('time', {}, clock(seconds(each.atUs), 0.1)),
          el('small', {}, summary(each)),
        ),
      ),
    );
    if (rows.length === 0) {
      rows.push(el('li', {}, el('div', { class: 'none' }, 'No decision, no kernel OOM kill.')));
    }
    $('moments').replaceChildren(...rows);
    $('all-details').replaceChildren(
      ...picture.moments
        .filter((each) => kKinds[each.kind].worth > 1)
        .slice(0, 30)
        .map((each) => el('div', { class: 'one-detail' }, ...Detail.of(each, say))),
    );
  }
  function summary(each) {
    const { decision, outcome, oomKill } = each.record;
    if (each.kind === 'kernel-oom')
      return 'kernel OOM killer: ' + (kInaction[oomKill.inaction] || oomKill.inaction);
    const driving = decision.driving === undefined ? null : decision.evidence[decision.driving];
    const why = driving
      ? `${gaugeName({ subject: driving.subject, signal: driving.threshold.signal })} below ${driving.limitQuantity}`
      : kReasons[decision.reason] || decision.reason;
    const freed =
      outcome && !outcome.dryRun && outcome.state === 'released'
        ? `, ${bytes(outcome.freedBytes)} released`
        : '';
    return (kKinds[each.kind].worth > 1 ? why : kReasons[decision.reason] || why) + freed;
  }

  const say = { gaugeName, at: (us) => clock(seconds(us), 0.001) };

  // Scrolls only the list: the page keeps its position.
  function reveal(item) {
    const list = $('moments');
    const above = item.getBoundingClientRect().top - list.getBoundingClientRect().top;
    if (above < 0 || above + item.offsetHeight > list.clientHeight) {
      list.scrollTop += above - list.clientHeight / 2;
    }
  }

  function choose(id, show) {
    current = id;
    const each = picture.moments.find((moment) => moment.id === id);
    $('detail').replaceChildren(...(each ? Detail.of(each, say) : []));
    for (const button of $('moments').querySelectorAll('button')) {
      if (button.dataset.id === String(id)) {
        button.setAttribute('aria-current', 'true');
        reveal(button.parentElement);
      } else {
        button.removeAttribute('aria-current');
      }
    }
    const at = each && seconds(each.atUs);
    const [from, to] = view();
    if (show && each && (at < from || at > to)) zoom([at - (to - from) / 2, at + (to - from) / 2]);
    else drawLane();
    for (const chart of charts) if (chart.plot) chart.plot.redraw(false);
  }

  // ---- start ----

  function drawAll() {
    drawHead();
    drawTiles();
    makeCharts();
    drawSpan();
    drawMoments();
    drawLane();
    const worst = picture.moments.filter((each) => kKinds[each.kind].worth > 1);
    const last = worst[worst.length - 1] || picture.moments[picture.moments.length - 1];
    choose(last ? last.id : null);
    if (!last) $('detail').replaceChildren();
  }

  function begin(first) {
    picture = first;
    drawAll();
    $('whole').addEventListener('click', () => zoom(null));
    $('closer').addEventListener('click', () => scale(0.5));
    $('wider').addEventListener('click', () => scale(2));
    $('back').addEventListener('click', () => shift(-0.5));
    $('on').addEventListener('click', () => shift(0.5));
    $('held').addEventListener('change', drawMoments);
    new ResizeObserver(() => {
      for (const chart of charts) chart.resize();
      drawLane();
    }).observe($('charts'));
    const again = () => {
      for (const chart of charts) chart.rebuild();
    };
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
    matchMedia('print').addEventListener('change', again);
    document.documentElement.dataset.drawn = 'yes';
  }

  const own = $('picture');
  if (own) {
    begin(JSON.parse(own.textContent));
  } else {
    Live.follow({
      begin,
      has: () => picture !== null,
      add: (more) => {
        const reordered = take(Live.joined(picture, more));
        drawHead();
        drawTiles();
        // The first one shows the name of its gauge.
        charts.forEach((chart, i) => (reordered && i === 0 ? chart.rebuild() : chart.refresh()));
        drawSpan();
        // Redraws the moments only if they changed, so that a reader is not interrupted.
        if (more.moments.length > 0) drawMoments();
        if (more.moments.some((each) => each.id === current)) choose(current);
        else drawLane();
      },
      again: (all) => {
        take(all);
        zoomed = null;
        drawAll();
      },
      state: (on, text) => {
        $('live').hidden = false;
        $('live').className = 'pill ' + (on ? 'on' : 'off');
        $('live').textContent = text;
      },
    });
  }
})();
