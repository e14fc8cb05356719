// SPDX-License-Identifier: Apache-2.0
#include "daemon/managed_readings.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace forestall::daemon {
namespace {

const ManagedCgroupReading* find(const ManagedReadingsTaken& taken, const std::string& cgroup) {
  const auto found =
      std::ranges::lower_bound(taken.cgroups, cgroup, {}, &ManagedCgroupReading::cgroup);
  return found != taken.cgroups.end() && found->cgroup == cgroup ? &*found : nullptr;
}

std::optional<std::int64_t> last_pgscan_of(const ManagedReadingsTaken& last,
                                           const ManagedCgroupReading& reading) {
  const auto* known = find(last, reading.cgroup);
  return known != nullptr && known->id == reading.id ? known->pgscan : std::nullopt;
}

ManagedCgroupReading reading_of(const rulesets::Cgroup& cgroup) {
  ManagedCgroupReading reading;
  reading.cgroup = cgroup.path;
  reading.id = cgroup.id;
  if (cgroup.memory_pressure) reading.pressure = cgroup.memory_pressure->full;
  reading.usage = cgroup.current;
  reading.swap = cgroup.swap_current;
  if (cgroup.stat) reading.pgscan = cgroup.stat->pgscan;
  return reading;
}

}  // namespace

void ManagedReadings::evaluated(const exports::Evaluation& evaluation) {
  const auto& rules = evaluation.observation.rules;
  const auto monitored = monitored_();
  if (!monitored || monitored->empty()) return set(nullptr);
  if (!rules) return;
  if (last_ && last_->at == MonotonicTime(rules->time)) return;
  if (rules->cgroups.empty()) return;  // all rulesets are deferred
  ManagedReadingsTaken taken{MonotonicTime(rules->time), rules->host, {}};
  for (std::size_t i = 0; i < std::min(monitored->size(), kCgroupsMax); ++i) {
    if (const rulesets::Cgroup* cgroup = rules->find((*monitored)[i])) {
      taken.cgroups.push_back(reading_of(*cgroup));
      if (last_) taken.cgroups.back().last_pgscan = last_pgscan_of(*last_, taken.cgroups.back());
    }
  }
  set(std::make_shared<const ManagedReadingsTaken>(std::move(taken)));
}

// What was there before is freed without the lock.
void ManagedReadings::set(std::shared_ptr<const ManagedReadingsTaken> taken) {
  const std::lock_guard lock(mutex_);
  last_.swap(taken);
}

std::shared_ptr<const ManagedReadingsTaken> ManagedReadings::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

}  // namespace forestall::daemon
