// SPDX-License-Identifier: Apache-2.0
// Makes the node's object of kind NodeReport from the agent's answers, and decides when one is due:
// a state machine without I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/kill_tally.h"
#include "cluster/stall_reading.h"
#include "forestall/v1/service.pb.h"
#include "forestall/v1/status.pb.h"

namespace forestall::text {
class JsonWriter;
}

namespace forestall::cluster {

class NodeReportBuilder {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(30);
  // Between two reports, however much changes.
  static constexpr Duration kShortest = std::chrono::seconds(10);
  // A status that is older is not reported.
  static constexpr Duration kStatusAgeMax = std::chrono::seconds(20);
  // A usage that is older is not reported.
  static constexpr Duration kUsageAgeMax = std::chrono::seconds(20);
  // Values of pods that are older are not reported.
  static constexpr Duration kPodsAgeMax = std::chrono::seconds(90);
  // Over less time, the growth of a pod is not measured.
  static constexpr Duration kGrowthShortest = std::chrono::seconds(5);
  // Pods in a report: those with the largest working sets, and those that grow fastest.
  static constexpr std::size_t kLargest = 30;
  static constexpr std::size_t kFastest = 20;

  explicit NodeReportBuilder(std::string node) : node_(std::move(node)) {}

  void answered(const v1::AgentStatus& status, MonotonicTime now);
  void ranked(const v1::RankResponse& ranking, MonotonicTime now);
  // A call for a ranking ended, with an answer or without.
  void ranking_ended(MonotonicTime now) { tried_at_ = now; }
  // The UID of the node's object, which owns the report. Without it none is built.
  void set_owner(const std::string& uid) { owner_ = uid; }

  // Whether a call for a ranking is due: every interval, however many reports there were since.
  [[nodiscard]] bool needs_ranking(MonotonicTime now) const;
  // Whether a report is due by time: the periodic one, or the one with a new ranking.
  [[nodiscard]] bool is_due(MonotonicTime now) const;
  // Whether the state differs from the last report so much that one is due at once.
  [[nodiscard]] bool has_changed(MonotonicTime now) const;
  // The object, as JSON; nothing: there is no owner, or no status that is recent enough. `wall`:
  // seconds of the wall clock at `now`.
  [[nodiscard]] std::optional<std::string> build(const std::optional<StallReading>& stalls,
                                                 std::int64_t wall, MonotonicTime now);
  // When is_due() or needs_ranking() becomes true; nothing: not by time alone.
  [[nodiscard]] std::optional<MonotonicTime> due(MonotonicTime now) const;

 private:
  struct Distance {
    std::string signal;
    std::int64_t capacity = 0;
    std::int64_t headroom = 0;
    std::optional<double> seconds;  // until it is met
  };
  struct PodUsage {
    std::string pod_namespace;
    std::string name;
    std::string uid;
    std::int64_t working_set = 0;
    std::optional<std::int64_t> growth;  // bytes per second; nothing: no earlier value
  };
  [[nodiscard]] bool is_ready(MonotonicTime now) const;
  [[nodiscard]] MonotonicTime report_due(MonotonicTime now) const;
  [[nodiscard]] std::vector<PodUsage> top_pods() const;
  void write_memory(text::JsonWriter& out, const std::optional<StallReading>& stalls,
                    MonotonicTime now) const;
  void write_thresholds(text::JsonWriter& out) const;
  void write_pods(text::JsonWriter& out) const;
  [[nodiscard]] std::string written(const std::optional<StallReading>& stalls, std::int64_t wall,
                                    MonotonicTime now) const;

  const std::string node_;
  std::string owner_;
  KillTally kills_;
  std::optional<MonotonicTime> answered_at_;  // the last status of an agent that has evaluated
  MonotonicTime read_at_{};                   // its values
  std::vector<Distance> distances_;
  std::optional<std::int64_t> working_set_;
  std::optional<std::int64_t> capacity_;

  std::optional<MonotonicTime> tried_at_;   // the last call for a ranking ended
  std::optional<MonotonicTime> ranked_at_;  // the last ranking
  std::optional<std::int64_t> usage_;
  std::vector<PodUsage> pods_;
  std::map<std::string, std::int64_t> working_sets_;  // at that time, by UID

  // The last report.
  std::optional<MonotonicTime> built_at_;
  std::vector<Distance> built_distances_;
  KillCounts built_kills_;
  std::optional<StallReading> built_stalls_;
  MonotonicTime stalls_at_{};
};

}  // namespace forestall::cluster
