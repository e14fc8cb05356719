// SPDX-License-Identifier: Apache-2.0
// Any world, however absurd its numbers, gets a decision that is well formed, the same whatever
// the order of the workloads, and that never kills whom it must not.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/parse.h"
#include "policy/step.h"

namespace {

using namespace forestall;

void require(bool holds) {
  if (!holds) std::abort();
}

// Reads the fuzzer's bytes as choices; zeros once they are used up.
class Choices {
 public:
  Choices(const std::uint8_t* bytes, std::size_t size) : bytes_(bytes), size_(size) {}

  std::uint8_t byte() {
    if (size_ == 0) return 0;
    --size_;
    return *bytes_++;
  }
  std::size_t below(std::size_t n) { return byte() % n; }
  bool yes() { return (byte() & 1) != 0; }
  // Small, huge and negative amounts.
  Bytes amount() {
    const auto mantissa = static_cast<std::int64_t>(static_cast<std::int8_t>(byte()));
    const auto shift = byte() % 57;
    return {static_cast<std::int64_t>(static_cast<std::uint64_t>(mantissa) << shift)};
  }
  // What a kernel file can hold: an unsigned number, or it could not be read.
  std::optional<Bytes> reading() {
    if (!yes()) return std::nullopt;
    return std::max(amount(), Bytes{0});
  }
  std::optional<Bytes> maybe_amount() { return yes() ? std::optional(amount()) : std::nullopt; }
  Limit limit() {
    if (yes()) return Limit::bytes(amount());
    std::uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) bits = bits << 8 | byte();
    float share = 0;
    std::memcpy(&share, &bits, sizeof share);
    return Limit::share(share);
  }
  std::string path() {
    std::string path;
    for (auto parts = below(4); parts > 0; --parts) path += "/" + std::string(1, "abc"[below(3)]);
    return path.empty() ? "/" : path;
  }

 private:
  const std::uint8_t* bytes_;
  std::size_t size_;
};

CgroupId id_of(const std::string& path) {
  return {std::hash<std::string>{}(path) | 1};
}

Config any_config(Choices& choices) {
  Config config;
  for (auto count = choices.below(5); count > 0; --count) {
    Threshold threshold;
    threshold.signal = kSignals[choices.below(kSignals.size())];
    threshold.limit = choices.limit();
    if (choices.yes()) threshold.min_reclaim = choices.limit();
    if (choices.yes()) threshold.capacity = choices.amount();
    threshold.grace = Duration(choices.below(2));
    config.thresholds.push_back(threshold);
  }
  return config;
}

CgroupSample any_cgroup(Choices& choices) {
  CgroupSample sample;
  sample.path = choices.path();
  sample.id = id_of(sample.path);
  sample.usage = choices.reading();
  sample.inactive_file = choices.reading();
  sample.limit = choices.reading();
  sample.threshold = choices.below(8);
  return sample;
}

std::vector<WorkloadSample> any_workloads(Choices& choices) {
  std::vector<WorkloadSample> workloads;
  for (auto count = choices.below(12); count > 0; --count) {
    WorkloadSample sample;
    sample.workload.path = choices.path();
    sample.workload.cgroup = id_of(sample.workload.path);
    const bool known = std::any_of(workloads.begin(), workloads.end(), [&](const auto& other) {
      return other.workload.path == sample.workload.path;
    });
    if (known) continue;
    if (choices.yes()) sample.workload.priority = static_cast<std::int32_t>(choices.amount().count);
    sample.workload.memory_request = choices.maybe_amount();
    if (choices.yes()) sample.workload.protection = static_cast<Protection>(choices.below(6));
    sample.usage = choices.reading();
    sample.inactive_file = choices.reading();
    if (choices.yes()) sample.processes = choices.byte();
    workloads.push_back(sample);
  }
  return workloads;
}

Observation any_observation(Choices& choices) {
  Observation observation;
  observation.node.capacity = choices.reading();
  observation.node.usage = choices.reading();
  observation.node.inactive_file = choices.reading();
  if (choices.yes()) observation.pods = any_cgroup(choices);
  for (auto count = choices.below(4); count > 0; --count) {
    observation.watched.push_back(any_cgroup(choices));
  }
  for (auto count = choices.below(4); count > 0; --count) {
    const std::string path = choices.path();
    observation.kills.push_back({id_of(path), path, static_cast<KillState>(choices.below(4)),
                                 MonotonicTime(), choices.amount()});
  }
  if (choices.yes()) observation.workloads = any_workloads(choices);
  return observation;
}

void check(const Observation& observation, const Decision& decision) {
  require((decision.action == Action::kill) == decision.victim.has_value());
  require((decision.action == Action::inspect) == (decision.reason == Reason::workloads_unread));
  require(!decision.driving || *decision.driving < decision.evidence.size());
  if (!decision.victim) return;
  require(*decision.victim < decision.considered.size());
  const WorkloadSample& victim = decision.considered[*decision.victim].sample;
  const Evidence& evidence = decision.evidence[*decision.driving];
  require(evidence.met && evidence.threshold.hard());
  require(evidence.cgroup == CgroupId{} || path_is_within(victim.workload.path, evidence.subject));
  require(victim.workload.priority.value_or(0) < 2'000'000'000);
  require(!victim.processes || *victim.processes > 0);
  for (const WorkloadSample& other : *observation.workloads) {
    require(other.workload.protection == Protection::none ||
            !path_is_within(other.workload.path, victim.workload.path));
  }
  for (const KillProgress& kill : observation.kills) {
    require(kill.state == KillState::released || kill.cgroup != victim.workload.cgroup);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  Choices choices(bytes, size);
  const Config config = any_config(choices);
  Observation observation = any_observation(choices);
  policy::State state;
  for (int round = 0; round < 2; ++round) {
    const policy::Step now = policy::step(config, state, observation);
    check(observation, now.decision);
    if (observation.workloads) {
      std::reverse(observation.workloads->begin(), observation.workloads->end());
      // A share that is no number is unequal to itself, so whole decisions cannot be compared.
      const Decision other = policy::step(config, state, observation).decision;
      require(other.action == now.decision.action && other.reason == now.decision.reason);
      require(other.victim == now.decision.victim && other.driving == now.decision.driving);
      require(other.considered == now.decision.considered);
    }
    (void)policy::inspection_subject(now.decision);
    (void)policy::lines(config, observation);
    state = now.state;
  }
  return 0;
}
