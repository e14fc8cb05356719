// SPDX-License-Identifier: Apache-2.0
// Hands evaluations to the listeners, and writes the records of those that differ from the last
// one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "agent/evaluator.h"
#include "agent/parts.h"
#include "agent/record_writer.h"
#include "base/clock.h"
#include "model/config.h"
#include "model/record.h"

namespace forestall::agent {

// Thread rule: the loop's thread only. What it is made with outlives it.
class RecordReporter {
 public:
  RecordReporter(const Parts& parts, RecordWriter& writer) : parts_(parts), writer_(writer) {}

  // Every answer of the policy, whatever becomes of it. Counts the evaluation.
  void report_pass(const Config& config, const policy::State& before, const Record& record);
  // When a listener needs the next pass, whatever happens meanwhile; nullopt: none does.
  [[nodiscard]] std::optional<MonotonicTime> next_pass() const;
  // That pass is made now.
  void begin_pass(MonotonicTime now) { last_pass_ = now; }
  // An evaluation that read all of the node. `next`: when the next one is due at the latest.
  void report_evaluation(const Record& record, MonotonicTime next,
                         const exports::PodFactCounts& pods);
  void report_next_victims(std::span<const NextVictim> next_victims);
  // Writes the record.
  void report(Record& record);
  // The same, unless the decision repeats the last one reported.
  void report_unless_repeated(Record& record);
  // The decision is reported by its kills' own records.
  void set_last(const Decision& decision) { last_reported_ = decision; }
  // As of the last evaluation that read all of the node.
  [[nodiscard]] const Conditions& conditions() const { return conditions_; }
  // Reads the workloads while no threshold is met, if a listener needs them: a replay under another
  // configuration needs them.
  void workload_sample(Evaluator& evaluator, MonotonicTime now);
  // The configuration was replaced.
  void reconfigured() { ++reloads_; }

 private:
  [[nodiscard]] bool is_repetition(const Decision& decision) const;

  const Parts& parts_;
  RecordWriter& writer_;
  std::optional<Decision> last_reported_;
  Conditions conditions_ = kNoConditions;
  MonotonicTime last_pass_;
  std::uint64_t reloads_ = 0;
};

}  // namespace forestall::agent
