// SPDX-License-Identifier: Apache-2.0
// Makes the guard's regular lists of one evaluation, on the thread of GuardListThread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actuators/never_kill.h"
#include "agent/guard_list_thread.h"
#include "base/clock.h"
#include "kernel/cgroup_tree.h"
#include "kernel/guard.h"
#include "model/config.h"
#include "model/record.h"
#include "policy/guard_list.h"

namespace forestall::agent {

class GuardApproval;

// What lists are made of.
struct RegularListSource {
  std::shared_ptr<const Config> config;
  std::shared_ptr<const actuators::NeverKill> never_kill;
  Record record;  // the evaluation; without `samples` its workloads are those to rank
  std::optional<Bytes> node_usage;  // as the programs count it, at the evaluation
  std::uint64_t reports_read = 0;   // GuardPrograms::reports_read() then
  MonotonicTime at;
  std::shared_ptr<const std::vector<WorkloadSample>> samples;  // to rank
};

class RegularListJob final : public GuardListJob {
 public:
  // A list expires so long after the evaluation.
  static constexpr Duration kExpiry = std::chrono::seconds(3);

  // What one subject's list was made of.
  struct Listed {
    policy::GuardOrder order;
    std::vector<abi_guard_victim> victims;
  };

  // `guard` and `tree` outlive the job.
  RegularListJob(kernel::GuardPrograms& guard, const kernel::CgroupTree& tree,
                 RegularListSource source)
      : guard_(guard), tree_(tree), source_(std::move(source)) {}

  // ---- once done() ----

  std::map<CgroupId, Listed> listed;  // by subject
  std::vector<kernel::GuardList> lists;
  // The evaluation, without workloads.
  [[nodiscard]] Record& record() { return source_.record; }
  // When its lists expire.
  [[nodiscard]] MonotonicTime expires() const { return source_.at + kExpiry; }

 protected:
  void run() override;

 private:
  void add(policy::GuardOrder order, GuardApproval& approval);
  [[nodiscard]] std::vector<abi_guard_victim> approve(const policy::GuardOrder& order,
                                                      GuardApproval& approval) const;

  kernel::GuardPrograms& guard_;
  const kernel::CgroupTree& tree_;
  RegularListSource source_;
};

}  // namespace forestall::agent
