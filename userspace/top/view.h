// SPDX-License-Identifier: Apache-2.0
// The user's choices, and the effect of keys and clicks on them. Pure: does not read a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "top/screen.h"

namespace forestall::top {

// A column of the table, by which it can be sorted.
enum class Column : std::uint8_t {
  order,  // rank in the eviction order
  name,
  working_set,
  stall,   // ms per second
  change,  // of the working set, bytes per second
  over_request,
  request,
  priority,
  points,  // of the kernel
  processes,
  why,  // why it ranks before the next one, or is protected
};

// An input from the terminal.
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
  std::string ranking = {};  // empty: the configuration's
  Column sort = Column::order;
  bool reversed = false;
  std::string filter = {};
  bool filtering = false;                              // keys edit the filter
  std::optional<std::string> selected = std::nullopt;  // path of the workload
  int scroll = 0;                                      // first visible row
  std::optional<std::string> opened = std::nullopt;    // its processes are shown instead
  int process_scroll = 0;                              // their first visible row
  bool paused = false;
  bool help = false;
  Duration interval = std::chrono::seconds(1);

  friend bool operator==(const View&, const View&) = default;
};

// Positions on the last drawn screen, which give clicks their meaning.
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
  std::vector<Row> rows = {};           // visible
  std::vector<std::string> order = {};  // paths of all rows, in table order
  int page = 1;                         // rows that fit
  int processes = 0;                    // rows of the opened workload
  int scroll = 0;                       // as drawn
  int process_scroll = 0;
  std::string ranking = {};  // the order shown
};

enum class Command : std::uint8_t {
  none,
  quit,
  resample,  // the ranking, the interval or what is opened changed: a new sample is needed
};

// Shortest and longest interval, and the next longer or shorter one.
inline constexpr Duration kIntervalMin = std::chrono::milliseconds(100);
inline constexpr Duration kIntervalMax = std::chrono::minutes(1);
[[nodiscard]] Duration longer(Duration interval);
[[nodiscard]] Duration shorter(Duration interval);

// Applies one input to the view.
[[nodiscard]] Command apply(const Input& input, const Layout& layout, View& view);

}  // namespace forestall::top
