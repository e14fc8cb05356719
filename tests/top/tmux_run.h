// SPDX-License-Identifier: Apache-2.0
// A program in a terminal of any size: a tmux server, whose screen the test reads and whose
// keyboard and mouse it controls.
#pragma once

#include <string>
#include <vector>

#include "support/child.h"
#include "support/temp_tree.h"

namespace forestall::test {

class TmuxRun {
 public:
  // Runs `command` (a line of sh). At its end, "ended CODE" appears and the terminal stays.
  // `terminal` is its TERM.
  TmuxRun(const std::string& command, int width, int height,
          const std::string& terminal = "tmux-256color");
  // Ends the server, and with it the program.
  ~TmuxRun();
  TmuxRun(const TmuxRun&) = delete;
  TmuxRun& operator=(const TmuxRun&) = delete;

  // The present text of the terminal.
  [[nodiscard]] std::string screen() const;
  // The same with its colours, as escape sequences.
  [[nodiscard]] std::string coloured_screen() const;
  // Polls until it shows `text`; returns its text then, or at the timeout.
  [[nodiscard]] std::string wait_for(const std::string& text) const;
  // The same until `text` is gone.
  [[nodiscard]] std::string wait_without(const std::string& text) const;
  // The same until it shows `first` above `second`.
  [[nodiscard]] std::string wait_for_order(const std::string& first,
                                           const std::string& second) const;
  // Names of keys as in tmux ("q", "Down", "Escape").
  void press(const std::vector<std::string>& keys) const;
  // The left button at a cell, or the wheel there (button 64 up, 65 down), as xterm encodes them.
  void mouse(int x, int y, int button = 0) const;
  void resize(int width, int height) const;
  // A format of tmux: "#{alternate_on}".
  [[nodiscard]] std::string ask(const std::string& format) const;
  // The program's process, once it runs; -1: not running.
  [[nodiscard]] pid_t program() const;
  [[nodiscard]] const TempTree& directory() const { return directory_; }

 private:
  // The output of tmux.
  [[nodiscard]] std::string tmux(const std::string& arguments) const;
  TempTree directory_;
};

}  // namespace forestall::test
