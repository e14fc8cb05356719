// SPDX-License-Identifier: Apache-2.0
// Ranks the workloads of the guard's standing list and approves their processes, on the thread of
// GuardListThread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "actuators/never_kill.h"
#include "agent/guard_list_thread.h"
#include "base/clock.h"
#include "kernel/cgroup_tree.h"
#include "kernel/guard.h"
#include "model/config.h"
#include "model/observation.h"
#include "policy/standing_list.h"

namespace forestall::agent {

class GuardApproval;

// What a standing list is made of.
struct StandingListSource {
  std::shared_ptr<const Config> config;
  std::shared_ptr<const actuators::NeverKill> never_kill;
  policy::StandingSubject subject;
  Observation read;  // the workloads
};

class StandingListJob final : public GuardListJob {
 public:
  // All outlive the job.
  StandingListJob(kernel::GuardPrograms& guard, const kernel::CgroupTree& tree, const Clock& clock,
                  StandingListSource source)
      : guard_(guard), tree_(tree), clock_(clock), source_(std::move(source)) {}

  // ---- once done() ----

  policy::StandingOrder order;
  kernel::StandingGuardList list;  // its workloads, processes and memcg
  bool subject_gone = false;
  Duration took{0};

 protected:
  void run() override;

 private:
  void make_list();
  void find_subject();
  void approve(const policy::StandingWorkload& listed, GuardApproval& approval);

  kernel::GuardPrograms& guard_;
  const kernel::CgroupTree& tree_;
  const Clock& clock_;
  StandingListSource source_;
};

}  // namespace forestall::agent
