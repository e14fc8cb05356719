// SPDX-License-Identifier: Apache-2.0
// Rules for single fields that all convert_*.cc files share: the mapping of enums, defaults for
// missing ids, and the field name in errors.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "forestall/v1/recording.pb.h"
#include "messages/convert.h"

namespace forestall::messages {

// Each enum of the schema has the model's values in the same order, after UNSPECIFIED; a test
// compares their names.
template <typename To, typename From>
To to_enum(From value) {
  return static_cast<To>(static_cast<int>(value) + 1);
}

// `last` is the schema's largest value.
template <typename To>
Result<To> from_enum(int value, int last, std::string_view field) {
  if (value == 0) return error(std::string(field) + ": unspecified");
  if (value < 0 || value > last) {
    return error(std::string(field) + ": unknown value " + std::to_string(value));
  }
  return static_cast<To>(value - 1);
}

// For fields in which unset has its own meaning.
template <typename To>
Result<To> from_enum_or(int value, int last, std::string_view field, To unset) {
  if (value == 0) return unset;
  return from_enum<To>(value, last, field);
}

// Appends the model of each message of a list to `out`; an error contains the index.
template <typename Messages, typename Models, typename Convert>
Result<void> read_each(const Messages& messages, Models& out, std::string_view list,
                       Convert convert) {
  out.reserve(static_cast<std::size_t>(messages.size()));
  for (int i = 0; i < messages.size(); ++i) {
    auto model = convert(messages.Get(i));
    if (!model) return model.error().in(std::string(list) + "[" + std::to_string(i) + "]");
    out.push_back(*std::move(model));
  }
  return {};
}

// The result, or its error with the field's name prepended.
template <typename T>
Result<T> inside(std::string_view field, Result<T> result) {
  if (!result) return result.error().in(field);
  return result;
}

// Replaces a missing inode number: equal for equal paths, different for different paths, never 0,
// and larger than any real inode number. FNV-1a.
inline CgroupId id_of_path(std::string_view path) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return {hash | 1ULL << 63};
}

inline std::string_view last_part(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

// Shared by several subjects; each is defined in the .cc file of its own subject.
[[nodiscard]] v1::CgroupSample to_proto(const CgroupSample& sample);
[[nodiscard]] v1::DiskUsage to_proto(const DiskUsage& usage);
[[nodiscard]] v1::PodStatistics to_proto(const PodStatistics& statistics);
[[nodiscard]] v1::ProcessId to_proto(const ProcessId& id);
[[nodiscard]] ProcessId from_proto(const v1::ProcessId& message);
[[nodiscard]] v1::ProcessMemory to_proto(const ProcessMemory& memory);
[[nodiscard]] ProcessMemory from_proto(const v1::ProcessMemory& message);
// As in task_struct: truncated to at most 15 bytes, between two characters.
[[nodiscard]] std::array<char, 16> comm_of(std::string_view name);
// `pods` is the path of the pods cgroup, which is the parent of a pod without a path.
[[nodiscard]] Result<Workload> workload_from_proto(const v1::Workload& message,
                                                   std::string_view pods);
[[nodiscard]] Result<WorkloadSample> sample_from_proto(const v1::WorkloadSample& message,
                                                       std::string_view pods);
[[nodiscard]] Result<KillState> kill_state_from_proto(int state);

// Conversions in parts, for recordings, which store each part where it takes the least space. The
// output is empty before.
void put_without_workloads(const Observation& observation, v1::Observation& out);
void put_usage(const WorkloadSample& sample, v1::WorkloadSample& out);  // all but `workload`
void put_without_candidates(const Decision& decision, v1::Decision& out);
void put_rank(const Candidate& candidate, v1::Candidate& out);  // all but `sample`
// Leaves `workloads` empty, whatever the message contains.
[[nodiscard]] Result<Observation> without_workloads_from_proto(const v1::Observation& message);
[[nodiscard]] Result<void> read_usage(const v1::WorkloadSample& message, WorkloadSample& sample);
// Limit of the copied samples per evaluation: a few hundred bytes of a file could refer to a long
// path a million times.
inline constexpr std::size_t kCopiedMax = std::size_t{256} << 20;
[[nodiscard]] inline std::size_t size_of_copy(const Workload& workload) {
  return sizeof(WorkloadSample) + workload.path.size() + workload.name.size() +
         (workload.pod_uid ? workload.pod_uid->size() : 0);
}

// `observation`: of the same evaluation.
[[nodiscard]] Result<Decision> decision_from_proto(const v1::EvaluationDecision& message,
                                                   const Observation& observation);

// For a record that refers to an evaluation: nothing of its observation, and only the evictions of
// its decision.
void put_without_evaluation(const Record& record, v1::Record& out);
[[nodiscard]] Result<Record> without_evaluation_from_proto(const v1::Record& message);
[[nodiscard]] v1::Eviction to_proto(const Eviction& eviction);
// `candidates`: the number of candidates.
[[nodiscard]] Result<void> read_evictions(const v1::Decision& message, std::uint32_t candidates,
                                          std::vector<Eviction>& evictions);

[[nodiscard]] v1::StageTimes to_proto(const StageTimes& stages);
[[nodiscard]] StageTimes from_proto(const v1::StageTimes& message);
[[nodiscard]] google::protobuf::Timestamp to_timestamp(std::int64_t wall_time_ns);
[[nodiscard]] Result<std::int64_t> nanoseconds(const google::protobuf::Timestamp& time);

inline constexpr std::string_view kDefaultPodsCgroup = "/kubepods";

}  // namespace forestall::messages
