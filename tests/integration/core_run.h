// SPDX-License-Identifier: Apache-2.0
// The agent's core on the real cgroups of this machine, driven by the test as the event loop drives
// it, for tests that count or block something inside.
#pragma once

#include <poll.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/core.h"
#include "exports/log.h"
#include "integration/ladder_run.h"
#include "support/record_collector.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {

// A watch on `path` with `available` as its hard threshold, and its children `names` as workloads.
inline Config watching(const std::string& path, Bytes available,
                       const std::vector<std::string>& names) {
  Config config;
  config.pods = false;
  config.recheck_interval = std::chrono::minutes(10);
  Threshold threshold;
  threshold.signal = Signal::cgroup_memory_available;
  threshold.cgroup = path;
  threshold.limit = Limit::bytes(available);
  config.thresholds = {threshold};
  for (const std::string& name : names) {
    WorkloadRule rule;
    rule.cgroup = path + "/" + name;
    rule.name = name;
    config.workloads.push_back(rule);
  }
  return config;
}

class CoreRun {
 public:
  using MakeSource = Result<std::unique_ptr<sources::Source>> (*)(const kernel::CgroupTree&,
                                                                  const std::string&);

  CoreRun(const Config& config, const std::vector<MakeSource>& sources,
          const std::vector<exports::EvaluationListener*>& listeners = {})
      : tree_(LadderRun::must(kernel::CgroupTree::discover())),
        observer_(LadderRun::must(sources::Observer::create(tree_, config))),
        ladder_(LadderRun::must(actuators::Ladder::create(tree_, clock_, options_of(config)))),
        log_(exports::Log::Stream::standard_error, /*stamped=*/true, exports::LogLevel::error) {
    for (const MakeSource make : sources) sources_.push_back(LadderRun::must(make(tree_, "/proc")));
    watchdog_ = LadderRun::must(
        agent::Watchdog::create(tree_, clock_, /*real_time=*/false, agent::Watchdog::kPatience));
    agent::Parts parts{.clock = clock_,
                       .tree = tree_,
                       .observer = *observer_,
                       .ladder = *ladder_,
                       .log = log_,
                       .sinks = {&sink_},
                       .evaluation_listeners = listeners,
                       .watchdog = *watchdog_,
                       .has_cgroup_events = true};  // no test makes a workload after the start
    for (const auto& source : sources_) parts.sources.push_back(source.get());
    core_ = std::make_unique<agent::Core>(std::move(parts), config);
    core_->start();
  }

  [[nodiscard]] agent::Core& core() { return *core_; }
  [[nodiscard]] actuators::Ladder& ladder() { return *ladder_; }
  [[nodiscard]] const kernel::CgroupTree& tree() const { return tree_; }
  [[nodiscard]] const std::vector<Record>& records() const { return sink_.records; }

  // Runs loop iterations until `done`; false if that does not happen within `patience`.
  bool turn_until(const std::function<bool()>& done, Duration patience = kPatience) {
    const MonotonicTime give_up = clock_.now() + patience;
    while (!done()) {
      const MonotonicTime now = clock_.now();
      if (now >= give_up) return false;
      turn(std::min(give_up, core_->next_due()) - now);
    }
    return true;
  }
  // The record of the first kill with its outcome.
  [[nodiscard]] const Record* kill() const {
    const auto found = std::ranges::find_if(
        records(), [](const Record& record) { return record.outcome.has_value(); });
    return found == records().end() ? nullptr : &*found;
  }

 private:
  static actuators::LadderOptions options_of(const Config& config) {
    actuators::LadderOptions options;
    options.dry_run = config.dry_run;
    options.usable = kAllOfKilling;
    options.release_timeout = kPatience;
    return options;
  }

  // Waits for the first event and handles it in the order of the loop's priorities.
  void turn(Duration longest) {
    std::vector<pollfd> fds{{ladder_->fd(), POLLIN, 0}};
    for (const auto& source : sources_) fds.push_back({source->fd(), POLLIN, 0});
    const auto wait = std::max(Duration::zero(), longest);
    watchdog_->announce(core_->next_due());
    fds.push_back({watchdog_->fd(), POLLIN, 0});
    fds.push_back({ladder_->pins_fd(), POLLIN, 0});
    const timespec timeout{static_cast<time_t>(wait.count() / 1'000'000'000),
                           static_cast<long>(wait.count() % 1'000'000'000)};
    ppoll(fds.data(), fds.size(), &timeout, nullptr);
    if (fds[0].revents != 0) return core_->ladder_ready();
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (fds[i + 1].revents != 0) return core_->source_ready(*sources_[i]);
    }
    if (fds[sources_.size() + 1].revents != 0) return core_->watchdog_ready();
    if (fds.back().revents != 0) return core_->pins_ready();
    if (core_->next_due() <= clock_.now()) core_->time_passed();
  }

  SystemClock clock_;
  kernel::CgroupTree tree_;
  std::unique_ptr<sources::Observer> observer_;
  std::unique_ptr<actuators::Ladder> ladder_;
  std::unique_ptr<agent::Watchdog> watchdog_;
  exports::Log log_;
  std::vector<std::unique_ptr<sources::Source>> sources_;
  RecordCollector sink_;
  std::unique_ptr<agent::Core> core_;
};

}  // namespace forestall::test
