// SPDX-License-Identifier: Apache-2.0
// cgroup.kill on cgroups that are plain files, and whose files block when they are opened.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "actuators/group_kill_call.h"
#include "actuators/ladder.h"
#include "support/child.h"
#include "support/manual_clock.h"
#include "support/small_node.h"

namespace forestall::actuators {
namespace {

int live_on() {
  for (;;) pause();
  return 0;
}

class GroupKillTest : public ::testing::Test {
 protected:
  GroupKillTest() {
    files_.set_group("/victim", 1 << 20);
    files_.write("cgroup/victim/cgroup.procs", std::to_string(child_.pid()) + "\n");
  }
  [[nodiscard]] GroupKillCall call() const {
    return {.tree = *tree_,
            .directory = std::make_shared<const kernel::CgroupDir>(tree_->open("/victim").value()),
            .path = "/victim"};
  }

  [[nodiscard]] std::string written() const {
    std::ifstream file(files_ / "cgroup/victim/cgroup.kill");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  test::SmallNode files_;
  test::Child child_{live_on};
  Result<kernel::CgroupTree> tree_ = kernel::CgroupTree::discover(files_ / "cgroup");
};

TEST_F(GroupKillTest, WritesTheFileAndOpensItsEvents) {
  files_.write("cgroup/victim/cgroup.kill", "");
  files_.write("cgroup/victim/cgroup.events", "populated 1\n");
  GroupKillCall made = call();
  const ReapReport done = made.run(7);
  EXPECT_EQ(done.ticket, 7U);
  EXPECT_EQ(done.result, ReapResult::freed);
  EXPECT_EQ(written(), "1");
  EXPECT_TRUE(made.events);
}

TEST_F(GroupKillTest, WritesNothingWithdrawnOrLate) {
  files_.write("cgroup/victim/cgroup.kill", "");
  GroupKillCall withdrawn = call();
  withdrawn.withdrawn = true;
  EXPECT_EQ(withdrawn.run(1).code, ECANCELED);
  GroupKillCall late = call();
  late.not_after = MonotonicTime{};
  EXPECT_EQ(late.run(2).code, ETIME);
  EXPECT_EQ(written(), "");
}

TEST_F(GroupKillTest, OpensOnlyTheEventsForAWatch) {
  files_.write("cgroup/victim/cgroup.kill", "");
  files_.write("cgroup/victim/cgroup.events", "populated 1\n");
  GroupKillCall made = call();
  made.kills = false;
  EXPECT_EQ(made.run(1).result, ReapResult::freed);
  EXPECT_TRUE(made.events);
  EXPECT_EQ(written(), "");
}

TEST_F(GroupKillTest, ReportsARefusalWithItsReason) {
  GroupKillCall made = call();
  const ReapReport done = made.run(1);
  EXPECT_EQ(done.result, ReapResult::failed);
  EXPECT_EQ(done.code, ENOENT);
}

// Opening these files waits until the test opens the other end, as for a kernfs lock of a tenant.
class BlockedGroupKillTest : public GroupKillTest {
 protected:
  BlockedGroupKillTest() {
    for (const char* name : {"cgroup.kill", "cgroup.events"}) {
      EXPECT_EQ(::mkfifo((files_ / ("cgroup/victim/" + std::string(name))).c_str(), 0600), 0);
    }
    LadderOptions options;
    options.usable.set();
    auto made = Ladder::create(*tree_, clock_, options);
    EXPECT_TRUE(made.ok());
    ladder_ = std::move(*made);
    WorkloadSample victim;
    victim.workload.path = "/victim";
    victim.workload.cgroup = tree_->open("/victim").value().id();
    ladder_->begin(victim);
  }
  [[nodiscard]] UniqueFd open_end(const std::string& name, int flags) const {
    return UniqueFd(::open((files_ / ("cgroup/victim/" + name)).c_str(), flags | O_CLOEXEC));
  }
  [[nodiscard]] std::optional<Outcome> wait_outcome() const {
    for (;;) {
      pollfd events{ladder_->fd(), POLLIN, 0};
      if (::poll(&events, 1, 10'000) != 1) return std::nullopt;
      ladder_->advance();
      auto outcomes = ladder_->take_outcomes();
      if (!outcomes.empty()) return std::move(outcomes.front());
    }
  }

  test::ManualClock clock_;
  std::unique_ptr<Ladder> ladder_;
};

TEST_F(BlockedGroupKillTest, TheLoopDoesNotWaitForThem) {
  EXPECT_TRUE(child_.wait_exit()) << "by its pidfd";
  files_.write("cgroup/victim/cgroup.procs", "");
  files_.write("cgroup/victim/memory.current", "0\n");
  ladder_->advance();
  EXPECT_TRUE(ladder_->take_outcomes().empty()) << "cgroup.kill is not reported yet";
  const UniqueFd killed = open_end("cgroup.kill", O_RDONLY);
  const UniqueFd events = open_end("cgroup.events", O_WRONLY);
  const std::string empty = "populated 0\n";
  EXPECT_EQ(::write(events.get(), empty.data(), empty.size()), static_cast<ssize_t>(empty.size()));
  const auto outcome = wait_outcome();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->state, KillState::released);
  EXPECT_EQ(outcome->processes, 1U);
  const auto by_group = std::ranges::find(outcome->attempts, Rung::cgroup_kill, &Attempt::rung);
  ASSERT_NE(by_group, outcome->attempts.end());
  // On a busy machine it may be too late for it.
  EXPECT_TRUE(!by_group->failure || by_group->failure->code == ETIME) << by_group->failure->text();
}

}  // namespace
}  // namespace forestall::actuators
