// SPDX-License-Identifier: Apache-2.0
#include "top/app.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "base/take_signals.h"
#include "cli/exit_code.h"
#include "intake/amounts.h"
#include "messages/convert.h"
#include "messages/json.h"
#include "top/draw.h"
#include "top/once_text.h"
#include "top/terminal.h"
#include "top/watcher.h"

namespace forestall::top {
namespace {

using namespace std::chrono_literals;

// The checked command line.
struct Question {
  View view;
  Config config;
  TerminalSettings terminal;
};

Result<Question> understand(const cli::Options& options, const cli::TopOptions& top) {
  Question question;
  if (!top.interval.empty()) {
    const auto parsed = intake::parse_duration_within(top.interval, kIntervalMin, kIntervalMax);
    if (!parsed) return error("--interval: " + parsed.error().message);
    question.view.interval = *parsed;
  }
  if (!top.ranking.empty() && !messages::parse_ranking(top.ranking)) {
    return error(fmt::format("--ranking: expected kubelet, kernel or kubelet+growth, found '{}'",
                             top.ranking));
  }
  question.view.ranking = top.ranking;
  std::vector<std::string> warnings;
  question.config = TRY(cli::effective_config(options, warnings));
  // https://no-color.org: set and not empty.
  const char* no_color = std::getenv("NO_COLOR");
  const bool wanted = no_color == nullptr || *no_color == '\0';
  question.terminal.colors = top.color == "always" || (top.color == "auto" && wanted);
  question.terminal.mouse = !top.no_mouse;
  return question;
}

// So that the terminal is restored.
constexpr std::initializer_list<int> kEndSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

int fail(const Error& failure, int code) {
  fmt::print(stderr, "forestall top: {}\n", failure.text());
  return code;
}

// Waits for the interval; false: a signal arrived. Pressure is the change between two samples.
bool wait_for_window(int stop_fd, Duration window) {
  pollfd fd{stop_fd, POLLIN, 0};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(window);
  const timespec patience{seconds.count(), (window - seconds).count()};
  return ::ppoll(&fd, 1, &patience, nullptr) == 0;
}

int print_once(const cli::Options& options, const cli::TopOptions& top, const Question& question) {
  const auto signals = take_signals(kEndSignals);
  if (!signals) return fail(signals.error(), cli::kExitFailed);
  PictureSources sources(options, question.config, top.without_agent, signals->get());
  History history;
  auto first = sources.read(question.view.ranking);
  if (!first) return fail(first.error(), cli::kExitFailed);
  history.add(*first);
  if (!wait_for_window(signals->get(), question.view.interval)) return cli::kExitFailed;
  const auto report = sources.read(question.view.ranking);
  if (!report) return fail(report.error(), cli::kExitFailed);
  history.add(*report);
  if (options.output == cli::OutputFormat::json) {
    fmt::print("{}", messages::to_json(*report, messages::JsonStyle::pretty));
  } else {
    fmt::print("{}", once_text(*report, history));
  }
  if (std::fflush(stdout) != 0) {
    return fail(errno_error("write", "standard output"), cli::kExitFailed);
  }
  return cli::kExitOk;
}

std::chrono::seconds utc_offset() {
  const time_t now = ::time(nullptr);
  tm local{};
  return ::localtime_r(&now, &local) == nullptr ? 0s : std::chrono::seconds(local.tm_gmtoff);
}

// The interactive program.
class TopProgram {
 public:
  TopProgram(Question question, Watcher& watcher, Terminal& terminal, const Glyphs& glyphs)
      : view_(std::move(question.view)), watcher_(watcher), terminal_(terminal), glyphs_(glyphs) {}

  // Runs until the user quits. An error: there was never a sample to show.
  Result<void> run(int stop_fd);

 private:
  void show();
  void request_sample();
  Result<void> take_picture();
  // True: quit.
  bool take_inputs();

  View view_;
  Watcher& watcher_;
  Terminal& terminal_;
  const Glyphs& glyphs_;
  internal::TopReport report_;
  MonotonicTime taken_ = SystemClock().now();
  History history_;
  Layout layout_;
};

void TopProgram::show() {
  const Duration age = SystemClock().now() - taken_;
  Drawn drawn = draw({report_, history_, view_, glyphs_, utc_offset(), age}, terminal_.size());
  layout_ = std::move(drawn.layout);
  view_.scroll = layout_.scroll;
  view_.process_scroll = layout_.process_scroll;
  terminal_.paint(drawn.screen);
}

void TopProgram::request_sample() {
  watcher_.request_sample({view_.ranking, view_.interval, view_.paused, view_.opened.value_or("")});
}

Result<void> TopProgram::take_picture() {
  auto picture = watcher_.take();
  if (!picture) return {};
  if (*picture) {
    report_ = std::move(**picture);
    taken_ = SystemClock().now();
    history_.add(report_);
    return {};
  }
  if (report_.at_ns() == 0) return picture->error();
  // Keeps the last sample and shows why there is no newer one.
  report_.clear_agent();
  report_.set_agent_problem("no sample: " + picture->error().text());
  return {};
}

bool TopProgram::take_inputs() {
  while (const auto input = terminal_.next()) {
    switch (apply(*input, layout_, view_)) {
      case Command::quit: return true;
      case Command::resample: request_sample(); break;
      case Command::none: break;
    }
    // The next input may depend on the screen that this one changed.
    show();
  }
  return false;
}

Result<void> TopProgram::run(int stop_fd) {
  while (true) {
    show();
    std::array<pollfd, 3> fds{
        {{stop_fd, POLLIN, 0}, {terminal_.fd(), POLLIN, 0}, {watcher_.fd(), POLLIN, 0}}};
    // Redraws once a second to update the age of the sample.
    constexpr int kSecond = 1000;
    // EINTR: the terminal was resized, which is reported as an input.
    (void)::poll(fds.data(), fds.size(), kSecond);
    if (fds[0].revents != 0) return {};
    // The terminal is closed.
    if ((fds[1].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return {};
    if (fds[2].revents != 0) TRY(take_picture());
    if (take_inputs()) return {};
  }
}

}  // namespace

int run_top(const cli::Options& options, const cli::TopOptions& top) {
  auto question = understand(options, top);
  if (!question) return fail(question.error(), cli::kExitUsage);
  if (top.once) return print_once(options, top, *question);
  const auto signals = take_signals(kEndSignals);
  if (!signals) return fail(signals.error(), cli::kExitFailed);
  const bool unicode = !top.ascii && Terminal::shows_unicode();
  auto terminal = Terminal::open(question->terminal);
  if (!terminal) return fail(terminal.error(), cli::kExitUsage);
  const auto make = [&](int cancel_fd) {
    return std::make_unique<PictureSources>(options, question->config, top.without_agent,
                                            cancel_fd);
  };
  const View& view = question->view;
  auto watcher = Watcher::start(make, {view.ranking, view.interval, false});
  if (!watcher) {
    terminal->reset();
    return fail(watcher.error(), cli::kExitFailed);
  }
  const auto ended =
      TopProgram(*question, **watcher, **terminal, unicode ? unicode_glyphs() : ascii_glyphs())
          .run(signals->get());
  terminal->reset();
  if (!ended) return fail(ended.error(), cli::kExitFailed);
  return cli::kExitOk;
}

}  // namespace forestall::top
