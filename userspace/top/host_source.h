// SPDX-License-Identifier: Apache-2.0
// Samples the node without an agent: the agent's observer and policy, without usage lines and
// signals.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/process_input.h"
#include "forestall/internal/top.pb.h"
#include "kernel/cgroup_tree.h"
#include "model/config.h"
#include "model/decision.h"
#include "policy/state.h"
#include "sources/observer.h"
#include "sources/oom_log.h"

namespace forestall::top {

// Thread rule: one thread.
class HostSource {
 public:
  // `tree` must outlive this.
  static Result<std::unique_ptr<HostSource>> create(const kernel::CgroupTree& tree, Config config);

  // Reads everything again. If `ranking` is empty, the configuration's applies.
  [[nodiscard]] Result<void> read(const std::string& ranking, internal::TopReport& report);

 private:
  HostSource(const kernel::CgroupTree& tree, Config config,
             std::unique_ptr<sources::Observer> observer);
  [[nodiscard]] Result<void> rank_as(const std::string& ranking);
  void note(const Decision& decision);
  void take_kernel_kills(MonotonicTime now);
  v1::StatusDecision& add_decision(std::int64_t wall_time_ns);

  const kernel::CgroupTree& tree_;
  const Ranking in_force_;
  Config config_;
  std::optional<cli::OpenedProcesses> processes_;  // opened on first use
  std::unique_ptr<sources::Observer> observer_;
  policy::State state_;
  std::unique_ptr<sources::OomLog> log_;  // null: not readable
  std::string expected_;                  // the expected victim, so that it is noted once
  std::vector<v1::StatusDecision> decisions_;
};

}  // namespace forestall::top
