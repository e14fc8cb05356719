// SPDX-License-Identifier: Apache-2.0
// Follows a running agent: loads one picture, then receives changes as server-sent events.
'use strict';

const Live = (() => {
  // Limits the browser's memory: a page may stay open for days.
  const kRowsMax = 4000;

  // Appends the rows of `more` to `table` and drops the oldest beyond kRowsMax.
  function joinedTable(table, more) {
    const had = table ? table.atUs.length : 0;
    const atUs = (table ? table.atUs : []).concat(more.atUs);
    const drop = Math.max(0, atUs.length - kRowsMax);
    const lines = new Map();
    const take = (from, offset) => {
      for (const line of from.lines) {
        if (!lines.has(line.name)) lines.set(line.name, { name: line.name, runs: [] });
        for (const run of line.runs) {
          const first = run.first + offset - drop;
          const cut = Math.max(0, -first);
          if (cut < run.values.length) {
            lines.get(line.name).runs.push({ first: first + cut, values: run.values.slice(cut) });
          }
        }
      }
    };
    // Lines in the order of the newer table, in which the largest is first.
    for (const line of more.lines) lines.set(line.name, { name: line.name, runs: [] });
    if (table) take(table, 0);
    take(more, had);
    const rest = lines.get('others');
    if (rest) {
      lines.delete('others');
      lines.set('others', rest);
    }
    // Drops lines that are neither drawn now nor in the kept rows.
    const now = new Set(more.lines.map((line) => line.name));
    const kept = [...lines.values()].filter((line) => line.runs.length > 0 || now.has(line.name));
    return { atUs: atUs.slice(drop), lines: kept, rowsRead: more.rowsRead };
  }

  // Start of the kept rows. Earlier times are unknown and must not appear as times without events.
  function reach(fromUs, tables) {
    const known = tables.filter((table) => table.atUs.length > 0);
    if (!known.some((table) => table.atUs.length === kRowsMax)) return fromUs;
    return Math.max(fromUs, Math.min(...known.map((table) => table.atUs[0])));
  }

  function replaced(before, after, key) {
    const all = new Map(before.map((each) => [key(each), each]));
    for (const each of after) all.set(key(each), each);
    return [...all.values()];
  }

  function joined(before, more) {
    const gaugeKey = (each) => each.signal + ' ' + each.subject;
    const old = new Map(before.gauges.map((each) => [gaugeKey(each), each]));
    const names = new Map();
    const note = (picture) =>
      picture.workloads.lines.forEach((line, i) => {
        if (picture.workloadNames[i]) names.set(line.name, picture.workloadNames[i]);
      });
    note(before);
    note(more);
    const workloads = joinedTable(before.workloads, more.workloads);
    const pressure = joinedTable(before.pressure, more.pressure);
    const gauges = more.gauges.map((each) => ({
      ...each,
      table: joinedTable((old.get(gaugeKey(each)) || {}).table, each.table),
    }));
    return {
      ...more,
      fromUs: reach(before.fromUs, [workloads, pressure, ...gauges.map((each) => each.table)]),
      gauges,
      pressure,
      reclaim: joinedTable(before.reclaim, more.reclaim),
      workloads,
      workloadNames: workloads.lines
        .filter((line) => line.name !== 'others')
        .map((line) => names.get(line.name) || line.name),
      spans: replaced(
        before.spans,
        more.spans,
        (each) => `${each.kind} ${each.name} ${each.fromUs}`,
      ).slice(-500),
      moments: replaced(before.moments, more.moments, (each) => each.id)
        .sort((a, b) => a.atUs - b.atUs)
        .slice(-200),
    };
  }

  function follow(page) {
    const source = new EventSource('live');
    source.addEventListener('picture', (event) => {
      const more = JSON.parse(event.data);
      if (more.continued && page.has()) page.add(more);
      else if (page.has()) page.again(more);
      else page.begin(more);
      page.state(true, 'live');
    });
    source.addEventListener('error', () => {
      page.state(
        false,
        source.readyState === EventSource.CLOSED
          ? 'the agent refuses to be watched'
          : 'no answer from the agent',
      );
    });
  }

  return { follow, joined };
})();
