// SPDX-License-Identifier: Apache-2.0
// The terminal: paints a screen of cells, hands out keys and the mouse. On ncurses, which knows
// what the terminal can do and sends it only what has changed.
//
// Whatever way the program ends, the terminal is left as it was found: by the destructor, and where
// no destructor runs (a crash, an abort) by a handler that writes what ncurses would have.
#pragma once

#include <memory>
#include <optional>

#include "base/result.h"
#include "top/screen.h"
#include "top/view.h"

struct screen;  // ncurses' own

namespace forestall::top {

// What the terminal is asked to be.
struct TerminalWish {
  bool colors = true;
  bool mouse = true;
};

// Thread rule: one thread, and one Terminal at a time.
class Terminal {
 public:
  // Takes standard input and output. Errors: they are no terminal, or one of an unknown kind.
  static Result<std::unique_ptr<Terminal>> open(const TerminalWish& wish);
  ~Terminal();

  [[nodiscard]] Size size() const;
  // Whether glyphs beyond ASCII can be shown: by the locale.
  [[nodiscard]] static bool shows_unicode();
  void paint(const Screen& screen);
  // The next thing that was typed, clicked or changed; nothing: all of it was taken.
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
