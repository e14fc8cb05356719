// SPDX-License-Identifier: Apache-2.0
// Parsers of /proc/PID files for what the OOM killer uses. Pure: a missing key leaves its value
// unset, a malformed one is an error that names it.
//
// Which counters are printed: /proc/PID/status prints get_mm_counter() until 6.15 and
// get_mm_counter_sum() from 6.16 on (82241a83cd15 "mm: fix the inaccurate memory statistics issue
// for users"). oom_badness() uses the former up to 6.18 and the latter in 7.2. So on 6.16 to 6.18
// the two differ by what the CPUs have not added up yet. kernel::RssCounting::summed is what is
// printed, `counted` what is scored. The difference is at most a batch (32 pages, or twice the
// number of CPUs if that is more) per CPU and counter.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "model/ids.h"
#include "model/process.h"

namespace forestall::sources {

// Addresses of the parts of an address space. Equal for all processes that share it, and for a copy
// made by fork(). All 0: not readable, or no address space.
struct MemoryLayout {
  std::uint64_t code = 0;       // field 26 of stat
  std::uint64_t stack = 0;      // field 28
  std::uint64_t arguments = 0;  // field 48

  [[nodiscard]] bool known() const { return stack != 0; }
  friend auto operator<=>(const MemoryLayout&, const MemoryLayout&) = default;
};

struct StatText {  // /proc/PID/stat
  std::array<char, 16> comm{};
  pid_t parent = 0;
  bool kernel_thread = false;
  bool exiting = false;  // PF_EXITING of this thread
  std::uint64_t start_ticks = 0;
  MemoryLayout layout;
};
[[nodiscard]] Result<StatText> parse_stat_text(std::string_view text);

struct StatusText {  // /proc/PID/status
  pid_t group = 0;   // Tgid
  std::uint32_t uid = 0;
  // Nullopt: this thread has no mm, or no longer has one.
  std::optional<ProcessMemory> memory;
  bool core_dumping = false;
  std::uint64_t threads = 0;
  bool kill_pending = false;  // SIGKILL, for the thread or the process
  NodeMask nodes_allowed = kAllNodes;
};
// `page_bytes`: the kernel's page size; amounts in kB are whole pages.
[[nodiscard]] Result<StatusText> parse_status_text(std::string_view text, std::int64_t page_bytes);

// The last 64 bits of a mask in the kernel's format: "00000000,00000003".
[[nodiscard]] std::optional<NodeMask> parse_mask(std::string_view text);

// A list of nodes, "0-1,3". Nodes from 64 on are left out.
[[nodiscard]] std::optional<NodeMask> parse_node_list(std::string_view text);

}  // namespace forestall::sources
