// SPDX-License-Identifier: Apache-2.0
// A kill by a ruleset of systemd's ManagedOOM properties is marked for PID 1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "actuators/managed_oom_marks.h"
#include "core_on_files.h"
#include "support/child.h"
#include "support/manual_clock.h"

namespace forestall::agent {
namespace {

using std::chrono::seconds;

// Reads one cgroup that uses more than the ruleset allows.
class LargeLeaf final : public RuleSampler {
 public:
  explicit LargeLeaf(const Clock& clock) : clock_(clock) {}
  bool start(const RuleNeeds& needs) override {
    needs_ = needs;
    return true;
  }
  [[nodiscard]] std::optional<Finished> finish() override {
    rulesets::RuleObservation read;
    read.time = clock_.now().time_since_epoch();
    for (const std::string path : {"/", "/pods", "/pods/leak"}) {
      rulesets::Cgroup& cgroup = read.cgroups.emplace_back();
      cgroup.path = path;
      cgroup.id = path == "/pods/leak" ? leak : read.cgroups.size();
      cgroup.current = mib(200).count;
      cgroup.populated = true;
    }
    return Finished{needs_, read, {}};
  }
  std::uint64_t leak = 0;  // inode

 private:
  const Clock& clock_;
  RuleNeeds needs_;
};

// Keeps the marks, and whether the victim was killed before.
class FakeMarker final : public actuators::ManagedOomMarker {
 public:
  explicit FakeMarker(test::Child& victim) : victim_(victim) {}
  void announce(const Workload& victim) override {
    announced.push_back(victim.path);
    killed_before_announced = victim_.ended();
  }
  void mark(actuators::ManagedOomMark mark) override {
    killed_before = victim_.wait_exit(seconds(5));
    marks.push_back(std::move(mark));
  }
  std::vector<actuators::ManagedOomMark> marks;
  std::vector<std::string> announced;
  bool killed_before = false;
  bool killed_before_announced = false;

 private:
  test::Child& victim_;
};

class CoreManagedOom : public CoreOnFiles {
 protected:
  CoreManagedOom() : CoreOnFiles{"/pods", "/pods/leak"} {
    files_.write("cgroup/pods/leak/cgroup.procs", std::to_string(child_.pid()) + "\n");
    files_.write("cgroup/pods/leak/memory.current", std::to_string(mib(200).count) + "\n");
    files_.write("cgroup/pods/leak/memory.stat", "inactive_file 0\n");
  }
  void kill_by(const std::string& ruleset_name, bool dry_run = false) {
    rulesets::MemoryAbove usage;
    usage.cgroups = {{{"pods"}}};
    usage.threshold = {false, mib(100).count};
    rulesets::Kill kill;
    kill.cgroups = {{{"pods", "leak"}}};
    rulesets::Ruleset ruleset;
    ruleset.name = ruleset_name;
    ruleset.groups = {{"full", {{"usage", usage}}}};
    ruleset.actions = {{"kill", kill}};
    Config config;
    config.rules = std::vector{ruleset};
    config.dry_run = dry_run;
    actuators::LadderOptions options;
    options.dry_run = dry_run;
    options.usable.set(static_cast<std::size_t>(Feature::pidfd));
    open(config, clock_, options);
    sampler_.leak = tree_.open("/pods/leak").value().id().inode;
    start(Parts{.clock = clock_,
                .tree = tree_,
                .observer = *observer_,
                .ladder = *ladder_,
                .log = *log_,
                .rules = sampler_,
                .marker = marker_},
          config);
    pass(clock_, seconds(1));
    core_->rules_ready();
  }

  test::Child child_{[] {
    for (;;) pause();
    return 0;
  }};
  test::ManualClock clock_{SystemClock().now()};
  LargeLeaf sampler_{clock_};
  FakeMarker marker_{child_};
};

// PID 1 reads the first attribute when the first process exits.
TEST_F(CoreManagedOom, AKillIsAnnouncedBeforeItsSignalsAndMarkedAfterThem) {
  kill_by("ManagedOOMSwap");
  EXPECT_THAT(marker_.announced, testing::ElementsAre("/pods/leak"));
  EXPECT_FALSE(marker_.killed_before_announced);
  ASSERT_EQ(marker_.marks.size(), 1U);
  EXPECT_TRUE(marker_.killed_before);
  EXPECT_EQ(marker_.marks[0].victim.path, "/pods/leak");
  EXPECT_EQ(marker_.marks[0].victim.cgroup.inode, sampler_.leak);
  // A kernel lists no process that has exited; this file does, and each round counts it again.
  EXPECT_GE(marker_.marks[0].processes, 1U);
}

TEST_F(CoreManagedOom, AKillByAnotherRulesetIsNotMarked) {
  kill_by("own");
  EXPECT_TRUE(child_.wait_exit());
  EXPECT_TRUE(marker_.announced.empty());
  EXPECT_TRUE(marker_.marks.empty());
}

TEST_F(CoreManagedOom, ADryRunIsNotMarked) {
  kill_by("ManagedOOMSwap", /*dry_run=*/true);
  EXPECT_EQ(ladder_->progress().size(), 1U);
  EXPECT_TRUE(marker_.announced.empty());
  EXPECT_TRUE(marker_.marks.empty());
  EXPECT_FALSE(child_.ended());
}

// No process was signalled.
TEST_F(CoreManagedOom, AnAnnouncedKillThatFailsIsTakenBack) {
  files_.write("cgroup/pods/leak/cgroup.procs", std::to_string(getpid()) + "\n");
  kill_by("ManagedOOMSwap");
  EXPECT_EQ(ladder_->progress().size(), 1U);
  ASSERT_EQ(marker_.marks.size(), 1U);
  EXPECT_EQ(marker_.marks[0].processes, 0U) << "the announcement is taken back";
}

}  // namespace
}  // namespace forestall::agent
