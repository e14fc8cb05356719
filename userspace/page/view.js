// SPDX-License-Identifier: Apache-2.0
// What the page shows: the picture, the gauge, the moment and the range of time.
'use strict';

const View = (() => {
  const { length, clock } = Lines;

  const state = {
    picture: null,
    gauge: 0, // index of the one drawn
    gaugeChosen: false, // by the user; otherwise the first, which came nearest to its threshold
    near: false, // scale to values near the thresholds
    zoomed: null, // [from, to] in seconds since 1970; null: all
    current: null, // id of the moment shown
    // Redraws what depends on the range of time. Set by page.js.
    rangeChanged: () => {},
  };

  // ---- time ----

  state.seconds = (us) => (state.picture.originUnixUs + us) / 1e6;
  state.whole = () => {
    const from = state.seconds(state.picture.fromUs);
    const to = Math.max(state.seconds(state.picture.toUs), from + 0.001);
    return [from, to + (to - from) * 0.01];
  };
  state.range = () => state.zoomed || state.whole();
  state.zoom = (wanted) => {
    if (wanted) {
      const [low, high] = state.whole();
      const least = 0.002;
      const size = Math.min(Math.max(wanted[1] - wanted[0], least), high - low);
      const from = Math.min(Math.max(wanted[0], low), high - size);
      state.zoomed = size >= (high - low) * 0.999 ? null : [from, from + size];
    } else {
      state.zoomed = null;
    }
    state.rangeChanged();
  };
  state.scale = (factor) => {
    const [from, to] = state.range();
    const middle = (from + to) / 2;
    state.zoom([middle - ((to - from) * factor) / 2, middle + ((to - from) * factor) / 2]);
  };
  state.shift = (share) => {
    const [from, to] = state.range();
    state.zoom([from + (to - from) * share, to + (to - from) * share]);
  };
  state.rangeText = () => {
    const [from, to] = state.range();
    const day = new Date(from * 1e3).toISOString().slice(0, 10);
    const fine = to - from < 5 ? 0.001 : 1;
    return `${day}, ${clock(from, fine)} – ${clock(to, fine)} (${length((to - from) * 1e9)})`;
  };

  // ---- gauges ----

  state.gaugeName = (each) =>
    each.subject === 'node' ? each.signal : `${each.signal} of ${each.subject}`;
  // Replaces the picture. A gauge that the user chose stays selected at its new index. Returns
  // whether the gauges or their order changed.
  state.take = (next) => {
    const names = () => state.picture.gauges.map(state.gaugeName);
    const before = names();
    state.picture = next;
    const after = names();
    state.gauge = state.gaugeChosen ? Math.max(after.indexOf(before[state.gauge]), 0) : 0;
    return before.join('\n') !== after.join('\n');
  };

  // ---- the document ----

  state.byId = (id) => document.getElementById(id);

  return state;
})();
