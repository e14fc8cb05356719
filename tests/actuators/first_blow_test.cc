// SPDX-License-Identifier: Apache-2.0
#include "actuators/first_blow.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "support/child.h"

namespace forestall::actuators {
namespace {

using Listed = std::vector<kernel::ListedProcess>;

int wait_for_a_signal() {
  for (;;) ::pause();
  return 0;
}

kernel::ListedProcess listed_of(pid_t pid) {
  return {pid, kernel::read_process_stat(pid)->start_ticks};
}

std::shared_ptr<const ProtectedGroups> one_group() {
  return std::make_shared<const ProtectedGroups>(
      std::vector<ProtectedGroup>{{CgroupId{9}, "/protected", true}});
}

Workload workload_at(const std::string& path) {
  Workload workload;
  workload.cgroup = CgroupId{7};
  workload.path = path;
  return workload;
}

class FirstBlowTest : public testing::Test {
 protected:
  FirstBlowTest() {
    for (int i = 0; i < 3; ++i) children_.emplace_back(wait_for_a_signal);
    std::ranges::transform(children_, std::back_inserter(all_),
                           [](const test::Child& child) { return listed_of(child.pid()); });
    std::ranges::sort(all_, {}, &kernel::ListedProcess::pid);
  }
  // Strikes with these two lists, one after the other.
  FirstBlow strike(const Result<Listed>& before, const Result<Listed>& after) {
    bool first = true;
    const auto list = [&](CgroupId cgroup) {
      EXPECT_EQ(cgroup, CgroupId{7});
      return std::exchange(first, false) ? before : after;
    };
    return strike_first(ProcessLister(list, path_), victim_, never_kill_, clock_);
  }
  // SIGKILL ends a process before the call that sends it to the next one returns to user space, but
  // the exit may come later.
  bool was_killed(std::size_t child) {
    if (!children_[child].wait_exit()) return false;
    const int status = children_[child].reap();
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }

  Workload victim_ = workload_at("/t/victim");
  ProcessLister::Path path_;
  std::deque<test::Child> children_;
  Listed all_;
  NeverKill never_kill_ = NeverKill::of_this_process();
  SystemClock clock_;
};

TEST_F(FirstBlowTest, EndsAllThatAreListedTwice) {
  const MonotonicTime before = clock_.now();
  const FirstBlow blow = strike(all_, all_);
  ASSERT_TRUE(blow.at);
  EXPECT_GE(blow.opened, before);
  EXPECT_GE(*blow.at, blow.opened);
  EXPECT_FALSE(blow.failure);
  EXPECT_EQ(blow.reached.size(), 3U);
  EXPECT_TRUE(blow.all_may_end);
  EXPECT_EQ(blow.present.size(), 3U);
  EXPECT_TRUE(std::ranges::is_sorted(blow.present));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(was_killed(i));
}

TEST_F(FirstBlowTest, SignalsNoKnownProcessAgain) {
  const std::vector<pid_t> known{all_[1].pid};
  const FirstBlow blow = strike_first(ProcessLister([&](CgroupId) { return Result<Listed>(all_); }),
                                      victim_, never_kill_, clock_, known);
  EXPECT_EQ(blow.reached.size(), 2U);
  EXPECT_EQ(blow.present.size(), 3U);
  EXPECT_FALSE(children_[1].ended());
}

TEST_F(FirstBlowTest, IgnoresAllButTheOnlyOne) {
  const FirstBlow blow = strike_first(ProcessLister([&](CgroupId) { return Result<Listed>(all_); }),
                                      victim_, never_kill_, clock_, {}, all_[1].pid);
  EXPECT_EQ(blow.reached.size(), 1U);
  EXPECT_EQ(blow.present, std::vector<pid_t>{all_[1].pid});
  EXPECT_TRUE(was_killed(1));
  EXPECT_FALSE(children_[0].ended() || children_[2].ended());
}

TEST_F(FirstBlowTest, SparesOneThatHasLeftTheCgroup) {
  const FirstBlow blow = strike(all_, Listed{all_[0], all_[2]});
  EXPECT_EQ(blow.reached.size(), 2U);
  EXPECT_TRUE(was_killed(0) && was_killed(2));
  EXPECT_FALSE(children_[1].ended());
}

TEST_F(FirstBlowTest, SparesAProcessThatGotThePidOfAnother) {
  Listed stale = all_;
  --stale[1].start_ticks;
  const FirstBlow blow = strike(stale, stale);
  EXPECT_EQ(blow.reached.size(), 2U);
  EXPECT_TRUE(was_killed(0) && was_killed(2));
  EXPECT_FALSE(children_[1].ended());
}

TEST_F(FirstBlowTest, LeavesAProcessWithAThreadElsewhereToTheCallerWhereGroupsAreProtected) {
  all_[0].apart = true;
  never_kill_.protect(one_group());
  const FirstBlow blow = strike(all_, all_);
  EXPECT_EQ(blow.reached.size(), 2U);
  EXPECT_FALSE(blow.all_may_end);
  EXPECT_TRUE(was_killed(1) && was_killed(2));
  EXPECT_FALSE(children_[0].ended());
}

TEST_F(FirstBlowTest, EndsAProcessWithAThreadElsewhereWhereNoGroupIsProtected) {
  all_[0].apart = true;
  never_kill_.protect(std::make_shared<const ProtectedGroups>(std::vector<ProtectedGroup>()));
  EXPECT_TRUE(strike(all_, all_).all_may_end);
  EXPECT_TRUE(was_killed(0));
}

TEST_F(FirstBlowTest, SparesACgroupThatWasRenamedToAPathThatMayBeProtected) {
  never_kill_.protect(std::make_shared<const ProtectedGroups>(
      std::vector<ProtectedGroup>{{CgroupId{9}, "/t/listed", true}},
      std::vector<std::string>{"/t/k*"}));
  for (const char* path : {"/t/listed", "/t/kept"}) {
    path_ = [=] { return path; };
    EXPECT_FALSE(strike(all_, all_).at) << path;
  }
  path_ = [] { return std::nullopt; };
  EXPECT_FALSE(strike(all_, all_).at) << "not known";
  for (const test::Child& child : children_) EXPECT_FALSE(child.ended());
  path_ = [] { return "/t/other"; };
  EXPECT_TRUE(strike(all_, all_).at) << "a victim does not escape by a rename";
}

TEST_F(FirstBlowTest, EndsACgroupThatIsWhereThePolicyFoundIt) {
  never_kill_.protect(std::make_shared<const ProtectedGroups>(std::vector<ProtectedGroup>(),
                                                              std::vector<std::string>{"/t/*"}));
  path_ = [] { return "/t/victim"; };
  EXPECT_TRUE(strike(all_, all_).at) << "whatever the rules are";
}

TEST_F(FirstBlowTest, NeverEndsThisProcess) {
  const Listed with_this{listed_of(::getpid()), all_[1]};
  const FirstBlow blow = strike(with_this, with_this);
  EXPECT_EQ(blow.reached.size(), 1U);
  EXPECT_FALSE(blow.all_may_end);
  EXPECT_TRUE(was_killed(1));
}

TEST_F(FirstBlowTest, WithoutACompleteListNothingIsSignalled) {
  const Error torn{EOVERFLOW, "incomplete"};
  for (const FirstBlow& blow : {strike(torn, all_), strike(all_, torn), strike(Listed(), all_)}) {
    EXPECT_FALSE(blow.at);
    EXPECT_TRUE(blow.reached.empty());
  }
  for (const test::Child& child : children_) EXPECT_FALSE(child.ended());
}

}  // namespace
}  // namespace forestall::actuators
