// SPDX-License-Identifier: Apache-2.0
// The gauge that the user selects: its thresholds, its spans and its scale.
'use strict';

const Gauges = (() => {
  const { el, length } = Lines;

  const selected = () => View.picture.gauges[View.gauge];

  // `changed` is called after another gauge was selected.
  function select(changed) {
    const { gauges, gaugesLeftOut } = View.picture;
    if (gauges.length < 2) {
      return el('b', {}, gauges[0] ? View.gaugeName(gauges[0]) : 'Available');
    }
    const list = el(
      'select',
      {
        id: 'gauge',
        'aria-label': 'Signal',
        onchange: () => {
          View.gauge = list.selectedIndex;
          View.gaugeChosen = true;
          changed();
        },
      },
      ...gauges.map((each) => el('option', {}, View.gaugeName(each))),
    );
    if (gaugesLeftOut > 0)
      list.append(el('option', { disabled: true }, `${gaugesLeftOut} more are left out`));
    list.selectedIndex = View.gauge;
    return list;
  }
  function thresholds() {
    const each = selected();
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
  function max(high) {
    const limits = thresholds().map((each) => each.limit);
    const most = limits.length ? Math.max(...limits) : 0;
    if (View.near && most > 0) return most * 4;
    return Math.max(high || 0, most * 1.25) * 1.05;
  }
  function spans() {
    const each = selected();
    if (!each) return [];
    const suffix = each.subject === 'node' ? '' : ' of ' + each.subject;
    return View.picture.spans.filter(
      (span) =>
        span.kind === 'lost' ||
        ((span.kind === 'met' || span.kind === 'grace') &&
          span.name.startsWith(each.signal + '<') &&
          (suffix ? span.name.endsWith(suffix) : !span.name.includes(' of '))),
    );
  }

  return { selected, select, thresholds, max, spans };
})();
