// SPDX-License-Identifier: Apache-2.0
// The rules of single fields that all of convert_*.cc share: how enums map, what stands in for an
// id that was not given, how a failure names its field.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "api/convert.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"

namespace forestall::api {

// Each enum of the schema lists the values of the model's in the same order, after UNSPECIFIED; a
// test compares their words one by one.
template <typename To, typename From>
To to_enum(From value) {
  return static_cast<To>(static_cast<int>(value) + 1);
}

// `last` is the schema's greatest value.
template <typename To>
Result<To> from_enum(int value, int last, std::string_view field) {
  if (value == 0) return error(std::string(field) + ": unspecified");
  if (value < 0 || value > last) {
    return error(std::string(field) + ": unknown value " + std::to_string(value));
  }
  return static_cast<To>(value - 1);
}

// Where the schema gives unset a meaning of its own.
template <typename To>
Result<To> from_enum_or(int value, int last, std::string_view field, To unset) {
  if (value == 0) return unset;
  return from_enum<To>(value, last, field);
}

// Appends the model of each message of a list to `out`; a failure says which one it was.
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

// The result, or its error with the field's name before it.
template <typename T>
Result<T> inside(std::string_view field, Result<T> result) {
  if (!result) return result.error().in(field);
  return result;
}

// Stands in for an inode number that was not given: equal for equal paths, different for different
// ones, never 0 and beyond any real inode number. FNV-1a.
inline CgroupId id_of_path(std::string_view path) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return {hash | 1ULL << 63};
}

inline std::string_view last_part(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

// Shared by several subjects, each defined in the .cc that is named for it.
[[nodiscard]] v1::CgroupSample to_proto(const CgroupSample& sample);
[[nodiscard]] v1::DiskUsage to_proto(const DiskUsage& usage);
[[nodiscard]] v1::PodStatistics to_proto(const PodStatistics& statistics);
[[nodiscard]] v1::ProcessId to_proto(const ProcessId& id);
[[nodiscard]] ProcessId from_proto(const v1::ProcessId& message);
[[nodiscard]] v1::ProcessMemory to_proto(const ProcessMemory& memory);
[[nodiscard]] ProcessMemory from_proto(const v1::ProcessMemory& message);
// As task_struct has it: cut to 15 bytes, between two characters.
[[nodiscard]] std::array<char, 16> comm_of(std::string_view name);
// `pods` is the path of the pods cgroup, under which a pod without a path is placed.
[[nodiscard]] Result<Workload> workload_from_proto(const v1::Workload& message,
                                                   std::string_view pods);
[[nodiscard]] Result<WorkloadSample> sample_from_proto(const v1::WorkloadSample& message,
                                                       std::string_view pods);
[[nodiscard]] Result<KillState> kill_state_from_proto(int state);

inline constexpr std::string_view kDefaultPodsCgroup = "/kubepods";

}  // namespace forestall::api
