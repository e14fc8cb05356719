// SPDX-License-Identifier: Apache-2.0
#include "sources/process_text.h"

#include <gtest/gtest.h>

#include <string>

namespace forestall::sources {
namespace {

// Output of 6.18, shortened to the relevant lines and their neighbours.
constexpr const char* kStatus =
    "Name:\thog\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t155\nNgid:\t0\nPid:\t155\n"
    "Uid:\t1000\t0\t0\t0\nVmPeak:\t82368 kB\nRssAnon:\t33976 kB\nRssFile:\t540 kB\n"
    "RssShmem:\t2096 kB\nVmPTE:\t124 kB\nVmSwap:\t8 kB\nCoreDumping:\t0\nThreads:\t3\n"
    "SigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\nSigBlk:\t0000000000000100\n"
    "Mems_allowed:\t00000000,00000000,00000003\nMems_allowed_list:\t0-1\n";

TEST(StatusText, AmountsInPages) {
  const auto status = parse_status_text(kStatus, 4096);
  ASSERT_TRUE(status.ok()) << status.error().text();
  EXPECT_EQ(status->group, 155);
  EXPECT_EQ(status->uid, 1000U);
  EXPECT_EQ(status->threads, 3U);
  EXPECT_EQ(status->memory, (ProcessMemory{135, 8494, 524, 2, 31}));
  EXPECT_FALSE(status->core_dumping);
  EXPECT_FALSE(status->kill_pending);
  EXPECT_EQ(status->nodes_allowed, 3U);
}

TEST(StatusText, WithoutAnAddressSpaceThereIsNoMemoryWhichIsNotZero) {
  const auto status = parse_status_text("Tgid:\t7\nUid:\t0\t0\t0\t0\nThreads:\t1\n", 4096);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->memory, std::nullopt);
  const auto empty = parse_status_text("Tgid:\t7\nRssAnon:\t0 kB\n", 4096);
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->memory, ProcessMemory{});
}

TEST(StatusText, ASigkillPendingForTheThreadOrTheProcess) {
  for (const char* key : {"SigPnd", "ShdPnd"}) {
    const auto status =
        parse_status_text(std::string("Tgid:\t7\n") + key + ":\t0000000000000100\n", 4096);
    ASSERT_TRUE(status.ok());
    EXPECT_TRUE(status->kill_pending) << key;
    const auto other =
        parse_status_text(std::string("Tgid:\t7\n") + key + ":\t0000000000004000\n", 4096);
    ASSERT_TRUE(other.ok());
    EXPECT_FALSE(other->kill_pending) << key;
  }
}

TEST(StatusText, InvalidTextIsAnError) {
  for (const char* text :
       {"", "Name:\tx\n", "Tgid:\tx\n", "Tgid:\t7\nRssAnon:\t5\n", "Tgid:\t7\nRssAnon:\t5 MB\n",
        "Tgid:\t7\nRssAnon:\t-5 kB\n", "Tgid:\t7\nRssAnon:\t18446744073709551615 kB\n",
        "Tgid:\t7\nSigPnd:\t0x1\n", "Tgid:\t7\nMems_allowed:\t00000000,\n",
        "Tgid:\t7\nMems_allowed:\t000000001\n"}) {
    EXPECT_FALSE(parse_status_text(text, 4096).ok()) << text;
  }
}

TEST(Mask, TheLast64BitsCount) {
  EXPECT_EQ(parse_mask("1"), 1U);
  EXPECT_EQ(parse_mask("00000001,00000002"), (NodeMask{1} << 32) + 2);
  EXPECT_EQ(parse_mask("ffffffff,00000001,00000002"), (NodeMask{1} << 32) + 2);
  for (const char* broken : {"", ",", "g", "-1", "0x1", "1,,1"}) {
    EXPECT_EQ(parse_mask(broken), std::nullopt) << broken;
  }
}

TEST(NodeList, Ranges) {
  EXPECT_EQ(parse_node_list("0\n"), 1U);
  EXPECT_EQ(parse_node_list("0-1,3"), 0b1011U);
  EXPECT_EQ(parse_node_list("63-70"), NodeMask{1} << 63);
  EXPECT_EQ(parse_node_list("\n"), 0U);
  for (const char* broken : {"x", "1-", "2-1", "-1", "0,,1"}) {
    EXPECT_EQ(parse_node_list(broken), std::nullopt) << broken;
  }
}

std::string stat(const std::string& comm, const std::string& flags) {
  std::string text = "155 (" + comm + ") S 1 155 155 0 -1 " + flags;
  // Fields 10 to 52; each is its own number, except the start time.
  for (int field = 10; field <= 52; ++field) {
    text += ' ' + std::to_string(field == 22 ? 4711 : field);
  }
  return text + "\n";
}

TEST(StatText, FieldsAreCountedFromTheLastParenthesis) {
  const auto parsed = parse_stat_text(stat("a) R 9 (b", "4194560"));
  ASSERT_TRUE(parsed.ok()) << parsed.error().text();
  EXPECT_STREQ(parsed->comm.data(), "a) R 9 (b");
  EXPECT_EQ(parsed->parent, 1);
  EXPECT_EQ(parsed->start_ticks, 4711U);
  EXPECT_EQ(parsed->layout, (MemoryLayout{26, 28, 48}));
  EXPECT_FALSE(parsed->kernel_thread);
  EXPECT_FALSE(parsed->exiting);
  EXPECT_TRUE(parse_stat_text(stat("x", "4"))->exiting);
  EXPECT_TRUE(parse_stat_text(stat("x", "2097152"))->kernel_thread);
}

TEST(StatText, ALongNameIsCutAndABrokenLineIsAnError) {
  EXPECT_STREQ(parse_stat_text(stat("kworker/u8:1-events_unbound", "0"))->comm.data(),
               "kworker/u8:1-ev");
  for (const char* broken : {"", "155", "155 hog) S 1", ")(", "155 (hog) S 1 2 3"}) {
    EXPECT_FALSE(parse_stat_text(broken).ok()) << broken;
  }
}

}  // namespace
}  // namespace forestall::sources
