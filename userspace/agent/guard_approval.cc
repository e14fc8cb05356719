// SPDX-License-Identifier: Apache-2.0
#include "agent/guard_approval.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "actuators/members.h"
#include "kernel/process_ref.h"

namespace forestall::agent {
namespace {

// Processes of one workload that are sized to find the largest.
constexpr std::size_t kProcessesMax = 256;

// The largest first: they hold the memory, and a list has room for a limited number.
std::vector<pid_t> largest_first(std::vector<pid_t> pids) {
  if (pids.size() > kProcessesMax) pids.resize(kProcessesMax);
  if (pids.size() < 2) return pids;
  std::vector<std::pair<std::uint64_t, pid_t>> sized;
  sized.reserve(pids.size());
  for (const pid_t pid : pids) sized.emplace_back(kernel::resident_pages(pid), pid);
  std::ranges::sort(sized, std::greater<>());
  std::ranges::transform(sized, pids.begin(), &std::pair<std::uint64_t, pid_t>::second);
  return pids;
}

}  // namespace

Approved GuardApproval::add_processes(const kernel::CgroupDir& workload, std::uint32_t group,
                                      Bytes expected, std::size_t size_max,
                                      std::vector<abi_guard_victim>& out) {
  auto members = actuators::members_of(workload, never_kill_);
  if (!members.ok()) return Approved::some;  // removed
  std::erase_if(members->present, [&](pid_t pid) {
    return std::ranges::binary_search(members->protected_pids, pid);
  });
  const bool has_processes = !members->present.empty() || members->unlisted;
  bool all = members->protected_pids.empty() && !members->unlisted &&
             members->present.size() <= kProcessesMax;
  const std::size_t before = out.size();
  for (const pid_t pid : largest_first(std::move(members->present))) {
    all = all && out.size() < size_max;
    if (out.size() >= size_max) break;
    const auto process = kernel::ProcessRef::open(pid);
    if (!process.ok()) continue;  // it has exited
    if (!never_kill_.why_not(process->id(), process->kernel_thread()).empty()) {
      all = false;
      continue;
    }
    auto identified = guard_.identify(pid, workload.id());
    if (!identified.ok() || !process->send_signal(0).ok()) {
      all = false;
      continue;
    }
    identified->group = group;
    identified->expected = static_cast<__u64>(std::exchange(expected, Bytes{0}).count);
    out.push_back(*identified);
  }
  if (has_processes && out.size() == before) return Approved::none;
  return all ? Approved::all : Approved::some;
}

}  // namespace forestall::agent
