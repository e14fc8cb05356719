// SPDX-License-Identifier: Apache-2.0
// The terminal: paints a screen of cells, and reads keys and the mouse. Based on ncurses, which
// uses the terminal's capabilities and sends only changes.
//
// The terminal is restored in every case: by the destructor, and after a crash or abort by a signal
// handler that writes the sequences ncurses would write.
#pragma once

#include <memory>
#include <optional>

#include "base/result.h"
#include "top/screen.h"
#include "top/view.h"

struct screen;  // of ncurses

namespace forestall::top {

// Requested settings of the terminal.
struct TerminalSettings {
  bool colors = true;
  bool mouse = true;
};

// Thread rule: one thread, and one Terminal at a time.
class Terminal {
 public:
  // Uses standard input and output. Errors: they are not a terminal, or its type is unknown.
  static Result<std::unique_ptr<Terminal>> open(const TerminalSettings& settings);
  ~Terminal();

  [[nodiscard]] Size size() const;
  // Whether the locale allows glyphs beyond ASCII.
  [[nodiscard]] static bool shows_unicode();
  void paint(const Screen& screen);
  // The next key, mouse event or resize; nothing: none left.
  [[nodiscard]] std::optional<Input> next();
  // For poll().
  [[nodiscard]] int fd() const;

 private:
  explicit Terminal(::screen* screen) : screen_(screen) {}
  void paint_cell(const Cell& cell);
  void set_up_colors();
  ::screen* screen_;
  bool colors_ = false;
};

}  // namespace forestall::top
