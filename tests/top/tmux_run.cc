// SPDX-License-Identifier: Apache-2.0
#include "top/tmux_run.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "base/clock.h"

namespace forestall::test {
namespace {

std::string output_of(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen: " + command);
  std::string text;
  char chunk[4096];
  std::size_t got = 0;
  while ((got = std::fread(chunk, 1, sizeof(chunk), pipe)) > 0) text.append(chunk, got);
  ::pclose(pipe);
  return text;
}

template <typename Good>
std::string read_until(const TmuxRun& run, Good good) {
  const MonotonicTime deadline = SystemClock().now() + kPatience;
  std::string text = run.screen();
  while (!good(text) && SystemClock().now() < deadline) text = run.screen();
  return text;
}

}  // namespace

TmuxRun::TmuxRun(const std::string& command, int width, int height, const std::string& terminal)
    : directory_({{"tmux.conf", fmt::format("set -g default-terminal {}\nset -g status off\n"
                                            "set -g escape-time 0\nset -g remain-on-exit on\n"
                                            "set -g mouse off\n",
                                            terminal)},
                  {"inner.sh", ""}}) {
  directory_.write("inner.sh", fmt::format("echo $$ >{}\nexec {}\n", directory_ / "pid", command));
  // The echo of the terminal shows whether the program restored it.
  directory_.write("outer.sh",
                   fmt::format("sh {}\necho ended $?\n"
                               "stty -a | grep -q -- ' -echo ' && echo no echo || echo echoes\n"
                               "exec cat\n",
                               directory_ / "inner.sh"));
  const std::string problem =
      tmux(fmt::format("-f {} new-session -d -x {} -y {} 'sh {}'", directory_ / "tmux.conf", width,
                       height, directory_ / "outer.sh"));
  if (!problem.empty()) throw std::runtime_error("tmux: " + problem);
}

TmuxRun::~TmuxRun() {
  (void)tmux("kill-server");
}

std::string TmuxRun::tmux(const std::string& arguments) const {
  return output_of(fmt::format("TERM=xterm-256color LC_ALL=C.UTF-8 tmux -S {} {} 2>&1",
                               directory_ / "socket", arguments));
}

std::string TmuxRun::screen() const {
  return tmux("capture-pane -p");
}

std::string TmuxRun::coloured_screen() const {
  return tmux("capture-pane -p -e");
}

std::string TmuxRun::wait_for(const std::string& text) const {
  return read_until(
      *this, [&](const std::string& screen) { return screen.find(text) != std::string::npos; });
}

std::string TmuxRun::wait_without(const std::string& text) const {
  return read_until(
      *this, [&](const std::string& screen) { return screen.find(text) == std::string::npos; });
}

std::string TmuxRun::wait_for_order(const std::string& first, const std::string& second) const {
  return read_until(*this, [&](const std::string& screen) {
    const auto found = screen.find(first);
    return found != std::string::npos && screen.find(second, found) != std::string::npos;
  });
}

void TmuxRun::press(const std::vector<std::string>& keys) const {
  for (const std::string& each : keys) (void)tmux("send-keys '" + each + "'");
}

void TmuxRun::mouse(int x, int y, int button) const {
  // X10's encoding: ESC [ M, then button and place, each with 32 added, places from 1 on.
  const auto report = [&](int code) {
    (void)tmux(fmt::format("send-keys -H 1b 5b 4d {:x} {:x} {:x}", code + 32, x + 33, y + 33));
  };
  report(button);
  if (button == 0) report(3);  // released
}

void TmuxRun::resize(int width, int height) const {
  (void)tmux(fmt::format("resize-window -x {} -y {}", width, height));
}

std::string TmuxRun::ask(const std::string& format) const {
  std::string answer = tmux("display-message -p '" + format + "'");
  while (answer.ends_with('\n')) answer.pop_back();
  return answer;
}

pid_t TmuxRun::program() const {
  const std::string pid = output_of(fmt::format("cat {} 2>/dev/null", directory_ / "pid"));
  return pid.empty() ? -1 : static_cast<pid_t>(std::atoi(pid.c_str()));
}

}  // namespace forestall::test
