// SPDX-License-Identifier: Apache-2.0
// `forestall trace` from a user's view: on every tier, in every format, with and without an agent.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <utility>

#include "base/unique_fd.h"
#include "forestall/v1/event.pb.h"
#include "integration/bpf_events.h"
#include "messages/json.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/file_changes.h"
#include "support/program.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// A trace that runs during a test, with its output in a file.
class TraceRun {
 public:
  explicit TraceRun(std::vector<std::string> arguments) : out_(directory_ / "out") {
    arguments.insert(arguments.begin(),
                     {forestall_executable(), "trace", "--run-dir", directory_ / "no-agent"});
    child_.emplace([&] {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int out = ::open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      return run_program(arguments, out, -1);
    });
    // The first output comes after everything is attached.
    EXPECT_TRUE(wait([this] { return !text().empty(); })) << "the trace printed nothing";
  }

  // Waits until `there`, which reads the output, is true.
  bool wait(const std::function<bool()>& there, Duration patience = kPatience) {
    return wait_for_files(directory_.path(), child_->pidfd(), there, patience);
  }

  // Sends SIGINT and returns the exit code.
  int interrupt() {
    ::kill(child_->pid(), SIGINT);
    return finish();
  }
  int finish() {
    EXPECT_TRUE(child_->wait_exit());
    const int status = child_->reap();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  [[nodiscard]] std::string text() const {
    return ::access(out_.c_str(), F_OK) == 0 ? read_text(out_) : "";
  }
  [[nodiscard]] std::vector<v1::Event> events() const {
    std::istringstream stream(text());
    google::protobuf::io::IstreamInputStream input(&stream);
    std::vector<v1::Event> all;
    bool clean = false;
    v1::Event event;
    while (google::protobuf::util::ParseDelimitedFromZeroCopyStream(&event, &input, &clean)) {
      all.push_back(std::exchange(event, v1::Event()));  // parsing appends
    }
    EXPECT_TRUE(clean) << "cut short";
    return all;
  }

 private:
  TempTree directory_;
  std::string out_;
  std::optional<Child> child_;
};

class TraceCommand : public testing::Test {
 protected:
  void SetUp() override {
    path_ = scratch_.child("churn");
    scratch_.limit(path_, mib(24));
  }
  void churn(int times = 3) { churn_in(scratch_, path_, times); }
  void churn_in(const ScratchCgroup& scratch, const std::string& path, int times) {
    Child reader([&] {
      scratch.add(path, ::getpid());
      return cache_.read_through(times);
    });
    ASSERT_TRUE(reader.wait_exit(std::chrono::seconds(100)));
    ASSERT_EQ(reader.reap(), 0);
  }

  ScratchCgroup scratch_;
  std::string path_;
  CacheFile cache_{mib(64)};
};

const v1::Event* find(const std::vector<v1::Event>& events, v1::Event::WhatCase what) {
  const auto found = std::ranges::find(events, what, &v1::Event::what_case);
  return found == events.end() ? nullptr : &*found;
}

TEST_F(TraceCommand, ReportsReclaimOfTheRequestedCgroup) {
  TraceRun trace({"--cgroup", scratch_.path() + "/*", "--kind", "memcg-reclaim", "-o", "pb"});
  churn();
  EXPECT_EQ(trace.interrupt(), 0);
  const auto events = trace.events();
  ASSERT_GE(events.size(), 3U);
  EXPECT_TRUE(events.front().has_trace_start());
  ASSERT_TRUE(events.back().has_trace_end());
  std::uint64_t spans = 0;
  std::uint64_t reclaimed = 0;
  for (const v1::Event& each : events) {
    if (!each.has_span()) continue;
    EXPECT_EQ(each.cgroup(), path_);
    EXPECT_EQ(each.span().subject(), path_);
    EXPECT_GT(each.span().length_ns(), 0);
    ++spans;
    reclaimed += each.span().reclaimed_pages();
  }
  // How much each of them frees depends on the kernel's readahead.
  EXPECT_GT(spans, 20U);
  // 192 MiB were read through a limit of 24 MiB.
  EXPECT_GT(reclaimed, 30'000U);
  const v1::TraceEndEvent& end = events.back().trace_end();
  ASSERT_EQ(end.totals_size(), 1);
  EXPECT_EQ(end.totals(0).reported(), spans);
  EXPECT_EQ(end.totals(0).count(),
            end.totals(0).reported() + end.totals(0).passed_over() + end.totals(0).dropped());
  EXPECT_EQ(end.dropped_in_kernel(), 0U);
}

TEST_F(TraceCommand, TextHasItsColumnsAndItsTotals) {
  TraceRun trace({"--cgroup", path_, "--color", "always"});
  churn(1);
  EXPECT_EQ(trace.interrupt(), 0);
  const std::string text = trace.text();
  EXPECT_THAT(text, HasSubstr("TIME"));
  EXPECT_THAT(text, HasSubstr("memcg-reclaim"));
  EXPECT_THAT(text, HasSubstr(path_));
  EXPECT_THAT(text, HasSubstr("\x1b["));
  EXPECT_THAT(text, HasSubstr("Totals of"));
  EXPECT_THAT(text, HasSubstr("lost: 0 records in the kernel"));
}

TEST_F(TraceCommand, NoColourWithoutATerminal) {
  TraceRun trace({"--cgroup", path_, "--duration", "1ms"});
  EXPECT_EQ(trace.finish(), 0);
  EXPECT_THAT(trace.text(), Not(HasSubstr("\x1b")));
}

TEST_F(TraceCommand, JsonIsAnObjectALine) {
  TraceRun trace({"--cgroup", path_, "--kind", "reclaim", "--count", "5", "-o", "json"});
  churn();
  EXPECT_EQ(trace.finish(), 0);
  std::istringstream lines(trace.text());
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    v1::Event event;
    const auto read = messages::from_json(line, event);
    EXPECT_TRUE(read) << read.error().text() << "\n" << line;
    ++count;
  }
  EXPECT_EQ(count, 7) << "the start, five, the end";
}

TEST_F(TraceCommand, ASummaryAddsUp) {
  TraceRun trace({"--cgroup", path_, "--summary", "200ms", "--kind", "reclaim", "-o", "pb"});
  churn();
  EXPECT_EQ(trace.interrupt(), 0);
  const auto events = trace.events();
  ASSERT_FALSE(events.empty());
  ASSERT_TRUE(events.back().has_trace_end());
  std::uint64_t expected = 0;
  for (const v1::SpanTotal& total : events.back().trace_end().totals()) {
    EXPECT_EQ(total.reported(), 0U);
    expected += total.count() - total.passed_over();
  }
  std::uint64_t count = 0;
  for (const v1::Event& each : events) {
    EXPECT_FALSE(each.has_span());
    for (const v1::SpanSum& sum : each.summary().sums()) {
      EXPECT_EQ(sum.cgroup(), path_);
      std::uint64_t in_buckets = 0;
      for (const std::uint64_t bucket : sum.buckets()) in_buckets += bucket;
      EXPECT_EQ(in_buckets, sum.count());
      count += sum.count();
    }
  }
  // Includes the last window, which Ctrl-C ended.
  EXPECT_GT(count, 0U);
  EXPECT_EQ(count, expected);
}

// A removed cgroup disappears from the kernel's sums, but stays in those of one window.
TEST_F(TraceCommand, ASummaryAddsUpOfCgroupsThatComeAndGo) {
  const std::string ours = scratch_.path().substr(0, scratch_.path().rfind('-') + 1) + "*";
  TraceRun trace({"--cgroup", ours, "--summary", "100ms", "--kind", "reclaim", "-o", "pb"});
  for (int i = 0; i < 6; ++i) {
    ScratchCgroup brief;
    const std::string path = brief.child("brief");
    brief.limit(path, mib(24));
    churn_in(brief, path, 1);
  }
  EXPECT_EQ(trace.interrupt(), 0);
  const auto events = trace.events();
  ASSERT_FALSE(events.empty());
  ASSERT_TRUE(events.back().has_trace_end());
  std::uint64_t expected = 0;
  for (const v1::SpanTotal& total : events.back().trace_end().totals()) {
    expected += total.count() - total.passed_over();
  }
  std::uint64_t count = 0;
  for (const v1::Event& each : events) {
    for (const v1::SpanSum& sum : each.summary().sums()) {
      EXPECT_THAT(sum.cgroup(), HasSubstr("/brief"));
      count += sum.count();
    }
  }
  EXPECT_GT(count, 0U);
  EXPECT_EQ(count, expected);
}

// One read of the files may see more than was requested.
TEST_F(TraceCommand, ReportsNoMoreEventsThanRequested) {
  TraceRun trace(
      {"--disable-feature", "bpf", "--kind", "pressure,reclaim-count", "--count", "1", "-o", "pb"});
  const MonotonicTime until = SystemClock().now() + kPatience;
  const auto ended = [&] { return find(trace.events(), v1::Event::kTraceEnd) != nullptr; };
  do churn();
  while (!ended() && SystemClock().now() < until);
  EXPECT_EQ(trace.finish(), 0);
  const auto events = trace.events();
  ASSERT_EQ(events.size(), 3U) << "the start, one, the end";
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().trace_end().reported(), 1U);
}

TEST_F(TraceCommand, ASummaryInTextHasHistograms) {
  TraceRun trace({"--cgroup", path_, "--summary", "200ms"});
  churn();
  EXPECT_EQ(trace.interrupt(), 0);
  EXPECT_THAT(trace.text(), HasSubstr("@memcg-reclaim us:"));
  EXPECT_THAT(trace.text(), HasSubstr("|@"));
}

// Without BPF, the trace reports windows of a second instead of single reclaims, and prints that.
TEST_F(TraceCommand, TheFilesTierReportsItsLimits) {
  TraceRun trace({"--disable-feature", "bpf", "-o", "pb"});
  const MonotonicTime until = SystemClock().now() + kPatience;
  const auto counted = [&] {
    const auto events = trace.events();
    return find(events, v1::Event::kReclaimCount) != nullptr;
  };
  do churn();
  while (!counted() && SystemClock().now() < until);
  EXPECT_EQ(trace.interrupt(), 0);
  const auto events = trace.events();
  ASSERT_FALSE(events.empty());
  const v1::TraceStartEvent& start = events.front().trace_start();
  EXPECT_EQ(start.tier(), v1::DoctorReport::FILES);
  bool reported = false;
  for (const v1::TraceSight& sight : start.sights()) {
    if (sight.kind() != "memcg-reclaim") continue;
    reported = true;
    EXPECT_FALSE(sight.seen());
    EXPECT_THAT(sight.evidence(), HasSubstr("turned off"));
    EXPECT_THAT(sight.evidence(), HasSubstr("reclaim-count"));
  }
  EXPECT_TRUE(reported);
  ASSERT_NE(find(events, v1::Event::kReclaimCount), nullptr);
  EXPECT_GT(find(events, v1::Event::kReclaimCount)->reclaim_count().reclaimed_pages(), 0U);
}

TEST_F(TraceCommand, FailsIfNothingCanBeTraced) {
  const Ran ran = run_forestall({"trace", "--disable-feature", "bpf", "--kind", "kswapd,stall"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.errors, HasSubstr("no requested kind of event is available"));
  EXPECT_THAT(ran.errors, HasSubstr("kswapd: bpf is turned off"));
}

TEST_F(TraceCommand, ReportsUsageThatCrossesALine) {
  const std::string pod = scratch_.child("filled");
  scratch_.limit(pod, mib(64));
  Hog hog(scratch_, pod, mib(4));
  TraceRun trace({"--cgroup", pod, "--kind", "usage", "-o", "pb"});
  const auto reported = [&] {
    const auto events = trace.events();
    return std::ranges::any_of(events,
                               [](const v1::Event& each) { return each.usage().percent() == 75; });
  };
  hog.grow(mib(46));
  ASSERT_TRUE(hog.wait_grown());
  EXPECT_TRUE(trace.wait(reported));
  EXPECT_EQ(trace.interrupt(), 0);
  const auto events = trace.events();
  const v1::Event* usage = find(events, v1::Event::kUsage);
  ASSERT_NE(usage, nullptr);
  EXPECT_EQ(usage->usage().percent(), 50);
  EXPECT_TRUE(usage->usage().rises());
  EXPECT_EQ(usage->cgroup(), pod);
}

// Without the BPF programs, later cgroups are not reported.
TEST_F(TraceCommand, TheFilesTierFindsNewCgroups) {
  TraceRun trace({"--disable-feature", "bpf", "--cgroup", scratch_.path() + "/*", "--kind", "usage",
                  "-o", "pb"});
  const std::string late = scratch_.child("late");
  scratch_.limit(late, mib(64));
  const MonotonicTime until = SystemClock().now() + kPatience;
  const auto reported = [&] { return find(trace.events(), v1::Event::kUsage) != nullptr; };
  // Slowly, so that it is seen before it is full; repeated, in case it was seen too late.
  while (!reported() && SystemClock().now() < until) {
    Hog hog(scratch_, late, mib(4));
    hog.grow(mib(46), mib(23));
    ASSERT_TRUE(hog.wait_grown());
    (void)trace.wait(reported, std::chrono::seconds(3));
  }
  EXPECT_EQ(trace.interrupt(), 0);
  const auto events = trace.events();
  const v1::Event* usage = find(events, v1::Event::kUsage);
  ASSERT_NE(usage, nullptr);
  EXPECT_EQ(usage->cgroup(), late);
}

// Decisions of a running agent appear beside the kernel's events.
TEST_F(TraceCommand, ShowsWhatAnAgentDecides) {
  const std::string leak = scratch_.child("leak");
  scratch_.limit(scratch_.path(), mib(192));
  Hog hog(scratch_, leak, mib(8));
  AgentRun agent(fmt::format(
      "evictionHard: {{}}\npods: {{enabled: false}}\nreleaseTimeout: 20s\n"
      "watch: [{{cgroup: {0}, available: 64Mi}}]\nworkloads: [{{cgroup: {0}/leak, name: leak}}]\n",
      scratch_.path()));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  TraceRun trace({"--kind", "agent,memcg-reclaim", "--cgroup", scratch_.path(), "--socket",
                  agent.directory() / "forestall.sock", "-o", "pb"});
  hog.leak(mib(136) - scratch_.usage(scratch_.path()), mib(2));
  ASSERT_TRUE(agent.wait_kill()) << agent.process().log();
  EXPECT_TRUE(trace.wait([&] { return find(trace.events(), v1::Event::kOutcome) != nullptr; }));
  EXPECT_EQ(trace.interrupt(), 0);
  const auto events = trace.events();
  const v1::Event* decision = find(events, v1::Event::kDecision);
  ASSERT_NE(decision, nullptr);
  EXPECT_EQ(decision->decision().victim(), "leak");
  ASSERT_NE(find(events, v1::Event::kOutcome), nullptr);
  EXPECT_EQ(events.back().trace_end().dropped_by_agent(), 0U);
}

TEST(TraceCommandLine, RefusesInvalidArguments) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"trace", "--kind", "nonsense"},
        {"trace", "--min", "fast"},
        {"trace", "--cgroup", "relative"},
        {"trace", "--summary", "1ms"},
        {"trace", "--buffer", "1"},
        {"trace", "--color", "green"},
        {"trace", "-o", "xml"},
        {"trace", "--top", "0"}}) {
    const Ran ran = run_forestall(arguments);
    EXPECT_EQ(ran.exit_code, 2) << arguments[1];
    EXPECT_THAT(ran.errors, HasSubstr(arguments[1])) << ran.errors;
  }
}

// It may come later, so it is no error.
TEST(TraceCommandLine, WarnsOfAGlobWithoutACgroup) {
  const Ran ran = run_forestall({"trace", "--cgroup", "/not-here-*", "--duration", "100ms"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.errors, HasSubstr("--cgroup: no cgroup matches '/not-here-*' at present"));
  const Ran found = run_forestall({"trace", "--cgroup", "/", "--duration", "100ms"});
  EXPECT_EQ(found.exit_code, 0) << found.errors;
  EXPECT_THAT(found.errors, testing::Not(HasSubstr("no cgroup matches")));
}

}  // namespace
}  // namespace forestall::test
