// SPDX-License-Identifier: Apache-2.0
// One moment in full: the compared numbers, all candidates and the reasons for their order, the
// actions, and the length of each stage.
'use strict';

const Detail = (() => {
  const { el, bytes, count, length } = Lines;

  const isBytes = (signal) => !/inodesFree|^pid\./.test(signal);
  const amount = (signal, value) => (isBytes(signal) ? bytes(value) : count(value));

  function heading(text) {
    return el('h3', {}, text);
  }
  function grid(headings, rows) {
    const head = headings.map((each) =>
      el(
        'th',
        { class: each.wide ? 'text wide' : each.text ? 'text' : null, scope: 'col' },
        each.name,
      ),
    );
    return el(
      'div',
      { class: 'scroll' },
      el(
        'table',
        { class: 'grid' },
        el('thead', {}, el('tr', {}, ...head)),
        el('tbody', {}, ...rows),
      ),
    );
  }
  function named(name, path) {
    const td = el('td', { class: 'text wide' }, name || path);
    if (path && path !== name) td.append(el('small', {}, path));
    return td;
  }

  // ---- the ranking ----

  // The values by which candidates are compared, in this order (RankKey). A column with equal
  // values is omitted, except the last.
  function comparators(decision) {
    const keys = decision.considered.map((each) => each.key);
    const driving = decision.driving === undefined ? null : decision.evidence[decision.driving];
    const signal = driving ? driving.threshold.signal : 'memory.available';
    const list = [];
    if (keys.some((key) => !key.measured))
      list.push({ name: 'measured', of: (key) => (key.measured ? 'yes' : 'no') });
    if (keys.some((key) => key.badness !== undefined)) {
      list.push({
        name: 'kernel points',
        of: (key) => (key.badness === undefined ? '–' : key.badness.toLocaleString('en')),
      });
    } else if (/^pid\./.test(signal)) {
      list.push(
        { name: 'priority', of: (key) => String(key.priority) },
        { name: 'processes', of: (key) => count(key.usage) },
      );
    } else {
      list.push({ name: 'over its request', of: (key) => (key.exceedsRequest ? 'yes' : 'no') });
      list.push({ name: 'priority', of: (key) => String(key.priority) });
      if (keys.some((key) => key.growth !== undefined)) {
        list.push({
          name: 'growth',
          of: (key) => (key.growth === undefined ? '–' : bytes(key.growth)),
        });
      }
      list.push({
        name: 'usage − request',
        of: (key) => amount(signal, key.overRequest),
        last: true,
      });
      list.push({ name: 'usage', of: (key) => amount(signal, key.usage), shown: true });
      list.push({
        name: 'request',
        of: (key) => (key.request ? bytes(key.request) : '–'),
        shown: true,
      });
    }
    return list;
  }

  // The first comparator that distinguishes the victim from the next candidate.
  function deciding(decision, columns) {
    const victims = new Set(decision.evictions.map((each) => each.candidate));
    const victim = decision.considered[[...victims][0]];
    const next = decision.considered.find(
      (each, i) => !victims.has(i) && each.exclusion === 'none',
    );
    if (!victim || !next) return null;
    return (
      columns.find((column) => !column.shown && column.of(victim.key) !== column.of(next.key)) ||
      null
    );
  }

  const kRowsShown = 12;
  const kPassed = {
    protected: 'protected',
    'kill-in-flight': 'being killed',
    'kill-failed': 'could not be killed',
    empty: 'empty',
    unkillable: 'unkillable',
  };

  function ranking(moment) {
    const { decision } = moment.record;
    if (decision.considered.length === 0) return [];
    const columns = comparators(decision);
    const decider = deciding(decision, columns);
    const victims = new Set(decision.evictions.map((each) => each.candidate));
    const rows = decision.considered.map((each, i) => {
      const { workload } = each.sample;
      const excluded = each.exclusion !== 'none';
      const mark = victims.has(i)
        ? 'victim'
        : excluded
          ? kPassed[each.exclusion] || each.exclusion
          : '';
      return el(
        'tr',
        { class: victims.has(i) ? 'victim' : excluded ? 'passed' : null },
        el('td', {}, String(i + 1)),
        named(workload.name, workload.path),
        ...columns.map((column) =>
          el(
            'td',
            { class: victims.has(i) && column === decider ? 'decided' : null },
            column.of(each.key),
          ),
        ),
        el('td', { class: 'mark' }, mark ? el('b', {}, mark) : ''),
      );
    });
    const later = rows.splice(kRowsShown);
    const headings = [
      { name: '#' },
      { name: 'workload', wide: true },
      ...columns,
      { name: '', text: true },
    ];
    const parts = [heading('Ranking')];
    const table = grid(headings, rows);
    parts.push(table);
    if (later.length > 0) {
      const more = el('button', { type: 'button', class: 'more' }, `${later.length} more`);
      more.addEventListener('click', () => {
        table.querySelector('tbody').append(...later);
        more.remove();
      });
      parts.push(more);
    }
    const notes = [];
    if (decider) {
      notes.push(`“${decider.name}” distinguishes the victim from the next candidate.`);
    }
    if (moment.consideredLeftOut > 0)
      notes.push(`${moment.consideredLeftOut} further candidates are left out.`);
    if (moment.record.prepared) {
      notes.push(
        `Ranked ${length(moment.record.prepared.ageNs)} before, ` +
          'with fresh usage of the first candidates.',
      );
    }
    if (notes.length) parts.push(el('p', { class: 'quiet' }, notes.join(' ')));
    return parts;
  }

  // ---- the numbers ----

  function evidence(decision) {
    const met = decision.evidence.filter((each) => each.met);
    const rest = decision.evidence.filter((each) => !each.met);
    const shown = met.concat(rest).slice(0, 12);
    if (shown.length === 0) return [];
    const rows = shown.map((each) => {
      const { signal } = each.threshold;
      const state = each.driving ? 'met' : each.met ? 'in grace' : '';
      const dot = signal.lastIndexOf('.') + 1; // where a narrow column breaks the name
      return el(
        'tr',
        {},
        el(
          'td',
          { class: 'text' },
          signal.slice(0, dot),
          el('wbr'),
          signal.slice(dot),
          el('small', {}, each.subject),
        ),
        el('td', { class: each.met ? 'met' : null }, amount(signal, each.available)),
        el('td', {}, each.limitQuantity),
        el('td', {}, amount(signal, each.capacity)),
        el('td', {}, each.pendingRelease ? bytes(each.pendingRelease) : '–'),
        el('td', { class: 'mark' }, state),
      );
    });
    return [
      heading('Thresholds'),
      grid(
        [
          { name: 'signal', wide: true },
          { name: 'available' },
          { name: 'threshold' },
          { name: 'capacity' },
          { name: 'pending release' },
          { name: '', text: true },
        ],
        rows,
      ),
    ];
  }

  // An evaluation takes microseconds and the release of memory milliseconds, so the scale is
  // logarithmic and starts at a microsecond.
  function stages(moment) {
    const list = moment.stages || [];
    if (list.length === 0) return [];
    const size = (ns) => Math.log10(Math.max(ns / 1e3, 1.2));
    const all = Math.max(...list.map((each) => size(each.lengthNs)), 1);
    const box = el('div', { class: 'stages' });
    let before = 0;
    for (const each of list) {
      const after = each.stage === 'exit' || each.stage === 'freed';
      if (!after) before += each.lengthNs;
      const fill = el('div', { class: 'fill ' + (after ? 'calm' : moment.kind) });
      fill.style.width = Math.max((100 * size(each.lengthNs)) / all, 1) + '%';
      box.append(
        el('span', {}, Words.kStages[each.stage] || each.stage),
        el('div', { class: 'track' }, fill),
        el('span', { class: 'amount' }, length(each.lengthNs)),
      );
    }
    const { outcome } = moment.record;
    const signalled = outcome && outcome.signalledNs;
    return [
      heading('Stages'),
      box,
      el(
        'p',
        { class: 'quiet' },
        (signalled ? `${length(before)} from the crossing to the signal. ` : '') +
          'Bars are logarithmic.',
      ),
    ];
  }

  function ladder(outcome) {
    if (!outcome || outcome.attempts.length === 0) return [];
    const rows = outcome.attempts.map((each) =>
      el(
        'tr',
        {},
        el('td', { class: 'text' }, each.rung),
        el('td', {}, '+' + length(each.atNs - outcome.beganNs)),
        el('td', {}, String(each.processes)),
        el(
          'td',
          { class: each.failure ? 'text' : 'mark' },
          each.failure ? each.failure.message : 'done',
        ),
      ),
    );
    return [
      heading('Actions'),
      grid(
        [
          { name: 'rung', wide: true },
          { name: 'after' },
          { name: 'processes' },
          { name: '', text: true },
        ],
        rows,
      ),
    ];
  }

  // ---- a kill by the kernel ----

  function facts(pairs) {
    const list = el('dl', { class: 'facts' });
    for (const [name, value] of pairs) {
      if (value !== null && value !== undefined && value !== '')
        list.append(el('dt', {}, name), el('dd', {}, String(value)));
    }
    return list;
  }
  function kernel(oomKill) {
    const seen = oomKill.event;
    const domain = seen.domainPath || (seen.constraint === 'none' ? 'the node' : '');
    const pages = (n) => (n === undefined ? undefined : `${n.toLocaleString('en')} pages`);
    const forecast = oomKill.forecast;
    return [
      heading('What the kernel did'),
      facts([
        [
          'process',
          `${seen.name}${seen.victim ? ', pid ' + seen.victim.pid : ''}, uid ${seen.uid}`,
        ],
        ['cgroup', seen.path],
        [
          'out of memory',
          domain && seen.domainLimitBytes !== undefined
            ? `${domain}: ${bytes(seen.domainUsageBytes || 0)} of ${bytes(seen.domainLimitBytes)}`
            : domain,
        ],
        [
          'constraint',
          seen.constraint && seen.constraint + (seen.constraintDeduced ? ' (deduced)' : ''),
        ],
        ['points', pages(seen.points)],
        ['oom_score_adj', seen.oomScoreAdj],
        ['anonymous', seen.memory && pages(seen.memory.anonPages)],
        ['allocating process', seen.killerName],
      ]),
      heading('The agent'),
      facts([
        ['had not acted', Words.kInaction[oomKill.inaction] || oomKill.inaction],
        [
          'since the crossing',
          oomKill.sinceCrossingNs === undefined ? '' : length(oomKill.sinceCrossingNs),
        ],
        ['agent away', oomKill.agentAwayNs === undefined ? '' : length(oomKill.agentAwayNs)],
        [
          'predicted',
          !forecast
            ? 'no prediction'
            : forecast.right
              ? 'yes, this process'
              : forecast.victim
                ? 'another process: pid ' + forecast.victim.pid
                : forecast.verdict,
        ],
      ]),
    ];
  }

  // ---- the whole moment ----

  function sentence(moment, say) {
    const { decision, oomKill } = moment.record;
    if (oomKill) {
      const why = Words.kInaction[oomKill.inaction] || oomKill.inaction;
      return `The kernel's OOM killer killed ${moment.victim}. The agent had not acted: ${why}.`;
    }
    const driving = decision.driving === undefined ? null : decision.evidence[decision.driving];
    const eviction = decision.evictions[0];
    if (eviction && eviction.message) return eviction.message;
    if (!driving) return (Words.kReasons[decision.reason] || decision.reason) + '.';
    const { signal } = driving.threshold;
    return (
      `${say.gaugeName({ signal, subject: driving.subject })} was ` +
      `${amount(signal, driving.available)}, ` +
      `below ${driving.limitQuantity}: ${Words.kReasons[decision.reason] || decision.reason}.`
    );
  }

  function of(moment, say) {
    const { decision, outcome, oomKill } = moment.record;
    const badge = outcome ? (outcome.dryRun ? 'dry run' : outcome.state) : null;
    const wake = moment.record.observation && moment.record.observation.wake;
    const woken = wake && wake.source ? `woken by ${wake.source}` : '';
    const parts = [
      el(
        'div',
        { class: 'title ' + moment.kind },
        el('span', { class: 'badge' }, Words.kKinds[moment.kind].word),
        el('strong', {}, moment.victim || ''),
        badge ? el('span', { class: 'badge calm' }, badge) : null,
        el('span', { class: 'quiet' }, [say.at(moment.atUs), woken].filter(Boolean).join(', ')),
      ),
      el('p', { class: 'sentence' }, sentence(moment, say)),
    ];
    if (oomKill) parts.push(...kernel(oomKill));
    if (outcome && !outcome.dryRun) {
      parts.push(
        el(
          'p',
          { class: 'sentence quiet' },
          `${outcome.processes} process${outcome.processes === 1 ? '' : 'es'} signalled, ` +
            `${bytes(outcome.freedBytes)} of ${bytes(outcome.usageBeforeBytes)} released.`,
        ),
      );
    }
    if (!oomKill) parts.push(...stages(moment));
    parts.push(...ranking(moment), ...evidence(decision), ...ladder(outcome));
    return parts;
  }

  return { of };
})();
