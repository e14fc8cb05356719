// SPDX-License-Identifier: Apache-2.0
// The parsed and checked command line of `forestall trace`.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "forestall/v1/event.pb.h"
#include "kernel/trace_programs.h"
#include "trace/trace_options.h"

namespace forestall::trace {

// Kinds of events, as named by --kind.
enum class TraceKind : std::uint8_t {
  memcg_reclaim,
  direct_reclaim,
  kswapd,
  stall,
  compaction,
  throttled,
  oom,
  pressure,
  usage,
  reclaim_count,
  agent,
  cgroup,
};
inline constexpr std::size_t kTraceKinds = 12;

[[nodiscard]] std::string_view trace_word(TraceKind kind);
[[nodiscard]] constexpr TraceKind trace_kind_at(std::size_t i) {
  return static_cast<TraceKind>(i);
}

using TraceKindSet = std::bitset<kTraceKinds>;
[[nodiscard]] inline bool has(const TraceKindSet& set, TraceKind kind) {
  return set.test(static_cast<std::size_t>(kind));
}

// Nothing: no BPF program reports this kind.
[[nodiscard]] std::optional<abi_trace_kind> abi_of(TraceKind kind);
// For kinds with a length.
[[nodiscard]] v1::SpanKind span_kind_of(abi_trace_kind kind);

enum class TraceFormat : std::uint8_t { text, json, pb };

// The selected cgroups: all, or those that match a glob or belong to a pod, with their descendants.
class CgroupChoice {
 public:
  static Result<CgroupChoice> create(const std::vector<std::string>& globs,
                                     const std::vector<std::string>& pod_uids);
  [[nodiscard]] bool all() const { return globs_.empty() && pods_.empty(); }
  // Whether it or an ancestor is selected.
  [[nodiscard]] bool covers(std::string_view path) const;
  // Whether it is selected itself, not through an ancestor.
  [[nodiscard]] bool names(const std::string& path) const;

 private:
  std::vector<std::string> globs_;
  std::vector<std::string> pods_;
};

struct TraceQuestion {
  TraceKindSet kinds;
  bool kinds_given = false;
  CgroupChoice choice;
  Duration shortest{0};
  std::optional<Duration> summary = std::nullopt;  // nothing: single events
  std::optional<Duration> duration = std::nullopt;
  std::uint64_t count = 0;  // stop after this many events; 0: never
  std::size_t ring_bytes = 0;
  std::size_t top = 0;
  bool begins = false;
  bool color = false;
  bool with_agent = true;
  TraceFormat format = TraceFormat::text;
  std::vector<std::string> warnings;  // for standard error
};

// The pods of the configuration and of this host, for --pod.
struct KnownPods {
  std::vector<std::pair<std::string, std::string>> uid_of_name;  // in any order
  std::vector<std::string> uids;                                 // of pods that exist now
};

// A word of --pod that is not a known name must have the form of a UID. Errors name the option.
[[nodiscard]] Result<TraceQuestion> understand_trace(const TraceOptions& options,
                                                     const KnownPods& known);

}  // namespace forestall::trace
