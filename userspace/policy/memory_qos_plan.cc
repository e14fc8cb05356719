// SPDX-License-Identifier: Apache-2.0
#include "policy/memory_qos_plan.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/memory_qos.h"
#include "policy/qos.h"
#include "policy/saturating.h"

namespace forestall::policy {
namespace {

std::string_view parent_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos || slash == 0 ? std::string_view() : path.substr(0, slash);
}

// Why a value of a pod, container or level stays as it is; empty: the agent may write it.
std::string left_to_kubelet(const std::optional<bool>& kubelet_writes) {
  if (!kubelet_writes) {
    return "unknown whether the kubelet writes it; set kubeletConfig and compat.kubeletVersion";
  }
  return *kubelet_writes ? "the kubelet writes it" : "";
}

bool is_at_or_below(std::string_view path, std::string_view parent) {
  return !parent.empty() && path.starts_with(parent) &&
         (path.size() == parent.size() || path[parent.size()] == '/');
}

using PodName = std::pair<std::string_view, std::string_view>;

PodName name_of(const Pod& pod) {
  return {pod.pod_namespace, pod.name};
}

// The pods whose requests the levels cover. A static pod is known twice, under the hash that names
// its cgroup and as its mirror pod: only what has a cgroup counts, or the former without one.
std::vector<std::shared_ptr<const Pod>> pods_of_levels(const MemoryQosPlanInput& input) {
  std::set<PodName> static_pods;
  for (const auto& pod : input.pods) {
    if (pod->origin == PodOrigin::static_file) static_pods.insert(name_of(*pod));
  }
  std::set<std::string_view> present;  // UIDs
  std::set<PodName> present_names;
  for (const QosPodCgroup& each : input.cgroups) {
    if (!each.pod) continue;
    present.insert(each.pod->uid);
    present_names.insert(name_of(*each.pod));
  }
  std::vector<std::shared_ptr<const Pod>> pods;
  for (const auto& pod : input.pods) {
    const PodName name = name_of(*pod);
    const bool counts = !static_pods.contains(name) || present.contains(pod->uid) ||
                        (!present_names.contains(name) && pod->origin == PodOrigin::static_file);
    if (counts) pods.push_back(pod);
  }
  return pods;
}

constexpr const char* kNoCapacity = "the memory of the node is unknown";
constexpr const char* kNoOthers = "memory.min of other cgroups cannot be read";

class Planner {
 public:
  explicit Planner(const MemoryQosPlanInput& input)
      : input_(input), levels_(qos_level_cgroups(input.cgroups)) {
    settings_.reservation = input.config.reservation;
    settings_.throttling_factor = input.config.throttling_factor;
    settings_.node_allocatable = input.node_allocatable;
    settings_.page_size = input.page_size;
    if (!input.min_of_others) return;
    min_limit_ = input.min_limit;
    min_left_ = std::max<std::int64_t>(min_limit_ - *input.min_of_others, 0);
  }

  std::vector<PlannedMemoryQos> plan() && {
    level_values_ = memory_qos_levels(pods_of_levels(input_), settings_);
    count_min_of_pods();
    limit_single();
    levels();
    for (const QosPodCgroup& each : input_.cgroups) {
      if (each.pod) pod(each);
    }
    for (const MemoryQosCgroup& each : input_.config.cgroups) single(each);
    return std::move(out_);
  }

 private:
  struct Place {
    std::string subject;
    std::string path;
    CgroupId cgroup;
  };

  // `left`: why it stays as it is.
  void add(const Place& place, MemoryQosFile file, std::optional<std::int64_t> value,
           std::string left, std::string note = {}) {
    if (value == kNoThrottling) return;
    const std::int64_t bytes = value.value_or(0);
    const std::int64_t stored = bytes - bytes % input_.page_size;
    if (stored <= 0 && note.empty()) return;
    if (stored <= 0 && left.empty()) left = note;
    if (left.empty() && file == MemoryQosFile::min && min_limit_ == 0) {
      left = input_.min_of_others ? kNoCapacity : kNoOthers;
    }
    out_.push_back(
        {place.subject, place.path, place.cgroup, file, stored, std::move(left), std::move(note)});
  }

  void pod(const QosPodCgroup& found) {
    const PodMemoryQos values = memory_qos(*found.pod, settings_);
    if (!values.active) return;
    const std::string name = found.pod->pod_namespace + "/" + found.pod->name;
    const std::string throttled = left_to_kubelet(input_.config.kubelet_throttles);
    protect({name, found.path, found.cgroup}, values.protection);
    const auto containers = [&](const std::vector<PodContainer>& of,
                                const std::vector<ContainerMemoryQos>& qos) {
      for (std::size_t i = 0; i < of.size(); ++i) {
        const auto cgroup = std::ranges::find(found.containers, of[i].id, &QosContainerCgroup::id);
        if (of[i].id.empty() || cgroup == found.containers.end()) continue;
        const Place place{name + ": " + of[i].name, cgroup->path, cgroup->cgroup};
        protect(place, qos[i].protection);
        add(place, MemoryQosFile::high, qos[i].high, throttled);
      }
    };
    containers(found.pod->init_containers, values.init_containers);
    containers(found.pod->containers, values.containers);
  }

  // Of a pod or a container. Without a limit above it a memory.min would have no limit at all.
  void protect(const Place& place, const MemoryProtection& protection) {
    const std::string left = left_to_kubelet(input_.config.kubelet_reserves);
    std::string unlimited;
    if (levels_.pods.empty()) {
      unlimited = "the cgroup of all pods is unknown";
    } else if (!is_at_or_below(place.path, levels_.pods)) {
      unlimited = "it is not below the cgroup of all pods";
    }
    add(place, MemoryQosFile::min, protection.min, left.empty() ? unlimited : left);
    add(place, MemoryQosFile::low, protection.low, left);
  }

  void levels() {
    const MemoryQosLevels& values = level_values_;
    const std::string left = left_to_kubelet(input_.config.kubelet_reserves);
    if (const auto place = place_of("pods", levels_.pods)) {
      std::int64_t min = values.kubepods_min.value_or(0);
      std::string note;
      const std::int64_t limit = std::max(min_left_ + min_of_pods_, min_above_pods_);
      if (left.empty() && min_limit_ > 0 && min > limit) {
        note = "the pods request " + std::to_string(min) + ", of which the node has " +
               std::to_string(limit) + " to guarantee";
        min = limit;
      }
      add(*place, MemoryQosFile::min, min, left, note);
    }
    if (const auto place = place_of("burstable pods", levels_.burstable)) {
      add(*place, MemoryQosFile::min, values.burstable.min, left);
      add(*place, MemoryQosFile::low, values.burstable.low, left);
    }
  }

  [[nodiscard]] std::optional<Place> place_of(const std::string& subject,
                                              const std::string& path) const {
    const auto found = std::ranges::find(input_.others, path, &QosOtherCgroup::path);
    if (path.empty() || found == input_.others.end()) return std::nullopt;
    return Place{subject, path, found->cgroup};
  }

  [[nodiscard]] bool is_of_pods(std::string_view path) const {
    const auto holds = [&](const QosPodCgroup& each) { return is_at_or_below(path, each.path); };
    return is_at_or_below(path, levels_.pods) || is_at_or_below(path, levels_.burstable) ||
           std::ranges::any_of(input_.cgroups, holds);
  }

  // Null: it is not directly below the root.
  [[nodiscard]] const MemoryQosPresentMin* present_min(const std::string& path) const {
    const auto found = std::ranges::find(input_.present_min, path, &MemoryQosPresentMin::path);
    return found == input_.present_min.end() ? nullptr : &*found;
  }

  [[nodiscard]] bool min_stays(const std::string& path) const {
    const MemoryQosPresentMin* present = present_min(path);
    return present != nullptr && present->stays;
  }

  // Returns how much of it there was.
  std::int64_t take_min(std::int64_t amount) {
    const std::int64_t taken = std::min(amount, min_left_);
    min_left_ -= taken;
    return taken;
  }

  // Unless the agent replaces it, the pods have what is present.
  void count_min_of_pods() {
    const MemoryQosPresentMin* present = present_min(levels_.pods);
    if (present == nullptr) return;
    const bool is_replaced = !present->stays && place_of("pods", levels_.pods) &&
                             left_to_kubelet(input_.config.kubelet_reserves).empty() &&
                             level_values_.kubepods_min.value_or(0) >= input_.page_size;
    if (!is_replaced) min_of_pods_ = take_min(present->amount);
  }

  // What is below another one, or below that of all pods, is limited by that.
  [[nodiscard]] bool counts(const MemoryQosCgroup& single) const {
    const auto& all = input_.config.cgroups;
    const bool is_below = std::ranges::any_of(all, [&](const MemoryQosCgroup& other) {
      return other.min && other.path != single.path && is_at_or_below(single.path, other.path);
    });
    return single.min && !is_below && place_of(single.path, single.path) &&
           !is_at_or_below(single.path, levels_.pods);
  }

  void limit_single() {
    std::int64_t sum = 0;
    std::int64_t present_sum = 0;
    std::int64_t above_pods = 0;
    std::int64_t present_above_pods = 0;
    for (const MemoryQosCgroup& each : input_.config.cgroups) {
      if (!counts(each)) continue;
      const bool is_above_pods = is_at_or_below(levels_.pods, each.path);
      const MemoryQosPresentMin* found = present_min(each.path);
      const std::int64_t present = found == nullptr ? 0 : found->amount;
      if (min_stays(each.path)) {
        const std::int64_t taken = take_min(std::max(present, each.min->count));
        if (is_above_pods) min_above_pods_ = taken;
        continue;
      }
      sum = policy::add({sum}, *each.min).count;
      present_sum = policy::add({present_sum}, {present}).count;
      if (is_above_pods) {
        above_pods = each.min->count;
        present_above_pods = present;
      }
    }
    if (sum <= min_left_) {
      take_min(sum);
      min_above_pods_ = std::max(min_above_pods_, above_pods);
    } else if (min_limit_ > 0) {
      too_much_ = "memoryQoSCgroups have a memory.min of " + std::to_string(sum) +
                  ", of which the node has " + std::to_string(min_left_) + " to guarantee";
      min_above_pods_ = std::max(min_above_pods_, std::min(present_above_pods, min_left_));
      take_min(present_sum);
    }
  }

  void single(const MemoryQosCgroup& wanted) {
    const auto place = place_of(wanted.path, wanted.path);
    if (!place) return;
    const bool of_pods = is_of_pods(wanted.path);
    const auto add_one = [&](MemoryQosFile file, const std::optional<Bytes>& amount,
                             const std::optional<bool>& kubelet_writes) {
      if (!amount) return;
      const auto planned = std::ranges::find_if(out_, [&](const PlannedMemoryQos& each) {
        return each.cgroup == place->cgroup && each.file == file;
      });
      std::string left;
      if (of_pods) left = left_to_kubelet(kubelet_writes);
      if (left.empty() && planned != out_.end()) left = "it has the value of " + planned->subject;
      // One that stays is planned all the same: once it is not, it is the agent's again.
      if (left.empty() && file == MemoryQosFile::min && !min_stays(place->path)) left = too_much_;
      add(*place, file, amount->count, left);
    };
    add_one(MemoryQosFile::min, wanted.min, input_.config.kubelet_reserves);
    add_one(MemoryQosFile::low, wanted.low, input_.config.kubelet_reserves);
    add_one(MemoryQosFile::high, wanted.high, input_.config.kubelet_throttles);
  }

  const MemoryQosPlanInput& input_;
  const QosLevelCgroups levels_;
  MemoryQosSettings settings_;
  std::int64_t min_limit_ = 0;  // 0: no memory.min is written
  std::int64_t min_left_ = 0;   // of the limit
  MemoryQosLevels level_values_;
  std::int64_t min_of_pods_ = 0;     // that stays; counted already
  std::int64_t min_above_pods_ = 0;  // of a single cgroup that contains all pods; counted already
  std::string too_much_;             // why no single cgroup gets a memory.min
  std::vector<PlannedMemoryQos> out_;
};

}  // namespace

// The parent of a Guaranteed pod has all pods; that of a Burstable pod is one below it.
QosLevelCgroups qos_level_cgroups(std::span<const QosPodCgroup> cgroups) {
  std::set<std::string_view> pods;
  std::set<std::string_view> burstable;
  for (const QosPodCgroup& each : cgroups) {
    if (!each.pod) continue;
    switch (qos_class(*each.pod)) {
      case QosClass::guaranteed: pods.insert(parent_of(each.path)); break;
      case QosClass::burstable: burstable.insert(parent_of(each.path)); break;
      case QosClass::best_effort: break;
    }
  }
  QosLevelCgroups paths;
  if (burstable.size() == 1) paths.burstable = *burstable.begin();
  if (pods.size() == 1) paths.pods = *pods.begin();
  const std::string_view above = parent_of(paths.burstable);
  if (pods.empty() || pods.contains(above)) paths.pods = above;
  return paths;
}

std::vector<PlannedMemoryQos> plan_memory_qos(const MemoryQosPlanInput& input) {
  return Planner(input).plan();
}

std::int64_t memory_min_limit(Bytes capacity, const Reserved& kube, const Reserved& system) {
  return std::min(memory_qos_allocatable(capacity, kube, system),
                  capacity.count - capacity.count / 20);
}

std::int64_t memory_qos_allocatable(Bytes capacity, const Reserved& kube, const Reserved& system) {
  std::int64_t left = capacity.count;
  for (const Reserved* each : {&kube, &system}) {
    if (each->memory) left -= std::min(left, std::max<std::int64_t>(each->memory->value(), 0));
  }
  return std::max<std::int64_t>(left, 0);
}

}  // namespace forestall::policy
