// SPDX-License-Identifier: Apache-2.0
// `forestall replay`: what the policy decides on observations from a file, under this
// configuration.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/replay_fold.h"
#include "cli/replay_input.h"
#include "cli/replay_report.h"

namespace forestall::cli {
namespace {

// Standard output in large pieces, or at once when somebody is watching a live input.
class Printer {
 public:
  explicit Printer(bool at_once) : at_once_(at_once) {}
  std::string& text() { return text_; }
  void pace() {
    if (at_once_ || text_.size() >= kPiece) flush();
  }
  void flush() {
    failed_ |= std::fwrite(text_.data(), 1, text_.size(), stdout) != text_.size();
    failed_ |= std::fflush(stdout) != 0;
    text_.clear();
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  static constexpr std::size_t kPiece = std::size_t{64} << 10;
  bool at_once_;
  bool failed_ = false;
  std::string text_;
};

bool is_live(const std::string& path) {
  struct stat file {};
  const int failed = path == "-" ? fstat(STDIN_FILENO, &file) : stat(path.c_str(), &file);
  return failed == 0 && !S_ISREG(file.st_mode);
}

// Why the input was not read to its end.
std::optional<std::string> fold_all(ReplayInput& input, ReplayFold& fold, ReplayReport& report,
                                    Printer& printer) {
  for (;;) {
    auto next = input.next();
    if (!next) return next.error().text();
    if (!*next) return std::nullopt;
    ParsedLine& line = **next;
    const Decision decision = fold.take(line.observation);
    const Duration since_first = line.observation.at - *fold.counts().first;
    report.look({line.line, since_first, line.observation, decision, fold.changed()},
                printer.text());
    printer.pace();
    if (printer.failed()) return "standard output cannot be written";
  }
}

}  // namespace

int run_replay(const Options& options, const ReplayOptions& replay) {
  std::vector<std::string> warnings;
  auto config = effective_config(options, warnings);
  if (!config) {
    fmt::print(stderr, "{}\n", config.error().text());
    return kExitUsage;
  }
  for (const std::string& warning : warnings) fmt::print(stderr, "{}\n", warning);
  auto input = ReplayInput::open(replay.file);
  if (!input) {
    fmt::print(stderr, "forestall replay: {}\n", input.error().text());
    return kExitUsage;
  }
  ReplayFold fold(*std::move(config));
  std::unique_ptr<ReplayReport> report;
  if (options.output == OutputFormat::json) {
    report = std::make_unique<ReplayJson>();
  } else {
    report = std::make_unique<ReplayText>(replay.all);
  }
  Printer printer(is_live(replay.file));
  const auto stopped = fold_all(*input, fold, *report, printer);
  report->end(fold.counts(), stopped, printer.text());
  printer.flush();
  if (const auto remark = input->remark()) fmt::print(stderr, "{}\n", *remark);
  if (printer.failed()) {
    fmt::print(stderr, "forestall replay: standard output cannot be written\n");
    return kExitFailed;
  }
  if (stopped) fmt::print(stderr, "{}\n", *stopped);
  return stopped ? kExitUsage : kExitOk;
}

}  // namespace forestall::cli
