// SPDX-License-Identifier: Apache-2.0
// A pre-ranked victim is used for a crossing only while it is still correct. The cgroup tree is
// files, the test sets the time, and every victim is a child of the test.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "core_on_files.h"
#include "held_scanner.h"
#include "support/child.h"
#include "support/record_collector.h"

namespace forestall::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A clock that a test sets while a thread reads it.
class TurnedClock final : public Clock {
 public:
  [[nodiscard]] MonotonicTime now() const override {
    const bool mine = std::this_thread::get_id() == thread_;
    if (mine && calls_until_stop > 0 && --calls_until_stop == 0) stopped();
    return from_ns(now_);
  }
  void advance(Duration by) { now_ += by.count(); }

  // Blocks the test's thread at its n-th read of the time. Reads by the watchdog's thread, which
  // come at any time, are not counted.
  mutable int calls_until_stop = 0;
  std::function<void()> stopped;

 private:
  const std::thread::id thread_ = std::this_thread::get_id();
  std::atomic<std::int64_t> now_{1'000'000'000};
};

WorkloadRule workload(const std::string& path) {
  WorkloadRule rule;
  rule.cgroup = path;
  return rule;
}

// The limit of /all is 256 MiB, the threshold lies 64 MiB from it, and the zone begins 32 MiB
// before that.
class CoreReady : public CoreOnFiles {
 protected:
  static constexpr Bytes kInZone = mib(180);
  static constexpr Bytes kCrossed = mib(200);

  CoreReady() : CoreOnFiles({}) {
    source_.reported = WakeSource::poll;
    config_.pods = false;
    config_.dry_run = true;
    config_.recheck_interval = seconds(600);
    config_.thresholds = {own_limit("/all", mib(64))};
    config_.workloads = {workload("/all/leak/crit"), workload("/all/leak"), workload("/all/calm")};
    config_.workloads[0].is_protected = true;
    config_.workloads[2].priority = 10;
    make("/all", kInZone);
    make("/all/leak", mib(150));
    make("/all/calm", mib(20));
  }

  void make(const std::string& path, Bytes usage) const {
    const bool empty = path == "/all";
    files_.write("cgroup" + path + "/cgroup.procs",
                 empty ? "" : std::to_string(child_.pid()) + "\n");
    files_.write("cgroup" + path + "/memory.stat", "inactive_file 0\n");
    files_.write("cgroup" + path + "/memory.max", std::to_string(mib(256).count) + "\n");
    use(path, usage);
  }
  void use(const std::string& path, Bytes usage) const {
    files_.write("cgroup" + path + "/memory.current", std::to_string(usage.count) + "\n");
  }

  void build() {
    actuators::LadderOptions options;
    options.dry_run = config_.dry_run;
    options.usable.set(static_cast<std::size_t>(Feature::pidfd));
    open(config_, clock_, options);
    if (!config_.dry_run) {
      auto watchdog = Watchdog::create(tree_, clock_, /*real_time=*/false);
      ASSERT_TRUE(watchdog) << watchdog.error().text();
      watchdog_ = std::move(watchdog).value();
    }
    if (scanner_) observer_->make_standby_tree();
    CoreOnFiles::start(Parts{.clock = clock_,
                             .tree = tree_,
                             .observer = *observer_,
                             .ladder = *ladder_,
                             .log = *log_,
                             .sources = {&source_},
                             .sinks = {&sink_},
                             .watchdog = watchdog_ ? *watchdog_ : none<LoopWatchdog>(),
                             .scanner = scanner_ ? *scanner_ : none<TreeScanner>(),
                             .has_cgroup_events = has_cgroup_events_},
                       config_);
  }
  void start() {
    build();
    // Until the tree has settled.
    pass(seconds(5));
    ASSERT_TRUE(core_->victim_cache().ready(clock_.now()));
    ASSERT_FALSE(core_->victim_cache().working());
  }
  void pass(Duration length) { CoreOnFiles::pass(clock_, length); }
  void after_time_passed() override {
    if (scanner_ && scanner_->over()) core_->tree_ready();
  }
  void report(WakeSource what) {
    source_.reported = what;
    core_->source_ready(source_);
  }
  void cross() {
    use("/all", kCrossed);
    use("/all/leak", mib(170));
    report(WakeSource::poll);
  }
  // The first kill; null if there is none.
  [[nodiscard]] const Record* kill() const {
    const auto found = std::ranges::find_if(
        sink_.records, [](const Record& record) { return record.decision.action == Action::kill; });
    return found == sink_.records.end() ? nullptr : &*found;
  }
  [[nodiscard]] const Record* last_kill() const {
    const auto& all = sink_.records;
    const auto found = std::find_if(all.rbegin(), all.rend(), [](const Record& record) {
      return record.decision.action == Action::kill;
    });
    return found == all.rend() ? nullptr : &*found;
  }
  [[nodiscard]] static std::string victim_of(const Record& record) {
    return record.decision.considered[*record.decision.victim()].sample.workload.path;
  }

  void expect_pre_ranked(const std::string& victim) const {
    ASSERT_NE(kill(), nullptr);
    EXPECT_TRUE(kill()->prepared);
    EXPECT_EQ(victim_of(*kill()), victim);
  }
  void expect_ranked_afresh(const std::string& victim) const {
    ASSERT_NE(kill(), nullptr);
    EXPECT_FALSE(kill()->prepared);
    EXPECT_EQ(victim_of(*kill()), victim);
  }

  test::Child child_{[] {
    for (;;) pause();
    return 0;
  }};
  TurnedClock clock_;
  Config config_;
  bool has_cgroup_events_ = true;
  FakeSource source_{Feature::bpf_cgroups};
  test::RecordCollector sink_;
  std::unique_ptr<Watchdog> watchdog_;
  std::optional<HeldScanner> scanner_;
};

TEST_F(CoreReady, UsesThePreRankedVictim) {
  start();
  cross();
  expect_pre_ranked("/all/leak");
}

// inotify may cause a rescan before the kernel's event of the same cgroup is read.
TEST_F(CoreReady, AnEventOlderThanTheListingLeavesTheListInUse) {
  start();
  source_.at = clock_.now();
  clock_.advance(milliseconds(1));
  core_->reload(config_);
  pass(milliseconds(50));
  report(WakeSource::workload_change);
  cross();
  ASSERT_NE(kill(), nullptr);
  EXPECT_TRUE(kill()->prepared);
}

// Killing this workload would kill the protected one with it.
TEST_F(CoreReady, NewProtectedCgroupIsKnownAtTheCrossing) {
  start();
  make("/all/x", mib(1));
  report(WakeSource::workload_change);  // the tree is walked for it
  clock_.advance(milliseconds(20));
  make("/all/leak/crit", mib(1));
  report(WakeSource::workload_change);  // too soon for another walk
  cross();
  expect_ranked_afresh("/all/calm");
}

// As on a host without BPF, where nothing wakes the loop for a new cgroup.
TEST_F(CoreReady, ANewWorkloadThatNoSourceReportsIsKnownAtTheCrossing) {
  has_cgroup_events_ = false;
  config_.workloads.push_back(workload("/all/late/*"));
  start();
  make("/all/late/x", mib(160));
  use("/all/leak", mib(20));
  use("/all", kCrossed);
  report(WakeSource::poll);
  expect_ranked_afresh("/all/late/x");
}

TEST_F(CoreReady, AListFromBeforeTheWorkloadsChangedIsNotUsed) {
  start();
  make("/all/leak/crit", mib(1));
  report(WakeSource::workload_change);
  EXPECT_FALSE(core_->victim_cache().ready(clock_.now())) << "sampled again, which takes its time";
  cross();
  expect_ranked_afresh("/all/calm");
}

// A recheck may find that the zone was entered; then the state is no longer calm.
TEST_F(CoreReady, GrowthBeforeTheZoneCounts) {
  config_.ranking = Ranking::kubelet_growth;
  use("/all", mib(100));
  use("/all/leak", mib(70));
  build();
  use("/all", kInZone);
  use("/all/leak", mib(150));
  pass(milliseconds(200));  // a recheck, and the pre-ranking
  ASSERT_EQ(core_->victim_cache().generation(), 1u);
  const Candidate& first = core_->victim_cache().subjects()[0].first[0];
  EXPECT_EQ(first.sample.workload.path, "/all/leak");
  EXPECT_EQ(first.sample.growth, mib(80));
}

// As for a pre-ranking in the middle of a burst: the workload that grew most would show no growth
// since.
TEST_F(CoreReady, ABurstIntoTheZoneIsCountedFromTheCalmBeforeIt) {
  config_.ranking = Ranking::kubelet_growth;
  use("/all", mib(100));
  use("/all/leak", mib(70));
  build();
  use("/all", kInZone);  // of 32 MiB, 12 are left
  use("/all/leak", mib(150));
  pass(seconds(5));
  use("/all", mib(187));
  pass(seconds(5));
  ASSERT_GT(core_->victim_cache().generation(), 1u);
  EXPECT_EQ(core_->victim_cache().subjects()[0].first[0].sample.growth, mib(80));
}

TEST_F(CoreReady, AReloadInTheZoneLeavesGrowthAsItIs) {
  use("/all", mib(161));
  start();
  use("/all", kInZone);
  use("/all/leak", mib(170));
  core_->reload(config_);
  pass(seconds(1));
  ASSERT_TRUE(core_->victim_cache().ready(clock_.now()));
  EXPECT_EQ(core_->victim_cache().subjects()[0].first[0].sample.growth, mib(20));
}

// What a pre-ranked kill did not read keeps its value.
TEST_F(CoreReady, PreRankedKillRepeatsNoOwnLimitWarning) {
  Threshold own = config_.thresholds[0];
  own.cgroup = "/all/calm";
  own.limit = Limit::bytes(mib(250));
  own.response = Response::warn;
  config_.thresholds.push_back(own);
  testing::internal::CaptureStderr();
  log_.emplace(exports::Log::Stream::standard_error, true, exports::LogLevel::info);
  start();
  cross();
  core_.reset();
  log_.reset();
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_NE(kill(), nullptr);
  EXPECT_TRUE(kill()->prepared);
  const std::size_t reported = log.find("own-limit-near");
  ASSERT_NE(reported, std::string::npos) << log;
  EXPECT_EQ(log.find("own-limit-near", reported + 1), std::string::npos) << log;
  EXPECT_EQ(log.find("own-limit-receded"), std::string::npos) << log;
}

// If no process is left to kill, the thread reports nothing.
TEST_F(CoreReady, LoopEvaluatesAgainSoonAfterAWatchdogKill) {
  config_.dry_run = false;
  start();
  pass(core_->next_due() - clock_.now());  // the next one is at least a second away
  bool shot = false;
  clock_.stopped = [&] {
    pollfd fired{watchdog_->fd(), POLLIN, 0};
    for (int turn = 0; turn < 1000 && !shot; ++turn) {
      if (turn < 10) clock_.advance(milliseconds(50));
      shot = ::poll(&fired, 1, 50) > 0;
    }
  };
  // Twice in source_ready(), and then in evaluate(), right after it found no kill to take.
  clock_.calls_until_stop = 3;
  cross();
  ASSERT_TRUE(shot);
  EXPECT_TRUE(child_.wait_exit());
  EXPECT_EQ(kill(), nullptr) << "the thread's kill, not reported yet";
  const Duration until_next = core_->next_due() - clock_.now();
  EXPECT_GT(until_next, Duration::zero()) << "nothing else is due";
  EXPECT_LE(until_next, milliseconds(10));
}

// The victim's memory stays, so its kill stays in flight until the release timeout.
TEST_F(CoreReady, MakesNoListWhileAKillIsInFlight) {
  config_.dry_run = false;
  start();
  const std::uint64_t before = core_->victim_cache().generation();
  cross();
  ASSERT_NE(kill(), nullptr);
  use("/all", kInZone);
  report(WakeSource::poll);
  pass(milliseconds(300));
  ASSERT_EQ(ladder_->progress().front().state, KillState::in_flight);
  EXPECT_FALSE(core_->victim_cache().working());
  EXPECT_EQ(core_->victim_cache().generation(), before);
  pass(seconds(3));
  ASSERT_NE(ladder_->progress().front().state, KillState::in_flight);
  EXPECT_GT(core_->victim_cache().generation(), before);
}

// The last list is younger than a second, and the headroom has not halved.
TEST_F(CoreReady, MakesAListAsSoonAsAKillHasEnded) {
  config_.dry_run = false;
  start();
  use("/all", mib(186));
  pass(milliseconds(100));  // the headroom has halved: another list
  const std::uint64_t before = core_->victim_cache().generation();
  cross();
  ASSERT_NE(kill(), nullptr);
  use("/all/leak", mib(10));
  use("/all", kInZone);
  report(WakeSource::poll);
  ASSERT_EQ(ladder_->progress().front().state, KillState::in_flight);
  EXPECT_EQ(core_->victim_cache().generation(), before);
  pass(milliseconds(600));
  ASSERT_EQ(ladder_->progress().front().state, KillState::released);
  EXPECT_GT(core_->victim_cache().generation(), before);
}

TEST_F(CoreReady, ProgressOfAKillThatChangesNoStateIsEvaluatedOnceIn10Ms) {
  config_.dry_run = false;
  start();
  cross();
  ASSERT_NE(kill(), nullptr);
  const std::uint64_t before = core_->evaluations();
  for (int i = 0; i < 5; ++i) core_->ladder_ready();
  EXPECT_EQ(core_->evaluations(), before);
  clock_.advance(milliseconds(10));
  for (int i = 0; i < 5; ++i) core_->ladder_ready();
  EXPECT_EQ(core_->evaluations(), before + 1);
}

// memory.stat of the workloads that stand still is not read again within a second.
TEST_F(CoreReady, AFurtherVictimIsSelectedOnFreshUsage) {
  config_.workloads.push_back(workload("/all/late"));
  make("/all/late", mib(1));
  start();
  use("/all", mib(186));
  pass(milliseconds(100));  // the headroom has halved: another list
  cross();
  ASSERT_NE(kill(), nullptr);
  use("/all", mib(250));
  use("/all/leak", mib(10));  // so its kill has freed its memory
  use("/all/late", mib(60));
  files_.write("cgroup/all/late/memory.stat", "inactive_file 4096\n");
  files_.write("cgroup/all/calm/memory.stat", "inactive_file 4096\n");
  pass(milliseconds(600));
  ASSERT_NE(last_kill(), nullptr);
  EXPECT_EQ(victim_of(*last_kill()), "/all/late");
  EXPECT_FALSE(last_kill()->prepared) << "all were read again";
  const auto sample_of = [&](const std::string& path) {
    for (const Candidate& each : last_kill()->decision.considered) {
      if (each.sample.workload.path == path) return each.sample;
    }
    return WorkloadSample();
  };
  EXPECT_EQ(sample_of("/all/late").usage, mib(60));
  EXPECT_EQ(sample_of("/all/late").inactive_file, Bytes{4096}) << "it moved";
  EXPECT_EQ(sample_of("/all/calm").usage, mib(20));
  EXPECT_EQ(sample_of("/all/calm").inactive_file, Bytes{0}) << "it stands still";
}

// A change was reported, and the scan for it runs.
class CoreReadyDuringAScan : public CoreReady {
 protected:
  CoreReadyDuringAScan() {
    scanner_.emplace();
    config_.workloads.push_back(workload("/all/late"));
    start();
    scanner_->held = true;
    make("/all/other", mib(1));
    report(WakeSource::workload_change);
    EXPECT_TRUE(scanner_->running());
  }
  [[nodiscard]] std::size_t known() const { return observer_->workload_count(); }
};

TEST_F(CoreReadyDuringAScan, AKillThatNoNewWorkloadCanChangeNeedsNoListing) {
  make("/all/late", mib(1));
  cross();
  ASSERT_NE(kill(), nullptr);
  EXPECT_EQ(victim_of(*kill()), "/all/leak");
  EXPECT_EQ(known(), 2U) << "the loop listed the tree";
}

TEST_F(CoreReadyDuringAScan, NewProtectedCgroupInTheVictimIsFound) {
  make("/all/leak/crit", mib(1));
  cross();
  ASSERT_NE(kill(), nullptr);
  EXPECT_EQ(victim_of(*kill()), "/all/calm");
}

TEST_F(CoreReadyDuringAScan, NewWorkloadThatMayHoldTheMemoryIsFound) {
  make("/all/late", mib(160));
  use("/all/leak", mib(20));
  use("/all", kCrossed);
  report(WakeSource::poll);
  ASSERT_NE(kill(), nullptr);
  EXPECT_EQ(victim_of(*kill()), "/all/late");
}

// Regression: after half a second the loop listed the tree itself, and waited for the lock that the
// scan waited for.
TEST_F(CoreReadyDuringAScan, AKillDoesNotWaitForAScanThatIsHeldUp) {
  make("/all/late", mib(1));
  clock_.advance(seconds(9));
  cross();
  ASSERT_NE(kill(), nullptr);
  EXPECT_EQ(victim_of(*kill()), "/all/leak");
  EXPECT_EQ(known(), 2U) << "the loop listed the tree";
}

TEST_F(CoreReadyDuringAScan, TreeThatLacksAChangeForTenSecondsIsListed) {
  make("/all/late", mib(1));
  clock_.advance(milliseconds(10'001));
  cross();
  ASSERT_NE(kill(), nullptr);
  EXPECT_EQ(known(), 3U);
  // The scan began before, and found less.
  scanner_->held = false;
  core_->tree_ready();
  EXPECT_EQ(known(), 3U);
}

// The tree in use has what the standby tree could not list.
TEST_F(CoreReadyDuringAScan, AScanThatCouldNotListAllIsNotUsed) {
  scanner_->held = false;
  core_->tree_ready();
  ASSERT_EQ(known(), 2U);
  scanner_->without_descriptors = true;
  make("/all/late", mib(1));
  report(WakeSource::workload_change);
  pass(milliseconds(200));
  EXPECT_EQ(known(), 3U) << "the loop listed the tree";
}

TEST_F(CoreReadyDuringAScan, ItsResultIsUsed) {
  make("/all/late", mib(1));
  scanner_->held = false;
  core_->tree_ready();
  EXPECT_EQ(known(), 2U) << "it had come later";
  report(WakeSource::workload_change);
  pass(milliseconds(200));
  EXPECT_EQ(known(), 3U);
}

// More workloads than the cache holds.
class CoreReadyAmongMany : public CoreReady {
 protected:
  CoreReadyAmongMany() {
    for (int i = 0; i < 10; ++i) {
      const std::string path = "/all/w" + std::to_string(i);
      config_.workloads.push_back(workload(path));
      make(path, mib(4));
    }
    config_.workloads.push_back(workload("/all/late"));
    make("/all/late", mib(1));
    make("/all/leak", mib(60));
    start();
  }
};

TEST_F(CoreReadyAmongMany, KillsACachedWorkloadThatGrewAtOnce) {
  use("/all/leak", mib(105));
  use("/all", mib(225));
  report(WakeSource::poll);
  expect_pre_ranked("/all/leak");
}

TEST_F(CoreReadyAmongMany, KillsAtOnceIfNoOtherCanBeFirst) {
  use("/all/late", mib(31));
  use("/all", mib(210));
  report(WakeSource::poll);
  expect_pre_ranked("/all/leak");
}

TEST_F(CoreReadyAmongMany, FindsAnUncachedWorkloadThatPassedAll) {
  use("/all/late", mib(66));
  use("/all", mib(245));
  report(WakeSource::poll);
  expect_ranked_afresh("/all/late");
}

// At its own limit, a workload replaces its page cache while its usage stands still.
TEST_F(CoreReadyAmongMany, TheFirstKillIsDecidedOnMemoryStatAsItIs) {
  use("/all", mib(186));
  pass(milliseconds(100));  // the headroom has halved: another list
  files_.write("cgroup/all/w0/memory.stat", "inactive_file 4096\n");
  use("/all/late", mib(66));
  use("/all", mib(245));
  report(WakeSource::poll);
  expect_ranked_afresh("/all/late");
  const auto& considered = kill()->decision.considered;
  const auto w0 = std::ranges::find(
      considered, "/all/w0", [](const Candidate& each) { return each.sample.workload.path; });
  ASSERT_NE(w0, considered.end());
  EXPECT_EQ(w0->sample.inactive_file, Bytes{4096});
}

// A pre-ranking that took 100 ms is followed by five seconds without one, unless the remaining
// memory halves.
TEST_F(CoreReady, LimitsTheCostOfPreRanking) {
  start();
  GrowthWatch growth(clock_, *observer_);
  exports::LoopWorkTally work;
  VictimCache victim_cache(clock_, *observer_, *ladder_, growth, work);
  std::vector<Line> lines(1);
  lines[0].path = "/";
  lines[0].margin = mib(32);
  lines[0].headroom = mib(20);
  MonotonicTime now = clock_.now();
  victim_cache.note(lines, now);
  ASSERT_TRUE(victim_cache.working());
  now += milliseconds(100);
  while (victim_cache.working()) victim_cache.work(config_, {}, now);
  lines[0].headroom = mib(17);
  victim_cache.note(lines, now + seconds(2));
  EXPECT_FALSE(victim_cache.working());
  EXPECT_TRUE(victim_cache.next_due());
  victim_cache.note(lines, now + seconds(5));
  EXPECT_TRUE(victim_cache.working());
  now += seconds(5) + milliseconds(100);
  while (victim_cache.working()) victim_cache.work(config_, {}, now);
  lines[0].headroom = mib(8);
  victim_cache.note(lines, now + milliseconds(1));
  EXPECT_TRUE(victim_cache.working());
}

}  // namespace
}  // namespace forestall::agent
