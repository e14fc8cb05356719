// SPDX-License-Identifier: Apache-2.0
// Pure parsers of the kernel's memory files. They ignore unknown keys, because newer kernels add
// some; a missing key is nothing; a malformed or duplicate key is an error that names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"

namespace forestall::kernel {

struct Meminfo {  // /proc/meminfo, kB turned into bytes
  std::optional<Bytes> total;
  std::optional<Bytes> available;
  std::optional<Bytes> free;
  std::optional<Bytes> swap_total;
  std::optional<Bytes> swap_free;
  std::optional<Bytes> anon;    // AnonPages
  std::optional<Bytes> cached;  // page cache, tmpfs included
  std::optional<Bytes> shmem;
  std::optional<Bytes> slab;
};
[[nodiscard]] Result<Meminfo> parse_meminfo(std::string_view text);

struct Vmstat {  // /proc/vmstat, pages
  std::optional<std::uint64_t> nr_free_pages;
  std::optional<std::uint64_t> nr_anon_pages;
  std::optional<std::uint64_t> nr_file_pages;
  std::optional<std::uint64_t> nr_inactive_file;
  std::optional<std::uint64_t> pgscan_direct;
  std::optional<std::uint64_t> pgsteal_direct;
  std::optional<std::uint64_t> pgscan_kswapd;
  std::optional<std::uint64_t> oom_kill;
};
[[nodiscard]] Result<Vmstat> parse_vmstat(std::string_view text);

struct MemoryStat {  // memory.stat of v1 (total_* keys preferred) and v2, bytes unless named so
  std::optional<Bytes> anon;                // v1: total_rss
  std::optional<Bytes> file;                // v1: total_cache; tmpfs included
  std::optional<Bytes> shmem;               // v1: total_shmem
  std::optional<Bytes> kernel;              // v2 only, since Linux 5.18
  std::optional<Bytes> inactive_file;       // v1: total_inactive_file
  std::optional<Bytes> hierarchical_limit;  // v1 only: hierarchical_memory_limit
  std::optional<std::uint64_t> pgscan;
  std::optional<std::uint64_t> pgsteal;
};
[[nodiscard]] Result<MemoryStat> parse_memory_stat(std::string_view text);

struct MemoryEvents {  // memory.events (v2); oom_kill also from memory.oom_control (v1)
  std::optional<std::uint64_t> low, high, max, oom, oom_kill;
};
[[nodiscard]] Result<MemoryEvents> parse_memory_events(std::string_view text);

// A single amount: "123456\n", or "max" (v2), which is nothing. v1 has a huge page-aligned number
// instead of "max": a value of 2^62 or more means unlimited, as in kubelet.
[[nodiscard]] Result<std::optional<Bytes>> parse_amount(std::string_view text);

struct PsiLine {
  std::uint32_t avg10_hundredths = 0;  // percent * 100
  std::uint32_t avg60_hundredths = 0;
  std::uint32_t avg300_hundredths = 0;
  Duration total{0};
};
struct Psi {
  std::optional<PsiLine> some;
  std::optional<PsiLine> full;
};
[[nodiscard]] Result<Psi> parse_psi(std::string_view text);

}  // namespace forestall::kernel
