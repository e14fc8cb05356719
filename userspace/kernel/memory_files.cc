// SPDX-License-Identifier: Apache-2.0
// The kernel's memory files consist of "key value [unit]" lines, so one routine walks the lines and
// each parser lists its keys and fields.
//
// A known key that is malformed or appears twice is an error, although the rest is readable: these
// numbers decide about kills, and no known kernel writes such a file. Unknown keys are skipped with
// whatever follows them, because newer kernels add some.
#include "kernel/memory_files.h"

#include <fmt/format.h>

#include <bitset>
#include <limits>
#include <span>

#include "base/parse.h"

namespace forestall::kernel {
namespace {

constexpr std::int64_t kUnlimited = std::int64_t{1} << 62;
constexpr std::size_t kKeysMax = 16;

enum class ValueUnit : std::uint8_t { none, kb };

// One key and the field for its value: a count or an amount of bytes.
struct Slot {
  std::string_view key;
  std::optional<std::uint64_t>* count = nullptr;
  std::optional<Bytes>* bytes = nullptr;
};

Result<void> store(const Slot& slot, std::string_view word, std::uint64_t scale) {
  const auto value = parse_u64(word);
  if (!value) return error(fmt::format("{}: \"{}\" is not a number", slot.key, word));
  if (slot.count != nullptr) {
    *slot.count = value;
    return {};
  }
  if (*value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / scale) {
    return error(fmt::format("{}: {} is out of range", slot.key, word));
  }
  *slot.bytes = Bytes{static_cast<std::int64_t>(*value * scale)};
  return {};
}

Result<void> parse_line(std::string_view rest, const Slot& slot, ValueUnit unit) {
  const auto word = next_word(rest);
  if (word.empty()) return error(fmt::format("{}: no value", slot.key));
  const auto suffix = next_word(rest);
  const std::string_view wanted = unit == ValueUnit::kb ? "kB" : "";
  if (suffix != wanted || !next_word(rest).empty()) {
    return error(
        fmt::format("{}: expected \"<number>{}{}\"", slot.key, wanted.empty() ? "" : " ", wanted));
  }
  return store(slot, word, unit == ValueUnit::kb ? 1024 : 1);
}

// REQUIRES: slots.size() <= kKeysMax. Fields must be empty on entry.
Result<void> parse_keyed(std::string_view text, std::span<const Slot> slots, ValueUnit unit) {
  std::bitset<kKeysMax> seen;
  while (!text.empty()) {
    auto line = next_field(text, '\n');
    const auto key = next_word(line);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].key != key) continue;
      if (seen.test(i)) return error(fmt::format("{}: more than once", key));
      seen.set(i);
      TRY(parse_line(line, slots[i], unit));
    }
  }
  return {};
}

// "12.34" as 1234; the kernel always prints two decimals (kernel/sched/psi.c psi_show).
std::optional<std::uint32_t> parse_hundredths(std::string_view text) {
  const auto whole = parse_u64(next_field(text, '.'));
  if (!whole || text.size() != 2) return std::nullopt;
  const auto part = parse_u64(text);
  if (!part || *whole > 1'000'000) return std::nullopt;
  return static_cast<std::uint32_t>(*whole * 100 + *part);
}

std::optional<Duration> parse_total(std::string_view text) {
  const auto microseconds = parse_u64(text);
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / 1000;
  if (!microseconds || *microseconds > kMax) return std::nullopt;
  return std::chrono::microseconds(static_cast<std::int64_t>(*microseconds));
}

// The fields after "some" or "full". All four are required; further ones are skipped.
Result<PsiLine> parse_psi_line(std::string_view kind, std::string_view rest) {
  PsiLine line;
  std::optional<std::uint32_t> averages[3];
  std::optional<Duration> total;
  constexpr std::string_view kNames[] = {"avg10", "avg60", "avg300"};
  for (auto word = next_word(rest); !word.empty(); word = next_word(rest)) {
    const auto name = next_field(word, '=');
    if (name == "total") {
      if (total) return error(fmt::format("{} total: more than once", kind));
      total = parse_total(word);
      if (!total) return error(fmt::format("{} total: \"{}\" is not a number", kind, word));
    }
    for (std::size_t i = 0; i < 3; ++i) {
      if (name != kNames[i]) continue;
      if (averages[i]) return error(fmt::format("{} {}: more than once", kind, name));
      averages[i] = parse_hundredths(word);
      if (!averages[i]) {
        return error(fmt::format("{} {}: \"{}\" is not a percentage", kind, name, word));
      }
    }
  }
  for (std::size_t i = 0; i < 3; ++i) {
    if (!averages[i]) return error(fmt::format("{} {}: missing", kind, kNames[i]));
  }
  if (!total) return error(fmt::format("{} total: missing", kind));
  line.avg10_hundredths = *averages[0];
  line.avg60_hundredths = *averages[1];
  line.avg300_hundredths = *averages[2];
  line.total = *total;
  return line;
}

}  // namespace

Result<Meminfo> parse_meminfo(std::string_view text) {
  Meminfo meminfo;
  const Slot slots[] = {
      {"MemTotal:", nullptr, &meminfo.total},     {"MemAvailable:", nullptr, &meminfo.available},
      {"MemFree:", nullptr, &meminfo.free},       {"SwapTotal:", nullptr, &meminfo.swap_total},
      {"SwapFree:", nullptr, &meminfo.swap_free}, {"AnonPages:", nullptr, &meminfo.anon},
      {"Cached:", nullptr, &meminfo.cached},      {"Shmem:", nullptr, &meminfo.shmem},
      {"Slab:", nullptr, &meminfo.slab},
  };
  TRY(parse_keyed(text, slots, ValueUnit::kb));
  return meminfo;
}

Result<Vmstat> parse_vmstat(std::string_view text) {
  Vmstat vmstat;
  const Slot slots[] = {
      {"nr_free_pages", &vmstat.nr_free_pages}, {"nr_anon_pages", &vmstat.nr_anon_pages},
      {"nr_file_pages", &vmstat.nr_file_pages}, {"nr_inactive_file", &vmstat.nr_inactive_file},
      {"pgscan_direct", &vmstat.pgscan_direct}, {"pgsteal_direct", &vmstat.pgsteal_direct},
      {"pgscan_kswapd", &vmstat.pgscan_kswapd}, {"oom_kill", &vmstat.oom_kill},
  };
  TRY(parse_keyed(text, slots, ValueUnit::none));
  return vmstat;
}

Result<MemoryStat> parse_memory_stat(std::string_view text) {
  MemoryStat stat;
  std::optional<Bytes> total_inactive_file;
  std::optional<Bytes> plain_shmem;
  const Slot slots[] = {
      {"anon", nullptr, &stat.anon},
      {"total_rss", nullptr, &stat.anon},
      {"file", nullptr, &stat.file},
      {"total_cache", nullptr, &stat.file},
      {"shmem", nullptr, &plain_shmem},
      {"total_shmem", nullptr, &stat.shmem},
      {"kernel", nullptr, &stat.kernel},
      {"inactive_file", nullptr, &stat.inactive_file},
      {"total_inactive_file", nullptr, &total_inactive_file},
      {"hierarchical_memory_limit", nullptr, &stat.hierarchical_limit},
      {"pgscan", &stat.pgscan},
      {"pgsteal", &stat.pgsteal},
  };
  TRY(parse_keyed(text, slots, ValueUnit::none));
  // v1 has both keys: the plain one for the group alone, the total_ one with its descendants, as in
  // usage_in_bytes. v2 has only the plain key, for the subtree.
  if (total_inactive_file) stat.inactive_file = total_inactive_file;
  if (!stat.shmem) stat.shmem = plain_shmem;
  return stat;
}

Result<MemoryEvents> parse_memory_events(std::string_view text) {
  MemoryEvents events;
  const Slot slots[] = {
      {"low", &events.low}, {"high", &events.high},         {"max", &events.max},
      {"oom", &events.oom}, {"oom_kill", &events.oom_kill},
  };
  TRY(parse_keyed(text, slots, ValueUnit::none));
  return events;
}

Result<std::optional<Bytes>> parse_amount(std::string_view text) {
  const auto word = trim(text);
  if (word == "max") return std::optional<Bytes>();
  const auto value = parse_u64(word);
  if (!value) return error(fmt::format("\"{}\" is not an amount of memory", word));
  if (*value >= static_cast<std::uint64_t>(kUnlimited)) return std::optional<Bytes>();
  return std::optional<Bytes>(Bytes{static_cast<std::int64_t>(*value)});
}

Result<Psi> parse_psi(std::string_view text) {
  Psi psi;
  while (!text.empty()) {
    auto line = next_field(text, '\n');
    const auto kind = next_word(line);
    if (kind != "some" && kind != "full") continue;
    auto& slot = kind == "some" ? psi.some : psi.full;
    if (slot) return error(fmt::format("{}: more than once", kind));
    slot = TRY(parse_psi_line(kind, line));
  }
  return psi;
}

}  // namespace forestall::kernel
