// SPDX-License-Identifier: Apache-2.0
// `forestall score`: text and report of a made-up scene, and the command on this host.
#include "cli/score_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/oom_example.h"
#include "cli/pod_command_run.h"
#include "policy/oom_selection.h"

namespace forestall::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr tables::ProcessShow kNoLimit{Bytes{4096}};

cli::ScoreView example_view() {
  cli::ScoreView view;
  view.scene = example_scene();
  view.memory = gib(3);
  view.swap = Bytes{0};
  view.reading = read_by_bpf();
  for (const OomChoice& choice : policy::oom_order(view.scene)) {
    view.shown.push_back(choice.process);
  }
  view.processes = view.scene.processes.size();
  view.choosable = view.shown.size();
  return view;
}

// 128,400 points are (1000 + 128,400 * 1000 / 1,000,000) * 2 / 3 = 752 in /proc.
TEST(ScoreText, ListsAllCandidates) {
  EXPECT_EQ("\n" + score_text(example_view(), kNoLimit), R"(
An oom_score_adj of 1000 is worth 1000000 pages (3.8 GiB): 3.0 GiB of RAM and 0 B of swap.
Processes were read by BPF; the kernel scores by its approximate counters (proven).
5 processes, of which the kernel could choose 3:

  pid   name      score  points   file  anon  shmem  swap  tables  adj   cgroup
  4712  compiler  752    128400   12M   352M  0      20M   1.6M    30    /batch/nightly-build
  4711  worker    746    120400   400K  469M  0      0     1.2M    0     /batch
  700   server    550    -174290  20M   1.1G  78M    40K   2.7M    -500  /
)");
}

TEST(ScoreText, FitsTheTerminalAndReportsOmissions) {
  cli::ScoreView view = example_view();
  view.shown.pop_back();
  view.reading = {"proc", "", std::nullopt};
  view.swap.reset();
  const std::string text = score_text(view, {Bytes{4096}, 88});
  EXPECT_THAT(text, HasSubstr("3.0 GiB of RAM and an unknown amount of swap."));
  EXPECT_THAT(
      text,
      HasSubstr("Processes were read from /proc; the kernel's figures may be some pages per CPU "
                "off.\n"));
  EXPECT_THAT(text, HasSubstr("of which the kernel could choose 3; the first 2:\n"));
  EXPECT_THAT(text, HasSubstr("  30   .../nightly-build\n"));
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    if (rest.starts_with("  ")) {
      EXPECT_LE(end, 88U) << rest.substr(0, end);
    }
    rest.remove_prefix(end + 1);
  }
}

TEST(ScoreText, ShowsAllPartsOfOneProcess) {
  cli::ScoreView view = example_view();
  view.by_pid = true;
  view.shown = {3};
  EXPECT_EQ("\n" + score_text(view, kNoLimit), R"(
An oom_score_adj of 1000 is worth 1000000 pages (3.8 GiB): 3.0 GiB of RAM and 0 B of swap.
Processes were read by BPF; the kernel scores by its approximate counters (proven).

                 compiler (pid 4712)
  file           3000 pages (11.7 MiB)
  anon           90000 pages (351.6 MiB)
  shmem          0 pages (0 B)
  swap           5000 pages (19.5 MiB)
  page tables    400 pages (1.6 MiB)
  oom_score_adj  30: 30000 pages (117.2 MiB)
  points         128400 pages (501.6 MiB)
  oom_score      752
  cgroup         /batch/nightly-build
)");
}

TEST(ScoreText, WhyOneCannotBeChosen) {
  cli::ScoreView view = example_view();
  view.by_pid = true;
  view.shown = {0, 4};
  const std::string text = score_text(view, kNoLimit);
  EXPECT_THAT(text, HasSubstr("  It is not eligible, because it is pid 1.\n"));
  EXPECT_THAT(text, HasSubstr("  It is not eligible, because its oom_score_adj is -1000.\n"));
  EXPECT_THAT(text, HasSubstr("  oom_score_adj  -1000: never chosen\n  points         none\n"));
  EXPECT_THAT(text, HasSubstr("  cgroup         unknown\n"));
}

TEST(ScoreText, ReportsEarlierVictims) {
  cli::ScoreView view = example_view();
  view.by_pid = true;
  view.shown = {2};
  view.scene.processes[2].oom_victim = true;
  EXPECT_THAT(score_text(view, kNoLimit), HasSubstr("no other process is chosen until it exits"));
  view.scene.processes[2].oom_victim_reaped = true;
  EXPECT_THAT(score_text(view, kNoLimit), HasSubstr("reaped its memory; it has not exited yet"));
}

// A process may have any name, and a terminal executes escape sequences.
TEST(ScoreText, NamesCannotSteerTheTerminal) {
  cli::ScoreView view = example_view();
  view.scene.processes[2].comm = {'a', '\x1b', '[', '2', 'J', '\n', '\xc2', '\x9b', '\xff'};
  const std::string text = score_text(view, kNoLimit);
  EXPECT_THAT(text, HasSubstr("a?[2J??\xef\xbf\xbd"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(ScoreReport, HasAllFields) {
  const v1::ScoreReport report = to_report(example_view(), kNoLimit);
  EXPECT_EQ(report.total_pages(), 1'000'000);
  EXPECT_EQ(report.page_bytes(), 4096);
  EXPECT_EQ(report.process_count(), 5U);
  EXPECT_EQ(report.reading().source(), "bpf");
  EXPECT_EQ(report.reading().counting(), "counted");
  EXPECT_TRUE(report.reading().counting_proven());
  ASSERT_EQ(report.processes_size(), 3);
  const v1::ScoredProcess& first = report.processes(0);
  EXPECT_EQ(first.process().id().pid(), 4712);
  EXPECT_EQ(first.process().memory().swap_pages(), 5000);
  EXPECT_EQ(first.points(), 128'400);
  EXPECT_EQ(first.adjustment_pages(), 30'000);
  EXPECT_EQ(first.oom_score(), 752);
  EXPECT_EQ(first.cgroup(), "/batch/nightly-build");
}

TEST(Brief, FiveCharactersAtMost) {
  EXPECT_EQ(tables::brief(Bytes{0}), "0");
  EXPECT_EQ(tables::brief(Bytes{1023}), "1023");
  EXPECT_EQ(tables::brief(kib(1)), "1.0K");
  EXPECT_EQ(tables::brief(Bytes{10188}), "9.9K");
  EXPECT_EQ(tables::brief(Bytes{10189}), "10K");
  EXPECT_EQ(tables::brief(kib(999)), "999K");
  EXPECT_EQ(tables::brief(kib(1000)), "1.0M");
  EXPECT_EQ(tables::brief(mib(1536)), "1.5G");
  EXPECT_EQ(tables::brief(Bytes{-mib(3).count}), "-3.0M");
  for (std::int64_t bytes = 1; bytes > 0 && bytes < INT64_MAX / 3; bytes = bytes * 3 + 1) {
    EXPECT_LE(tables::brief(Bytes{bytes}).size(), 5U) << bytes;
  }
}

// --- the command -----------------------------------------------------------------------------

std::int64_t kernels_score(pid_t pid) {
  return std::stoll(read_text("/proc/" + std::to_string(pid) + "/oom_score"));
}

v1::ScoreReport score_of(pid_t pid, const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"score", std::to_string(pid)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  auto report = json_of<v1::ScoreReport>(arguments);
  EXPECT_EQ(report.processes_size(), 1);
  if (report.processes().empty()) report.add_processes();
  EXPECT_EQ(report.processes(0).process().id().pid(), pid);
  return report;
}

// An idle child has the score that the kernel shows. Through /proc a few pages may be missing, and
// one step of the score with them.
TEST(ScoreCommand, AgreesWithTheKernel) {
  const Child child([] {
    pause();
    return 0;
  });
  const auto by_default = score_of(child.pid(), {});
  const auto by_proc = score_of(child.pid(), {"--disable-feature", "bpf-tasks"});
  const bool bpf = by_default.reading().source() == "bpf";
  EXPECT_NEAR(static_cast<double>(by_default.processes(0).oom_score()),
              static_cast<double>(kernels_score(child.pid())), bpf ? 0 : 1);
  EXPECT_EQ(by_proc.reading().source(), "proc");
  EXPECT_NEAR(static_cast<double>(by_proc.processes(0).oom_score()),
              static_cast<double>(kernels_score(child.pid())), 1);
}

TEST(ScoreCommand, TableOfTheHighest) {
  const Ran ran = run_forestall({"score", "--limit", "3"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("; the first 3:\n"));
  const auto all = json_of<v1::ScoreReport>({"score"});
  EXPECT_GT(all.processes_size(), 3);
  for (int i = 1; i < all.processes_size(); ++i) {
    EXPECT_GE(all.processes(i - 1).points(), all.processes(i).points());
  }
  EXPECT_EQ(json_of<v1::ScoreReport>({"score", "-n", "2"}).processes_size(), 2);
}

TEST(ScoreCommand, KernelThreadsAndInitAreNeverChosen) {
  const auto report = json_of<v1::ScoreReport>({"score", "1"});
  ASSERT_EQ(report.processes_size(), 1);
  EXPECT_FALSE(report.processes(0).has_points());
  EXPECT_EQ(report.processes(0).oom_score(), 0);
  EXPECT_EQ(report.processes(0).process().unkillable(), v1::ProcessSample::INIT);
  // A pid namespace of its own has no kernel threads; VMs and hosts have them.
  if (read_text("/proc/2/comm") != "kthreadd\n") return;
  const auto thread = json_of<v1::ScoreReport>({"score", "2"});
  ASSERT_EQ(thread.processes_size(), 1);
  EXPECT_EQ(thread.processes(0).process().unkillable(), v1::ProcessSample::KERNEL_THREAD);
  EXPECT_EQ(thread.processes(0).process().name(), "kthreadd");
}

TEST(ScoreCommand, UnknownPidsAreNamed) {
  // Above the largest possible pid_max.
  const Ran ran = run_forestall({"score", "4194305", std::to_string(getpid())});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_EQ(ran.errors, "forestall score: no such process: 4194305\n");
  EXPECT_THAT(ran.output, HasSubstr("(pid " + std::to_string(getpid()) + ")"));
  const Ran alone = run_forestall({"score", "4194305"});
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_EQ(alone.output, "");
}

TEST(ScoreCommand, RefusesAnInvalidPid) {
  for (const char* bad : {"self", "0", "-3", "1.5", "99999999999"}) {
    const Ran ran = run_forestall({"score", bad});
    EXPECT_EQ(ran.exit_code, 2) << bad;
    EXPECT_EQ(ran.output, "") << bad;
  }
  EXPECT_EQ(run_forestall({"score", "--limit", "3", "1"}).exit_code, 2);
  EXPECT_EQ(run_forestall({"score", "--disable-feature", "magic"}).exit_code, 2);
}

}  // namespace
}  // namespace forestall::test
