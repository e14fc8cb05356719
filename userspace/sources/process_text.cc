// SPDX-License-Identifier: Apache-2.0
#include "sources/process_text.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/parse.h"
#include "kernel/process_ref.h"

namespace forestall::sources {
namespace {

constexpr std::uint64_t kExitingFlag = 0x4;  // PF_EXITING, include/linux/sched.h

std::optional<std::uint64_t> parse_hex(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Error malformed(std::string_view key, std::string_view value) {
  return error(
      fmt::format("/proc/PID/status: {}: \"{}\" is not what the kernel prints", key, trim(value)));
}

Result<std::uint64_t> number(std::string_view key, std::string_view rest) {
  const auto value = parse_u64(next_word(rest));
  if (!value) return malformed(key, rest);
  return *value;
}

Result<Pages> pages(std::string_view key, std::string_view rest, std::int64_t page_bytes) {
  const auto kib = parse_u64(next_word(rest));
  const bool whole =
      kib && next_word(rest) == "kB" &&
      *kib <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / 1024;
  if (!whole) return malformed(key, rest);
  return static_cast<std::int64_t>(*kib) * 1024 / page_bytes;
}

Result<bool> has_sigkill(std::string_view key, std::string_view rest) {
  const auto mask = parse_hex(trim(rest));
  if (!mask) return malformed(key, rest);
  return (*mask & (std::uint64_t{1} << (SIGKILL - 1))) != 0;
}

// The field of `memory` for a key; null for any other key.
Pages* memory_field(std::string_view key, ProcessMemory& memory) {
  if (key == "RssAnon") return &memory.anon;
  if (key == "RssFile") return &memory.file;
  if (key == "RssShmem") return &memory.shmem;
  if (key == "VmPTE") return &memory.page_tables;
  if (key == "VmSwap") return &memory.swap;
  return nullptr;
}

Result<void> take_status_line(std::string_view key, std::string_view rest, StatusText& status) {
  if (key == "Tgid") {
    status.group = static_cast<pid_t>(TRY(number(key, rest)));
  } else if (key == "Uid") {
    status.uid = static_cast<std::uint32_t>(TRY(number(key, rest)));
  } else if (key == "Threads") {
    status.threads = TRY(number(key, rest));
  } else if (key == "CoreDumping") {
    status.core_dumping = TRY(number(key, rest)) != 0;
  } else if (key == "SigPnd" || key == "ShdPnd") {
    const bool pending = TRY(has_sigkill(key, rest));
    status.kill_pending = status.kill_pending || pending;
  } else if (key == "Mems_allowed") {
    const auto mask = parse_mask(trim(rest));
    if (!mask) return malformed(key, rest);
    status.nodes_allowed = *mask;
  }
  return {};
}

}  // namespace

std::optional<NodeMask> parse_mask(std::string_view text) {
  NodeMask mask = 0;
  if (text.ends_with(',')) return std::nullopt;
  do {
    const auto word = next_field(text, ',');
    const auto bits = word.size() > 8 ? std::nullopt : parse_hex(word);
    if (!bits) return std::nullopt;
    mask = mask << 32 | *bits;
  } while (!text.empty());
  return mask;
}

std::optional<NodeMask> parse_node_list(std::string_view text) {
  NodeMask mask = 0;
  text = trim(text);
  while (!text.empty()) {
    auto range = next_field(text, ',');
    const bool one = range.find('-') == std::string_view::npos;
    const auto first = parse_u64(next_field(range, '-'));
    const auto last = one ? first : parse_u64(range);
    if (!first || !last || *last < *first) return std::nullopt;
    for (auto node = *first; node <= std::min<std::uint64_t>(*last, 63); ++node) {
      mask |= NodeMask{1} << node;
    }
  }
  return mask;
}

Result<StatText> parse_stat_text(std::string_view text) {
  const auto known = TRY(kernel::parse_process_stat(text));
  StatText stat;
  stat.parent = known.parent;
  stat.kernel_thread = known.kernel_thread;
  stat.start_ticks = known.start_ticks;
  // parse_process_stat() found the last ')'; the first '(' follows the pid.
  const auto begin = text.find('(');
  const auto end = text.rfind(')');
  if (begin == std::string_view::npos || begin > end) {
    return error("/proc/PID/stat: no '(' before the name");
  }
  const auto comm = text.substr(begin + 1, std::min(end - begin - 1, stat.comm.size() - 1));
  std::ranges::copy(comm, stat.comm.begin());
  auto rest = text.substr(end + 1);
  for (int field = 3; field <= 48; ++field) {
    const auto word = next_word(rest);
    if (field < 4) continue;
    const auto value = parse_u64(word);
    if (field == 9) stat.exiting = (value.value_or(0) & kExitingFlag) != 0;
    if (field == 26) stat.layout.code = value.value_or(0);
    if (field == 28) stat.layout.stack = value.value_or(0);
    if (field == 48) stat.layout.arguments = value.value_or(0);
  }
  return stat;
}

Result<StatusText> parse_status_text(std::string_view text, std::int64_t page_bytes) {
  StatusText status;
  ProcessMemory memory;
  bool has_memory = false;
  while (!text.empty()) {
    auto line = next_field(text, '\n');
    const auto key = next_field(line, ':');
    if (Pages* field = memory_field(key, memory)) {
      *field = TRY(pages(key, line, page_bytes));
      has_memory = true;
    } else {
      TRY(take_status_line(key, line, status));
    }
  }
  if (status.group == 0) return error("/proc/PID/status: no Tgid");
  if (has_memory) status.memory = memory;
  return status;
}

}  // namespace forestall::sources
