// SPDX-License-Identifier: Apache-2.0
#include "top/view.h"

#include <algorithm>
#include <array>

namespace forestall::top {
namespace {

using namespace std::chrono_literals;

constexpr std::array<Duration, 9> kIntervals{kIntervalMin, 200ms, 500ms, 1s,          2s,
                                             5s,           10s,   30s,   kIntervalMax};

void select_row(const Layout& layout, View& view, std::ptrdiff_t row) {
  if (layout.order.empty()) return;
  const auto last = static_cast<std::ptrdiff_t>(layout.order.size()) - 1;
  view.selected = layout.order[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(row, 0, last))];
}

// Moves from the selected row, or from the first or last visible one if none is selected.
void move(const Layout& layout, View& view, int by) {
  const auto found =
      view.selected ? std::ranges::find(layout.order, *view.selected) : layout.order.end();
  if (found == layout.order.end()) {
    select_row(layout, view, by > 0 ? layout.scroll + by - 1 : layout.scroll);
  } else {
    select_row(layout, view, found - layout.order.begin() + by);
  }
}

void wheel(const Layout& layout, View& view, int by) {
  // Scrolling clears a selection that would leave the screen.
  const int last = std::max(static_cast<int>(layout.order.size()) - layout.page, 0);
  view.scroll = std::clamp(layout.scroll + by, 0, last);
  if (!view.selected) return;
  const auto found = std::ranges::find(layout.order, *view.selected);
  const auto row = static_cast<int>(found - layout.order.begin());
  if (row < view.scroll || row >= view.scroll + layout.page) view.selected.reset();
}

// A workload is opened.
void scroll_processes(const Layout& layout, View& view, int to) {
  view.process_scroll = std::clamp(to, 0, std::max(layout.processes - layout.page, 0));
}

void sort_by(View& view, Column column) {
  view.reversed = view.sort == column && !view.reversed;
  view.sort = column;
}

void click(const Input& input, const Layout& layout, View& view) {
  if (input.y == layout.headings_y) {
    for (const Layout::Heading& each : layout.headings) {
      if (input.x >= each.x && input.x < each.x + each.width) sort_by(view, each.column);
    }
    return;
  }
  for (const Layout::Row& row : layout.rows) {
    if (row.y != input.y) continue;
    if (view.selected == row.path) {
      view.selected.reset();
    } else {
      view.selected = row.path;
    }
  }
}

// The next column to sort by, cyclically.
Column next_column(const Layout& layout, Column column) {
  const auto found = std::ranges::find(layout.headings, column, &Layout::Heading::column);
  if (found == layout.headings.end() || found + 1 == layout.headings.end()) return Column::order;
  return (found + 1)->column == Column::why ? Column::order : (found + 1)->column;
}

Command type(const Input& input, View& view) {
  switch (input.kind) {
    case Input::Kind::character:
      if (input.character >= U' ' && input.character != 0x7F) {
        view.filter += to_utf8(input.character);
      }
      break;
    case Input::Kind::backspace:
      // Removes a whole character with its continuation bytes.
      while (!view.filter.empty()) {
        const auto last = static_cast<unsigned char>(view.filter.back());
        view.filter.pop_back();
        if (last >> 6 != 0x2) break;
      }
      break;
    case Input::Kind::enter: view.filtering = false; break;
    case Input::Kind::escape:
      view.filtering = false;
      view.filter.clear();
      break;
    default: break;
  }
  return Command::none;
}

// Keys with the same meaning in both tables.
Command press_anywhere(char32_t key, View& view) {
  switch (key) {
    case U'q':
    case U'Q': return Command::quit;
    case U'?':
    case U'h': view.help = true; break;
    case U'p':
    case U' ': view.paused = !view.paused; return Command::resample;
    case U'+':
    case U'=': view.interval = longer(view.interval); return Command::resample;
    case U'-': view.interval = shorter(view.interval); return Command::resample;
    default: break;
  }
  return Command::none;
}

Command press(char32_t key, const Layout& layout, View& view) {
  switch (key) {
    case U'k':
      // Switches between the configured order and the other one.
      view.ranking = layout.ranking == "kernel" ? "kubelet" : "kernel";
      view.sort = Column::order;
      view.reversed = false;
      return Command::resample;
    case U's':
      view.sort = next_column(layout, view.sort);
      view.reversed = false;
      break;
    case U'r': view.reversed = !view.reversed; break;
    case U'/': view.filtering = true; break;
    case U'g': select_row(layout, view, 0); break;
    case U'G':
      select_row(layout, view, static_cast<std::ptrdiff_t>(layout.order.size()) - 1);
      break;
    default: return press_anywhere(key, view);
  }
  return Command::none;
}

// Without a selection, the first visible row is selected, and the next Enter opens it.
Command open(const Layout& layout, View& view) {
  if (!view.selected) {
    move(layout, view, 1);
    return Command::none;
  }
  view.opened = view.selected;
  view.process_scroll = 0;
  return Command::resample;
}

// While a workload is opened.
Command apply_opened(const Input& input, const Layout& layout, View& view) {
  const int at = layout.process_scroll;
  switch (input.kind) {
    case Input::Kind::character:
      if (input.character == U'g') scroll_processes(layout, view, 0);
      if (input.character == U'G') scroll_processes(layout, view, layout.processes);
      return press_anywhere(input.character, view);
    case Input::Kind::escape: view.opened.reset(); return Command::resample;
    case Input::Kind::up: scroll_processes(layout, view, at - 1); break;
    case Input::Kind::down: scroll_processes(layout, view, at + 1); break;
    case Input::Kind::page_up: scroll_processes(layout, view, at - layout.page); break;
    case Input::Kind::page_down: scroll_processes(layout, view, at + layout.page); break;
    case Input::Kind::home: scroll_processes(layout, view, 0); break;
    case Input::Kind::end: scroll_processes(layout, view, layout.processes); break;
    case Input::Kind::wheel_up: scroll_processes(layout, view, at - 3); break;
    case Input::Kind::wheel_down: scroll_processes(layout, view, at + 3); break;
    default: break;
  }
  return Command::none;
}

}  // namespace

Duration longer(Duration interval) {
  const auto* const found = std::ranges::upper_bound(kIntervals, interval);
  return found == kIntervals.end() ? kIntervalMax : *found;
}

Duration shorter(Duration interval) {
  const auto* const found = std::ranges::lower_bound(kIntervals, interval);
  return found == kIntervals.begin() ? kIntervalMin : *(found - 1);
}

Command apply(const Input& input, const Layout& layout, View& view) {
  if (input.kind == Input::Kind::resize) return Command::none;
  if (view.help) {
    // Any key closes the help; `q` quits.
    view.help = false;
    return input.kind == Input::Kind::character && input.character == U'q' ? Command::quit
                                                                           : Command::none;
  }
  if (view.opened) return apply_opened(input, layout, view);
  const bool mouse = input.kind == Input::Kind::click || input.kind == Input::Kind::wheel_up ||
                     input.kind == Input::Kind::wheel_down;
  const bool moves = input.kind >= Input::Kind::up && input.kind <= Input::Kind::end;
  if (view.filtering && !mouse && !moves) return type(input, view);
  switch (input.kind) {
    case Input::Kind::character: return press(input.character, layout, view);
    case Input::Kind::up: move(layout, view, -1); break;
    case Input::Kind::down: move(layout, view, 1); break;
    case Input::Kind::page_up: move(layout, view, -layout.page); break;
    case Input::Kind::page_down: move(layout, view, layout.page); break;
    case Input::Kind::home: select_row(layout, view, 0); break;
    case Input::Kind::end:
      select_row(layout, view, static_cast<std::ptrdiff_t>(layout.order.size()) - 1);
      break;
    case Input::Kind::enter: return open(layout, view);
    case Input::Kind::escape:
      // Esc clears the innermost choice first.
      if (view.selected) {
        view.selected.reset();
      } else {
        view.filter.clear();
      }
      break;
    case Input::Kind::click: click(input, layout, view); break;
    case Input::Kind::wheel_up: wheel(layout, view, -3); break;
    case Input::Kind::wheel_down: wheel(layout, view, 3); break;
    default: break;
  }
  return Command::none;
}

}  // namespace forestall::top
