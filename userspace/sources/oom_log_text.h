// SPDX-License-Identifier: Apache-2.0
// Parser of the kernel's OOM messages in /dev/kmsg. Pure: text in, events out.
//
// The messages of one kill (mm/oom_kill.c dump_header, dump_oom_victim, __oom_kill_process;
// mm/memcontrol.c mem_cgroup_print_oom_*). They are the same from 6.1 to 7.2, except for the first
// two fields of "CPU:":
//   hog invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
//   CPU: 0 UID: 0 PID: 155 Comm: hog …
//   memory: usage 32768kB, limit 32768kB, failcnt 19                  (of a memcg only)
//   [    155]     0   155    20592    8667 …                          (vm.oom_dump_tasks)
//   oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,
//     task_memcg=/a/b,task=hog,pid=155,uid=0                          (one line)
//   Memory cgroup out of memory: Killed process 155 (hog) total-vm:82368kB, …
//   Tasks in /a/b are going to be killed due to memory.oom.group set
//   Memory cgroup out of memory: Killed process 156 (hog) …           (once for each; the first
//                                                                      victim again, if it is still
//                                                                      there)
// Only "Killed process" is always logged: the rest is rate-limited (oom_rs), and a victim that was
// already dying is not logged at all.
//
// Process and cgroup names are chosen by their owners and may contain commas and "pid=". Each field
// is located from parts that cannot be chosen: the start of the line, its end, earlier messages
// about the same victim. An ambiguous field counts as unknown.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "model/oom_kill.h"

namespace forestall::sources {

// One record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg): "6,339,5140900,-;text".
struct KernelLogRecord {
  bool by_kernel = false;  // facility 0; records written through /dev/kmsg have another one
  bool continues = false;  // flag 'c': a part of a line that did not fit into one record
  std::uint64_t sequence = 0;
  Duration at{0};    // local_clock(), whole microseconds
  std::string text;  // without the escapes
};
// Nullopt if the record has another form.
[[nodiscard]] std::optional<KernelLogRecord> parse_kernel_log_record(std::string_view record);

// A dump under way, from "invoked oom-killer" to its kill.
struct OomDump {
  std::optional<ProcessId> killer;
  std::array<char, 16> killer_comm{};
  std::optional<Bytes> usage, limit;
  std::string summary;        // "oom-kill:…"; empty: not seen yet
  bool summary_open = false;  // more of it may follow
  bool summary_cut = false;   // a part filled its record and was truncated
};

class OomLogText {
 public:
  // `page_bytes`: the kernel's page size.
  explicit OomLogText(std::int64_t page_bytes) : page_bytes_(page_bytes) {}

  // Takes the next record. If it reports a kill, appends the kill to `kills`, with the record's own
  // time in `at` (local_clock, not CLOCK_MONOTONIC). `swapless`: the node has no swap, so the
  // victim had none. Otherwise the victim's memory is known only if the dump listed it.
  void take(const KernelLogRecord& record, bool swapless, std::vector<OomKillEvent>& kills);
  // Records were lost: drops the collected state, which may belong to another kill.
  void forget();

  // Bounds on the collected state.
  static constexpr std::size_t kSummaryMax = 16384;  // bytes of a line "oom-kill:"
  static constexpr std::size_t kListedMax = 65536;   // processes in the list of a dump

 private:
  struct Listed {
    pid_t pid = 0;
    Pages swap = 0;
  };
  void take_dump_line(std::string_view text);
  void take_list_header(std::string_view text);
  void take_listed(std::string_view text);
  // `rest` follows "Killed process "; `memcg`: which of the two messages it was.
  void take_kill(const KernelLogRecord& record, std::string_view rest, bool memcg, bool swapless,
                 std::vector<OomKillEvent>& kills);
  [[nodiscard]] std::optional<OomKillEvent> parse_victim(std::string_view text,
                                                         bool swapless) const;
  void add_dump(OomKillEvent& kill) const;
  [[nodiscard]] std::optional<Pages> swap_of(pid_t pid) const;

  std::int64_t page_bytes_;
  std::optional<OomDump> dump_;
  std::optional<std::size_t> swap_column_;
  std::vector<Listed> listed_;
  // The previous kill; kills of the same memory.oom.group follow it.
  std::optional<OomKillEvent> first_;
  bool group_ = false;  // "Tasks in … are going to be killed" was logged since
  Duration last_{0};    // time of the last of them
};

}  // namespace forestall::sources
