// SPDX-License-Identifier: Apache-2.0
#include "offline/recording_picture.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "messages/convert.h"
#include "messages/recording_entries.h"
#include "replay/recording_input.h"

namespace forestall::cli {
namespace {

void take_facts(const messages::RecordingFacts& facts, internal::PictureOrigin& origin) {
  origin.set_node(facts.node);
  origin.set_kernel(facts.kernel);
  origin.set_version(facts.version);
  origin.set_recorder(facts.recorder == messages::RecordedBy::agent ? v1::RecordingFacts::AGENT
                                                                    : v1::RecordingFacts::SESSION);
  origin.set_tier(messages::to_proto(facts.tier));
  origin.set_config_origin(facts.config_origin);
}

// Entries are decoded except for the decision, which is needed here.
Result<Record> whole(messages::EvaluationEntry evaluation) {
  evaluation.evaluated.decision = TRY(messages::decode_decision(evaluation));
  return std::move(evaluation.evaluated);
}

Result<void> take(const replay::RecordingInput& input, replay::RecordingInput::InputEntry item,
                  picture::Builder& builder) {
  if (const auto* key = std::get_if<messages::KeyEntry>(&item.entry)) {
    builder.anchor(key->at, key->wall_time_ns, item.new_run);
    if (item.new_run) take_facts(input.facts(), builder.origin());
    builder.set_interval(input.facts().interval);
    builder.set_dry_run(key->config.dry_run);
    if (item.after_loss || item.new_run) builder.lose(key->at);
  } else if (auto* evaluation = std::get_if<messages::EvaluationEntry>(&item.entry)) {
    const std::uint64_t number = evaluation->number;
    builder.evaluation(number, TRY(whole(std::move(*evaluation))));
  } else if (const auto* recorded = std::get_if<messages::RecordedEntry>(&item.entry)) {
    builder.record(recorded->evaluation, recorded->record);
  } else if (const auto* workload_sample =
                 std::get_if<messages::WorkloadSampleEntry>(&item.entry)) {
    builder.workload_sample(workload_sample->at, workload_sample->samples);
  } else if (const auto* entry = std::get_if<messages::PressureEntry>(&item.entry)) {
    builder.pressure(entry->pressure);
  }
  return {};
}

void remark_losses(const replay::RecordingInput& input, picture::Builder& builder) {
  for (const std::string& each : input.remarks()) builder.add_remark(each);
  const replay::RecordingInput::Counts& counts = input.counts();
  if (counts.lost > 0) {
    builder.add_remark(
        fmt::format("{} entries were lost because the buffer was full", counts.lost));
  }
  if (counts.passed_over > 0) {
    builder.add_remark(fmt::format("{} entries after a loss were skipped", counts.passed_over));
  }
  if (counts.unknown > 0) {
    builder.add_remark(
        fmt::format("{} entries have kinds that this version does not support", counts.unknown));
  }
}

}  // namespace

Result<internal::Picture> picture_of_recording(const std::string& path,
                                               const picture::Bounds& bounds) {
  replay::RecordingInput input = TRY(replay::RecordingInput::open(path));
  picture::Builder builder(bounds);
  builder.origin().set_file(path.substr(path.find_last_of('/') + 1));
  take_facts(input.facts(), builder.origin());
  bool empty = true;
  for (;;) {
    auto item = TRY(input.next());
    if (!item) break;
    empty = false;
    if (const auto taken = take(input, *std::move(item), builder); !taken) {
      return taken.error().in(path);
    }
  }
  remark_losses(input, builder);
  if (empty) builder.add_remark("no entry can be read");
  return builder.picture();
}

}  // namespace forestall::cli
