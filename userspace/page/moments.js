// SPDX-License-Identifier: Apache-2.0
// What happened: the marks over the charts, the list of moments, and the selected one in full.
'use strict';

const Moments = (() => {
  const { el, bytes, clock } = Lines;
  const { kKinds, kReasons, kInaction } = Words;
  const $ = View.byId;

  // ---- marks over the charts ----

  function drawLane() {
    const lane = $('lane');
    const width = lane.clientWidth - Lines.kLeft - Lines.kRight;
    const [from, to] = View.range();
    const groups = [];
    for (const each of View.picture.moments) {
      const kind = kKinds[each.kind];
      const at = (View.seconds(each.atUs) - from) / (to - from);
      if (kind.worth < 2 || at < 0 || at > 1) continue;
      const x = Lines.kLeft + at * width;
      const last = groups[groups.length - 1];
      if (last && x - last.x < 26) last.moments.push(each);
      else groups.push({ x, moments: [each] });
    }
    lane.replaceChildren(
      ...groups.map((group) => {
        const shown = group.moments.find((each) => each.id === View.current);
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
              const at = group.moments.findIndex((each) => each.id === View.current);
              choose(group.moments[(at + 1) % many].id);
            },
          },
          many > 1 ? String(many) : kKinds[first.kind].sign,
        );
        button.style.left = group.x + 'px';
        return button;
      }),
    );
  }

  // ---- the list ----

  function listed() {
    const all = $('held').checked;
    return View.picture.moments.filter((each) => all || kKinds[each.kind].worth > 0);
  }
  function drawList() {
    $('left-out').textContent =
      View.picture.momentsLeftOut > 0 ? `${View.picture.momentsLeftOut} more are left out` : '';
    const rows = listed().map((each) =>
      el(
        'li',
        { class: each.kind },
        el(
          'button',
          {
            type: 'button',
            'aria-current': each.id === View.current ? 'true' : null,
            'data-id': each.id,
            onclick: () => choose(each.id, true),
          },
          el('i', {}),
          el('b', {}, each.victim || kKinds[each.kind].word),
          el('time', {}, clock(View.seconds(each.atUs), 0.1)),
          el('small', {}, summary(each)),
        ),
      ),
    );
    if (rows.length === 0) {
      rows.push(el('li', {}, el('div', { class: 'none' }, 'No decision, no kernel OOM kill.')));
    }
    $('moments').replaceChildren(...rows);
    $('all-details').replaceChildren(
      ...View.picture.moments
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
    const name = (of) => View.gaugeName({ subject: of.subject, signal: of.threshold.signal });
    const why = driving
      ? `${name(driving)} below ${driving.limitQuantity}`
      : kReasons[decision.reason] || decision.reason;
    const freed =
      outcome && !outcome.dryRun && outcome.state === 'released'
        ? `, ${bytes(outcome.freedBytes)} released`
        : '';
    return (kKinds[each.kind].worth > 1 ? why : kReasons[decision.reason] || why) + freed;
  }

  const say = { gaugeName: View.gaugeName, at: (us) => clock(View.seconds(us), 0.001) };

  // Scrolls only the list: the page keeps its position.
  function reveal(item) {
    const list = $('moments');
    const above = item.getBoundingClientRect().top - list.getBoundingClientRect().top;
    if (above < 0 || above + item.offsetHeight > list.clientHeight) {
      list.scrollTop += above - list.clientHeight / 2;
    }
  }

  function choose(id, show) {
    View.current = id;
    const each = View.picture.moments.find((moment) => moment.id === id);
    $('detail').replaceChildren(...(each ? Detail.of(each, say) : []));
    for (const button of $('moments').querySelectorAll('button')) {
      if (button.dataset.id === String(id)) {
        button.setAttribute('aria-current', 'true');
        reveal(button.parentElement);
      } else {
        button.removeAttribute('aria-current');
      }
    }
    const at = each && View.seconds(each.atUs);
    const [from, to] = View.range();
    const half = (to - from) / 2;
    if (show && each && (at < from || at > to)) View.zoom([at - half, at + half]);
    else drawLane();
    Charts.each((chart) => chart.plot && chart.plot.redraw(false));
  }

  return { drawLane, drawList, choose };
})();
