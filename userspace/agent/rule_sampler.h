// SPDX-License-Identifier: Apache-2.0
// Reads what rulesets decide on (sources/rule_reader.h), on a thread of its own: memory.stat waits
// for a flush of counters, and opening cgroups for kernfs locks.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/job_thread.h"
#include "base/result.h"
#include "base/shared_value.h"
#include "model/config.h"
#include "model/rule_observation.h"
#include "rulesets/reading_plan.h"
#include "sources/rule_reader.h"

namespace forestall::agent {

using RuleNeeds = SharedValue<rulesets::ReadingPlan>;

// The sampler as the loop uses it. Base: there is none, and no ruleset is evaluated.
// Thread rule: the loop's thread only.
class RuleSampler {
 public:
  struct Finished {
    RuleNeeds needs;  // that it was started with
    rulesets::RuleObservation observation;
    MonotonicTime idle_until;  // see RuleSampleReader
  };

  RuleSampler() = default;
  RuleSampler(const RuleSampler&) = delete;
  RuleSampler& operator=(const RuleSampler&) = delete;
  virtual ~RuleSampler() = default;

  // False: it still reads.
  virtual bool start(const RuleNeeds& /*needs*/) { return false; }
  // What was read, once; nothing: it still reads, or was not started.
  [[nodiscard]] virtual std::optional<Finished> finish() { return std::nullopt; }
  // Polls readable when a reading is over; -1: never.
  [[nodiscard]] virtual int fd() const { return -1; }
};

class RuleSamplerThread final : public RuleSampler {
 public:
  // Both outlive the object.
  static Result<std::unique_ptr<RuleSamplerThread>> create(const kernel::CgroupTree& tree,
                                                           const Clock& clock);

  // Starts the thread if the configuration has rulesets. Before the first start() for them.
  [[nodiscard]] Result<void> prepare(const Config& config);
  // REQUIRES: prepare().
  bool start(const RuleNeeds& needs) override;
  [[nodiscard]] std::optional<Finished> finish() override;
  [[nodiscard]] int fd() const override { return thread_->fd(); }

 private:
  RuleSamplerThread(const kernel::CgroupTree& tree, const Clock& clock)
      : reader_(tree), clock_(clock) {}
  void read();

  sources::RuleSampleReader reader_;
  const Clock& clock_;
  Finished sample_;                          // the thread's while it runs
  std::unique_ptr<base::JobThread> thread_;  // last: its job uses all of the above
};

// When to read, and what the next evaluation decides on.
class RuleReadings {
 public:
  // oomd's interval in its packaged service.
  static constexpr Duration kInterval = std::chrono::seconds(1);

  // Both outlive the object.
  RuleReadings(RuleSampler& sampler, const Config& config);

  // The configuration was replaced. Equal rulesets keep what was read.
  void reconfigured(const Config& config);
  // When start() is due; nothing: there are no rulesets, or a reading is under way.
  [[nodiscard]] std::optional<MonotonicTime> next_due() const;
  void start(MonotonicTime now);
  // The next reading is due at once: a kill waits for it.
  void hasten(MonotonicTime now) {
    due_ = std::min(due_, now);
    hastened_ = true;
  }
  // Takes the reading that is over. False: there is none for the rulesets in force, or no ruleset
  // can fire, as at the last evaluation, so that another one would change nothing.
  [[nodiscard]] bool take();
  // For one evaluation; null: nothing was read since the last one.
  [[nodiscard]] SharedValue<rulesets::RuleObservation> use();

 private:
  // REQUIRES: there are rulesets.
  [[nodiscard]] bool defers_all(const rulesets::RuleObservation& read) const;

  RuleSampler& sampler_;
  SharedValue<std::vector<rulesets::Ruleset>> rulesets_;
  RuleNeeds needs_;      // null: no rulesets
  MonotonicTime began_;  // the last reading
  MonotonicTime due_;
  bool hastened_ = false;  // since then
  bool reads_ = false;
  bool all_deferred_ = false;  // at the last evaluation
  SharedValue<rulesets::RuleObservation> read_;
};

}  // namespace forestall::agent
