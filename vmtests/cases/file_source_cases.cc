// SPDX-License-Identifier: Apache-2.0
// The wake sources of the file tier that the development host does not have: the memory.high
// tripwire (cgroup v2), PSI triggers with a 500 ms window (CAP_SYS_RESOURCE), and v1 eventfds on an
// older kernel. Each source is tested alone.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "kernel/amount_setting.h"
#include "kernel/cgroup_create.h"
#include "kernel/file_probe.h"
#include "kernel/memory_high.h"
#include "kernel/process_ref.h"
#include "sources/high_tripwire.h"
#include "sources/observer.h"
#include "sources/poll_source.h"
#include "sources/psi_source.h"
#include "sources/usage_eventfd.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::IsEmpty;

class FileSourceVm : public ::testing::Test {
 protected:
  FileSourceVm() {
    auto found = kernel::CgroupTree::discover();
    if (!found) throw std::runtime_error(found.error().text());
    tree_ = std::move(found).value();
    path_ = scratch_.child("watched");
  }

  void SetUp() override {
    const char* environment = std::getenv("FORESTALL_TEST_ENV");
    ASSERT_NE(environment, nullptr) << "these cases are for vmtests/run.py";
    const bool says_v1 = std::string(environment).ends_with(":v1");
    ASSERT_EQ(says_v1, tree_.version() == kernel::CgroupVersion::v1) << environment;
  }

  Line line(Bytes at) const {
    Line made;
    made.signal = Signal::cgroup_memory_available;
    made.cgroup = tree_.open(path_)->id();
    made.path = path_;
    made.usage = scratch_.usage(path_);
    made.usage_line = made.floor_line = at;
    made.headroom = at - made.usage;
    made.tune = true;
    return made;
  }

  static std::vector<std::string> arm(Source& source, const Line& line) {
    auto notes = source.arm(std::span(&line, 1), SystemClock().now());
    EXPECT_TRUE(notes) << notes.error().text();
    return notes ? *notes : std::vector<std::string>();
  }

  // Through an outer epoll, as the agent waits; nothing if `patience` ends first.
  static std::optional<Wake> wait(Source& source, Duration patience) {
    const SystemClock clock;
    const UniqueFd loop(epoll_create1(EPOLL_CLOEXEC));
    epoll_event event{};
    event.events = EPOLLIN;
    EXPECT_EQ(epoll_ctl(loop.get(), EPOLL_CTL_ADD, source.fd(), &event), 0);
    const auto end = clock.now() + patience;
    std::vector<Wake> wakes;
    for (auto left = patience; left > Duration::zero(); left = end - clock.now()) {
      const auto ms = static_cast<int>(std::chrono::ceil<milliseconds>(left).count());
      if (epoll_wait(loop.get(), &event, 1, ms) != 1) break;
      source.drain(clock.now(), wakes);
      for (const auto& wake : wakes) {
        if (wake.cgroup) return wake;
      }
    }
    return std::nullopt;
  }

  std::string record() const {
    const auto text = records_.read(tree_.open(path_)->id());
    EXPECT_TRUE(text) << text.error().text();
    return text && *text ? **text : "";
  }

  test::ScratchCgroup scratch_;
  kernel::CgroupTree tree_;
  std::string path_;
  test::TempTree run_;
  kernel::SettingRecords records_{run_ / "memory-high"};
};

class TripwireVm : public FileSourceVm {
 protected:
  void SetUp() override {
    FileSourceVm::SetUp();
    if (tree_.version() == kernel::CgroupVersion::v1) {
      GTEST_SKIP() << "not applicable: cgroup v1 has no memory.high";
    }
  }
  std::string high() const { return scratch_.read(path_, "memory.high"); }
  std::unique_ptr<Source> make() {
    auto source = HighTripwire::create(tree_, records_);
    EXPECT_TRUE(source) << source.error().text();
    return source ? std::move(source).value() : nullptr;
  }
};

TEST_F(TripwireVm, WakesOnCrossingAndGivesMemoryHighBack) {
  const test::Hog hog(scratch_, path_, mib(8));
  const auto at = line(mib(48));
  {
    const auto source = make();
    EXPECT_THAT(arm(*source, at), IsEmpty());
    EXPECT_EQ(high(), std::to_string(mib(48).count) + "\n");
    EXPECT_EQ(record(), kernel::to_string({std::nullopt, std::nullopt, mib(48),
                                           *kernel::read_process_id(getpid())}));
    EXPECT_THAT(kernel::restore_leftovers(tree_, records_, false), IsEmpty())
        << "undoes what a living agent set";
    EXPECT_FALSE(wait(*source, milliseconds(300))) << "woken before the crossing";
    hog.grow(mib(44));
    const auto wake = wait(*source, test::kPatience);
    ASSERT_TRUE(wake) << scratch_.read(path_, "memory.events");
    EXPECT_EQ(wake->source, WakeSource::high_tripwire);
    EXPECT_EQ(wake->cgroup, at.cgroup);
    EXPECT_GT(scratch_.usage(path_), mib(47));
  }
  EXPECT_EQ(high(), "max\n");
  EXPECT_EQ(record(), "");
}

TEST_F(TripwireVm, DisarmGivesBackAndALowerValueIsNeverRaised) {
  const auto source = make();
  EXPECT_THAT(arm(*source, line(mib(48))), IsEmpty());
  EXPECT_THAT(arm(*source, line(mib(64))), IsEmpty());
  EXPECT_EQ(high(), std::to_string(mib(64).count) + "\n");
  ASSERT_TRUE(source->arm({}, SystemClock().now()));
  EXPECT_EQ(high(), "max\n");
  scratch_.write(path_, "memory.high", std::to_string(mib(16).count));
  EXPECT_EQ(arm(*source, line(mib(48))).size(), 1u);
  EXPECT_EQ(high(), std::to_string(mib(16).count) + "\n");
  EXPECT_EQ(record(), "");
}

TEST_F(TripwireVm, WithoutPermissionToTuneNothingIsTouched) {
  const auto source = make();
  auto untouched = line(mib(48));
  untouched.tune = false;
  EXPECT_THAT(arm(*source, untouched), IsEmpty());
  EXPECT_EQ(high(), "max\n");
}

TEST_F(TripwireVm, KeepsAChangeByAnotherProcess) {
  {
    const auto source = make();
    EXPECT_THAT(arm(*source, line(mib(48))), IsEmpty());
    scratch_.write(path_, "memory.high", std::to_string(mib(80).count));
    EXPECT_EQ(arm(*source, line(mib(56))).size(), 1u);
  }
  EXPECT_EQ(high(), std::to_string(mib(80).count) + "\n");
  EXPECT_EQ(record(), "");
}

// After an agent was killed by SIGKILL, the next start finds and undoes its setting.
TEST_F(TripwireVm, TheNextStartUndoesASettingOfAKilledAgent) {
  const auto at = line(mib(48));
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  {
    test::Child agent([&] {
      const auto source = make();
      if (!source || !arm(*source, at).empty()) return 1;
      if (write(ready[1], "r", 1) != 1) return 1;
      for (;;) pause();
    });
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    agent.reap();
  }
  close(ready[0]);
  close(ready[1]);
  EXPECT_EQ(high(), std::to_string(mib(48).count) + "\n");
  EXPECT_EQ(kernel::restore_leftovers(tree_, records_, true).size(), 1u);
  EXPECT_EQ(high(), std::to_string(mib(48).count) + "\n") << "a dry run writes nothing";
  const auto notes = kernel::restore_leftovers(tree_, records_, false);
  EXPECT_EQ(high(), "max\n");
  EXPECT_EQ(record(), "");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes.front(), testing::HasSubstr(path_));
}

// The owner of a delegated cgroup forges what an earlier version took for its own record.
TEST_F(TripwireVm, AForgedAttributeNeitherLiftsALimitNorDisablesTheTripwire) {
  const std::string limit = std::to_string(mib(64).count);
  scratch_.write(path_, "memory.high", limit);
  for (const std::string& forged : {"max " + limit + " " + limit,
                                    "max " + limit + " " + limit + " 1 " +
                                        std::to_string(kernel::read_process_id(1)->start_ticks)}) {
    ASSERT_EQ(setxattr(scratch_.directory(path_).c_str(), "user.forestall.memory_high",
                       forged.data(), forged.size(), 0),
              0);
    EXPECT_THAT(kernel::restore_leftovers(tree_, records_, false), IsEmpty());
    EXPECT_EQ(high(), limit + "\n");
    const auto source = make();
    EXPECT_THAT(arm(*source, line(mib(48))), IsEmpty());
    EXPECT_EQ(high(), std::to_string(mib(48).count) + "\n");
  }
  EXPECT_EQ(high(), limit + "\n");
}

TEST_F(FileSourceVm, PsiWakesWithinAShortWindow) {
  auto source = PsiSource::create(tree_);
  ASSERT_TRUE(source) << source.error().text();
  EXPECT_EQ(static_cast<PsiSource&>(**source).window(), milliseconds(500));
  const test::Hog hog(scratch_, path_, mib(8));
  EXPECT_THAT(arm(**source, line(mib(48))), IsEmpty());
  EXPECT_FALSE(wait(**source, milliseconds(300))) << "woken while idle";
  // Throttling past memory.high is a pure memory stall. v1 has no such file: there a full group
  // reclaims its own page cache.
  if (tree_.version() == kernel::CgroupVersion::v2) {
    scratch_.write(path_, "memory.high", std::to_string(mib(32).count));
    hog.grow(mib(64));
  } else {
    GTEST_SKIP() << "not applicable: shown on the hybrid host by "
                    "tests/integration/file_source_wake_test.cc";
  }
  const auto wake = wait(**source, test::kPatience);
  ASSERT_TRUE(wake) << scratch_.read(path_, "memory.pressure");
  EXPECT_EQ(wake->source, WakeSource::psi_trigger);
}

TEST_F(FileSourceVm, UsageEventfdWakesOnCrossing) {
  if (tree_.version() == kernel::CgroupVersion::v2) {
    EXPECT_FALSE(UsageEventfd::create(tree_));
    GTEST_SKIP() << "not applicable: cgroup v2 has no cgroup.event_control";
  }
  auto source = UsageEventfd::create(tree_);
  ASSERT_TRUE(source) << source.error().text();
  const test::Hog hog(scratch_, path_, mib(8));
  EXPECT_THAT(arm(**source, line(mib(40))), IsEmpty());
  EXPECT_FALSE(wait(**source, milliseconds(500))) << "woken before the crossing";
  hog.grow(mib(48));
  const auto wake = wait(**source, test::kPatience);
  ASSERT_TRUE(wake);
  EXPECT_EQ(wake->source, WakeSource::usage_eventfd);
  EXPECT_TRUE(hog.wait_grown());
}

TEST_F(FileSourceVm, PollWakesOnCrossing) {
  auto source = PollSource::create(tree_);
  ASSERT_TRUE(source) << source.error().text();
  const test::Hog hog(scratch_, path_, mib(8));
  EXPECT_THAT(arm(**source, line(mib(64))), IsEmpty());
  EXPECT_FALSE(wait(**source, milliseconds(300))) << "woken before the crossing";
  hog.grow(mib(80));
  const auto wake = wait(**source, test::kPatience);
  ASSERT_TRUE(wake);
  EXPECT_EQ(wake->source, WakeSource::poll);
  EXPECT_TRUE(hog.wait_grown());
}

TEST_F(FileSourceVm, ObserverReadsTheKernelsNumbers) {
  scratch_.limit(path_, mib(64));
  const test::Hog hog(scratch_, path_, mib(8));
  Config config;
  Threshold threshold;
  threshold.signal = Signal::cgroup_memory_available;
  threshold.cgroup = path_;
  threshold.limit = Limit::bytes(mib(1));
  config.thresholds.push_back(threshold);
  auto observer = Observer::create(tree_, config);
  ASSERT_TRUE(observer) << observer.error().text();
  EXPECT_THAT((*observer)->refresh(), IsEmpty());
  const auto low = scratch_.usage(path_);
  const auto seen = (*observer)->sample_node(Wake{}, SystemClock().now());
  const auto high = scratch_.usage(path_);
  ASSERT_EQ(seen.watched.size(), 1u);
  EXPECT_EQ(seen.watched[0].limit, mib(64));
  EXPECT_GE(*seen.watched[0].usage, low);
  EXPECT_LE(*seen.watched[0].usage, high);
  ASSERT_TRUE(seen.node.usage && seen.node.capacity && seen.node.inactive_file);
  EXPECT_GT(*seen.node.usage, mib(8));
  EXPECT_LT(*seen.node.usage, *seen.node.capacity);
  EXPECT_THAT(seen.notes, IsEmpty());
}

TEST_F(FileSourceVm, GroupsAreMadeNestedAndLimited) {
  const std::string top = "/forestall-create-test";
  const std::string nested = top + "/a/b";
  const auto made = kernel::create_group(tree_, nested, mib(32));
  ASSERT_TRUE(made) << made.error().text();
  const bool v1 = tree_.version() == kernel::CgroupVersion::v1;
  const auto group = tree_.open(nested);
  ASSERT_TRUE(group) << group.error().text();
  const auto limit = group->read(v1 ? "memory.limit_in_bytes" : "memory.max");
  ASSERT_TRUE(limit) << limit.error().text();
  EXPECT_EQ(*limit, std::to_string(mib(32).count) + "\n");
  const auto deleted = kernel::delete_group(tree_, top);
  EXPECT_TRUE(deleted) << deleted.error().text();
  EXPECT_FALSE(tree_.open(top));
}

TEST_F(FileSourceVm, ProbesAgreeWithTheseTests) {
  const bool v1 = tree_.version() == kernel::CgroupVersion::v1;
  const auto reports = kernel::probe_file_features(tree_, {});
  ASSERT_EQ(reports.size(), 4u);
  const auto expected = [](bool there) {
    return there ? FeatureState::in_use : FeatureState::absent;
  };
  EXPECT_EQ(reports[0].state, expected(v1)) << reports[0].evidence;
  EXPECT_EQ(reports[1].state, expected(!v1)) << reports[1].evidence;
  EXPECT_EQ(reports[2].state, FeatureState::in_use) << reports[2].evidence;
  EXPECT_EQ(reports[3].state, FeatureState::in_use) << reports[3].evidence;
  EXPECT_EQ(scratch_.read(path_, v1 ? "memory.limit_in_bytes" : "memory.high"),
            v1 ? scratch_.read(path_, "memory.limit_in_bytes") : "max\n");
}

}  // namespace
}  // namespace forestall::sources
