// SPDX-License-Identifier: Apache-2.0
// The head of the page: where the picture is from, and its figures as tiles.
'use strict';

const Header = (() => {
  const { el, bytes, count, length, clock } = Lines;
  const $ = View.byId;

  function drawHead() {
    const origin = View.picture.origin || {};
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
    remarks.hidden = View.picture.remarks.length === 0;
    remarks.replaceChildren(
      el('b', {}, 'Incomplete'),
      el('ul', {}, ...View.picture.remarks.map((text) => el('li', {}, text))),
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
    const sum = View.picture.summary;
    const tiles = [];
    const first = View.picture.gauges[View.gauge];
    if (first) {
      const met = first.thresholds.some((each) => first.least < each.limit);
      const amount = Lines.kUnits[first.unit].text(first.least).split(' ');
      tiles.push(
        tile(
          met ? 'kill' : 'good',
          'Least available',
          amount[0],
          amount[1] || '',
          `${first.subject === 'node' ? first.signal : first.subject} at ` +
            clock(View.seconds(first.leastAtUs), 1),
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
    const some = greatest(View.picture.pressure, 'some');
    if (some !== null) {
      const full = greatest(View.picture.pressure, 'full');
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
    const often = [...View.picture.wakes]
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
        often || `in ${length((View.picture.toUs - View.picture.fromUs) * 1e3)}`,
      ),
    );
    $('tiles').replaceChildren(...tiles);
  }

  return { drawHead, drawTiles };
})();
