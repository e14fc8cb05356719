// SPDX-License-Identifier: Apache-2.0
// `forestall replay`: repeats the policy's decisions on a recording, or decides on observations
// from a file, with the recorded or another configuration.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/printable.h"
#include "cli/exit_code.h"
#include "intake/config_override.h"
#include "messages/convert.h"
#include "model/duration.h"
#include "offline/commands.h"
#include "replay/recording_replay.h"
#include "replay/replay_at.h"
#include "replay/replay_fold.h"
#include "replay/replay_input.h"
#include "replay/replay_report.h"

namespace forestall::cli {
namespace {

// Standard output, written in large pieces, or per line if the input is live.
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

// Returns why the input was not read to its end.
std::optional<std::string> fold_lines(replay::ReplayInput& input, replay::ReplayFold& fold,
                                      replay::ReplayReport& report, Printer& printer) {
  for (;;) {
    auto next = input.next();
    if (!next) return next.error().text();
    if (!*next) return std::nullopt;
    replay::ParsedLine& line = **next;
    const Decision decision = fold.take(line.observation);
    const Duration since_first = line.observation.at - *fold.counts().first;
    report.evaluation({line.line, since_first, line.observation, decision, fold.changed(), nullptr},
                      printer.text());
    printer.pace();
    if (printer.failed()) return "standard output cannot be written";
  }
}

// The same for a recording. Its first evaluation may be one that leaves no policy state; `first` is
// its time, if known.
std::optional<std::string> fold_recording(replay::RecordingReplay& replay,
                                          replay::ReplayReport& report, const replay::ReplayAt* at,
                                          std::optional<MonotonicTime> first, Printer& printer) {
  while (at == nullptr || !at->is_over()) {
    auto next = replay.next();
    if (!next) return next.error().text();
    if (!*next) return std::nullopt;
    const replay::RecordingReplay::ReplayedStep& step = **next;
    if (!first) first = step.at;
    report.evaluation({step.evaluation, step.at - *first, step.evaluated.observation, step.decision,
                       replay.fold().changed(), &step},
                      printer.text());
    printer.pace();
    if (printer.failed()) return "standard output cannot be written";
  }
  return std::nullopt;
}

// The command line in model terms.
struct Request {
  std::unique_ptr<replay::ReplayReport> report;
  replay::ReplayAt* at = nullptr;  // points to `report` if --at is given
  replay::ReplayRules rules;
};

// A recording has its own configuration. A configuration file replaces it; the kubelet's file and
// flags override single keys.
Result<void> set_rules(const Options& options, bool is_recording, replay::ReplayRules& rules) {
  if (!is_recording || !options.config.empty()) {
    std::vector<std::string> warnings;
    rules.config = TRY(effective_config(options, warnings));
    for (const std::string& warning : warnings) fmt::print(stderr, "{}\n", warning);
  } else if (!options.kubelet_config.empty() || !options.kubelet_flags.empty()) {
    rules.settings = TRY(intake::read_settings(options.kubelet_config, options.kubelet_flags));
  }
  return {};
}

Result<Request> request_of(const Options& options, const ReplayOptions& replay, bool is_recording) {
  Request request;
  TRY(set_rules(options, is_recording, request.rules));
  if (!replay.ranking.empty()) {
    request.rules.ranking = messages::parse_ranking(replay.ranking);
    if (!request.rules.ranking) {
      return error(fmt::format("--ranking: expected kubelet, kernel or kubelet+growth, found '{}'",
                               replay.ranking));
    }
    if (request.rules.config) request.rules.config->ranking = *request.rules.ranking;
  }
  const bool as_json = options.output == OutputFormat::json;
  if (!replay.at.empty()) {
    const replay::ReplayTime time = TRY(replay::parse_replay_time(replay.at));
    if (!is_recording && std::holds_alternative<replay::WallTime>(time)) {
      return error(
          "--at: only recordings have wall-clock times; give a time since the first evaluation");
    }
    const Ranking ranking = request.rules.config ? request.rules.config->ranking
                                                 : request.rules.ranking.value_or(Ranking::kubelet);
    auto at = std::make_unique<replay::ReplayAt>(time, ranking, as_json);
    request.at = at.get();
    request.report = std::move(at);
  } else if (as_json) {
    request.report = std::make_unique<replay::ReplayJson>();
  } else {
    request.report =
        std::make_unique<replay::ReplayText>(replay.all, is_recording ? "number" : "line");
  }
  return request;
}

// The exit code, after all output.
int conclude(const Request& request, const std::optional<std::string>& stopped,
             const Printer& printer) {
  if (printer.failed()) {
    fmt::print(stderr, "forestall replay: cannot write standard output\n");
    return kExitFailed;
  }
  if (stopped) fmt::print(stderr, "{}\n", printable_lines(*stopped));
  if (!stopped && request.at != nullptr && !request.at->found()) {
    fmt::print(stderr, "forestall replay: no evaluation at or before that time\n");
    return kExitUsage;
  }
  if (const auto last = request.at != nullptr ? request.at->last_before() : std::nullopt) {
    fmt::print(stderr, "forestall replay: --at is after the last evaluation, which is at {}\n",
               offset(*last));
  }
  return stopped ? kExitUsage : kExitOk;
}

int replay_lines(const ReplayOptions& replay, Request& request) {
  auto input = replay::ReplayInput::open(replay.file);
  if (!input) {
    fmt::print(stderr, "forestall replay: {}\n", printable_lines(input.error().text()));
    return kExitUsage;
  }
  replay::ReplayFold fold(std::move(*request.rules.config));
  Printer printer(is_live(replay.file));
  auto stopped = fold_lines(*input, fold, *request.report, printer);
  if (fold.counts().observations > 0) {
    request.report->end(fold.counts(), stopped, nullptr, printer.text());
  } else if (!stopped) {
    stopped = "forestall replay: " + replay.file + ": contains no observation";
  }
  printer.flush();
  if (const auto remark = input->remark()) fmt::print(stderr, "{}\n", *remark);
  return conclude(request, stopped, printer);
}

int replay_recording(const ReplayOptions& options, Request& request) {
  auto input = replay::RecordingInput::open(options.file);
  if (!input) {
    fmt::print(stderr, "forestall replay: {}\n", printable_lines(input.error().text()));
    return kExitUsage;
  }
  // The recorded policy's state is in the file, so reading can start near the time. Another
  // policy's state follows from all earlier evaluations. The wall clock may have been set, so a
  // wall time needs the whole file as well.
  std::optional<MonotonicTime> first;
  if (const auto since = request.at != nullptr ? request.at->since_first() : std::nullopt;
      since && request.rules.as_recorded() && input->is_single()) {
    const auto sought = input->seek(*since);
    if (!sought) {
      fmt::print(stderr, "forestall replay: {}\n", printable_lines(sought.error().text()));
      return kExitUsage;
    }
    first = *sought;
  }
  replay::RecordingReplay replay(std::move(*input), request.rules);
  Printer printer(/*at_once=*/false);
  auto stopped = fold_recording(replay, *request.report, request.at, first, printer);
  if (replay.fold().counts().observations > 0) {
    request.report->end(replay.fold().counts(), stopped, &replay, printer.text());
  } else if (!stopped) {
    stopped = "forestall replay: " + options.file + ": contains no evaluation";
  }
  printer.flush();
  for (const std::string& warning : replay.warnings()) fmt::print(stderr, "{}\n", warning);
  for (const std::string& remark : replay.input().remarks()) fmt::print(stderr, "{}\n", remark);
  const int code = conclude(request, stopped, printer);
  // The same policy decided differently on the same observations.
  const bool differs = replay.different() > 0 || replay.states_different() > 0;
  return code == kExitOk && request.rules.as_recorded() && differs ? kExitFailed : code;
}

}  // namespace

int run_replay(const Options& options, const ReplayOptions& replay) {
  const auto recorded =
      replay.file == "-" ? Result<bool>(false) : replay::RecordingInput::is_recording(replay.file);
  if (!recorded) {
    fmt::print(stderr, "forestall replay: {}\n", printable_lines(recorded.error().text()));
    return kExitUsage;
  }
  auto request = request_of(options, replay, *recorded);
  if (!request) {
    fmt::print(stderr, "{}\n", printable_lines(request.error().text()));
    return kExitUsage;
  }
  return *recorded ? replay_recording(replay, *request) : replay_lines(replay, *request);
}

}  // namespace forestall::cli
