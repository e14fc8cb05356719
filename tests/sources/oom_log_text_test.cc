// SPDX-License-Identifier: Apache-2.0
// The kernel's lines as 6.1, 6.18 and 7.2 wrote them, and lines made to be misread.
#include "sources/oom_log_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sources/oom_summary.h"

namespace forestall::sources {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// From 6.18, with names of a cgroup and a process that were chosen to be misread.
constexpr const char* kHostile[] = {
    "4,4312,29826318110,-;a,task=b) \\x0a\\x5c\\xff invoked oom-killer: gfp_mask=0xcc0(GFP_KE"
    "RNEL), order=0, oom_score_adj=0",
    "4,4313,29826318121,-;CPU: 1 UID: 0 PID: 6061 Comm: a,task=b) \\x0a\\x5c\\xff Not tainted"
    " 6.18.44 #1 PREEMPT(none) ",
    "4,4318,29826318160,-; oom_kill_process.cold+0x8/0x8a",
    "6,4340,29826318249,-;memory: usage 32768kB, limit 32768kB, failcnt 162",
    "6,4343,29826318260,-;Memory cgroup stats for /forestall-s-6017:",
    "6,4387,29826318342,-;[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem"
    " pgtables_bytes swapents oom_score_adj name",
    "6,4388,29826318344,-;[   6061]     0  6061    12443    10953     9918     1035         0"
    "   139264        5             0 a,task=b) \\x0a\\x5c\\xff",
    "6,4389,29826318350,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_"
    "allowed=0,oom_memcg=/forestall-s-6017,task_memcg=/forestall-s-6017/a,pid=1,task_memcg=,t"
    "ask=a,task=b) \\x0a\\x5c\\xff,pid=6061,uid=0",
    "3,4390,29826318369,-;Memory cgroup out of memory: Killed process 6061 (a,task=b) \\x0a"
    "\\x5c\\xff) total-vm:49772kB, anon-rss:39672kB, file-rss:4140kB, shmem-rss:0kB, UID:0 pg"
    "tables:136kB oom_score_adj:0",
};

class OomLogTextTest : public testing::Test {
 protected:
  // A record of the kernel, a microsecond after the one before.
  void feed(const std::string& text, Duration later = std::chrono::microseconds(1)) {
    record_.by_kernel = true;
    record_.at += later;
    record_.text = text;
    text_.take(record_, true, kills_);
  }
  void feed_on(const std::string& text) {
    record_.continues = true;
    feed(text);
    record_.continues = false;
  }
  void feed_killed(int pid, const std::string& comm,
                   const std::string& message = "Memory cgroup out of memory") {
    feed(message + ": Killed process " + std::to_string(pid) + " (" + comm +
         ") total-vm:82368kB, anon-rss:33976kB, file-rss:540kB, shmem-rss:2096kB, UID:7 "
         "pgtables:124kB oom_score_adj:-5");
  }

  OomLogText text_{4096};
  KernelLogRecord record_;
  std::vector<OomKillEvent> kills_;
};

TEST_F(OomLogTextTest, ADumpOfThisKernel) {
  for (const char* line : kHostile) {
    const auto record = parse_kernel_log_record(line);
    ASSERT_TRUE(record.has_value()) << line;
    text_.take(*record, false, kills_);
  }
  ASSERT_THAT(kills_, SizeIs(1));
  const auto& kill = kills_.front();
  EXPECT_EQ(kill.at, from_ns(29826318369'000));
  EXPECT_EQ(kill.victim, (ProcessId{6061, 0}));
  EXPECT_STREQ(kill.comm.data(), "a,task=b) \n\\\xff");
  EXPECT_EQ(kill.constraint, Constraint::memcg);
  EXPECT_FALSE(kill.constraint_deduced);
  EXPECT_EQ(kill.domain_path, "/forestall-s-6017");
  EXPECT_EQ(kill.path, "/forestall-s-6017/a,pid=1,task_memcg=");
  EXPECT_EQ(kill.domain_usage, kib(32768));
  EXPECT_EQ(kill.domain_limit, kib(32768));
  EXPECT_EQ(kill.killer, (ProcessId{6061, 0}));
  EXPECT_STREQ(kill.killer_comm.data(), "a,task=b) \n\\\xff");
  EXPECT_EQ(kill.memory, (ProcessMemory{1035, 9918, 0, 5, 34}));
  EXPECT_FALSE(kill.with_another);
}

TEST_F(OomLogTextTest, TheWordsOf61ForAGlobalOom) {
  feed(
      "bash invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, "
      "oom_score_adj=0");
  feed("CPU: 0 PID: 174 Comm: bash Not tainted 6.1.0-56-cloud-amd64 #1  Debian 6.1.192-2");
  feed("[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name");
  feed("[    155]     0   155    20592    8667   135168        3             0 12 13");
  feed(
      "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
      "task_memcg=/a b/c,task=12 13,pid=155,uid=7");
  record_.at = {};
  record_.text.clear();
  text_.take({true, false, 9, std::chrono::seconds(3),
              "Out of memory: Killed process 155 (12 13) total-vm:82368kB, anon-rss:33976kB, "
              "file-rss:540kB, shmem-rss:2096kB, UID:7 pgtables:124kB oom_score_adj:-5"},
             false, kills_);
  ASSERT_THAT(kills_, SizeIs(1));
  const auto& kill = kills_.front();
  EXPECT_EQ(kill.constraint, Constraint::none);
  EXPECT_EQ(kill.path, "/a b/c");
  EXPECT_EQ(kill.domain_path, "");
  EXPECT_EQ(kill.uid, 7U);
  EXPECT_EQ(kill.oom_score_adj, -5);
  EXPECT_EQ(kill.killer, (ProcessId{174, 0}));
  EXPECT_EQ(kill.memory, (ProcessMemory{135, 8494, 524, 3, 31}));
}

TEST_F(OomLogTextTest, WithoutADumpReportsTheMessageAlone) {
  feed_killed(5, "x");
  feed_killed(6, "y", "Out of memory");
  feed_killed(7, "z", "Out of memory (oom_kill_allocating_task)");
  ASSERT_THAT(kills_, SizeIs(3));
  EXPECT_EQ(kills_[0].constraint, Constraint::memcg);
  EXPECT_EQ(kills_[1].constraint, std::nullopt);
  EXPECT_EQ(kills_[2].victim.pid, 7);
  EXPECT_EQ(kills_[0].domain_path, "");
  EXPECT_EQ(kills_[0].killer, std::nullopt);
  EXPECT_FALSE(kills_[1].with_another);
}

TEST_F(OomLogTextTest, SwapThatIsNotKnownIsNotZero) {
  record_ = {true, false, 1, {}, ""};
  record_.text =
      "Out of memory: Killed process 155 (x) total-vm:1kB, anon-rss:4kB, file-rss:0kB, "
      "shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:0";
  text_.take(record_, false, kills_);
  text_.take(record_, true, kills_);
  ASSERT_THAT(kills_, SizeIs(2));
  EXPECT_EQ(kills_[0].memory, std::nullopt);
  EXPECT_EQ(kills_[1].memory, (ProcessMemory{0, 1, 0, 0, 1}));
}

TEST_F(OomLogTextTest, MembersOfAGroupGoWithTheirFirst) {
  feed("hog invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0");
  feed(
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,"
      "task_memcg=/a/b,task=hog,pid=5,uid=0");
  feed_killed(5, "hog");
  feed("Tasks in /a/b are going to be killed due to memory.oom.group set");
  feed_killed(5, "hog");
  feed_killed(6, "other");
  feed_killed(7, "third");
  ASSERT_THAT(kills_, SizeIs(3));
  EXPECT_FALSE(kills_[0].with_another);
  for (const auto i : {1U, 2U}) {
    EXPECT_TRUE(kills_[i].with_another);
    EXPECT_EQ(kills_[i].domain_path, "/a");
    EXPECT_EQ(kills_[i].constraint, Constraint::memcg);
    EXPECT_EQ(kills_[i].path, "");
  }
  // A later one is not a member any more.
  feed("", std::chrono::seconds(1));
  feed_killed(8, "late");
  EXPECT_FALSE(kills_.back().with_another);
}

TEST_F(OomLogTextTest, ALineInPartsIsPutTogether) {
  feed("hog invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0");
  feed("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a");
  feed("a line of another program");
  feed_on(",task_memcg=/a/b");
  feed_on(",task=hog,pid=5,uid=0");
  feed_killed(5, "hog");
  ASSERT_THAT(kills_, SizeIs(1));
  EXPECT_EQ(kills_.front().path, "/a/b");
  EXPECT_EQ(kills_.front().domain_path, "/a");
}

TEST_F(OomLogTextTest, APathThatDidNotFitIsNotKnown) {
  // As on 6.18: the path is a separate part, truncated to a record.
  feed(
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,"
      "task_memcg=");
  feed_on("/a/" + std::string(1018, 'x'));
  feed_on(",task=hog,pid=5,uid=0");
  feed_killed(5, "hog");
  ASSERT_THAT(kills_, SizeIs(1));
  EXPECT_EQ(kills_.front().constraint, Constraint::memcg);
  EXPECT_EQ(kills_.front().path, "");
  EXPECT_EQ(kills_.front().domain_path, "");
}

TEST_F(OomLogTextTest, ReportsAProcessWithoutLeaderByTheLeadersPid) {
  feed(
      "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
      "task_memcg=/,task=hog,pid=5,uid=0");
  feed_killed(9, "hog", "Out of memory");
  ASSERT_THAT(kills_, SizeIs(1));
  EXPECT_EQ(kills_.front().victim.pid, 5);
}

TEST_F(OomLogTextTest, IgnoresLinesFromUserSpace) {
  record_ = *parse_kernel_log_record(
      "12,339,5140900,-;Out of memory: Killed process 1 (init) total-vm:1kB, anon-rss:1kB, "
      "file-rss:1kB, shmem-rss:1kB, UID:0 pgtables:1kB oom_score_adj:0");
  EXPECT_FALSE(record_.by_kernel);
  text_.take(record_, true, kills_);
  EXPECT_THAT(kills_, IsEmpty());
}

TEST_F(OomLogTextTest, ALossDropsPartialEvents) {
  feed(
      "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
      "task_memcg=/a,task=hog,pid=5,uid=0");
  text_.forget();
  feed_killed(6, "hog");
  ASSERT_THAT(kills_, SizeIs(1));
  EXPECT_EQ(kills_.front().path, "");
  EXPECT_EQ(kills_.front().constraint, Constraint::memcg);
}

TEST(KernelLogRecord, HeadersAndEscapes) {
  const auto record =
      parse_kernel_log_record("30,339,5140900,c,caller=T1;a\\x0ab\\x5c\\xzz\n SUBSYSTEM=x\n");
  ASSERT_TRUE(record.has_value());
  EXPECT_FALSE(record->by_kernel);
  EXPECT_TRUE(record->continues);
  EXPECT_EQ(record->sequence, 339U);
  EXPECT_EQ(record->at, std::chrono::microseconds(5140900));
  EXPECT_EQ(record->text, "a\nb\\\\xzz");
  for (const char* broken :
       {"", ";", "6;x", "6,1,2", "a,1,2,-;x", "6,-1,2,-;x", "6,1,18446744073709551615,-;x"}) {
    EXPECT_FALSE(parse_kernel_log_record(broken).has_value()) << broken;
  }
}

TEST(OomSummary, ANameThatCanBeReadInTwoWaysIsNotKnown) {
  const auto twice = parse_oom_summary(
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
      "oom_memcg=/d,task_memcg=/d/x,task_memcg=/d,task_memcg=/d/x/y,task=x,pid=5,uid=0",
      "x");
  ASSERT_TRUE(twice.has_value());
  EXPECT_EQ(twice->constraint, Constraint::memcg);
  EXPECT_EQ(twice->domain, "");
  EXPECT_EQ(twice->victim, "");
}

TEST(OomSummary, AllConstraints) {
  const auto parse = [](const std::string& word) {
    return parse_oom_summary("oom-kill:constraint=" + word +
                                 ",nodemask=0,cpuset=x,mems_allowed=0-1,global_oom,"
                                 "task_memcg=/v,task=x,pid=5,uid=0",
                             "x");
  };
  EXPECT_EQ(parse("CONSTRAINT_NONE")->constraint, Constraint::none);
  EXPECT_EQ(parse("CONSTRAINT_CPUSET")->constraint, Constraint::cpuset);
  EXPECT_EQ(parse("CONSTRAINT_MEMORY_POLICY")->constraint, Constraint::memory_policy);
  EXPECT_EQ(parse("CONSTRAINT_CPUSET")->victim, "/v");
  EXPECT_FALSE(parse("CONSTRAINT_NEW").has_value());
}

TEST(OomSummary, RenamedBetweenTheLines) {
  const auto summary = parse_oom_summary(
      "oom-kill:constraint=CONSTRAINT_NONE,nodemask=0,cpuset=x,mems_allowed=0,global_oom,"
      "task_memcg=/v,task=old,pid=5,uid=0",
      "new");
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->victim, "/v");
}

TEST(OomSummary, NotWhole) {
  EXPECT_FALSE(oom_summary_complete("oom-kill:constraint=CONSTRAINT_NONE,task=x"));
  EXPECT_FALSE(oom_summary_complete("oom-kill:constraint=CONSTRAINT_NONE,task=x,pid=1,uid="));
  EXPECT_TRUE(oom_summary_complete("oom-kill:constraint=CONSTRAINT_NONE,task=x,pid=1,uid=0"));
  EXPECT_FALSE(parse_oom_summary("oom-kill:constraint=CONSTRAINT_NONE,task=x", "x").has_value());
}

}  // namespace
}  // namespace forestall::sources
