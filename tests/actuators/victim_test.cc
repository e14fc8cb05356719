// SPDX-License-Identifier: Apache-2.0
// The state and times of a kill, on cgroups that are plain files and with a manual clock. Kills no
// process: the files list only init and this process.
#include "actuators/victim.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "support/child.h"
#include "support/manual_clock.h"
#include "support/temp_tree.h"

namespace forestall::actuators {
namespace {

using test::ManualClock;
using test::TempTree;

class LadderMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override { make_ladder({}); }

  void make_ladder(LadderOptions options) {
    options.usable.set();
    auto ladder = Ladder::create(*cgroups_, clock_, options);
    ASSERT_TRUE(ladder.ok()) << ladder.error().text();
    ladder_ = std::move(*ladder);
  }
  [[nodiscard]] WorkloadSample rank() const {
    WorkloadSample sample;
    sample.workload.path = "/victim";
    sample.workload.cgroup = cgroups_->open("/victim").value().id();
    return sample;
  }

  // The ladder gets this cgroup for every victim.
  void hold(const std::string& path) {
    auto directory = cgroups_->open(path);
    ASSERT_TRUE(directory.ok()) << directory.error().text();
    auto usage = kernel::HeldFile::open(directory->fd(), "memory.usage_in_bytes", "usage");
    ASSERT_TRUE(usage.ok()) << usage.error().text();
    const kernel::HeldCgroup held{std::make_shared<const kernel::CgroupDir>(std::move(*directory)),
                                  std::make_shared<const kernel::HeldFile>(std::move(*usage))};
    ladder_->take_cgroups_from([held](CgroupId) { return held; });
  }
  void rename(const std::string& from, const std::string& to) {
    std::filesystem::rename(tree_.path() / from, tree_.path() / to);
  }

  // The victim has one process, and the ladder sends no signals.
  void begin_dry_run_with_a_process() {
    ladder_->set_options({.dry_run = true, .usable = FeatureSet().set()});
    process_.emplace([] {
      for (;;) pause();
      return 0;
    });
    tree_.write("memory/victim/cgroup.procs", std::to_string(process_->pid()) + "\n");
  }

  TempTree tree_{{"memory/memory.stat", ""},
                 {"memory/victim/cgroup.procs", "1\n" + std::to_string(getpid()) + "\n"},
                 {"memory/victim/memory.usage_in_bytes", "1048576\n"}};
  ManualClock clock_;
  Result<kernel::CgroupTree> cgroups_ = kernel::CgroupTree::discover(tree_.path().string());
  std::unique_ptr<Ladder> ladder_;
  std::optional<test::Child> process_;
};

TEST_F(LadderMemoryTest, AVictimOfInitAndOurselvesFailsAndIsForgottenAfterHalfAMinute) {
  ladder_->begin(rank());
  const auto outcomes = ladder_->take_outcomes();
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].state, KillState::failed);
  EXPECT_EQ(outcomes[0].processes, 0U);
  EXPECT_EQ(outcomes[0].usage_before, mib(1));
  EXPECT_EQ(outcomes[0].freed, Bytes{0});
  EXPECT_EQ(outcomes[0].attempts.back().rung, Rung::pidfds);
  EXPECT_TRUE(outcomes[0].attempts.back().failure);

  ASSERT_EQ(ladder_->progress().size(), 1U);
  EXPECT_EQ(ladder_->progress()[0].state, KillState::failed);
  EXPECT_EQ(ladder_->next_due(), clock_.now() + kForgetAfter);
  clock_.advance(kForgetAfter - Duration(1));
  ladder_->advance();
  EXPECT_EQ(ladder_->progress().size(), 1U);
  clock_.advance(Duration(1));
  ladder_->advance();
  EXPECT_TRUE(ladder_->progress().empty());
  EXPECT_FALSE(ladder_->next_due());
  EXPECT_TRUE(ladder_->take_outcomes().empty()) << "each outcome is returned once";
}

TEST_F(LadderMemoryTest, ADryRunIsRememberedAsLongAndHasOneOutcome) {
  ladder_->set_options({.dry_run = true, .usable = FeatureSet().set()});
  tree_.write("memory/victim/cgroup.procs", std::to_string(getpid()) + "\n");
  ladder_->begin(rank());
  auto outcomes = ladder_->take_outcomes();
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_TRUE(outcomes[0].dry_run);
  EXPECT_EQ(outcomes[0].state, KillState::failed) << "a dry run finds out that it would fail";
  clock_.advance(kForgetAfter);
  ladder_->advance();
  EXPECT_TRUE(ladder_->progress().empty());
}

// Regression: a dry run was credited with no memory, so the policy chose candidate after candidate.
TEST_F(LadderMemoryTest, ADryRunKeepsItsCreditInWorkingSetForHalfAMinute) {
  begin_dry_run_with_a_process();
  auto victim = rank();
  victim.inactive_file = kib(256);
  ladder_->begin(victim);
  const auto outcomes = ladder_->take_outcomes();
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].state, KillState::in_flight);
  // Less usage does not count while the victim has most of its memory: nothing was taken from it.
  tree_.write("memory/victim/memory.usage_in_bytes", "786432\n");
  clock_.advance(kForgetAfter - Duration(1));
  ladder_->advance();
  ASSERT_EQ(ladder_->progress().size(), 1U);
  EXPECT_EQ(ladder_->progress()[0].state, KillState::in_flight);
  EXPECT_EQ(ladder_->progress()[0].remaining, kib(768));
  clock_.advance(Duration(1));
  ladder_->advance();
  EXPECT_TRUE(ladder_->progress().empty());
  EXPECT_TRUE(ladder_->take_outcomes().empty());
  EXPECT_FALSE(process_->ended());
}

TEST_F(LadderMemoryTest, OpensNoUsageFileOfACgroupThatIsHeld) {
  begin_dry_run_with_a_process();
  hold("/victim");
  std::filesystem::remove(tree_.path() / "memory/victim/memory.usage_in_bytes");
  ladder_->begin(rank());
  const auto outcomes = ladder_->take_outcomes();
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].state, KillState::in_flight);
  EXPECT_EQ(outcomes[0].usage_before, mib(1)) << "read by the held file";
}

// Its new path may be a protected one.
TEST_F(LadderMemoryTest, AHeldCgroupThatWasRenamedFails) {
  begin_dry_run_with_a_process();
  const WorkloadSample victim = rank();
  hold("/victim");
  rename("memory/victim", "memory/renamed");
  ladder_->begin(victim);
  const auto outcomes = ladder_->take_outcomes();
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].state, KillState::failed);
  ASSERT_TRUE(outcomes[0].attempts[0].failure);
  EXPECT_EQ(outcomes[0].attempts[0].rung, Rung::verify);
}

TEST_F(LadderMemoryTest, UsesNoHeldCgroupThatIsAnother) {
  begin_dry_run_with_a_process();
  const WorkloadSample victim = rank();
  tree_.write("memory/other/memory.usage_in_bytes", "1\n");
  hold("/other");
  rename("memory/victim", "memory/renamed");
  ladder_->begin(victim);
  const auto outcomes = ladder_->take_outcomes();
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].state, KillState::failed);
  ASSERT_TRUE(outcomes[0].attempts[0].failure);
  EXPECT_EQ(outcomes[0].attempts[0].rung, Rung::verify);
  EXPECT_EQ(outcomes[0].attempts[0].failure->code, ENOENT);
}

TEST_F(LadderMemoryTest, AHeldCgroupThatWasRemovedFailsAndIsForgotten) {
  const WorkloadSample victim = rank();
  hold("/victim");
  std::filesystem::remove_all(tree_.path() / "memory/victim");
  ladder_->begin(victim);
  const auto outcomes = ladder_->take_outcomes();
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].state, KillState::failed);
  EXPECT_EQ(outcomes[0].freed, Bytes{0});
  EXPECT_FALSE(outcomes[0].signalled);
  EXPECT_TRUE(ladder_->progress().empty());
}

TEST_F(LadderMemoryTest, DryRunCreditsNothingForInactiveFilePages) {
  begin_dry_run_with_a_process();
  auto victim = rank();
  victim.inactive_file = mib(2);
  ladder_->begin(victim);
  ASSERT_EQ(ladder_->progress().size(), 1U);
  EXPECT_EQ(ladder_->progress()[0].remaining, Bytes{0});
}

TEST_F(LadderMemoryTest, AFailedKillMayBeTriedAgain) {
  ladder_->begin(rank());
  ladder_->begin(rank());
  EXPECT_EQ(ladder_->take_outcomes().size(), 2U);
  EXPECT_EQ(ladder_->progress().size(), 1U);
}

TEST_F(LadderMemoryTest, NoUsableRungIsAFailureWithAMessage) {
  ladder_->set_options({});
  ladder_->begin(rank());
  const auto outcomes = ladder_->take_outcomes();
  ASSERT_EQ(outcomes.size(), 1U);
  ASSERT_TRUE(outcomes[0].attempts[0].failure);
  EXPECT_EQ(outcomes[0].attempts[0].failure->code, ENOSYS);
}

// A victim whose memory is reclaimed after its exit by a write that does not end.
class LadderReclaimTest : public LadderMemoryTest {
 protected:
  void SetUp() override {
    LadderOptions options;
    options.usable.set(static_cast<std::size_t>(Feature::pidfd));
    auto ladder = Ladder::create(*cgroups_, clock_, options);
    ASSERT_TRUE(ladder.ok()) << ladder.error().text();
    ladder_ = std::move(*ladder);
    const std::string file = tree_ / "memory/victim/memory.force_empty";
    ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
    full_ = UniqueFd(open(file.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    const std::vector<char> all(static_cast<std::size_t>(fcntl(full_.get(), F_GETPIPE_SZ)));
    ASSERT_EQ(write(full_.get(), all.data(), all.size()), static_cast<ssize_t>(all.size()));
    list(std::to_string(child_.pid()));
    use(mib(100));
    ladder_->begin(rank());
    ASSERT_TRUE(child_.wait_exit());
    list("");
    use(mib(90));
    ladder_->advance();
  }
  void list(const std::string& processes) {
    tree_.write("memory/victim/cgroup.procs", processes.empty() ? "" : processes + "\n");
  }
  void use(Bytes usage) {
    tree_.write("memory/victim/memory.usage_in_bytes", std::to_string(usage.count) + "\n");
  }
  static int live() {
    for (;;) pause();
    return 0;
  }

  test::Child child_{live};
  UniqueFd full_;
};

TEST_F(LadderReclaimTest, EndsTheKillInTimeAlthoughItFreesALittleAllTheTime) {
  const MonotonicTime exited = clock_.now();
  Bytes usage = mib(90);
  std::vector<Outcome> outcomes;
  while (outcomes.empty() && usage > mib(20)) {
    clock_.advance(std::chrono::milliseconds(400));
    usage = usage - mib(2);
    use(usage);
    ladder_->advance();
    outcomes = ladder_->take_outcomes();
  }
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].state, KillState::released);
  EXPECT_EQ(outcomes[0].exited, exited);
  EXPECT_GT(clock_.now() - exited, std::chrono::seconds(2)) << "steps extend it";
  EXPECT_LE(clock_.now() - exited, std::chrono::milliseconds(4'400));
}

TEST_F(LadderReclaimTest, SparesProcessesThatCameAfterTheVictimsExit) {
  const test::Child newcomer(live);
  list(std::to_string(newcomer.pid()));
  clock_.advance(std::chrono::milliseconds(100));
  ladder_->advance();
  ASSERT_EQ(ladder_->progress()[0].state, KillState::in_flight);
  clock_.advance(std::chrono::seconds(5));
  ladder_->advance();
  const auto outcomes = ladder_->take_outcomes();
  ASSERT_EQ(outcomes.size(), 1U);
  const auto sent = std::ranges::find(outcomes[0].attempts, Rung::sigkill, &Attempt::rung);
  ASSERT_NE(sent, outcomes[0].attempts.end());
  EXPECT_EQ(sent->at, outcomes[0].began) << "no signal later";
  EXPECT_FALSE(newcomer.ended());
}

TEST(EventKeyTest, PacksAndUnpacks) {
  for (const EventKey key : {EventKey{0, 0}, EventKey{1, 0}, EventKey{7, EventKey::kCgroupEvents},
                             EventKey{UINT32_MAX, 5}}) {
    EXPECT_EQ(EventKey::unpack(key.pack()).victim, key.victim);
    EXPECT_EQ(EventKey::unpack(key.pack()).index, key.index);
  }
}

}  // namespace
}  // namespace forestall::actuators
