// SPDX-License-Identifier: Apache-2.0
// A ladder on the real cgroups of this machine, driven as the agent's loop drives it.
#pragma once

#include <poll.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "actuators/ladder.h"
#include "base/clock.h"
#include "kernel/cgroup_tree.h"
#include "kernel/held_cgroup.h"
#include "support/child.h"

namespace forestall::test {

inline FeatureSet features(std::initializer_list<Feature> wanted) {
  FeatureSet set;
  for (const Feature feature : wanted) set.set(static_cast<std::size_t>(feature));
  return set;
}

inline const FeatureSet kAllOfKilling =
    features({Feature::cgroup_kill, Feature::pidfd, Feature::process_mrelease});
inline const FeatureSet kByPidfd = features({Feature::pidfd, Feature::process_mrelease});

class LadderRun {
 public:
  explicit LadderRun(actuators::LadderOptions options)
      : tree_(must(kernel::CgroupTree::discover())),
        ladder_(must(actuators::Ladder::create(tree_, clock_, std::move(options)))) {}

  [[nodiscard]] actuators::Ladder& ladder() { return *ladder_; }
  [[nodiscard]] const kernel::CgroupTree& tree() const { return tree_; }

  // The ladder gets this cgroup's descriptors for its kill, as the sampler has them.
  void hold(const std::string& path) { hold(path, path); }
  // The same with the usage file of another one.
  void hold(const std::string& path, const std::string& usage_path) {
    auto directory = std::make_shared<const kernel::CgroupDir>(must(tree_.open(path)));
    const bool v1 = tree_.version() == kernel::CgroupVersion::v1;
    auto usage = std::make_shared<const kernel::HeldFile>(must(kernel::HeldFile::open(
        must(tree_.open(usage_path)).fd(), v1 ? "memory.usage_in_bytes" : "memory.current", path)));
    ladder_->take_cgroups_from(
        [directory, usage](CgroupId cgroup) -> std::optional<kernel::HeldCgroup> {
          if (cgroup != directory->id()) return std::nullopt;
          return kernel::HeldCgroup{directory, usage};
        });
  }

  // The workload at this path, as it is now.
  [[nodiscard]] WorkloadSample rank(const std::string& path) const {
    WorkloadSample sample;
    sample.workload.path = path;
    sample.workload.name = path;
    sample.workload.cgroup = must(tree_.open(path)).id();
    return sample;
  }

  // Runs iterations until `done`; false if that does not happen in time.
  bool turn_until(const std::function<bool()>& done, Duration patience = kPatience) {
    const MonotonicTime give_up = clock_.now() + patience;
    for (;;) {
      for (auto& outcome : ladder_->take_outcomes()) outcomes_.push_back(std::move(outcome));
      if (done()) return true;
      const MonotonicTime now = clock_.now();
      if (now >= give_up) return false;
      const MonotonicTime due = std::min(give_up, ladder_->next_due().value_or(give_up));
      const Duration wait = std::max(Duration::zero(), due - now);
      const timespec timeout{
          static_cast<time_t>(wait.count() / 1'000'000'000),
          static_cast<long>(wait.count() % 1'000'000'000),
      };
      pollfd heard{ladder_->fd(), POLLIN, 0};
      ppoll(&heard, 1, &timeout, nullptr);
      ladder_->advance();
    }
  }

  // Waits until the processes of these victims are pinned.
  void pin(const std::vector<WorkloadSample>& victims) {
    std::vector<Workload> workloads;
    for (const WorkloadSample& each : victims) workloads.push_back(each.workload);
    if (!ladder_->pin(std::move(workloads))) return;
    while (ladder_->pinning()) {
      pollfd pinned{ladder_->pins_fd(), POLLIN, 0};
      ::poll(&pinned, 1, -1);
      (void)ladder_->collect_pins();
    }
  }

  // Starts a kill and runs iterations until it has an outcome.
  Outcome kill(const WorkloadSample& victim) {
    outcomes_.clear();
    ladder_->begin(victim);
    return next_outcome();
  }
  Outcome next_outcome() {
    if (!turn_until([this] { return !outcomes_.empty(); })) {
      throw std::runtime_error("a kill without an outcome");
    }
    Outcome first = outcomes_.front();
    outcomes_.erase(outcomes_.begin());
    return first;
  }
  [[nodiscard]] const std::vector<Outcome>& outcomes() const { return outcomes_; }

  // What the ladder reports about one cgroup.
  [[nodiscard]] std::optional<KillProgress> progress_of(CgroupId cgroup) const {
    for (const auto& progress : ladder_->progress()) {
      if (progress.cgroup == cgroup) return progress;
    }
    return std::nullopt;
  }

  template <typename T>
  static T must(Result<T> result) {
    if (!result.ok()) throw std::runtime_error(result.error().text());
    return std::move(result).value();
  }

 private:
  SystemClock clock_;
  kernel::CgroupTree tree_;
  std::unique_ptr<actuators::Ladder> ladder_;
  std::vector<Outcome> outcomes_;
};

// The attempt of an outcome on one rung, if there was one.
inline const Attempt* attempt_on(const Outcome& outcome, Rung rung) {
  const auto found = std::ranges::find(outcome.attempts, rung, &Attempt::rung);
  return found == outcome.attempts.end() ? nullptr : &*found;
}

// All attempts in words, for failure messages.
inline std::string describe(const Outcome& outcome) {
  std::string text = std::string(to_string(outcome.state)) + ", freed " +
                     std::to_string(outcome.freed.count) + " of " +
                     std::to_string(outcome.usage_before.count);
  for (const Attempt& attempt : outcome.attempts) {
    text += "; " + std::string(to_string(attempt.rung)) + " " + std::to_string(attempt.processes);
    if (attempt.failure) text += " (" + attempt.failure->text() + ")";
  }
  return text;
}

}  // namespace forestall::test
