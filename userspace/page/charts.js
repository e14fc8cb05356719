// SPDX-License-Identifier: Apache-2.0
// The charts of the page: available, working sets, pressure, reclaim, direct reclaim.
'use strict';

const Charts = (() => {
  const { el } = Lines;
  const { kKinds } = Words;
  const $ = View.byId;

  let charts = [];

  const momentsDrawn = () =>
    View.picture.moments
      .filter((each) => kKinds[each.kind].worth > 1 || each.id === View.current)
      .map((each) => ({
        atUs: each.atUs,
        role: { kill: 'kill', 'would-kill': 'would', 'kernel-oom': 'oom' }[each.kind] || 'held',
        current: each.id === View.current,
      }));

  const lostSpans = () => View.picture.spans.filter((span) => span.kind === 'lost');

  function workloadLines() {
    const names = View.picture.workloadNames;
    return View.picture.workloads.lines.map((line, i) => {
      if (line.name === 'others' && i >= names.length) {
        return { name: 'others', label: `${View.picture.workloadsLeftOut} others`, role: 'others' };
      }
      return {
        name: line.name,
        label: names[i] || line.name,
        role: i < 12 ? 'c' + i : 'c' + (i % 12),
      };
    });
  }

  const table = (of) => of || { atUs: [], lines: [] };
  // `gaugeChanged` is called after another gauge was selected.
  function make(gaugeChanged) {
    const timeline = {
      originUs: () => View.picture.originUnixUs,
      view: View.range,
      zoom: View.zoom,
      moments: momentsDrawn,
    };
    const nearButton = () =>
      el(
        'button',
        {
          type: 'button',
          id: 'near',
          class: 'how',
          'aria-pressed': String(View.near),
          onclick: () => {
            View.near = !View.near;
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
        unit: () => (Gauges.selected() || { unit: 'bytes' }).unit,
        height: 230,
        table: () => table((Gauges.selected() || {}).table),
        select: () =>
          Gauges.select(() => {
            charts[0].rebuild();
            gaugeChanged();
          }),
        thresholds: Gauges.thresholds,
        lines: () => [
          { name: 'available', label: 'available', role: 'available', fill: true, width: 2 },
        ],
        spans: Gauges.spans,
        max: Gauges.max,
        extras: () => (Gauges.thresholds().length ? [nearButton()] : []),
        none: 'No signal could be computed.',
      },
      {
        id: 'workloads',
        title: 'Working sets',
        unit: () => 'bytes',
        height: 230,
        stacked: true,
        table: () => table(View.picture.workloads),
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
        table: () => table(View.picture.pressure),
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
        table: () => table(View.picture.reclaim),
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
        table: () => table(View.picture.reclaim),
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

  const each = (call) => charts.forEach(call);

  return { make, each };
})();
