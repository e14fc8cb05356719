// SPDX-License-Identifier: Apache-2.0
#include "agent/regular_list_job.h"

#include <utility>

#include "agent/guard_approval.h"

namespace forestall::agent {

void RegularListJob::run() {
  GuardApproval approval(guard_, *source_.never_kill);
  Observation& observation = source_.record.observation;
  if (source_.samples) observation.workloads = *source_.samples;
  for (policy::GuardOrder& order : policy::guard_orders(*source_.config, observation)) {
    if (cancelled()) return;
    add(std::move(order), approval);
  }
  observation.workloads.reset();
}

void RegularListJob::add(policy::GuardOrder order, GuardApproval& approval) {
  kernel::GuardList list;
  list.subject = order.cgroup;
  std::optional<Bytes> line = order.line;
  if (order.cgroup != CgroupId{}) {
    const auto directory = tree_.open(order.path);
    if (!directory.ok() || directory->id() != order.cgroup) return;
    // 0 is no memory cgroup: then the list is refused, which is logged.
    list.memcg = guard_.find_memcg(directory->fd(), order.cgroup).optional().value_or(0);
  } else {
    // The BPF programs count the node's memory themselves: the line is relative to their count.
    line = source_.node_usage ? std::optional(*source_.node_usage + order.headroom) : std::nullopt;
  }
  list.victims = approve(order, approval);
  list.inactive_file = order.inactive_file;
  list.expires = expires();
  list.reports_read = source_.reports_read;
  Listed& kept = listed[order.cgroup];
  kept = {std::move(order), list.victims};
  if (list.victims.empty() || !line) return;
  list.line = *line;
  lists.push_back(std::move(list));
}

std::vector<abi_guard_victim> RegularListJob::approve(const policy::GuardOrder& order,
                                                      GuardApproval& approval) const {
  std::vector<abi_guard_victim> victims;
  for (const policy::GuardVictim& victim : order.victims) {
    if (victims.size() >= ABI_GUARD_VICTIMS || cancelled()) break;
    const Workload& workload = order.considered[victim.candidate].sample.workload;
    const auto directory = tree_.open(workload.path);
    if (!directory.ok() || directory->id() != workload.cgroup) continue;
    if (approval.add_processes(*directory, victim.group, victim.expected, ABI_GUARD_VICTIMS,
                               victims) == Approved::none) {
      break;
    }
  }
  return victims;
}

}  // namespace forestall::agent
