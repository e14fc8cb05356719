// SPDX-License-Identifier: Apache-2.0
// Which cgroups are checked for limits of their own, and how little of them is read.
#include "sources/own_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

#include "support/descriptors_used_up.h"
#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Threshold own_limit(WorkloadClass of, Bytes margin) {
  Threshold threshold;
  threshold.signal = Signal::cgroup_memory_available;
  threshold.limit = Limit::bytes(margin);
  threshold.own_limits_of = of;
  return threshold;
}

MonotonicTime second(std::int64_t count) {
  return from_ns(count * 1'000'000'000);
}

Wake recheck() {
  return {WakeSource::recheck, {}, {}, {}};
}

class OwnLimitsTest : public testing::Test {
 protected:
  OwnLimitsTest() {
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    if (!found) throw std::runtime_error(found.error().text());
    tree_ = std::move(found).value();
  }

  void cgroup(const std::string& path, const std::string& limit, int usage, int inactive = 0) {
    files_.write("cgroup" + path + "/memory.max", limit + "\n");
    files_.write("cgroup" + path + "/memory.current", std::to_string(usage) + "\n");
    files_.write("cgroup" + path + "/memory.stat",
                 "inactive_file " + std::to_string(inactive) + "\n");
  }
  Workload workload(const std::string& path, WorkloadKind kind = WorkloadKind::cgroup) {
    Workload made;
    made.path = path;
    made.kind = kind;
    return made;
  }
  std::vector<SourceNote> refresh(OwnLimits& limits, const std::vector<Workload>& workloads,
                                  std::size_t slots = 100, std::int64_t at = 1) {
    std::vector<const Workload*> all;
    for (const Workload& each : workloads) all.push_back(&each);
    std::vector<SourceNote> notes;
    limits.refresh(config_, all, slots, second(at), kNeverStops, notes);
    return notes;
  }
  std::vector<CgroupSample> read(OwnLimits& limits, const Wake& wake = recheck(),
                                 std::int64_t at = 2) {
    std::vector<CgroupSample> samples;
    std::vector<SourceNote> notes;
    limits.read(wake, second(at), samples, notes);
    EXPECT_THAT(notes, IsEmpty());
    return samples;
  }
  static std::vector<std::string> paths(const std::vector<CgroupSample>& samples) {
    std::vector<std::string> paths;
    for (const CgroupSample& each : samples) paths.push_back(each.path);
    std::sort(paths.begin(), paths.end());
    return paths;
  }

  test::TempTree files_{{"cgroup/cgroup.controllers", "memory\n"}, {"cgroup/cgroup.procs", ""}};
  kernel::CgroupTree tree_;
  Config config_;
};

TEST_F(OwnLimitsTest, ChecksOnlyConfiguredClassesWithALimit) {
  config_.thresholds = {own_limit(WorkloadClass::burstable, {10}),
                        own_limit(WorkloadClass::other, {20})};
  const std::string burstable = "/kubepods/burstable/pod1";
  const std::string best_effort = "/kubepods/besteffort/pod2";
  cgroup(burstable, "100", 5);
  cgroup(best_effort, "100", 5);
  cgroup("/limited", "1000", 5);
  cgroup("/free", "max", 5);
  OwnLimits limits(tree_);
  const std::vector<Workload> all{workload(burstable, WorkloadKind::pod),
                                  workload(best_effort, WorkloadKind::pod), workload("/limited"),
                                  workload("/free"), workload("/gone")};
  EXPECT_THAT(refresh(limits, all), IsEmpty());
  const auto samples = read(limits);
  EXPECT_THAT(paths(samples), ElementsAre(burstable, "/limited"));
  for (const CgroupSample& each : samples) {
    const bool is_pod = each.path == burstable;
    EXPECT_EQ(each.threshold, is_pod ? 0U : 1U);
    EXPECT_EQ(each.limit, Bytes{is_pod ? 100 : 1000});
    EXPECT_EQ(each.at, second(2));
  }
  config_.thresholds.clear();
  refresh(limits, all, 100, 3);
  EXPECT_THAT(read(limits), IsEmpty());
}

// A pod of several containers has a limit only if all have one; a container may have less.
TEST_F(OwnLimitsTest, ContainersCountWhereTheirLimitIsTheLower) {
  config_.thresholds = {own_limit(WorkloadClass::guaranteed, {10}),
                        own_limit(WorkloadClass::other, {10})};
  cgroup("/kubepods/podA", "max", 5);
  cgroup("/kubepods/podA/app", "100", 5);
  cgroup("/kubepods/podA/sidecar", "max", 5);
  cgroup("/kubepods/podB", "100", 5);
  cgroup("/kubepods/podB/app", "100", 5);
  cgroup("/kubepods/podB/small", "40", 5);
  cgroup("/service", "max", 5);
  cgroup("/service/part", "40", 5);
  OwnLimits limits(tree_);
  refresh(limits, {workload("/kubepods/podA", WorkloadKind::pod),
                   workload("/kubepods/podB", WorkloadKind::pod), workload("/service")});
  EXPECT_THAT(paths(read(limits)),
              ElementsAre("/kubepods/podA/app", "/kubepods/podB", "/kubepods/podB/small"));
}

TEST_F(OwnLimitsTest, MemoryStatIsReadNearTheLimitOnly) {
  config_.thresholds = {own_limit(WorkloadClass::other, {10})};
  cgroup("/a", "100", 90, 30);
  OwnLimits limits(tree_);
  refresh(limits, {workload("/a")});
  EXPECT_EQ(read(limits)[0].inactive_file, std::nullopt);
  cgroup("/a", "100", 91, 30);
  EXPECT_EQ(read(limits)[0].inactive_file, Bytes{30});
}

// A workload that crossed a line is read before all others.
TEST_F(OwnLimitsTest, ACrossingElsewhereReadsNone) {
  config_.thresholds = {own_limit(WorkloadClass::other, {10})};
  cgroup("/a", "100", 50);
  cgroup("/b", "100", 50);
  OwnLimits limits(tree_);
  refresh(limits, {workload("/a"), workload("/b")});
  const Wake of_node{WakeSource::usage_timer, {}, {}, Bytes{1}};
  EXPECT_EQ(read(limits, of_node, 2)[0].at, second(2)) << "the first reading there is";
  cgroup("/a", "100", 95);
  cgroup("/b", "100", 96);
  auto samples = read(limits, of_node, 3);
  EXPECT_EQ(samples[0].usage, Bytes{50});
  EXPECT_EQ(samples[0].at, second(2));
  const Wake of_b{WakeSource::charge, {}, samples[1].id, Bytes{1}};
  samples = read(limits, of_b, 4);
  EXPECT_EQ(samples[0].usage, Bytes{50});
  EXPECT_EQ(samples[1].usage, Bytes{96});
  const Wake hint{WakeSource::reclaim, {}, {}, {}};
  EXPECT_EQ(read(limits, hint, 5)[0].usage, Bytes{95});
}

TEST_F(OwnLimitsTest, WatchesTheNearestOfTooManyWithANote) {
  config_.thresholds = {own_limit(WorkloadClass::other, {10})};
  std::vector<Workload> all;
  for (int i = 0; i < 20; ++i) {
    const std::string path = "/w" + std::to_string(10 + i);
    cgroup(path, "100", i);
    all.push_back(workload(path));
  }
  OwnLimits limits(tree_);
  const auto notes = refresh(limits, all, 3);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].subject, "ownLimit");
  EXPECT_THAT(notes[0].problem, HasSubstr("20 cgroups"));
  EXPECT_THAT(notes[0].problem, HasSubstr("the 3 nearest"));
  EXPECT_THAT(paths(read(limits)), ElementsAre("/w27", "/w28", "/w29"));
}

TEST_F(OwnLimitsTest, AChangedLimitIsFoundAtTheNextRefresh) {
  config_.thresholds = {own_limit(WorkloadClass::other, {10})};
  cgroup("/a", "max", 50);
  OwnLimits limits(tree_);
  refresh(limits, {workload("/a")});
  EXPECT_THAT(read(limits), IsEmpty());
  cgroup("/a", "200", 50);
  refresh(limits, {workload("/a")}, 100, 100);
  ASSERT_EQ(read(limits).size(), 1U);
  EXPECT_EQ(read(limits)[0].limit, Bytes{200});
}

// If a cgroup cannot be opened, it is unknown whether it has a limit.
TEST_F(OwnLimitsTest, KeepsItsWatchesWhileOutOfDescriptors) {
  config_.thresholds = {own_limit(WorkloadClass::other, {10}),
                        own_limit(WorkloadClass::burstable, {10})};
  const std::string pod = "/kubepods/burstable/pod00000000-0000-0000-0000-000000000001";
  const std::string container = pod + "/" + std::string(64, 'c');
  cgroup("/a", "100", 50);
  cgroup("/removed", "100", 50);
  cgroup(pod, "max", 50);
  cgroup(container, "100", 50);
  const std::vector<Workload> all{workload("/a"), workload("/removed"),
                                  workload(pod, WorkloadKind::pod)};
  OwnLimits limits(tree_);
  refresh(limits, all);
  ASSERT_THAT(paths(read(limits)), ElementsAre("/a", container, "/removed"));
  std::filesystem::remove_all(files_ / "cgroup/removed");
  {
    const test::DescriptorsUsedUp none;
    const auto notes = refresh(limits, all, 100, 100);
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_THAT(notes[0].problem, HasSubstr("the limits of 3 cgroups could not be read"));
    EXPECT_THAT(notes[0].problem, HasSubstr("Too many open files"));
  }
  EXPECT_EQ(limits.size(), 2U);
  EXPECT_THAT(paths(read(limits)), ElementsAre("/a", container));
  cgroup("/a", "max", 50);
  refresh(limits, all, 100, 200);
  EXPECT_THAT(paths(read(limits)), ElementsAre(container));
}

TEST_F(OwnLimitsTest, OfV1AsWell) {
  test::TempTree files{
      {"cgroup/memory/cgroup.procs", ""},
      {"cgroup/memory/memory.usage_in_bytes", "700\n"},
      {"cgroup/memory/memory.stat", "total_inactive_file 90\n"},
      {"cgroup/memory/a/memory.limit_in_bytes", "4096\n"},
      {"cgroup/memory/a/memory.usage_in_bytes", "4090\n"},
      {"cgroup/memory/a/memory.stat", "total_inactive_file 8\nhierarchical_memory_limit 4096\n"},
      {"cgroup/memory/b/memory.limit_in_bytes", "9223372036854771712\n"},
      {"cgroup/memory/b/memory.usage_in_bytes", "5\n"},
      {"cgroup/memory/b/memory.stat", "total_inactive_file 8\n"}};
  auto tree = kernel::CgroupTree::discover(files / "cgroup");
  ASSERT_TRUE(tree) << tree.error().text();
  config_.thresholds = {own_limit(WorkloadClass::other, {10})};
  OwnLimits limits(*tree);
  refresh(limits, {workload("/a"), workload("/b")});
  const auto samples = read(limits);
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_EQ(samples[0].path, "/a");
  EXPECT_EQ(samples[0].limit, Bytes{4096});
  EXPECT_EQ(samples[0].inactive_file, Bytes{8});
}

}  // namespace
}  // namespace forestall::sources
