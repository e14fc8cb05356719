// SPDX-License-Identifier: Apache-2.0
// Draws a picture (forestall/internal/picture.proto), its only input. A report contains it; a
// running agent serves it at /picture and its changes at /live.
//
// Names are added to the document as text: no markup is made from strings.
'use strict';

(() => {
  const { kKinds } = Words;
  const $ = View.byId;

  function drawRange() {
    $('span').textContent = View.rangeText();
  }

  View.rangeChanged = () => {
    const range = View.range();
    Charts.each((chart) => chart.show(range));
    Moments.drawLane();
    drawRange();
  };

  function drawAll() {
    Header.drawHead();
    Header.drawTiles();
    Charts.make(Header.drawTiles);
    drawRange();
    Moments.drawList();
    Moments.drawLane();
    const worst = View.picture.moments.filter((each) => kKinds[each.kind].worth > 1);
    const last = worst[worst.length - 1] || View.picture.moments[View.picture.moments.length - 1];
    Moments.choose(last ? last.id : null);
    if (!last) $('detail').replaceChildren();
  }

  function begin(first) {
    View.picture = first;
    drawAll();
    $('whole').addEventListener('click', () => View.zoom(null));
    $('closer').addEventListener('click', () => View.scale(0.5));
    $('wider').addEventListener('click', () => View.scale(2));
    $('back').addEventListener('click', () => View.shift(-0.5));
    $('on').addEventListener('click', () => View.shift(0.5));
    $('held').addEventListener('change', Moments.drawList);
    new ResizeObserver(() => {
      Charts.each((chart) => chart.resize());
      Moments.drawLane();
    }).observe($('charts'));
    const again = () => Charts.each((chart) => chart.rebuild());
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
      has: () => View.picture !== null,
      add: (more) => {
        const reordered = View.take(Live.joined(View.picture, more));
        Header.drawHead();
        Header.drawTiles();
        // The first one shows the name of its gauge.
        Charts.each((chart, i) => (reordered && i === 0 ? chart.rebuild() : chart.refresh()));
        drawRange();
        // Redraws the moments only if they changed, so that a reader is not interrupted.
        if (more.moments.length > 0) Moments.drawList();
        if (more.moments.some((each) => each.id === View.current)) Moments.choose(View.current);
        else Moments.drawLane();
      },
      again: (all) => {
        View.take(all);
        View.zoomed = null;
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
