// SPDX-License-Identifier: Apache-2.0
// The settings that Forestall shares with kubelet, as written in one of three sources: Forestall's
// own file, a KubeletConfiguration, kubelet's flags. eviction_settings.h interprets them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/diagnostic.h"

namespace forestall::intake {

template <typename T>
struct Written {
  T value{};
  text::Origin key;  // equal to `at` for a flag
  text::Origin at;   // of the value
};

struct WrittenPair {
  std::string key;
  std::string value;
  text::Origin key_at;
  text::Origin value_at;
};

// In the order in which they were written, each key once.
using WrittenPairs = std::vector<WrittenPair>;

// An unparsed Go duration: in a KubeletConfiguration it is a string that must not be null.
struct DurationText {
  std::string text;
};

// An unparsed number.
struct NumberText {
  std::string text;
};

// A setting without a value was not given; an empty map or list was given.
struct KubeletSettings {
  std::optional<Written<WrittenPairs>> eviction_hard;
  std::optional<Written<WrittenPairs>> eviction_soft;
  std::optional<Written<WrittenPairs>> eviction_soft_grace_period;
  std::optional<Written<WrittenPairs>> eviction_minimum_reclaim;
  std::optional<Written<std::int32_t>> eviction_max_pod_grace_period;
  std::optional<Written<DurationText>> eviction_pressure_transition_period;
  std::optional<Written<bool>> merge_default_eviction_settings;
  std::optional<Written<bool>> kernel_memcg_notification;
  std::optional<Written<std::vector<std::string>>> enforce_node_allocatable;
  std::optional<Written<WrittenPairs>> kube_reserved;
  std::optional<Written<WrittenPairs>> system_reserved;
  std::optional<Written<bool>> local_storage_capacity_isolation;
  std::optional<Written<std::string>> cgroup_driver;
  std::optional<Written<std::string>> cgroup_root;
  std::optional<Written<std::string>> pod_logs_dir;
  std::optional<Written<std::string>> container_runtime_endpoint;
  std::optional<Written<std::string>> image_service_endpoint;
  // KEP-5986.
  std::optional<Written<NumberText>> memory_high_eviction_threshold;
  std::optional<Written<NumberText>> memory_max_eviction_threshold;
  std::optional<Written<NumberText>> memory_psi_eviction_threshold;
  std::optional<Written<DurationText>> memory_pressure_eviction_grace_period;
  // Whether eviction_hard is from a flag: then kubelet's defaults are not merged into it.
  bool hard_by_flag = false;
  // Whether errors in the files may hide a setting that was given.
  bool incomplete = false;
};

// Calls visit(key, member) for each setting, with its name in a KubeletConfiguration and a pointer
// to its member.
template <typename Visit>
void for_each_setting(Visit visit) {
  visit("evictionHard", &KubeletSettings::eviction_hard);
  visit("evictionSoft", &KubeletSettings::eviction_soft);
  visit("evictionSoftGracePeriod", &KubeletSettings::eviction_soft_grace_period);
  visit("evictionMinimumReclaim", &KubeletSettings::eviction_minimum_reclaim);
  visit("evictionMaxPodGracePeriod", &KubeletSettings::eviction_max_pod_grace_period);
  visit("evictionPressureTransitionPeriod", &KubeletSettings::eviction_pressure_transition_period);
  visit("mergeDefaultEvictionSettings", &KubeletSettings::merge_default_eviction_settings);
  visit("kernelMemcgNotification", &KubeletSettings::kernel_memcg_notification);
  visit("enforceNodeAllocatable", &KubeletSettings::enforce_node_allocatable);
  visit("kubeReserved", &KubeletSettings::kube_reserved);
  visit("systemReserved", &KubeletSettings::system_reserved);
  visit("localStorageCapacityIsolation", &KubeletSettings::local_storage_capacity_isolation);
  visit("cgroupDriver", &KubeletSettings::cgroup_driver);
  visit("cgroupRoot", &KubeletSettings::cgroup_root);
  visit("podLogsDir", &KubeletSettings::pod_logs_dir);
  visit("containerRuntimeEndpoint", &KubeletSettings::container_runtime_endpoint);
  visit("imageServiceEndpoint", &KubeletSettings::image_service_endpoint);
  visit("memoryHighEvictionThreshold", &KubeletSettings::memory_high_eviction_threshold);
  visit("memoryMaxEvictionThreshold", &KubeletSettings::memory_max_eviction_threshold);
  visit("memoryPSIEvictionThreshold", &KubeletSettings::memory_psi_eviction_threshold);
  visit("memoryPressureEvictionGracePeriod",
        &KubeletSettings::memory_pressure_eviction_grace_period);
}

// Overrides the settings in `under` with those in `over`, one setting at a time: a map replaces the
// whole map, as flags do in kubelet. With `warnings`, adds a warning for each setting that both
// contain.
void put_over(KubeletSettings& under, const KubeletSettings& over,
              std::vector<text::Finding>* warnings);

// The absolute path of a cgroupRoot as kubelet interprets it ("", "kubelet", "/kubelet/").
[[nodiscard]] std::string cgroup_root_path(const std::string& given);

}  // namespace forestall::intake
