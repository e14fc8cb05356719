// SPDX-License-Identifier: Apache-2.0
#include "sources/inferred_facts.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/parse.h"
#include "kernel/cgroup_processes.h"
#include "kernel/held_file.h"

namespace forestall::sources {
namespace {

constexpr std::int32_t kSandbox = -998;       // set by the container runtime
constexpr std::int32_t kGuaranteed = -997;    // also of every system-node-critical pod
constexpr std::int32_t kLowestBurstable = 3;  // to 999
constexpr std::int32_t kBestEffort = 1000;
// Processes read per container. The first one is the oldest, with the container's own value.
constexpr std::size_t kProcessesMax = 32;

bool is_kubelets(std::int32_t value) {
  return value == kGuaranteed || (value >= kLowestBurstable && value <= kBestEffort);
}

// The agent's own, never the tenant's: a tenant that can provoke any other error must not become
// unknown, and so protected.
bool is_shortage(const Error& failure) {
  return failure.code == EMFILE || failure.code == ENFILE || failure.code == ENOMEM;
}

Result<std::int32_t> oom_score_adj_of(const std::string& proc, pid_t pid) {
  const auto name = proc + "/" + std::to_string(pid) + "/oom_score_adj";
  const auto file = TRY(kernel::HeldFile::open(AT_FDCWD, name.c_str(), name));
  std::string buffer;
  const auto value = parse_i64(trim(TRY(file.read(buffer))));
  if (!value) return error(name + ": not a number");
  return static_cast<std::int32_t>(*value);
}

// Of one container. Nullopt: it has no process.
using LowestValue = Result<std::optional<std::int32_t>>;

LowestValue lowest(const std::string& proc, const std::vector<pid_t>& processes) {
  std::optional<std::int32_t> found;
  for (std::size_t i = 0; i < std::min(processes.size(), kProcessesMax); ++i) {
    const auto value = oom_score_adj_of(proc, processes[i]);
    if (value) {
      found = std::min(found.value_or(*value), *value);
    } else if (is_shortage(value.error())) {
      return value.error();
    }
  }
  return found;
}

// A container that runs an init system has its processes in cgroups of its own.
LowestValue value_of(const InferenceHost& host, const kernel::CgroupDir& container) {
  const auto own = container.processes();
  if (own && !own->empty()) return lowest(host.proc, *own);
  const auto all = TRY(kernel::list_processes(container));
  if (all.failure && is_shortage(*all.failure)) return *all.failure;
  return lowest(host.proc, all.pids);
}

std::vector<LowestValue> values_of(const InferenceHost& host, const kernel::CgroupDir& pod) {
  std::vector<LowestValue> values;
  const auto own = pod.processes();
  if (!own && is_shortage(own.error())) values.emplace_back(own.error());
  if (own && !own->empty()) values.push_back(lowest(host.proc, *own));
  const auto names = pod.children();
  if (!names) {
    if (is_shortage(names.error())) values.emplace_back(names.error());
    return values;
  }
  for (const std::string& name : *names) {
    const auto container = host.tree.open(pod.path() + "/" + name);
    if (container) {
      values.push_back(value_of(host, *container));
    } else if (is_shortage(container.error())) {
      values.emplace_back(container.error());
    }
  }
  return values;
}

std::optional<nlink_t> links_of(const kernel::CgroupDir& pod) {
  struct stat status {};
  if (::fstat(pod.fd(), &status) != 0) return std::nullopt;
  return status.st_nlink;
}

}  // namespace

// The value is 1000 - 1000 * request / capacity, truncated, then limited to 3..999.
Bytes most_requested(std::int32_t oom_score_adj, Bytes capacity) {
  if (oom_score_adj >= kBestEffort) return Bytes{0};
  if (oom_score_adj <= kLowestBurstable) return capacity;
  const std::int64_t per_mille = 1000 - oom_score_adj + 1;
  return Bytes{capacity.count / 1000 * per_mille + capacity.count % 1000 * per_mille / 1000};
}

void PodInference::read(const InferenceHost& host, const kernel::CgroupDir& pod,
                        InferredFacts& facts) {
  const auto values = values_of(host, pod);
  Bytes request;
  std::size_t sandboxes = 0;
  settled_ = true;
  bool unread = false;
  for (const auto& container : values) {
    unread = unread || (!container && is_shortage(container.error()));
    const auto value = container.optional().value_or(std::nullopt);
    if (value == kSandbox) {
      ++sandboxes;
      continue;
    }
    // A container that is being created has no process yet, or one with its creator's value.
    settled_ = settled_ && value && is_kubelets(*value);
    if (!value) continue;
    facts.oom_score_adj = std::min(facts.oom_score_adj.value_or(*value), *value);
    request = request + most_requested(*value, host.capacity);
  }
  // An unread container may be the one that makes the pod critical.
  if (unread) facts.oom_score_adj.reset();
  settled_ = settled_ && facts.oom_score_adj && sandboxes <= 1;
  const bool computed = facts.oom_score_adj && *facts.oom_score_adj >= kLowestBurstable;
  if (computed && !facts.memory_request) facts.memory_request = std::min(request, host.capacity);
  last_ = facts;
}

void PodInference::refresh(const InferenceHost& host, Workload& workload) {
  if (!workload.inferred) {
    settled_ = false;
    return;
  }
  const auto pod = host.tree.open(workload.path);
  // If it was removed, the observer drops it.
  const nlink_t links = pod ? links_of(*pod).value_or(0) : links_;
  if (pod && (!settled_ || links != links_)) {
    links_ = links;
    read(host, *pod, *workload.inferred);
    return;
  }
  workload.inferred->oom_score_adj = last_.oom_score_adj;
  if (!workload.inferred->memory_request) workload.inferred->memory_request = last_.memory_request;
}

void PodInference::complete(const InferenceHost& host, Workload& workload) {
  if (!workload.inferred || settled_) return;
  const auto pod = host.tree.open(workload.path);
  if (!pod) return;
  // A request inferred from some of the containers is too small; a limit read by the caller stays.
  if (workload.inferred->qos != QosClass::guaranteed) workload.inferred->memory_request.reset();
  workload.inferred->oom_score_adj.reset();
  read(host, *pod, *workload.inferred);
}

}  // namespace forestall::sources
