// SPDX-License-Identifier: Apache-2.0
#include "agent/container_pressure.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <mutex>
#include <string_view>

#include "actuators/event_wait.h"
#include "base/blocked_signals.h"
#include "base/start_thread.h"
#include "kernel/scheduling.h"
#include "policy/container_pressure.h"
#include "policy/qos.h"
#include "sources/container_reader.h"

namespace forestall::agent {
namespace {

// Its name in the pod's specification; its id if the pod has none with this id.
std::string name_of_container(const Pod& pod, std::string_view id) {
  for (const auto* list : {&pod.containers, &pod.init_containers}) {
    const auto found = std::ranges::find(*list, id, &PodContainer::id);
    if (found != list->end()) return found->name;
  }
  return std::string(id);
}

void add_containers(const kernel::CgroupTree& tree, const PressurePod& pod,
                    PressureTargets& targets) {
  const auto opened = tree.open(pod.path);
  const auto children = opened ? opened->children() : opened.error();
  if (!children) {
    if (!kernel::is_removed(children.error())) targets.unknown_pods.insert(pod.path);
    return;
  }
  if (opened->id() != pod.cgroup) return;
  const bool is_exempt = policy::is_exempt_from_pressure(*pod.pod);
  for (const std::string& child : *children) {
    std::string path = pod.path + "/" + child;
    const auto cgroup = tree.id_at(path);
    if (!cgroup) continue;
    if (is_exempt) {
      ++targets.exempt;
      continue;
    }
    std::string subject = pod.pod->pod_namespace + "/" + pod.pod->name + "/" +
                          name_of_container(*pod.pod, sources::container_id(child));
    targets.watched.push_back({std::move(subject), std::move(path), *cgroup, pod.path, pod.cgroup,
                               policy::qos_class(*pod.pod), pod.pod->priority});
  }
}

}  // namespace

PressureTargets find_pressure_targets(const kernel::CgroupTree& tree,
                                      const ContainerPressureFacts& facts) {
  PressureTargets targets;
  targets.reserve = facts.reserve;
  for (const PressurePod& pod : facts.pods) {
    if (pod.pod) {
      add_containers(tree, pod, targets);
    } else {
      targets.unknown_pods.insert(pod.path);
    }
  }
  for (const std::string& path : facts.config.cgroups) {
    const auto cgroup = tree.id_at(path);
    if (cgroup)
      targets.watched.push_back({path, path, *cgroup, path, *cgroup, std::nullopt, std::nullopt});
  }
  return targets;
}

Result<std::unique_ptr<ContainerPressureThread>> ContainerPressureThread::create(
    const kernel::CgroupTree& tree, const kernel::SettingRecords& records, exports::Log& log) {
  UniqueFd changed(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd to_evict(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!changed || !to_evict) return errno_error("eventfd", "for pressure of containers");
  return std::unique_ptr<ContainerPressureThread>(
      new ContainerPressureThread(tree, records, log, std::move(changed), std::move(to_evict)));
}

ContainerPressureThread::~ContainerPressureThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ::eventfd_write(changed_.get(), 1);
  thread_.join();
}

Result<void> ContainerPressureThread::update(ContainerPressureFacts facts) {
  if (!thread_.joinable()) {
    if (!facts.config.is_on()) return {};
    const base::BlockedSignals none_for_the_thread;
    thread_ = TRY(start_thread("forestall-press", [this] { serve(); }));
  }
  auto next = std::make_shared<const ContainerPressureFacts>(std::move(facts));
  {
    const std::lock_guard lock(mutex_);
    facts_.swap(next);
  }
  ::eventfd_write(changed_.get(), 1);
  return {};
}

std::shared_ptr<const ContainerPressureReport> ContainerPressureThread::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

// Those of the last update, once.
std::shared_ptr<const ContainerPressureFacts> ContainerPressureThread::take_facts() {
  const std::lock_guard lock(mutex_);
  return std::exchange(facts_, nullptr);
}

bool ContainerPressureThread::has_to_stop() const {
  const std::lock_guard lock(mutex_);
  return stop_;
}

void ContainerPressureThread::publish(std::shared_ptr<const ContainerPressureReport> report) {
  const std::lock_guard lock(mutex_);
  report_.swap(report);
}

// Containers that are read at other times do not remove each other's: what is not taken becomes too
// old for the policy.
void ContainerPressureThread::publish_evictions() {
  if (controller_->evictions().empty()) return;
  std::vector<PressedContainer> evictions = controller_->evictions();
  {
    const std::lock_guard lock(mutex_);
    evictions_.swap(evictions);
  }
  ::eventfd_write(to_evict_.get(), 1);
}

std::vector<PressedContainer> ContainerPressureThread::take_evictions() {
  eventfd_t ignored = 0;
  ::eventfd_read(to_evict_.get(), &ignored);
  const std::lock_guard lock(mutex_);
  return std::exchange(evictions_, {});
}

void ContainerPressureThread::carry_out(const ContainerPressureFacts& facts) {
  if (!facts.config.is_on()) {
    controller_.reset();
    static_cast<void>(take_evictions());
    return publish(nullptr);
  }
  if (std::string problem = begin(); !problem.empty()) {
    ContainerPressureReport none;
    none.enforces = facts.config.enforces;
    none.problem = std::move(problem);
    return publish(std::make_shared<const ContainerPressureReport>(std::move(none)));
  }
  controller_->apply(facts.config, find_pressure_targets(tree_, facts), SystemClock().now());
  publish(std::make_shared<const ContainerPressureReport>(controller_->report()));
}

// Why nothing can be watched; empty: it can.
std::string ContainerPressureThread::begin() {
  if (controller_) return {};
  if (tree_.version() != kernel::CgroupVersion::v2) {
    return "cgroup v1 has no memory.high, and no events of a limit";
  }
  auto made = ContainerPressureController::create(tree_, records_, log_, {changed_.get()});
  if (!made) return made.error().text();
  controller_ = std::move(made).value();
  return {};
}

void ContainerPressureThread::wait() {
  if (!controller_) return actuators::wait_for_event(changed_.get(), std::nullopt);
  controller_->wait(controller_->next_due());
  eventfd_t ignored = 0;
  ::eventfd_read(changed_.get(), &ignored);
}

void ContainerPressureThread::serve() {
  pthread_setname_np(pthread_self(), "forestall-press");
  kernel::use_ordinary_priority();
  while (!has_to_stop()) {
    if (const auto facts = take_facts()) carry_out(*facts);
    if (controller_ && controller_->advance(SystemClock().now())) {
      publish(std::make_shared<const ContainerPressureReport>(controller_->report()));
      publish_evictions();
    }
    wait();
  }
  controller_.reset();
}

}  // namespace forestall::agent
