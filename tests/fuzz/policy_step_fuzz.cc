// SPDX-License-Identifier: Apache-2.0
// For any world, the decision is well-formed, does not depend on the order of the workloads, and
// never kills a workload that must not be killed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/parse.h"
#include "policy/deadlines.h"
#include "policy/lines.h"
#include "policy/step.h"
#include "require.h"

namespace {

using namespace forestall;
using test::require;

// Reads the fuzzer's bytes as choices; zeros after their end.
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
  // A value of a kernel file: an unsigned number, or unreadable.
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
  // Any time, in most cases near the present.
  MonotonicTime time() {
    if (yes()) return from_ns(amount().count);
    return MonotonicTime(std::chrono::seconds(1000) + std::chrono::milliseconds(100) * byte());
  }
  std::optional<MonotonicTime> maybe_time() { return yes() ? std::optional(time()) : std::nullopt; }
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
    if (choices.yes()) threshold.grace = Duration(std::max(choices.amount(), Bytes{0}).count);
    config.thresholds.push_back(threshold);
  }
  config.max_pod_grace_seconds = choices.amount().count;
  config.pressure_transition = Duration(choices.amount().count);
  config.local_storage_isolation = choices.yes();
  config.compat.hard_grace = Duration(choices.amount().count);
  config.compat.soft_grace_is_lesser = choices.yes();
  config.compat.negative_grace_as_given = choices.yes();
  config.compat.hard_at_once = choices.yes();
  config.compat.inode_rank_subtracts_bytes = choices.yes();
  config.compat.containerfs_from_second_pass = choices.yes();
  config.compat.one_kill_until_cleanup = choices.yes();
  config.compat.reclaim_must_clear_all = choices.yes();
  if (choices.yes()) config.ranking = choices.yes() ? Ranking::kernel : Ranking::kubelet_growth;
  return config;
}

DiskUsage any_disk_usage(Choices& choices) {
  return {.used = choices.reading(), .inodes = choices.reading().value_or(Bytes{0}).count};
}

std::optional<Quantity> any_quantity(Choices& choices) {
  if (!choices.yes()) return std::nullopt;
  return binary(choices.amount().count);
}

std::shared_ptr<const Pod> any_pod(Choices& choices) {
  if (!choices.yes()) return nullptr;
  auto pod = std::make_shared<Pod>();
  pod->uid = pod->name = std::string(1, "xyz"[choices.below(3)]);
  pod->origin = static_cast<PodOrigin>(choices.below(3));
  pod->phase = static_cast<PodPhase>(choices.below(5));
  pod->terminating = choices.yes();
  if (choices.yes()) pod->priority = static_cast<std::int32_t>(choices.amount().count);
  if (choices.yes()) pod->termination_grace = Duration(choices.amount().count);
  PodContainer container;
  container.name = "c";
  container.requests.memory = any_quantity(choices);
  container.requests.ephemeral_storage = any_quantity(choices);
  container.limits.ephemeral_storage = any_quantity(choices);
  pod->containers.push_back(container);
  PodVolume volume;
  volume.name = "v";
  volume.kind = static_cast<VolumeKind>(choices.below(5));
  volume.size_limit = any_quantity(choices);
  pod->volumes.push_back(volume);
  return pod;
}

std::optional<PodStatistics> any_statistics(Choices& choices) {
  if (!choices.yes()) return std::nullopt;
  PodStatistics statistics;
  ContainerSample container;
  container.name = "c";
  container.working_set = choices.reading();
  if (choices.yes()) container.rootfs = any_disk_usage(choices);
  if (choices.yes()) container.logs = any_disk_usage(choices);
  statistics.containers.push_back(container);
  statistics.volumes.push_back({"v", any_disk_usage(choices)});
  if (choices.yes()) statistics.ephemeral_storage = any_disk_usage(choices);
  return statistics;
}

std::optional<FilesystemSample> any_filesystem(Choices& choices) {
  if (!choices.yes()) return std::nullopt;
  FilesystemSample sample;
  sample.available = choices.reading();
  sample.capacity = choices.reading();
  if (choices.yes()) sample.inodes_free = choices.amount().count;
  if (choices.yes()) sample.inodes = choices.amount().count;
  sample.at = choices.maybe_time();
  return sample;
}

CgroupSample any_cgroup(Choices& choices) {
  CgroupSample sample;
  sample.path = choices.path();
  sample.id = id_of(sample.path);
  sample.usage = choices.reading();
  sample.inactive_file = choices.reading();
  sample.limit = choices.reading();
  sample.threshold = choices.below(8);
  sample.at = choices.maybe_time();
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
    if (choices.yes()) sample.workload.kind = WorkloadKind::pod;
    sample.workload.pod = any_pod(choices);
    sample.statistics = any_statistics(choices);
    sample.scored = choices.yes();
    if (choices.yes()) sample.growth = choices.amount();
    if (choices.yes()) sample.badness = WorkloadBadness{{1, 1}, choices.amount().count};
    workloads.push_back(sample);
  }
  return workloads;
}

Observation any_observation(Choices& choices) {
  Observation observation;
  observation.at = choices.time();
  observation.filesystems.nodefs = any_filesystem(choices);
  observation.filesystems.imagefs = any_filesystem(choices);
  observation.filesystems.containerfs = any_filesystem(choices);
  if (choices.yes()) {
    observation.filesystems.layout = static_cast<FilesystemLayout>(choices.below(3));
  }
  if (choices.yes()) observation.tasks.capacity = choices.amount().count;
  if (choices.yes()) observation.tasks.running = choices.amount().count;
  observation.reclaim = static_cast<ReclaimState>(choices.below(4));
  observation.disk_usage_read = choices.yes();
  observation.node.at = choices.maybe_time();
  observation.node.capacity = choices.reading();
  observation.node.usage = choices.reading();
  observation.node.inactive_file = choices.reading();
  if (choices.yes()) observation.pods = any_cgroup(choices);
  for (auto count = choices.below(4); count > 0; --count) {
    observation.watched.push_back(any_cgroup(choices));
  }
  for (auto count = choices.below(4); count > 0; --count) {
    const std::string path = choices.path();
    observation.kills.push_back({id_of(path), path, static_cast<KillState>(choices.below(5)),
                                 choices.time(), choices.amount(), choices.maybe_time()});
  }
  if (choices.yes()) observation.workloads = any_workloads(choices);
  return observation;
}

// Workloads that must not be killed, for any reason.
void check_victim(const Observation& observation, const WorkloadSample& victim) {
  const Pod* pod = victim.workload.pod.get();
  require(victim.workload.priority.value_or(0) < 2'000'000'000);
  require(pod == nullptr || pod->origin == PodOrigin::api);
  require(!victim.processes || *victim.processes > 0);
  for (const WorkloadSample& other : *observation.workloads) {
    require(other.workload.protection == Protection::none ||
            !path_is_within(other.workload.path, victim.workload.path));
  }
  for (const KillProgress& kill : observation.kills) {
    require(kill.state == KillState::released || kill.state == KillState::terminating ||
            kill.cgroup != victim.workload.cgroup);
  }
}

// Of nested workloads, only the innermost surrounding one is the candidate. (A pod between the two
// may have ended, and is none.)
bool is_only_one_around(const Observation& observation, const Decision& decision,
                        const std::string& subject) {
  const std::string& victim = decision.considered[*decision.victim()].sample.workload.path;
  const auto is_nearer = [&](const WorkloadSample& other) {
    const std::string& path = other.workload.path;
    return other.workload.pod == nullptr && path != victim && path_is_within(subject, path) &&
           path_is_within(path, victim);
  };
  return decision.considered.size() == 1 && path_is_within(subject, victim) &&
         std::ranges::none_of(*observation.workloads, is_nearer);
}

void check(const Observation& observation, const Decision& decision, bool resumed) {
  require((decision.action == Action::kill) == !decision.evictions.empty());
  require((decision.action == Action::reclaim) <= (decision.reason == Reason::node_reclaim));
  require((decision.action == Action::inspect) == (decision.reason == Reason::workloads_unread ||
                                                   decision.reason == Reason::disk_usage_unread));
  require(!decision.driving || *decision.driving < decision.evidence.size());
  for (const Eviction& eviction : decision.evictions) {
    require(eviction.candidate < decision.considered.size());
    check_victim(observation, decision.considered[eviction.candidate].sample);
  }
  if (decision.reason != Reason::threshold_met) return;
  require(decision.evictions.size() == 1);
  const WorkloadSample& victim = decision.considered[*decision.victim()].sample;
  const Evidence& evidence = decision.evidence[*decision.driving];
  require(resumed || (evidence.met && evidence.driving));
  require(evidence.cgroup == CgroupId{} || path_is_within(victim.workload.path, evidence.subject) ||
          is_only_one_around(observation, decision, evidence.subject));
  require(!filesystem_of(evidence.threshold.signal) || victim.workload.kind == WorkloadKind::pod);
  require(evidence.threshold.hard() || !decision.evictions[0].at_once);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  Choices choices(bytes, size);
  const Config config = any_config(choices);
  Observation observation = any_observation(choices);
  policy::State state;
  for (int round = 0; round < 4; ++round) {
    const policy::Step now = policy::step(config, state, observation);
    check(observation, now.decision, state.reclaim.has_value());
    if (observation.workloads) {
      std::reverse(observation.workloads->begin(), observation.workloads->end());
      // NaN is unequal to itself, so whole decisions cannot be compared.
      const Decision other = policy::step(config, state, observation).decision;
      require(other.action == now.decision.action && other.reason == now.decision.reason);
      require(other.evictions == now.decision.evictions);
      require(other.driving == now.decision.driving);
      require(other.considered == now.decision.considered);
    }
    const auto deadline = policy::next_deadline(config, now.state);
    require(!deadline || *deadline > observation.at);
    (void)policy::inspection_subject(now.decision);
    (void)policy::lines(config, observation);
    state = now.state;
    // Two evaluations of one world, then one at the next deadline, then another world.
    if (round == 1 && deadline) observation.at = *deadline;
    if (round == 2) observation = any_observation(choices);
  }
  return 0;
}
