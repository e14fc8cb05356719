// SPDX-License-Identifier: Apache-2.0
// A process cannot fake a line of the kernel: its name has at most 15 bytes, and every anchor here
// is longer than that or is at the start of a line with a longer one.
#include "sources/oom_log_text.h"

#include <algorithm>
#include <limits>

#include "base/parse.h"
#include "sources/oom_summary.h"

namespace forestall::sources {
namespace {

constexpr std::size_t kCommMax = 15;
constexpr std::string_view kSummary = "oom-kill:constraint=";
constexpr std::string_view kMemcgMessage = "Memory cgroup out of memory";
constexpr std::string_view kNodeMessage = "Out of memory";
constexpr std::string_view kAllocatingMessage = "Out of memory (oom_kill_allocating_task)";
// One print call is truncated to the size of a record: 992 bytes in 6.1, 1021 in 6.18. A longer
// line of several parts continues in another record, but a path is one part.
constexpr std::size_t kRecordFull = 960;
// Members of a memory.oom.group are killed in one pass (mem_cgroup_scan_tasks). After a longer
// pause than this it is another kill, whose dump was suppressed.
constexpr Duration kGroupPause = std::chrono::milliseconds(200);

std::optional<std::uint8_t> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint8_t>(c - 'a' + 10);
  return std::nullopt;
}

// kernel/printk/printk.c msg_add_ext_text: unprintable bytes and '\' are written as "\x" and two
// digits.
std::string unescape(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 3 < text.size() && text[i + 1] == 'x';
    const auto high = escape ? hex_digit(text[i + 2]) : std::nullopt;
    const auto low = escape ? hex_digit(text[i + 3]) : std::nullopt;
    if (high && low) {
      plain.push_back(static_cast<char>(*high << 4 | *low));
      i += 3;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

// The number directly after `name`.
std::optional<std::int64_t> number_after(std::string_view text, std::string_view name) {
  const auto at = text.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  const auto rest = text.substr(at + name.size());
  const auto sign = rest.starts_with('-') ? 1U : 0U;
  const auto end = rest.find_first_not_of("0123456789", sign);
  return parse_i64(rest.substr(0, end));
}

std::optional<Bytes> kib_after(std::string_view text, std::string_view name) {
  const auto amount = number_after(text, name);
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max() / 1024;
  if (!amount || *amount < 0 || *amount > kMax) return std::nullopt;
  return kib(*amount);
}

template <typename Number>
std::optional<Number> in_range(std::optional<std::int64_t> value) {
  if (!value || *value < std::int64_t{std::numeric_limits<Number>::min()} ||
      *value > std::int64_t{std::numeric_limits<Number>::max()}) {
    return std::nullopt;
  }
  return static_cast<Number>(*value);
}

std::array<char, 16> to_comm(std::string_view text) {
  std::array<char, 16> comm{};
  std::ranges::copy(text.substr(0, kCommMax), comm.begin());
  return comm;
}

}  // namespace

std::optional<KernelLogRecord> parse_kernel_log_record(std::string_view record) {
  // Lines after the first are indented "KEY=value" pairs.
  auto text = next_field(record, '\n');
  const auto semicolon = text.find(';');
  if (semicolon == std::string_view::npos) return std::nullopt;
  auto header = text.substr(0, semicolon);
  text.remove_prefix(semicolon + 1);
  const auto priority = parse_u64(next_field(header, ','));
  const auto sequence = parse_u64(next_field(header, ','));
  const auto microseconds = parse_u64(next_field(header, ','));
  const auto flags = next_field(header, ',');
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / 1000;
  if (!priority || !sequence || !microseconds || *microseconds > kMax) return std::nullopt;
  KernelLogRecord parsed;
  parsed.by_kernel = *priority < 8;  // the level has three bits, the rest is the facility
  parsed.continues = flags == "c";
  parsed.sequence = *sequence;
  parsed.at = std::chrono::microseconds(static_cast<std::int64_t>(*microseconds));
  parsed.text = unescape(text);
  return parsed;
}

void OomLogText::forget() {
  dump_.reset();
  listed_.clear();
  first_.reset();
  group_ = false;
}

// "[  pid  ]   uid  tgid total_vm      rss …   pgtables_bytes swapents oom_score_adj name": the
// columns differ (6.8 added three in between), so the header gives the column of swap.
void OomLogText::take_list_header(std::string_view text) {
  next_field(text, ']');
  swap_column_.reset();
  for (std::size_t column = 0; !text.empty(); ++column) {
    if (next_word(text) == "swapents") swap_column_ = column;
  }
}

// "[    155]     0   155    20592    8667 …   135168        0             0 hog".
void OomLogText::take_listed(std::string_view text) {
  text.remove_prefix(1);
  const auto pid = in_range<pid_t>(parse_i64(trim(next_field(text, ']'))));
  if (!pid || !swap_column_ || listed_.size() >= kListedMax) return;
  for (std::size_t column = 0; column < *swap_column_; ++column) next_word(text);
  const auto swap = parse_i64(next_word(text));
  if (swap && *swap >= 0) listed_.push_back({*pid, *swap});
}

std::optional<Pages> OomLogText::swap_of(pid_t pid) const {
  const auto found = std::ranges::find(listed_, pid, &Listed::pid);
  return found == listed_.end() ? std::nullopt : std::optional(found->swap);
}

void OomLogText::take_dump_line(std::string_view text) {
  constexpr std::string_view kInvoked = " invoked oom-killer: gfp_mask=";
  const auto invoked = text.find(kInvoked);
  if (invoked != std::string_view::npos && invoked <= kCommMax) {
    forget();
    dump_.emplace();
    dump_->killer_comm = to_comm(text.substr(0, invoked));
    return;
  }
  if (text.starts_with(kSummary)) {
    if (!dump_) dump_.emplace();
    dump_->summary = text.substr(0, kSummaryMax);
    dump_->summary_open = !oom_summary_complete(dump_->summary);
    dump_->summary_cut = text.size() >= kRecordFull;
    group_ = false;
    return;
  }
  if (!dump_) return;
  if (text.starts_with("CPU: ") && !dump_->killer) {
    if (const auto pid = in_range<pid_t>(number_after(text, " PID: "))) {
      dump_->killer = ProcessId{*pid, 0};
    }
  } else if (text.starts_with("memory: usage ")) {
    dump_->usage = kib_after(text, "usage ");
    dump_->limit = kib_after(text, "limit ");
  } else if (text.starts_with("[  pid  ]")) {
    take_list_header(text);
  } else if (text.starts_with('[')) {
    take_listed(text);
  }
}

void OomLogText::add_dump(OomKillEvent& kill) const {
  if (!dump_ || dump_->summary.empty()) return;
  const auto summary = parse_oom_summary(dump_->summary, kill.comm.data());
  if (!summary) return;
  if (summary->pid > 0) kill.victim.pid = summary->pid;
  kill.constraint = summary->constraint;
  if (!dump_->summary_cut) kill.path = summary->victim;
  kill.killer = dump_->killer;
  kill.killer_comm = dump_->killer_comm;
  if (summary->constraint != Constraint::memcg) return;
  if (!dump_->summary_cut) kill.domain_path = summary->domain;
  kill.domain_usage = dump_->usage;
  kill.domain_limit = dump_->limit;
}

// "155 (hog) total-vm:82368kB, anon-rss:33976kB, file-rss:540kB, shmem-rss:2096kB, UID:0
// pgtables:124kB oom_score_adj:0"
std::optional<OomKillEvent> OomLogText::parse_victim(std::string_view text, bool swapless) const {
  constexpr std::string_view kAfterName = ") total-vm:";
  const auto pid = in_range<pid_t>(parse_i64(next_word(text)));
  text.remove_prefix(std::min<std::size_t>(text.size(), 1));
  // The last one: only numbers follow it, the name before it may contain anything.
  const auto end = text.rfind(kAfterName);
  if (!pid || *pid <= 0 || !text.starts_with('(') || end == std::string_view::npos) {
    return std::nullopt;
  }
  OomKillEvent kill;
  kill.victim = {*pid, 0};
  kill.comm = to_comm(text.substr(1, end - 1));
  text.remove_prefix(end);
  const auto uid = in_range<std::uint32_t>(number_after(text, "UID:"));
  const auto adj = in_range<std::int16_t>(number_after(text, "oom_score_adj:"));
  if (!uid || !adj) return std::nullopt;
  kill.uid = *uid;
  kill.oom_score_adj = *adj;
  const auto anon = kib_after(text, "anon-rss:");
  const auto file = kib_after(text, "file-rss:");
  const auto shmem = kib_after(text, "shmem-rss:");
  const auto tables = kib_after(text, "pgtables:");
  const auto swap = swapless ? std::optional<Pages>(0) : swap_of(*pid);
  if (anon && file && shmem && tables && swap) {
    kill.memory = ProcessMemory{file->count / page_bytes_, anon->count / page_bytes_,
                                shmem->count / page_bytes_, *swap, tables->count / page_bytes_};
  }
  return kill;
}

void OomLogText::take_kill(const KernelLogRecord& record, std::string_view rest, bool memcg,
                           bool swapless, std::vector<OomKillEvent>& kills) {
  auto kill = parse_victim(rest, swapless);
  if (!kill) return;
  kill->at = from_ns(record.at.count());
  const bool member = group_ && first_ && record.at - last_ <= kGroupPause;
  if (member) {
    last_ = record.at;
    if (kill->victim == first_->victim) return;  // the group's walk visited it again
    kill->with_another = true;
    kill->constraint = first_->constraint;
    kill->domain_path = first_->domain_path;
    kill->domain_usage = first_->domain_usage;
    kill->domain_limit = first_->domain_limit;
    kill->killer = first_->killer;
    kill->killer_comm = first_->killer_comm;
  } else {
    if (memcg) kill->constraint = Constraint::memcg;
    add_dump(*kill);
    dump_.reset();
    group_ = false;
    first_ = *kill;
    last_ = record.at;
  }
  kills.push_back(std::move(*kill));
}

void OomLogText::take(const KernelLogRecord& record, bool swapless,
                      std::vector<OomKillEvent>& kills) {
  constexpr std::string_view kKilled = ": Killed process ";
  constexpr std::string_view kGroup = " are going to be killed due to memory.oom.group set";
  if (!record.by_kernel) return;
  const std::string_view text = record.text;
  if (record.continues) {
    if (dump_ && dump_->summary_open && dump_->summary.size() + text.size() <= kSummaryMax) {
      dump_->summary += text;
      dump_->summary_cut = dump_->summary_cut || text.size() >= kRecordFull;
      dump_->summary_open = !oom_summary_complete(dump_->summary);
    }
    group_ = group_ || text.ends_with(kGroup);
    return;
  }
  if (text.starts_with("Tasks in ") && text.ends_with(kGroup)) {
    group_ = true;
    return;
  }
  for (const auto message : {kMemcgMessage, kNodeMessage, kAllocatingMessage}) {
    if (!text.starts_with(message)) continue;
    const auto rest = text.substr(message.size());
    if (!rest.starts_with(kKilled)) continue;
    take_kill(record, rest.substr(kKilled.size()), message == kMemcgMessage, swapless, kills);
    return;
  }
  take_dump_line(text);
}

}  // namespace forestall::sources
