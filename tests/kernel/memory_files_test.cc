// SPDX-License-Identifier: Apache-2.0
// Good files as captured from kernels, and a table of bad and odd ones, each with the value or the
// error it must give. One row is one text for one parser; what() prints the part that matters.
#include "kernel/memory_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace forestall::kernel {
namespace {

std::string show(const std::optional<Bytes>& value) {
  return value ? std::to_string(value->count) : "nothing";
}

std::string show(const std::optional<std::uint64_t>& value) {
  return value ? std::to_string(*value) : "nothing";
}

template <typename T, typename Field>
std::string outcome(const Result<T>& result, Field field) {
  return result ? field(*result) : "error: " + result.error().text();
}

std::string mem_total(std::string_view text) {
  return outcome(parse_meminfo(text), [](const Meminfo& m) { return show(m.total); });
}

std::string anon_pages(std::string_view text) {
  return outcome(parse_vmstat(text), [](const Vmstat& v) { return show(v.nr_anon_pages); });
}

std::string inactive_file(std::string_view text) {
  return outcome(parse_memory_stat(text),
                 [](const MemoryStat& s) { return show(s.inactive_file); });
}

std::string high_events(std::string_view text) {
  return outcome(parse_memory_events(text), [](const MemoryEvents& e) { return show(e.high); });
}

std::string amount(std::string_view text) {
  return outcome(parse_amount(text), [](const std::optional<Bytes>& b) { return show(b); });
}

std::string psi(std::string_view text) {
  return outcome(parse_psi(text), [](const Psi& p) {
    const auto line = [](const std::optional<PsiLine>& l) {
      return l ? fmt::format("{} {} {} {}ns", l->avg10_hundredths, l->avg60_hundredths,
                             l->avg300_hundredths, l->total.count())
               : std::string("nothing");
    };
    return fmt::format("some {}, full {}", line(p.some), line(p.full));
  });
}

struct Row {
  std::string (*what)(std::string_view);
  std::string text;
  std::string expected;
};

const std::vector<Row> kRows = {
    // /proc/meminfo
    {mem_total, "MemTotal:       24654320 kB\n", "25246023680"},
    {mem_total, "", "nothing"},
    {mem_total, "\n\n\n", "nothing"},
    {mem_total, "MemTotal:       24654320 kB", "25246023680"},
    {mem_total, "MemTotal:       24654320 kB\r\n", "25246023680"},
    {mem_total, "memtotal: 1 kB\n", "nothing"},
    {mem_total, "MemTotal 1 kB\n", "nothing"},
    {mem_total, "MemTotal: 1\n", "error: MemTotal:: expected \"<number> kB\""},
    {mem_total, "MemTotal: 1 MB\n", "error: MemTotal:: expected \"<number> kB\""},
    {mem_total, "MemTotal: 1 kB free\n", "error: MemTotal:: expected \"<number> kB\""},
    {mem_total, "MemTotal:\n", "error: MemTotal:: no value"},
    {mem_total, "MemTotal: -1 kB\n", "error: MemTotal:: \"-1\" is not a number"},
    {mem_total, "MemTotal: 0x10 kB\n", "error: MemTotal:: \"0x10\" is not a number"},
    {mem_total, "MemTotal: 9007199254740992 kB\n",
     "error: MemTotal:: 9007199254740992 is out of range"},
    {mem_total, "MemTotal: 9007199254740991 kB\n", "9223372036854774784"},
    {mem_total, "MemTotal: 18446744073709551616 kB\n",
     "error: MemTotal:: \"18446744073709551616\" is not a number"},
    {mem_total, "MemTotal: 1 kB\nMemTotal: 1 kB\n", "error: MemTotal:: more than once"},
    {mem_total, "MemTotal: 1 kB\nFutureKey: what ever -3 max\n", "1024"},
    {mem_total, "MemFree: zero kB\nMemTotal: 1 kB\n", "error: MemFree:: \"zero\" is not a number"},
    // /proc/vmstat
    {anon_pages, "nr_free_pages 1\nnr_anon_pages 77\n", "77"},
    {anon_pages, "nr_anon_pages 0\n", "0"},
    {anon_pages, "nr_anon_pages", "error: nr_anon_pages: no value"},
    {anon_pages, "nr_anon_pages 12 kB\n", "error: nr_anon_pages: expected \"<number>\""},
    {anon_pages, "nr_anon_pages 18446744073709551615\n", "18446744073709551615"},
    {anon_pages, "nr_anon_pages 1.5\n", "error: nr_anon_pages: \"1.5\" is not a number"},
    {anon_pages, "nr_anon_pages 1\nnr_anon_pages 2\n", "error: nr_anon_pages: more than once"},
    {anon_pages, "nr_anon_transparent_hugepages 3\n", "nothing"},
    {anon_pages, "garbage\x01\xff without meaning\n", "nothing"},
    {anon_pages, std::string("nr_anon_pages 5\0\n", 17),
     std::string("error: nr_anon_pages: \"5\0\" is not a number", 42)},
    // memory.stat
    {inactive_file, "anon 1\nfile 2\ninactive_file 3\n", "3"},
    {inactive_file, "inactive_file 3\ntotal_inactive_file 30\n", "30"},
    {inactive_file, "total_inactive_file 30\ninactive_file 3\n", "30"},
    {inactive_file, "total_inactive_file 0\ninactive_file 3\n", "0"},
    {inactive_file, "inactive_file max\n", "error: inactive_file: \"max\" is not a number"},
    {inactive_file, "inactive_file 9223372036854775808\n",
     "error: inactive_file: 9223372036854775808 is out of range"},
    {inactive_file, "inactive_file 1\ninactive_file 1\n", "error: inactive_file: more than once"},
    {inactive_file, "inactive_fil", "nothing"},
    {inactive_file, "inactive_file +3\n", "error: inactive_file: \"+3\" is not a number"},
    {inactive_file, "  inactive_file\t3  \n", "3"},
    // memory.events, memory.oom_control
    {high_events, "low 0\nhigh 12\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n", "12"},
    {high_events, "high\n", "error: high: no value"},
    {high_events, "high 1\nhigh 1\n", "error: high: more than once"},
    {high_events, "high 1\nsock_throttled 4\n", "1"},
    {high_events, "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n", "nothing"},
    // one amount
    {amount, "123456\n", "123456"},
    {amount, "0\n", "0"},
    {amount, "max\n", "nothing"},
    {amount, "max", "nothing"},
    {amount, "9223372036854771712\n", "nothing"},
    {amount, "4611686018427387904\n", "nothing"},
    {amount, "4611686018427387903\n", "4611686018427387903"},
    {amount, "18446744073709551615\n", "nothing"},
    {amount, "18446744073709551616\n",
     "error: \"18446744073709551616\" is not an amount of memory"},
    {amount, "-1\n", "error: \"-1\" is not an amount of memory"},
    {amount, "", "error: \"\" is not an amount of memory"},
    {amount, "12 13\n", "error: \"12 13\" is not an amount of memory"},
    {amount, "Max\n", "error: \"Max\" is not an amount of memory"},
    {amount, "123\r\n", "123"},
    // PSI
    {psi, "some avg10=0.00 avg60=1.50 avg300=99.99 total=7\n",
     "some 0 150 9999 7000ns, full nothing"},
    {psi,
     "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=1.00 avg60=0.00 avg300=0.00 "
     "total=0\n",
     "some 0 0 0 1000ns, full 100 0 0 0ns"},
    {psi, "", "some nothing, full nothing"},
    {psi, "some avg10=0.00 avg60=0.00 total=1\n", "error: some avg300: missing"},
    {psi, "some avg10=0.00 avg60=0.00 avg300=0.00\n", "error: some total: missing"},
    {psi, "some avg10=0.00 avg60=0.00 avg300=0.00 tot", "error: some total: missing"},
    {psi, "some avg10=0.00 avg60=0.00 avg300=0.00 avg900=0.00 total=1\n",
     "some 0 0 0 1000ns, full nothing"},
    {psi, "some avg10=0 avg60=0.00 avg300=0.00 total=1\n",
     "error: some avg10: \"0\" is not a percentage"},
    {psi, "some avg10=0.0 avg60=0.00 avg300=0.00 total=1\n",
     "error: some avg10: \"0.0\" is not a percentage"},
    {psi, "some avg10=-1.00 avg60=0.00 avg300=0.00 total=1\n",
     "error: some avg10: \"-1.00\" is not a percentage"},
    {psi, "some avg10=0.00 avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
     "error: some avg10: more than once"},
    {psi, "some avg10=0.00 avg60=0.00 avg300=0.00 total=1 total=1\n",
     "error: some total: more than once"},
    {psi, "some avg10=0.00 avg60=0.00 avg300=0.00 total=18446744073709551615\n",
     "error: some total: \"18446744073709551615\" is not a number"},
    {psi,
     "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nsome avg10=0.00 avg60=0.00 avg300=0.00 "
     "total=1\n",
     "error: some: more than once"},
    {psi, "most avg10=junk\nsome avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
     "some 0 0 0 1000ns, full nothing"},
};

TEST(MemoryFilesTable, EachOddTextHasItsValueOrItsError) {
  EXPECT_GE(kRows.size(), 60u);
  for (const auto& row : kRows) EXPECT_EQ(row.what(row.text), row.expected) << "text: " << row.text;
}

// Whole files as kernel 6.18 wrote them (shortened to some neighbours of the wanted keys).
TEST(MemoryFiles, ReadsAHostsMeminfo) {
  const auto meminfo = parse_meminfo(
      "MemTotal:       24654320 kB\nMemFree:        20112544 kB\nMemAvailable:   23100480 kB\n"
      "Buffers:           18012 kB\nSwapCached:            0 kB\nSwapTotal:             0 kB\n"
      "SwapFree:              0 kB\nHugePages_Total:       0\n");
  ASSERT_TRUE(meminfo) << meminfo.error().text();
  EXPECT_EQ(meminfo->total, kib(24654320));
  EXPECT_EQ(meminfo->free, kib(20112544));
  EXPECT_EQ(meminfo->available, kib(23100480));
  EXPECT_EQ(meminfo->swap_total, Bytes{0});
  EXPECT_EQ(meminfo->swap_free, Bytes{0});
}

TEST(MemoryFiles, ReadsBothVersionsOfMemoryStat) {
  const auto v1 = parse_memory_stat(
      "cache 9211904\nrss 11038720\ninactive_file 0\nactive_file 143360\n"
      "hierarchical_memory_limit 9223372036854771712\ntotal_inactive_file 10899456\n");
  ASSERT_TRUE(v1) << v1.error().text();
  EXPECT_EQ(v1->inactive_file, Bytes{10899456});
  EXPECT_EQ(v1->hierarchical_limit, Bytes{9223372036854771712});
  EXPECT_FALSE(v1->anon);
  const auto v2 = parse_memory_stat(
      "anon 4096\nfile 8192\nkernel 100\ninactive_file 4096\npgscan 5\npgsteal 4\n");
  ASSERT_TRUE(v2) << v2.error().text();
  EXPECT_EQ(v2->anon, Bytes{4096});
  EXPECT_EQ(v2->file, Bytes{8192});
  EXPECT_EQ(v2->inactive_file, Bytes{4096});
  EXPECT_EQ(v2->pgscan, 5u);
  EXPECT_EQ(v2->pgsteal, 4u);
  EXPECT_FALSE(v2->hierarchical_limit);
}

}  // namespace
}  // namespace forestall::kernel
