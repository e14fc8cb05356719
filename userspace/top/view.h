// SPDX-License-Identifier: Apache-2.0
// What the person at the terminal has chosen, and what a key or a click makes of it. Pure: nothing
// here reads a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "top/screen.h"

namespace forestall::top {

// A column of the table of workloads, which is also what it can be sorted by.
enum class Column : std::uint8_t {
  order,  // place in the order of eviction
  name,
  working_set,
  stall,   // ms of each second
  change,  // of the working set, bytes per second
  over_request,
  request,
  priority,
  points,  // the kernel's
  processes,
  why,  // what puts it before the next one, or keeps it
};

// What came from the terminal.
struct Input {
  enum class Kind : std::uint8_t {
    character,
    up,
    down,
    page_up,
    page_down,
    home,
    end,
    enter,
    escape,
    backspace,
    click,
    wheel_up,
    wheel_down,
    resize,
  };
  Kind kind = Kind::character;
  char32_t character = 0;
  int x = 0;  // of the mouse
  int y = 0;
};

struct View {
  std::string ranking = {};  // empty: the one of the configuration in force
  Column sort = Column::order;
  bool reversed = false;
  std::string filter = {};
  bool filtering = false;                              // keys go to the filter
  std::optional<std::string> selected = std::nullopt;  // path of the workload
  int scroll = 0;                                      // first row of the table that is shown
  bool paused = false;
  bool help = false;
  Duration interval = std::chrono::seconds(1);

  friend bool operator==(const View&, const View&) = default;
};

// Where things are on the screen that was drawn last: what a click means follows from it.
struct Layout {
  struct Row {
    int y = 0;
    std::string path;
  };
  struct Heading {
    int x = 0;
    int width = 0;
    Column column = Column::order;
  };
  int headings_y = -1;
  std::vector<Heading> headings = {};
  std::vector<Row> rows = {};           // shown
  std::vector<std::string> order = {};  // paths of all rows, in the order of the table
  int page = 1;                         // rows that fit
  int scroll = 0;                       // as it was drawn
  std::string ranking = {};             // whose order is shown
};

enum class Command : std::uint8_t {
  none,
  quit,
  ask,  // the picture has to be another one: whose order, or how often, has changed
};

// The shortest and the longest interval, and the next one up or down.
inline constexpr Duration kIntervalMin = std::chrono::milliseconds(100);
inline constexpr Duration kIntervalMax = std::chrono::minutes(1);
[[nodiscard]] Duration longer(Duration interval);
[[nodiscard]] Duration shorter(Duration interval);

// Applies one input to the view.
[[nodiscard]] Command apply(const Input& input, const Layout& layout, View& view);

}  // namespace forestall::top
