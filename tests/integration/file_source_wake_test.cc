// SPDX-License-Identifier: Apache-2.0
// Each wake source of the file tier alone, on real scratch cgroups: it wakes when a line is
// crossed, with the right source and cgroup, and not before.
//
// memory.high needs cgroup v2 and short PSI windows need CAP_SYS_RESOURCE: both are in
// vmtests/cases/file_source_cases.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "kernel/psi_trigger.h"
#include "sources/poll_source.h"
#include "sources/psi_source.h"
#include "sources/usage_eventfd.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::sources {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

kernel::CgroupTree host_tree() {
  auto tree = kernel::CgroupTree::discover();
  EXPECT_TRUE(tree) << tree.error().text();
  return std::move(tree).value();
}

// Waits as the agent does, with the source's descriptor in an epoll; drains until `wanted` or until
// nothing arrives for `patience`.
std::optional<Wake> wait_for(Source& source, Duration patience,
                             const std::function<bool(const Wake&)>& wanted) {
  const SystemClock clock;
  const UniqueFd loop(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  EXPECT_EQ(epoll_ctl(loop.get(), EPOLL_CTL_ADD, source.fd(), &event), 0);
  const auto end = clock.now() + patience;
  std::vector<Wake> wakes;
  for (auto left = end - clock.now(); left > Duration::zero(); left = end - clock.now()) {
    const auto ms = std::chrono::ceil<milliseconds>(left).count();
    if (epoll_wait(loop.get(), &event, 1, static_cast<int>(ms)) != 1) return std::nullopt;
    wakes.clear();
    source.drain(clock.now(), wakes);
    const auto found = std::find_if(wakes.begin(), wakes.end(), wanted);
    if (found != wakes.end()) return *found;
  }
  return std::nullopt;
}

Line cgroup_line(const kernel::CgroupTree& tree, const std::string& path, Bytes usage, Bytes line) {
  const auto cgroup = tree.open(path);
  EXPECT_TRUE(cgroup) << cgroup.error().text();
  Line result;
  result.signal = Signal::cgroup_memory_available;
  result.cgroup = cgroup->id();
  result.path = path;
  result.usage = usage;
  result.usage_line = result.floor_line = line;
  result.headroom = line - usage;
  result.capacity = line + mib(16);
  return result;
}

class FileSource : public ::testing::Test {
 protected:
  FileSource() : tree_(host_tree()), path_(scratch_.child("watched")) {}

  void arm(Source& source, const Line& line) {
    const auto notes = source.arm(std::span(&line, 1), SystemClock().now());
    ASSERT_TRUE(notes) << notes.error().text();
    ASSERT_TRUE(notes->empty()) << notes->front();
  }

  test::ScratchCgroup scratch_;
  kernel::CgroupTree tree_;
  std::string path_;
};

class UsageEventfdTest : public FileSource {
 protected:
  void SetUp() override {
    if (!test::mounts().v1) GTEST_SKIP() << "not applicable: cgroup v1 only";
    auto source = UsageEventfd::create(tree_);
    ASSERT_TRUE(source) << source.error().text();
    source_ = std::move(source).value();
  }

  std::optional<Wake> wait(Duration patience) {
    return wait_for(*source_, patience, [&](const Wake& wake) {
      return wake.source == WakeSource::usage_eventfd && wake.cgroup;
    });
  }
  // The arming thread's result makes the descriptor readable without a wake.
  void wait_armed() {
    pollfd ready{source_->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 60'000), 1) << "the threshold was never registered";
  }

  std::unique_ptr<Source> source_;
};

TEST_F(UsageEventfdTest, WakesOnCrossingAndNotBefore) {
  const test::Hog hog(scratch_, path_, mib(8));
  const auto line = cgroup_line(tree_, path_, scratch_.usage(path_), mib(40));
  arm(*source_, line);
  wait_armed();
  EXPECT_FALSE(wait(milliseconds(100))) << "woken before anything happened";
  hog.grow(mib(24));
  ASSERT_TRUE(hog.wait_grown());
  EXPECT_FALSE(wait(milliseconds(100))) << "woken at " << scratch_.usage(path_).mib() << " MiB";
  hog.grow(mib(24));
  const auto wake = wait(test::kPatience);
  ASSERT_TRUE(wake) << "never woken";
  EXPECT_EQ(wake->cgroup, line.cgroup);
  ASSERT_TRUE(wake->usage);
  EXPECT_GE(*wake->usage, line.usage_line);
}

TEST_F(UsageEventfdTest, TheLineStandsBesideItsWarning) {
  const test::Hog hog(scratch_, path_, mib(8));
  auto line = cgroup_line(tree_, path_, scratch_.usage(path_), mib(96));
  line.warning = mib(64);
  arm(*source_, line);
  wait_armed();
  EXPECT_FALSE(wait(milliseconds(200))) << "the second of the two may take a grace period more";
  hog.grow(mib(32));
  ASSERT_TRUE(hog.wait_grown());
  ASSERT_TRUE(wait(test::kPatience)) << "not warned at " << scratch_.usage(path_).mib();
  EXPECT_FALSE(wait(milliseconds(100))) << "warned twice";
  // No line was armed since.
  hog.grow(mib(64));
  EXPECT_TRUE(wait(test::kPatience)) << "the line itself was not reported";
}

// The crossing happens while the registration waits for its grace period.
TEST_F(UsageEventfdTest, ACrossingDuringRegistrationIsNotLost) {
  const test::Hog hog(scratch_, path_, mib(8));
  const auto line = cgroup_line(tree_, path_, scratch_.usage(path_), mib(16));
  hog.grow(mib(16));
  ASSERT_TRUE(hog.wait_grown());
  arm(*source_, line);
  EXPECT_TRUE(wait(test::kPatience));
}

TEST_F(UsageEventfdTest, FollowsALineThatSinksAndIgnoresOneThatHardlyMoves) {
  const test::Hog hog(scratch_, path_, mib(8));
  arm(*source_, cgroup_line(tree_, path_, scratch_.usage(path_), mib(200)));
  wait_armed();
  EXPECT_FALSE(wait(milliseconds(100)));
  arm(*source_, cgroup_line(tree_, path_, scratch_.usage(path_), mib(200) - kib(256)));
  EXPECT_FALSE(wait(milliseconds(200))) << "re-armed for less than a step";
  arm(*source_, cgroup_line(tree_, path_, scratch_.usage(path_), mib(32)));
  wait_armed();
  EXPECT_FALSE(wait(milliseconds(100)));
  hog.grow(mib(40));
  EXPECT_TRUE(wait(test::kPatience));
}

// After an early wake (inactive_file has grown meanwhile), the kernel counts the group as above its
// threshold and sends no second event.
TEST_F(UsageEventfdTest, ArmsHigherIfALineIsPassedButUnmet) {
  const test::Hog hog(scratch_, path_, mib(8));
  arm(*source_, cgroup_line(tree_, path_, scratch_.usage(path_), mib(16)));
  wait_armed();
  EXPECT_FALSE(wait(milliseconds(100)));
  hog.grow(mib(16));
  ASSERT_TRUE(hog.wait_grown());
  ASSERT_TRUE(wait(test::kPatience));
  arm(*source_, cgroup_line(tree_, path_, scratch_.usage(path_), mib(48)));
  wait_armed();
  EXPECT_FALSE(wait(milliseconds(100)));
  hog.grow(mib(40));
  EXPECT_TRUE(wait(test::kPatience));
}

// The kernel compares a counter with a freshly charged batch, the loop reads it without the unused
// rest of the batch. So the loop may see the line unmet after the kernel has sent its only event,
// and the group would fill without a wake.
TEST_F(UsageEventfdTest, AfterAnEarlyWakeItWakesAgain) {
  const test::Hog hog(scratch_, path_, mib(8));
  Line line = cgroup_line(tree_, path_, scratch_.usage(path_), mib(16));
  arm(*source_, line);
  wait_armed();
  EXPECT_FALSE(wait(milliseconds(100)));
  hog.grow(mib(16));
  ASSERT_TRUE(hog.wait_grown());
  ASSERT_TRUE(wait(test::kPatience));
  // What the loop read: a little under the line, or at it, which also counts as unmet.
  for (const Bytes headroom : {kib(100), kib(100), Bytes{0}}) {
    line.usage = line.usage_line - headroom;
    line.headroom = headroom;
    arm(*source_, line);
    EXPECT_TRUE(wait(seconds(20))) << "never woken again, " << headroom.count << " below the line";
  }
}

TEST_F(UsageEventfdTest, WatchesTheNodeToo) {
  const test::Hog hog(scratch_, path_, mib(1));
  Line line;
  line.path = "/";
  line.usage = scratch_.usage("/");
  line.usage_line = line.usage + mib(64);
  line.headroom = mib(64);
  arm(*source_, line);
  wait_armed();
  hog.grow(mib(512), mib(1024));
  const auto wake = wait_for(*source_, test::kPatience, [](const Wake& w) { return !w.cgroup; });
  ASSERT_TRUE(wake);
  EXPECT_EQ(wake->source, WakeSource::usage_eventfd);
  EXPECT_TRUE(hog.wait_grown());
}

TEST_F(UsageEventfdTest, NotesARemovedCgroup) {
  const auto line = cgroup_line(tree_, path_, Bytes{0}, mib(16));
  scratch_.remove_child(path_);
  const auto notes = source_->arm(std::span(&line, 1), SystemClock().now());
  ASSERT_TRUE(notes) << notes.error().text();
  ASSERT_EQ(notes->size(), 1u);
  EXPECT_NE(notes->front().find(path_), std::string::npos);
}

using PollSourceTest = FileSource;

TEST_F(PollSourceTest, WakesOnlyOnceTheLineIsCrossed) {
  auto source = PollSource::create(tree_);
  ASSERT_TRUE(source) << source.error().text();
  const test::Hog hog(scratch_, path_, mib(8));
  const auto line = cgroup_line(tree_, path_, scratch_.usage(path_), mib(96));
  arm(**source, line);
  const auto any = [](const Wake&) { return true; };
  EXPECT_FALSE(wait_for(**source, milliseconds(300), any)) << "woken before the crossing";
  hog.grow(mib(128));
  const auto wake = wait_for(**source, test::kPatience, any);
  ASSERT_TRUE(wake);
  EXPECT_EQ(wake->source, WakeSource::poll);
  EXPECT_EQ(wake->cgroup, line.cgroup);
  ASSERT_TRUE(wake->usage);
  EXPECT_GT(*wake->usage, line.floor_line);
  EXPECT_TRUE(hog.wait_grown());
}

using PsiSourceTest = FileSource;

// Stalls come from a group at its own limit that keeps re-reading a file larger than it.
TEST_F(PsiSourceTest, WakesWhenTheWatchedCgroupStalls) {
  if (test::mounts().unified.empty()) GTEST_SKIP() << "not applicable: no cgroup2 mount";
  if (access("/var/tmp", W_OK) != 0) {
    GTEST_SKIP() << "not applicable: a guest has no disk to re-read; runs on the host, and "
                    "FileSourceVm.PsiWakesWithinAShortWindow in the guests";
  }
  auto source = PsiSource::create(tree_);
  ASSERT_TRUE(source) << source.error().text();
  const auto line = cgroup_line(tree_, path_, Bytes{0}, mib(16));
  arm(**source, line);
  scratch_.limit(path_, mib(24));
  const test::Child reader([&] {
    scratch_.add(path_, getpid());
    char name[] = "/var/tmp/forestall-test-XXXXXX";
    const UniqueFd file(mkstemp(name));
    unlink(name);
    std::vector<char> block(1 << 20, 'x');
    for (int i = 0; i < 96; ++i) {
      if (write(file.get(), block.data(), block.size()) < 0) return 1;
    }
    for (;;) {
      for (off_t at = 0; at < 96; ++at) {
        if (pread(file.get(), block.data(), block.size(), at << 20) < 0) return 1;
      }
    }
  });
  const auto wake =
      wait_for(**source, test::kPatience, [](const Wake& w) { return w.cgroup.has_value(); });
  ASSERT_TRUE(wake) << scratch_.read(path_, "memory.stat");
  EXPECT_EQ(wake->source, WakeSource::psi_trigger);
  EXPECT_EQ(wake->cgroup, line.cgroup);
}

// On a hybrid host most cgroups of the memory hierarchy are absent from the cgroup2 mount.
TEST_F(PsiSourceTest, ACgroupOfTheMemoryHierarchyAloneIsNoProblem) {
  if (!tree_.hybrid())
    GTEST_SKIP() << "not applicable: memory and PSI are in one hierarchy; runs where they are not, "
                    "as in the VM test 6.1 v1";
  auto source = PsiSource::create(tree_);
  ASSERT_TRUE(source) << source.error().text();
  ASSERT_EQ(::rmdir(scratch_.unified_directory(path_).c_str()), 0) << strerror(errno);
  const auto line = cgroup_line(tree_, path_, Bytes{0}, mib(16));
  const auto armed = (*source)->arm({&line, 1}, SystemClock().now());
  ASSERT_TRUE(armed) << armed.error().text();
  EXPECT_THAT(*armed, testing::IsEmpty());
  // Once the cgroup2 mount has it, it is watched.
  ASSERT_EQ(::mkdir(scratch_.unified_directory(path_).c_str(), 0755), 0) << strerror(errno);
  const auto again = (*source)->arm({&line, 1}, SystemClock().now());
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_THAT(*again, testing::IsEmpty());
}

TEST_F(PsiSourceTest, ARemovedCgroupIsDroppedQuietly) {
  if (test::mounts().unified.empty()) GTEST_SKIP() << "not applicable: no cgroup2 mount";
  auto source = PsiSource::create(tree_);
  ASSERT_TRUE(source) << source.error().text();
  arm(**source, cgroup_line(tree_, path_, Bytes{0}, mib(16)));
  scratch_.remove_child(path_);
  EXPECT_FALSE(
      wait_for(**source, milliseconds(200), [](const Wake& w) { return w.cgroup.has_value(); }));
  pollfd ready{(*source)->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 0), 0) << "the dead trigger still polls";
}

}  // namespace
}  // namespace forestall::sources
