// SPDX-License-Identifier: Apache-2.0
// Pins on a thread that a tenant's cgroup blocks: on cgroups that are plain files, with a pipe as
// the list of processes that cannot be read yet.
#include "actuators/pinned_victims.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"
#include "support/child.h"
#include "support/temp_tree.h"

namespace forestall::actuators {
namespace {

class PinnedVictimsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string pid = std::to_string(process_.pid()) + "\n";
    for (const char* name : {"first", "second"}) {
      tree_.write("memory/" + std::string(name) + "/cgroup.procs", pid);
    }
    tree_.write("memory/blocked/memory.usage_in_bytes", "0\n");
    pipe_ = (tree_.path() / "memory/blocked/cgroup.procs").string();
    ASSERT_EQ(::mkfifo(pipe_.c_str(), 0600), 0);
    auto made = PinnedVictims::create(*cgroups_);
    ASSERT_TRUE(made) << made.error().text();
    victims_ = std::move(made).value();
  }
  [[nodiscard]] CgroupId id(const std::string& name) const {
    return cgroups_->open("/" + name).value().id();
  }
  void pin(const std::string& name) {
    Workload workload;
    workload.path = "/" + name;
    workload.cgroup = id(name);
    victims_->pin({workload}, never_kill_);
  }
  // Waits until the thread has done something.
  [[nodiscard]] bool collect() {
    pollfd done{victims_->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&done, 1, -1), 1);
    return victims_->collect();
  }
  // Waits until the thread reads the blocked list, and lets it go on.
  void unblock() const { EXPECT_TRUE(UniqueFd(::open(pipe_.c_str(), O_WRONLY | O_CLOEXEC))); }

  test::Child process_{[] {
    for (;;) pause();
    return 0;
  }};
  test::TempTree tree_{{"memory/memory.stat", ""}};
  Result<kernel::CgroupTree> cgroups_ = kernel::CgroupTree::discover(tree_.path().string());
  const NeverKill never_kill_ = NeverKill::of_this_process();
  std::string pipe_;
  std::unique_ptr<PinnedVictims> victims_;
};

TEST_F(PinnedVictimsTest, WhileAListIsBlockedTheLastPinsServe) {
  pin("first");
  EXPECT_TRUE(victims_->pinning());
  ASSERT_TRUE(collect());
  EXPECT_FALSE(victims_->pinning());
  ASSERT_NE(victims_->of(id("first")), nullptr);
  EXPECT_EQ(victims_->of(id("first"))->processes().size(), 1U);
  pin("blocked");
  EXPECT_TRUE(victims_->pinning());
  EXPECT_FALSE(victims_->collect());
  EXPECT_NE(victims_->of(id("first")), nullptr);
  unblock();
  EXPECT_TRUE(collect());
  EXPECT_EQ(victims_->of(id("first")), nullptr);
  EXPECT_NE(victims_->of(id("blocked")), nullptr);
}

TEST_F(PinnedVictimsTest, OfTheRequestsThatWaitTheLastOneIsServed) {
  pin("blocked");
  pin("first");
  pin("second");
  unblock();
  EXPECT_TRUE(collect());
  EXPECT_TRUE(victims_->pinning()) << "another request has begun";
  EXPECT_NE(victims_->of(id("blocked")), nullptr) << "of use until then";
  EXPECT_TRUE(collect());
  EXPECT_NE(victims_->of(id("second")), nullptr);
  EXPECT_EQ(victims_->of(id("first")), nullptr);
  EXPECT_EQ(victims_->of(id("blocked")), nullptr);
}

TEST_F(PinnedVictimsTest, WhatWasReleasedMeanwhileIsNotKept) {
  pin("blocked");
  pin("first");
  victims_->release();
  EXPECT_FALSE(victims_->pinning());
  unblock();
  EXPECT_FALSE(collect());
  EXPECT_EQ(victims_->of(id("blocked")), nullptr);
  EXPECT_EQ(victims_->of(id("first")), nullptr);
  pin("second");
  EXPECT_TRUE(collect());
  EXPECT_NE(victims_->of(id("second")), nullptr);
}

TEST_F(PinnedVictimsTest, AReleasedRequestIsFollowedByTheNextOne) {
  pin("blocked");
  victims_->release();
  pin("first");
  unblock();
  EXPECT_FALSE(collect());
  EXPECT_TRUE(collect());
  EXPECT_NE(victims_->of(id("first")), nullptr);
}

}  // namespace
}  // namespace forestall::actuators
