// SPDX-License-Identifier: Apache-2.0
#include "agent/memory_qos.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <utility>

#include "actuators/event_wait.h"
#include "base/blocked_signals.h"
#include "base/parse.h"
#include "base/start_thread.h"
#include "kernel/scheduling.h"
#include "sources/container_reader.h"

namespace forestall::agent {
namespace {

// The cgroup with this identity; a removed or replaced one is left out.
Result<kernel::CgroupDir> open_same(const kernel::CgroupTree& tree, const std::string& path,
                                    CgroupId cgroup) {
  auto opened = TRY(tree.open(path));
  if (opened.id() != cgroup) return Error{ENODEV, path + " was removed"};
  return opened;
}

void add_containers(const kernel::CgroupTree& tree, policy::QosPodCgroup& pod) {
  const auto opened = open_same(tree, pod.path, pod.cgroup);
  if (!opened) return;
  const auto children = opened->children();
  if (!children) return;
  for (const std::string& child : *children) {
    std::string path = pod.path + "/" + child;
    const auto cgroup = tree.id_at(path);
    if (!cgroup) continue;
    pod.containers.push_back({std::move(path), *cgroup, std::string(sources::container_id(child))});
  }
}

std::vector<policy::QosOtherCgroup> find_others(const kernel::CgroupTree& tree,
                                                const MemoryQosFacts& facts) {
  const policy::QosLevelCgroups levels = policy::qos_level_cgroups(facts.cgroups);
  std::vector<std::string> paths{levels.pods, levels.burstable};
  for (const MemoryQosCgroup& each : facts.config.cgroups) paths.push_back(each.path);
  std::vector<policy::QosOtherCgroup> found;
  for (std::string& each : paths) {
    if (each.empty()) continue;
    if (const auto cgroup = tree.id_at(each)) found.push_back({std::move(each), *cgroup});
  }
  return found;
}

MemoryQosValue value_of(const kernel::CgroupTree& tree, const policy::PlannedMemoryQos& planned) {
  MemoryQosValue value{planned.subject, planned.path, planned.file, {}, planned.value};
  const auto cgroup = open_same(tree, planned.path, planned.cgroup);
  const auto text = cgroup ? cgroup->read(to_string(planned.file)) : cgroup.error();
  if (!text) {
    value.state = MemoryQosState::failed;
    value.reason = text.error().text();
    return value;
  }
  value.present = trim(*text);
  if (value.present == std::to_string(planned.value)) {
    value.state = MemoryQosState::equal;
  } else if (!planned.left.empty()) {
    value.state = MemoryQosState::left;
    value.reason = planned.left;
  } else {
    value.state = MemoryQosState::would_write;
  }
  return value;
}

}  // namespace

MemoryQosReport observe_memory_qos(const kernel::CgroupTree& tree, MemoryQosFacts facts) {
  MemoryQosReport report;
  report.mode = facts.config.mode;
  report.unknown_pods = facts.unknown_pods;
  if (tree.version() != kernel::CgroupVersion::v2) {
    report.problem =
        "cgroup v1 has no memory.min, memory.low and memory.high; its soft limit protects nothing "
        "and is not written";
    return report;
  }
  for (policy::QosPodCgroup& each : facts.cgroups) add_containers(tree, each);
  const auto others = find_others(tree, facts);
  const auto planned = policy::plan_memory_qos({.config = facts.config,
                                                .node_allocatable = facts.node_allocatable,
                                                .page_size = ::sysconf(_SC_PAGESIZE),
                                                .pods = facts.pods,
                                                .unknown_pods = facts.unknown_pods,
                                                .cgroups = facts.cgroups,
                                                .others = others});
  for (const policy::PlannedMemoryQos& each : planned) {
    report.values.push_back(value_of(tree, each));
  }
  return report;
}

Result<std::unique_ptr<MemoryQosThread>> MemoryQosThread::create(const kernel::CgroupTree& tree) {
  UniqueFd changed(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!changed) return errno_error("eventfd", "for memory QoS");
  return std::unique_ptr<MemoryQosThread>(new MemoryQosThread(tree, std::move(changed)));
}

MemoryQosThread::~MemoryQosThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ::eventfd_write(changed_.get(), 1);
  thread_.join();
}

Result<void> MemoryQosThread::update(MemoryQosFacts facts) {
  if (facts.config.mode == MemoryQosMode::off && !thread_.joinable()) return {};
  if (!thread_.joinable()) {
    const base::BlockedSignals none_for_the_thread;
    thread_ = TRY(start_thread("forestall-qos", [this] { serve(); }));
  }
  // The loop frees the ones before, which it allocated.
  {
    const std::lock_guard lock(mutex_);
    std::swap(facts_, facts);
    changed_facts_ = true;
  }
  ::eventfd_write(changed_.get(), 1);
  return {};
}

std::optional<MemoryQosReport> MemoryQosThread::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

void MemoryQosThread::serve() {
  pthread_setname_np(pthread_self(), "forestall-qos");
  kernel::use_ordinary_priority();
  for (;;) {
    std::optional<MemoryQosFacts> facts;
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      if (std::exchange(changed_facts_, false)) facts = facts_;
    }
    if (facts) {
      std::optional<MemoryQosReport> next;
      if (facts->config.mode != MemoryQosMode::off) {
        next = observe_memory_qos(tree_, *std::move(facts));
      }
      const std::lock_guard lock(mutex_);
      report_.swap(next);
    }
    actuators::wait_for_event(changed_.get(), std::nullopt);
  }
}

}  // namespace forestall::agent
