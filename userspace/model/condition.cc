// SPDX-License-Identifier: Apache-2.0
#include "model/condition.h"

namespace forestall {
namespace {

// Kubelet's texts for one condition: [0] while it is false, [1] while it is true.
struct Words {
  std::string_view name;
  std::array<std::string_view, 2> reason;
  std::array<std::string_view, 2> message;
  std::array<std::string_view, 2> event;
  std::string_view taint;
};

constexpr std::array<Words, kConditions.size()> kWords{
    Words{"MemoryPressure",
          {"KubeletHasSufficientMemory", "KubeletHasInsufficientMemory"},
          {"kubelet has sufficient memory available", "kubelet has insufficient memory available"},
          {"NodeHasSufficientMemory", "NodeHasInsufficientMemory"},
          "node.kubernetes.io/memory-pressure"},
    Words{"DiskPressure",
          {"KubeletHasNoDiskPressure", "KubeletHasDiskPressure"},
          {"kubelet has no disk pressure", "kubelet has disk pressure"},
          {"NodeHasNoDiskPressure", "NodeHasDiskPressure"},
          "node.kubernetes.io/disk-pressure"},
    Words{"PIDPressure",
          {"KubeletHasSufficientPID", "KubeletHasInsufficientPID"},
          {"kubelet has sufficient PID available", "kubelet has insufficient PID available"},
          {"NodeHasSufficientPID", "NodeHasInsufficientPID"},
          "node.kubernetes.io/pid-pressure"},
};

const Words& words(Condition condition) {
  return kWords[static_cast<std::size_t>(condition)];
}

}  // namespace

std::string_view to_string(Condition condition) {
  return words(condition).name;
}

std::optional<Condition> parse_condition(std::string_view text) {
  for (const Condition condition : kConditions) {
    if (to_string(condition) == text) return condition;
  }
  return std::nullopt;
}

std::optional<Condition> condition_of(Signal signal) {
  if (is_of_watched_cgroup(signal)) return std::nullopt;
  switch (resource_of(signal)) {
    case Resource::memory: return Condition::memory_pressure;
    case Resource::ephemeral_storage:
    case Resource::inodes: return Condition::disk_pressure;
    case Resource::pids: return Condition::pid_pressure;
  }
  return std::nullopt;
}

std::string_view condition_reason(Condition condition, bool status) {
  return words(condition).reason[status ? 1 : 0];
}

std::string_view condition_message(Condition condition, bool status) {
  return words(condition).message[status ? 1 : 0];
}

std::string_view condition_event(Condition condition, bool status) {
  return words(condition).event[status ? 1 : 0];
}

std::string_view condition_taint(Condition condition) {
  return words(condition).taint;
}

}  // namespace forestall
