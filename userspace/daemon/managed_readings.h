// SPDX-License-Identifier: Apache-2.0
// The last readings of the cgroups of systemd's ManagedOOM properties, for `forestall status`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/priority_mutex.h"
#include "exports/sink.h"
#include "model/rule_observation.h"

namespace forestall::daemon {

// What could not be read is nothing.
struct ManagedCgroupReading {
  std::string cgroup;
  std::uint64_t id = 0;
  std::optional<rulesets::PressureLine> pressure;  // full
  std::optional<std::int64_t> usage;               // bytes
  std::optional<std::int64_t> swap;                // bytes
  std::optional<std::int64_t> pgscan;              // pages
  std::optional<std::int64_t> last_pgscan;         // at the reading before, of the same cgroup

  friend bool operator==(const ManagedCgroupReading&, const ManagedCgroupReading&) = default;
};

struct ManagedReadingsTaken {
  MonotonicTime at{};
  rulesets::Host host;
  // By path; without those that do not exist or were not read then because their ruleset is
  // deferred: their older readings are not current.
  std::vector<ManagedCgroupReading> cgroups;
};

class ManagedReadings final : public exports::EvaluationListener {
 public:
  // More are left out, so that neither the loop nor an answer with them takes long.
  static constexpr std::size_t kCgroupsMax = 4096;
  // Paths of cgroups, sorted; null: none. Called on the loop's thread.
  using Monitored = std::function<std::shared_ptr<const std::vector<std::string>>()>;

  explicit ManagedReadings(Monitored monitored) : monitored_(std::move(monitored)) {}

  // Loop's thread.
  void evaluated(const exports::Evaluation& evaluation) override;
  // Any thread. Null: none were read since there are such cgroups.
  [[nodiscard]] std::shared_ptr<const ManagedReadingsTaken> last() const;

 private:
  void set(std::shared_ptr<const ManagedReadingsTaken> taken);

  const Monitored monitored_;
  mutable base::PriorityMutex mutex_;  // for the pointer only: the loop waits for no copy
  std::shared_ptr<const ManagedReadingsTaken> last_;  // set by the loop only
};

}  // namespace forestall::daemon
