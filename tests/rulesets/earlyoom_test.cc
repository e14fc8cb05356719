// SPDX-License-Identifier: Apache-2.0
// earlyoom's rules. Each row names its source: a function of earlyoom (main.c, kill.c, meminfo.c),
// or a test of its suite.
#include "rulesets/earlyoom.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace forestall::rulesets {
namespace {

constexpr auto k17 = EarlyoomVersion::v1_7;
constexpr auto k19 = EarlyoomVersion::v1_9;
constexpr std::int64_t kGib = 1 << 20;  // KiB

EarlyoomMemory memory_of(std::int64_t total, std::int64_t available, std::int64_t anon,
                         std::int64_t swap_total, std::int64_t swap_free) {
  return {total, available, anon, swap_total, swap_free};
}

EarlyoomProcess process(std::int64_t pid, std::int64_t score, std::int64_t rss_kib) {
  EarlyoomProcess made;
  made.pid = pid;
  made.ppid = 1;
  made.uid = 1000;
  made.oom_score = score;
  made.rss_kib = rss_kib;
  return made;
}

EarlyoomProcess preferred(EarlyoomProcess process) {
  process.preferred = true;
  return process;
}
EarlyoomProcess avoided(EarlyoomProcess process) {
  process.avoided = true;
  return process;
}
EarlyoomProcess ignored(EarlyoomProcess process) {
  process.ignored = true;
  return process;
}
EarlyoomProcess child_of(std::int64_t ppid, EarlyoomProcess process) {
  process.ppid = ppid;
  return process;
}
EarlyoomProcess owned_by(std::int64_t uid, EarlyoomProcess process) {
  process.uid = uid;
  return process;
}
EarlyoomProcess adjusted(std::int64_t adj, EarlyoomProcess process) {
  process.oom_score_adj = adj;
  return process;
}

EarlyoomOptions options_of(EarlyoomVersion version, bool sort_by_rss = false,
                           bool ignore_root_user = false) {
  EarlyoomOptions options;
  options.version = version;
  options.sort_by_rss = sort_by_rss;
  options.ignore_root_user = ignore_root_user;
  return options;
}

TEST(Earlyoom, MemoryIsAShareOfTheVersionsTotal) {
  const EarlyoomMemory memory = memory_of(1000, 100, 300, 200, 50);
  EXPECT_EQ(earlyoom_available(memory, k17).memory, 10);  // meminfo.c 1.7
  EXPECT_EQ(earlyoom_available(memory, k19).memory, 25);  // meminfo.c 1.8: UserMemTotal
  EXPECT_EQ(earlyoom_available(memory, k17).swap, 25);
  // meminfo.c: without swap, 0 % of it are free.
  EXPECT_EQ(earlyoom_available(memory_of(1000, 100, 300, 0, 0), k19).swap, 0);
}

struct SignalRow {
  const char* source;
  EarlyoomAvailable available;
  EarlyoomThresholds thresholds;
  EarlyoomSignal signal;
};

TEST(Earlyoom, BothMustBeAtOrBelowALevel) {
  const EarlyoomThresholds defaults;
  const SignalRow rows[] = {
      {"lowmem_sig(): equal is low", {10, 10}, defaults, EarlyoomSignal::term},
      {"lowmem_sig(): equal is low", {5, 5}, defaults, EarlyoomSignal::kill},
      {"lowmem_sig(): only memory is low", {5, 10.01}, defaults, EarlyoomSignal::none},
      {"lowmem_sig(): only swap is low", {10.01, 0}, defaults, EarlyoomSignal::none},
      {"lowmem_sig(): swap above its kill level", {5, 6}, defaults, EarlyoomSignal::term},
      {"lowmem_sig(): memory above its kill level", {5.0001, 0}, defaults, EarlyoomSignal::term},
      {"-s 100 ignores swap", {9, 100}, {10, 5, 100, 50}, EarlyoomSignal::term},
      {"no swap", {4, 0}, defaults, EarlyoomSignal::kill},
      {"-m 5,0: SIGKILL only at 0", {0, 0}, {5, 0, 10, 5}, EarlyoomSignal::kill},
      {"-m 5,0", {0.001, 0}, {5, 0, 10, 5}, EarlyoomSignal::term},
  };
  for (const SignalRow& row : rows) {
    EXPECT_EQ(earlyoom_signal(row.available, row.thresholds), row.signal) << row.source;
  }
  EXPECT_EQ(to_string(EarlyoomSignal::kill), "SIGKILL");
  EXPECT_EQ(to_string(EarlyoomSignal::term), "SIGTERM");
  EXPECT_EQ(to_string(EarlyoomSignal::none), "none");
}

struct VictimRow {
  const char* source;
  EarlyoomOptions options;
  std::vector<EarlyoomProcess> processes;
  std::int64_t victim;  // 0: none
};

std::int64_t victim_pid(const VictimRow& row) {
  const auto victim = earlyoom_victim(row.processes, row.options);
  return victim ? row.processes[*victim].pid : 0;
}

TEST(Earlyoom, VictimHasTheHighestScore) {
  const VictimRow rows[] = {
      {"is_larger(): higher score",
       options_of(k19),
       {process(100, 5, 900), process(101, 6, 1)},
       101},
      {"is_larger(): equal score, higher RSS",
       options_of(k17),
       {process(100, 5, 9), process(101, 5, 10)},
       101},
      {"is_larger(): equal keeps the first",
       options_of(k19),
       {process(100, 5, 9), process(101, 5, 9)},
       100},
      {"is_larger(): not pid 1", options_of(k17), {process(1, 900, 9), process(100, 1, 9)}, 100},
      {"1.7: pid 2 only by its RSS of 0", options_of(k17), {process(2, 900, 9)}, 2},
      {"1.8: not pid 2", options_of(k19), {process(2, 900, 9)}, 0},
      {"1.8: not a child of 2", options_of(k19), {child_of(2, process(30, 900, 9))}, 0},
      {"1.7: a child of 2 only by its RSS of 0",
       options_of(k17),
       {child_of(2, process(30, 900, 9))},
       30},
      {"1.7: RSS 0 never", options_of(k17), {process(100, 900, 0), process(101, 1, 1)}, 101},
      {"Test_is_larger: zombie main thread",
       options_of(k19),
       {process(102, 101, 4), process(103, 102, 4), process(104, 103, 0)},
       104},
      {"is_larger(): oom_score_adj -1000 never",
       options_of(k19),
       {adjusted(-1000, process(100, 900, 9)), process(101, 1, 1)},
       101},
      {"-i is ignored: oom_score_adj does not matter",
       options_of(k17),
       {adjusted(900, process(100, 900, 9)), process(101, 100, 1)},
       100},
      {"--prefer adds 300",
       options_of(k19),
       {process(100, 300, 9), preferred(process(101, 1, 1))},
       101},
      {"--prefer adds 300, no more",
       options_of(k19),
       {process(100, 302, 9), preferred(process(101, 1, 1))},
       100},
      {"--avoid subtracts 300",
       options_of(k19),
       {avoided(process(100, 300, 9)), process(101, 1, 1)},
       101},
      {"both cancel each other",
       options_of(k19),
       {process(100, 9, 9), preferred(avoided(process(101, 10, 1)))},
       101},
      {"1.7 begins at 0: an avoided process below is never a victim",
       options_of(k17),
       {avoided(process(100, 299, 9))},
       0},
      {"1.7: an avoided process at 0 is one",
       options_of(k17),
       {avoided(process(100, 300, 9))},
       100},
      {"1.8 begins at -9999", options_of(k19), {avoided(process(100, 299, 9))}, 100},
      {"1.7: a score of 0 with RSS", options_of(k17), {process(100, 0, 9)}, 100},
      {"get_oom_score(): negative is an error", options_of(k19), {process(100, -1, 9)}, 0},
      {"--ignore", options_of(k19), {ignored(process(100, 900, 9)), process(101, 1, 1)}, 101},
      {"--ignore-root-user",
       options_of(k19, false, true),
       {owned_by(0, process(100, 900, 9)), process(101, 1, 1)},
       101},
      {"root may be a victim", options_of(k19), {owned_by(0, process(100, 900, 9))}, 100},
  };
  for (const VictimRow& row : rows) EXPECT_EQ(victim_pid(row), row.victim) << row.source;
}

TEST(Earlyoom, SortsByRss) {
  const EarlyoomOptions by_rss = options_of(k19, true);
  const VictimRow rows[] = {
      {"--sort-by-rss", by_rss, {process(100, 900, 4), process(101, 1, 8)}, 101},
      {"--sort-by-rss: ties by score", by_rss, {process(100, 100, 8), process(101, 101, 8)}, 101},
      {"--sort-by-rss: equal keeps the first",
       by_rss,
       {process(100, 1, 8), process(101, 1, 8)},
       100},
      {"Test_is_larger_by_rss: a zombie main thread is compared by score",
       by_rss,
       {process(103, 99, 12), process(104, 102, 0)},
       104},
      {"Test_is_larger_by_rss: equal score, the one with RSS",
       by_rss,
       {process(104, 102, 0), process(105, 102, 12)},
       105},
      {"--prefer adds 3145728 KiB",
       by_rss,
       {process(100, 1, 3 * kGib), preferred(process(101, 1, 1))},
       101},
      {"--avoid subtracts 3145728 KiB",
       by_rss,
       {avoided(process(100, 1, 4 * kGib)), process(101, 1, 2 * kGib)},
       101},
      {"avoided below 0: compared by score",
       by_rss,
       {process(100, 1, 2 * kGib), avoided(process(101, 2, kGib))},
       101},
  };
  for (const VictimRow& row : rows) EXPECT_EQ(victim_pid(row), row.victim) << row.source;
}

// Test_is_larger and Test_is_larger_by_rss of earlyoom's suite: each process is larger than all
// before it, so the order of the list does not matter.
TEST(Earlyoom, LargestIsFoundInAnyOrder) {
  std::vector<EarlyoomProcess> by_score{process(100, 100, 1234), process(101, 100, 1238),
                                        process(102, 101, 4), process(103, 102, 4),
                                        process(104, 103, 0)};
  std::vector<EarlyoomProcess> by_rss{process(100, 100, 4), process(101, 100, 8),
                                      process(102, 101, 8), process(103, 99, 12),
                                      process(105, 102, 12)};
  const auto by_pid = [](const EarlyoomProcess& a, const EarlyoomProcess& b) {
    return a.pid < b.pid;
  };
  EXPECT_EQ(victim_pid({"", options_of(k19), {}, 0}), 0);
  do {
    EXPECT_EQ(victim_pid({"", options_of(k19), by_score, 0}), 104);
  } while (std::next_permutation(by_score.begin(), by_score.end(), by_pid));
  do {
    EXPECT_EQ(victim_pid({"", options_of(k19, true), by_rss, 0}), 105);
  } while (std::next_permutation(by_rss.begin(), by_rss.end(), by_pid));
}

struct SleepRow {
  const char* source;
  EarlyoomVersion version;
  EarlyoomMemory memory;
  std::int64_t ms;
};

TEST(Earlyoom, SleepsByTheHeadroom) {
  const SleepRow rows[] = {
      {"sleep_time_ms(): at least 100", k17, memory_of(8 * kGib, kGib / 2, 0, 0, 0), 100},
      {"sleep_time_ms(): at most 1000", k17, memory_of(64 * kGib, 60 * kGib, 0, 0, 0), 1000},
      // (50 - 10) * 10 * 8192 / 6000 = 546
      {"sleep_time_ms() 1.7", k17, memory_of(8 * kGib, 4 * kGib, 0, 0, 0), 546},
      // 546 + (100 - 10) * 10 * 100 / 800 = 546 + 112
      {"sleep_time_ms() 1.7 with swap", k17,
       memory_of(8 * kGib, 4 * kGib, 0, 100 * 1024, 100 * 1024), 658},
      // 40 * 8388608 / 100 / 6000 = 559
      {"sleep_time_ms() 1.8", k19, memory_of(16 * kGib, 4 * kGib, 4 * kGib, 0, 0), 559},
      // 559 + 90 * 102400 / 100 / 800 = 559 + 115
      {"sleep_time_ms() 1.8 with swap", k19,
       memory_of(16 * kGib, 4 * kGib, 4 * kGib, 100 * 1024, 100 * 1024), 674},
      {"sleep_time_ms() 1.7: whole MiB", k17, memory_of(1023, 1023, 0, 0, 0), 100},
  };
  for (const SleepRow& row : rows) {
    EXPECT_EQ(earlyoom_sleep_ms(row.memory, options_of(row.version)), row.ms) << row.source;
  }
}

}  // namespace
}  // namespace forestall::rulesets
