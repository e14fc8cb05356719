// SPDX-License-Identifier: Apache-2.0
#include "agent/standing_list_job.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/guard_approval.h"
#include "base/parse.h"

namespace forestall::agent {
namespace {

// With more workloads, each has fewer processes in the list.
constexpr std::size_t kManyWorkloads = ABI_STANDING_PROCESSES / ABI_GUARD_VICTIMS;
constexpr std::size_t kFewProcesses = ABI_STANDING_PROCESSES / ABI_STANDING_WORKLOADS;

// A workload may have been sampled twice if others came or went meanwhile. Its growth would count
// twice.
void keep_one_sample_each(std::vector<WorkloadSample>& samples) {
  std::set<CgroupId> seen;
  std::erase_if(samples, [&](const WorkloadSample& sample) {
    return !seen.insert(sample.workload.cgroup).second;
  });
}

__u64 as_amount(std::optional<Bytes> bytes) {
  return static_cast<__u64>(std::max<std::int64_t>(bytes.value_or(Bytes{0}).count, 0));
}

// Whether it lies in another workload of the list.
bool is_nested(std::string_view path, const policy::StandingOrder& order) {
  return std::ranges::any_of(order.workloads, [&](const policy::StandingWorkload& each) {
    const std::string& other = order.considered[each.candidate].sample.workload.path;
    return other != path && path_is_within(path, other);
  });
}

}  // namespace

void StandingListJob::run() {
  const MonotonicTime began = clock_.now();
  make_list();
  took = clock_.now() - began;
}

void StandingListJob::make_list() {
  keep_one_sample_each(*source_.read.workloads);
  order = policy::standing_order(*source_.config, source_.subject, source_.read);
  source_.read.workloads.reset();
  if (order.workloads.size() > ABI_STANDING_WORKLOADS) {
    order.workloads.resize(ABI_STANDING_WORKLOADS);
  }
  GuardApproval approval(guard_, *source_.never_kill);
  for (const policy::StandingWorkload& each : order.workloads) {
    if (cancelled()) return;
    approve(each, approval);
  }
  find_subject();
}

void StandingListJob::find_subject() {
  const CgroupId subject = source_.subject.cgroup;
  if (subject == CgroupId{}) return;
  const auto directory = tree_.open(source_.subject.path);
  subject_gone = !directory.ok() || directory->id() != subject;
  if (subject_gone) return;
  // 0 is no memory cgroup: then the list is refused.
  list.memcg = guard_.find_memcg(directory->fd(), subject).optional().value_or(0);
}

void StandingListJob::approve(const policy::StandingWorkload& listed, GuardApproval& approval) {
  const Candidate& candidate = order.considered[listed.candidate];
  const Workload& workload = candidate.sample.workload;
  const auto directory = tree_.open(workload.path);
  if (!directory.ok() || directory->id() != workload.cgroup) return;
  const auto memcg = guard_.memcg_of(directory->fd(), workload.cgroup);
  if (!memcg.ok()) return;
  abi_standing_workload entry{};
  entry.memcg = memcg->address;
  entry.held = as_amount(memcg->held);
  entry.cgroup = workload.cgroup.inode;
  entry.working_set = as_amount(candidate.sample.working_set());
  entry.request = as_amount(Bytes{candidate.key.request});
  entry.priority = listed.priority;
  entry.first = static_cast<__u16>(list.processes.size());
  const std::size_t processes =
      order.workloads.size() > kManyWorkloads ? kFewProcesses : ABI_GUARD_VICTIMS;
  const std::size_t room =
      std::min<std::size_t>(list.processes.size() + processes, ABI_STANDING_PROCESSES);
  // Without an approved process it is listed, so that none is killed in its place.
  if (listed.killable) {
    const auto group = static_cast<std::uint32_t>(list.workloads.size());
    if (approval.add_processes(*directory, group, *candidate.sample.working_set(), room,
                               list.processes) == Approved::all &&
        !listed.listed_only) {
      entry.flags |= ABI_STANDING_WHOLE;
    }
  }
  if (is_nested(workload.path, order)) entry.flags |= ABI_STANDING_NESTED;
  entry.count = static_cast<__u8>(list.processes.size() - entry.first);
  list.workloads.push_back(entry);
}

}  // namespace forestall::agent
