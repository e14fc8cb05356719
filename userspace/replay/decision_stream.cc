// SPDX-License-Identifier: Apache-2.0
#include "replay/decision_stream.h"

#include <fmt/format.h>

#include <utility>

#include "forestall/internal/replay.pb.h"
#include "messages/convert.h"
#include "messages/json_reader.h"
#include "replay/line_reader.h"
#include "replay/recording_input.h"

namespace forestall::replay {
namespace {

class RecordedDecisions final : public DecisionStream {
 public:
  RecordedDecisions(RecordingInput input, std::string name)
      : input_(std::move(input)), name_(std::move(name)) {}

  Result<std::optional<TimedDecision>> next() override {
    while (auto item = TRY(input_.next())) {
      const auto* evaluation = std::get_if<messages::EvaluationEntry>(&item->entry);
      if (evaluation == nullptr) continue;
      return std::optional(TimedDecision{evaluation->evaluated.observation.at,
                                         TRY(messages::decode_decision(*evaluation))});
    }
    return std::optional<TimedDecision>();
  }

  [[nodiscard]] std::vector<std::string> remarks() const override {
    std::vector<std::string> remarks = input_.remarks();
    const RecordingInput::Counts& counts = input_.counts();
    const auto add = [&](std::uint64_t entries, std::string_view what) {
      if (entries > 0) remarks.push_back(fmt::format("{}: {} entries {}", name_, entries, what));
    };
    add(counts.lost, "lost while recording");
    add(counts.passed_over, "skipped because an entry they refer to is missing");
    return remarks;
  }

 private:
  RecordingInput input_;
  std::string name_;
};

class PrintedDecisions final : public DecisionStream {
 public:
  PrintedDecisions(LineReader lines, std::string name)
      : lines_(std::move(lines)), name_(std::move(name)) {}

  // The last line is a summary and has no time.
  Result<std::optional<TimedDecision>> next() override {
    while (const auto line = TRY(lines_.next())) {
      if (line->find_first_not_of(" \t\r") == line->npos || is_end(*line)) continue;
      auto step = read(*line);
      if (!step) return step.error().in(name_ + ":" + std::to_string(lines_.number()));
      return std::optional(*std::move(step));
    }
    return std::optional<TimedDecision>();
  }

 private:
  static bool is_end(std::string_view line) {
    const std::size_t key = line.find_first_not_of(" \t{");
    return key != line.npos && (line.substr(key).starts_with("\"summary\"") ||
                                line.substr(key).starts_with("\"comparison\""));
  }

  Result<TimedDecision> read(std::string_view line) {
    TRY(reader_.read(line, message_));
    if (!message_.has_decision()) return error("decision: missing");
    TimedDecision step{from_ns(message_.at_ns()), TRY(messages::from_proto(message_.decision()))};
    if (message_.has_workloads_age_ns()) step.age = Duration(message_.workloads_age_ns());
    return step;
  }

  LineReader lines_;
  std::string name_;
  messages::JsonReader reader_;
  internal::ReplayStep message_;
};

static_assert(LineReader::kPadding >= messages::JsonReader::kPadding);

}  // namespace

Result<std::unique_ptr<DecisionStream>> open_decisions(const std::string& path) {
  const bool recorded = path != "-" && TRY(RecordingInput::is_recording(path));
  if (recorded) {
    return std::unique_ptr<DecisionStream>(
        std::make_unique<RecordedDecisions>(TRY(RecordingInput::open(path)), path));
  }
  return std::unique_ptr<DecisionStream>(
      std::make_unique<PrintedDecisions>(TRY(LineReader::open(path)), path));
}

}  // namespace forestall::replay
