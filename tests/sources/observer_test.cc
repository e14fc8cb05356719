// SPDX-License-Identifier: Apache-2.0
// The observer in literal worlds (v1, v2, hybrid; kubelet's formulas with known results), and on
// this machine against the kernel's files.
#include "sources/observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "support/child.h"
#include "support/manual_clock.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kMeminfo =
    "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 600 kB\n"
    "SwapTotal: 8 kB\nSwapFree: 4 kB\n";

constexpr const char* kVmstat = "nr_anon_pages 300\nnr_file_pages 200\nnr_inactive_file 50\n";

Bytes pages(std::int64_t count) {
  return {count * sysconf(_SC_PAGESIZE)};
}

Threshold threshold(Signal signal, const std::string& cgroup) {
  Threshold made;
  made.signal = signal;
  made.cgroup = cgroup;
  made.limit = Limit::bytes({1});
  return made;
}

struct World {
  explicit World(std::initializer_list<std::pair<std::string, std::string>> more,
                 std::initializer_list<std::pair<std::string, std::string>> base)
      : files(base) {
    for (const auto& [path, text] : more) files.write(path, text);
    files.write("proc/meminfo", kMeminfo);
    files.write("proc/loadavg", "0.00 0.01 0.05 2/3518 4711\n");
    files.write("proc/sys/kernel/pid_max", "4194304\n");
    files.write("proc/sys/kernel/threads-max", "31000\n");
    auto found = kernel::CgroupTree::discover(files / "cgroup");
    if (!found) throw std::runtime_error(found.error().text());
    tree = std::move(found).value();
  }

  std::unique_ptr<Observer> observer(const Config& config) {
    auto made = Observer::create(tree, config, files / "proc");
    if (!made) throw std::runtime_error(made.error().text());
    notes = (*made)->refresh();
    return std::move(made).value();
  }

  test::TempTree files;
  kernel::CgroupTree tree;
  std::vector<SourceNote> notes;
};

World v2_world(std::initializer_list<std::pair<std::string, std::string>> more) {
  return World(more, {{"cgroup/cgroup.controllers", "memory\n"},
                      {"cgroup/cgroup.procs", ""},
                      {"proc/vmstat", kVmstat}});
}

World v1_world(std::initializer_list<std::pair<std::string, std::string>> more) {
  return World(more, {{"cgroup/memory/cgroup.procs", ""},
                      {"cgroup/memory/memory.usage_in_bytes", "700\n"},
                      {"cgroup/memory/memory.stat",
                       "inactive_file 1\ntotal_inactive_file 90\n"
                       "hierarchical_memory_limit 9223372036854771712\n"}});
}

Observation evaluate(Observer& observer) {
  return observer.sample_node(Wake{}, test::ManualClock().now());
}

const WorkloadSample* sample_of(const Observation& observation, const std::string& path) {
  for (const auto& sample : *observation.workloads) {
    if (sample.workload.path == path) return &sample;
  }
  return nullptr;
}

TEST(ObserverNode, V2EmulatesRootUsageAsAnonPlusFileOfVmstat) {
  auto world = v2_world({});
  const auto observer = world.observer({});
  EXPECT_THAT(world.notes, IsEmpty());
  const auto seen = evaluate(*observer);
  EXPECT_EQ(seen.node.capacity, kib(1000));
  EXPECT_EQ(seen.node.usage, pages(500));
  EXPECT_EQ(seen.node.inactive_file, pages(50));
  EXPECT_EQ(seen.node.kernel_available, kib(600));
  EXPECT_EQ(seen.node.swap_total, kib(8));
  EXPECT_EQ(seen.node.swap_free, kib(4));
  EXPECT_FALSE(seen.pods);
  EXPECT_FALSE(seen.workloads);
  EXPECT_THAT(seen.notes, IsEmpty());
}

TEST(ObserverNode, ReportsWhyAThresholdOnMissingSwapIsNeverMet) {
  auto world = v2_world({});
  Config config;
  config.thresholds = {threshold(Signal::memory_until_oom, ""),
                       threshold(Signal::swap_available, "")};
  const auto observer = world.observer(config);
  EXPECT_THAT(evaluate(*observer).notes, IsEmpty());
  world.files.write("proc/meminfo", "MemTotal: 1000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n");
  EXPECT_THAT(
      evaluate(*observer).notes,
      ElementsAre(SourceNote{"swap.available",
                             "unknown: this node has no swap, so the threshold is never met"}));
  EXPECT_THAT(evaluate(*world.observer({})).notes, IsEmpty());
}

TEST(ObserverNode, V1TakesTheRootsCounterAndTheHierarchicalStat) {
  auto world = v1_world({});
  const auto seen = evaluate(*world.observer({}));
  EXPECT_EQ(seen.node.usage, Bytes{700});
  EXPECT_EQ(seen.node.inactive_file, Bytes{90});
}

TEST(ObserverNode, FreshInEachEvaluationAndUnknownIfUnreadable) {
  auto world = v2_world({});
  const auto observer = world.observer({});
  EXPECT_EQ(evaluate(*observer).node.usage, pages(500));
  world.files.write("proc/vmstat", "nr_anon_pages 301\nnr_file_pages 200\nnr_inactive_file 50\n");
  EXPECT_EQ(evaluate(*observer).node.usage, pages(501));
  world.files.write("proc/vmstat", "nr_anon_pages 301\nnr_file_pages lots\n");
  const auto broken = evaluate(*observer);
  EXPECT_FALSE(broken.node.usage);
  EXPECT_FALSE(broken.node.inactive_file);
  EXPECT_EQ(broken.node.capacity, kib(1000));
  EXPECT_THAT(broken.notes, ElementsAre(SourceNote{world.files / "proc/vmstat",
                                                   "nr_file_pages: \"lots\" is not a number"}));
}

TEST(ObserverWatched, LimitIsTheSmallestOnTheWayUp) {
  auto world = v2_world({{"cgroup/a/memory.current", "100\n"},
                         {"cgroup/a/memory.stat", "inactive_file 10\n"},
                         {"cgroup/a/memory.max", "4096\n"},
                         {"cgroup/a/b/memory.current", "60\n"},
                         {"cgroup/a/b/memory.stat", "inactive_file 5\n"},
                         {"cgroup/a/b/memory.max", "max\n"},
                         {"cgroup/c/memory.current", "1\n"},
                         {"cgroup/c/memory.stat", "anon 1\n"},
                         {"cgroup/c/memory.max", "max\n"},
                         {"cgroup/bare/cgroup.procs", ""}});
  Config config;
  config.thresholds.push_back(threshold(Signal::cgroup_memory_available, "/a/*"));
  config.thresholds.push_back(threshold(Signal::memory_available, ""));
  config.thresholds.push_back(threshold(Signal::cgroup_memory_available, "/*"));
  const auto observer = world.observer(config);
  ASSERT_EQ(world.notes.size(), 1u);  // "/bare" has no memory controller
  EXPECT_EQ(world.notes[0].subject, "/bare");
  const auto seen = evaluate(*observer);
  ASSERT_EQ(seen.watched.size(), 3u);
  EXPECT_EQ(seen.watched[0].path, "/a/b");
  EXPECT_EQ(seen.watched[0].threshold, 0u);
  EXPECT_EQ(seen.watched[0].limit, Bytes{4096});
  EXPECT_EQ(seen.watched[0].usage, Bytes{60});
  EXPECT_EQ(seen.watched[0].inactive_file, Bytes{5});
  EXPECT_EQ(seen.watched[1].path, "/a");
  EXPECT_EQ(seen.watched[1].threshold, 2u);
  EXPECT_EQ(seen.watched[2].path, "/c");
  EXPECT_FALSE(seen.watched[2].limit) << "max is unlimited, not a number";
  EXPECT_FALSE(seen.watched[2].inactive_file) << "absent is not zero";
  // An unreadable limit of an ancestor could be the smallest one.
  world.files.write("cgroup/a/memory.max", "garbage\n");
  const auto broken = evaluate(*observer);
  EXPECT_FALSE(broken.watched[0].limit);
  EXPECT_FALSE(broken.notes.empty());
}

TEST(ObserverWatched, V1LimitComesFromTheStatFile) {
  auto world = v1_world({{"cgroup/memory/kubepods/memory.usage_in_bytes", "100\n"},
                         {"cgroup/memory/kubepods/memory.stat",
                          "total_inactive_file 7\nhierarchical_memory_limit 8192\n"}});
  const auto observer = world.observer({});
  EXPECT_EQ(observer->pods_path(), "/kubepods");
  const auto seen = evaluate(*observer);
  ASSERT_TRUE(seen.pods);
  EXPECT_EQ(seen.pods->path, "/kubepods");
  EXPECT_EQ(seen.pods->limit, Bytes{8192});
  EXPECT_EQ(seen.pods->inactive_file, Bytes{7});
}

class ObserverWorkloads : public ::testing::Test {
 protected:
  static std::string pod(const std::string& uid) { return "cgroup/kubepods/burstable/pod" + uid; }
  void add(const std::string& directory, const std::string& processes) {
    world_.files.write(directory + "/memory.current", "100\n");
    world_.files.write(directory + "/memory.stat", "inactive_file 10\n");
    world_.files.write(directory + "/memory.max", "max\n");
    world_.files.write(directory + "/cgroup.procs", processes);
  }
  ObserverWorkloads() : world_(v2_world({})) {
    add("cgroup/kubepods", "");
    add("cgroup/kubepods/burstable", "");
    for (const auto& uid : {"a", "b", "c", "4f1d2c3b4a5968778695a4b3c2d1e0ff"}) {
      add(pod(uid), "");
      add(pod(uid) + "/c1", "11\n12\n");
    }
    add("cgroup/system.slice", "");
    add("cgroup/system.slice/db.service", "21\n");
    add("cgroup/system.slice/web.service", "22\n");
    add("cgroup/system.slice/agent.service", "1000\n");
    world_.files.write("proc/self/cgroup", "0::/system.slice/agent.service\n");
    world_.files.write("proc/1/cgroup", "0::/init.scope\n");
    add("cgroup/init.scope", "1\n");
  }
  Observation all(Observer& observer, std::string_view subject = "") {
    auto observation = evaluate(observer);
    observer.add_workloads(observation, subject);
    return observation;
  }
  World world_;
};

TEST_F(ObserverWorkloads, PodsAndRulesWithEveryProtection) {
  Config config;
  config.pod_rules.push_back({"a", "front", 100, mib(5), false});
  config.pod_rules.push_back({"b", {}, 2'000'000'000, {}, false});
  config.workloads.push_back({"/kubepods/burstable/podc", {}, 7, {}, true});
  config.workloads.push_back({"/system.slice/db.*", "db", 5, mib(1), true});
  config.workloads.push_back({"/system.slice/*", {}, {}, {}, false});
  config.workloads.push_back({"/system.slice", {}, {}, {}, false});
  config.workloads.push_back({"/init.scope", {}, {}, {}, false});
  config.workloads.push_back({"/", {}, {}, {}, false});
  const auto observer = world_.observer(config);
  EXPECT_THAT(world_.notes, IsEmpty());
  const auto seen = all(*observer);
  ASSERT_EQ(seen.workloads->size(), 9u);
  EXPECT_EQ(observer->workload_count(), 9u);
  EXPECT_EQ(sample_of(seen, "/"), nullptr);

  const auto& a = *sample_of(seen, "/kubepods/burstable/poda");
  EXPECT_EQ(a.workload.kind, WorkloadKind::pod);
  EXPECT_EQ(a.workload.name, "front");
  EXPECT_EQ(a.workload.pod_uid, "a");
  EXPECT_EQ(a.workload.priority, 100);
  EXPECT_EQ(a.workload.memory_request, mib(5));
  EXPECT_EQ(a.workload.protection, Protection::none);
  EXPECT_EQ(a.usage, Bytes{100});
  EXPECT_EQ(a.inactive_file, Bytes{10});
  EXPECT_EQ(a.processes, 2u);
  EXPECT_NE(a.workload.cgroup.inode, 0u);

  const auto protection = [&](const std::string& path) {
    return to_string(sample_of(seen, path)->workload.protection);
  };
  EXPECT_EQ(protection("/kubepods/burstable/podb"), "critical");
  EXPECT_EQ(protection("/kubepods/burstable/podc"), "declared");
  EXPECT_EQ(sample_of(seen, "/kubepods/burstable/podc")->workload.priority, 7);
  EXPECT_EQ(sample_of(seen, "/kubepods/burstable/podb")->workload.name, "podb");
  EXPECT_FALSE(sample_of(seen, "/kubepods/burstable/podb")->workload.memory_request);
  EXPECT_EQ(protection("/kubepods/burstable/pod4f1d2c3b4a5968778695a4b3c2d1e0ff"), "static-pod");
  EXPECT_EQ(protection("/system.slice/db.service"), "declared");
  EXPECT_EQ(sample_of(seen, "/system.slice/db.service")->workload.name, "db");
  EXPECT_EQ(protection("/system.slice/web.service"), "none");
  EXPECT_EQ(protection("/system.slice/agent.service"), "own-cgroup");
  EXPECT_EQ(protection("/system.slice"), "own-cgroup") << "killing it would kill the agent";
  EXPECT_EQ(protection("/init.scope"), "init-cgroup");
}

TEST_F(ObserverWorkloads, AProtectedWorkloadProtectsItsAncestors) {
  Config config;
  config.pod_rules.push_back({"b", {}, {}, {}, true});
  config.workloads.push_back({"/kubepods/burstable", {}, {}, {}, false});
  const auto seen = all(*world_.observer(config));
  EXPECT_NE(sample_of(seen, "/kubepods/burstable")->workload.protection, Protection::none);
  EXPECT_EQ(sample_of(seen, "/kubepods/burstable/poda")->workload.protection, Protection::none);
}

// In a cgroup namespace /proc/self/cgroup contains "/": the agent must find itself by its pid.
TEST_F(ObserverWorkloads, FindsItselfFromInsideACgroupNamespace) {
  world_.files.write("proc/self/cgroup", "0::/\n");
  world_.files.write("cgroup/kubepods/burstable/podc/c1/cgroup.procs",
                     std::to_string(getpid()) + "\n");
  const auto seen = all(*world_.observer({}));
  EXPECT_EQ(sample_of(seen, "/kubepods/burstable/podc")->workload.protection,
            Protection::own_cgroup);
  EXPECT_EQ(sample_of(seen, "/kubepods/burstable/poda")->workload.protection, Protection::none);
}

TEST_F(ObserverWorkloads, TheSubjectLimitsTheReading) {
  Config config;
  config.workloads.push_back({"/system.slice/*", {}, {}, {}, false});
  const auto observer = world_.observer(config);
  EXPECT_EQ(all(*observer, "/kubepods").workloads->size(), 4u);
  EXPECT_EQ(all(*observer, "/system.slice/web.service").workloads->size(), 1u);
  EXPECT_EQ(all(*observer, "/absent").workloads->size(), 0u);
  EXPECT_EQ(all(*observer).workloads->size(), 7u);
}

// The policy spares the contents of a protected workload, so the observer must list it.
TEST_F(ObserverWorkloads, AProtectedWorkloadAboveTheSubjectIsReadToo) {
  Config config;
  config.pod_rules.push_back({"b", {}, {}, {}, true});
  config.workloads.push_back({"/kubepods/burstable/*/c1", {}, {}, {}, false});
  const auto observer = world_.observer(config);
  const auto seen = all(*observer, "/kubepods/burstable/podb/c1");
  ASSERT_EQ(seen.workloads->size(), 2u);
  ASSERT_NE(sample_of(seen, "/kubepods/burstable/podb"), nullptr);
  EXPECT_EQ(sample_of(seen, "/kubepods/burstable/podb")->workload.protection, Protection::declared);
  EXPECT_NE(sample_of(seen, "/kubepods/burstable/podb/c1"), nullptr);
}

TEST_F(ObserverWorkloads, AGuaranteedPodRequestsItsLimitUnlessDeclared) {
  for (const auto& uid : {"g", "declared", "unlimited"}) {
    add(std::string("cgroup/kubepods/pod") + uid, "31\n");
  }
  world_.files.write("cgroup/kubepods/podg/memory.max", "8388608\n");
  world_.files.write("cgroup/kubepods/poddeclared/memory.max", "8388608\n");
  world_.files.write(pod("a") + "/memory.max", "8388608\n");
  Config config;
  config.pod_rules.push_back({"declared", {}, {}, mib(5), false});
  const auto seen = all(*world_.observer(config));
  const auto request = [&](const std::string& path) {
    const Workload& found = sample_of(seen, "/kubepods/" + path)->workload;
    return found.memory_request ? found.memory_request : found.inferred->memory_request;
  };
  EXPECT_EQ(request("podg"), mib(8));
  EXPECT_EQ(request("poddeclared"), mib(5));
  EXPECT_EQ(request("podunlimited"), std::nullopt);
  EXPECT_EQ(request("burstable/poda"), std::nullopt) << "a limit is no request";
}

TEST_F(ObserverWorkloads, CountsProcessesOfContainersMadeSinceTheRefresh) {
  const auto observer = world_.observer({});
  EXPECT_EQ(sample_of(all(*observer), "/kubepods/burstable/poda")->processes, 2u);
  add(pod("a") + "/c2", "13\n");
  EXPECT_EQ(sample_of(all(*observer), "/kubepods/burstable/poda")->processes, 3u);
  std::filesystem::remove_all(world_.files / (pod("a") + "/c1"));
  EXPECT_EQ(sample_of(all(*observer), "/kubepods/burstable/poda")->processes, 1u);
}

// Regression: candidates that were read again kept the count of their first reading.
TEST_F(ObserverWorkloads, ResamplingCountsProcessesAgain) {
  const auto observer = world_.observer({});
  auto observation = all(*observer);
  EXPECT_EQ(sample_of(observation, "/kubepods/burstable/poda")->processes, 2u);
  add(pod("a") + "/c1", "");
  observer->resample_workloads(observation);
  EXPECT_EQ(sample_of(observation, "/kubepods/burstable/poda")->processes, 0u);
  EXPECT_EQ(sample_of(observation, "/kubepods/burstable/podb")->processes, 2u);
}

TEST_F(ObserverWorkloads, SmallStepsOfUsageAddUp) {
  const auto observer = world_.observer({});
  auto observation = all(*observer);
  const auto resampled = [&](Bytes usage) {
    world_.files.write(pod("a") + "/memory.current", std::to_string(usage.count) + "\n");
    observer->resample_workloads(observation);
    const WorkloadSample& sample = *sample_of(observation, "/kubepods/burstable/poda");
    EXPECT_EQ(sample.usage, usage);
    return sample.inactive_file;
  };
  world_.files.write(pod("a") + "/memory.stat", "inactive_file 20\n");
  EXPECT_EQ(resampled(kib(200)), Bytes{10}) << "it stands still";
  EXPECT_EQ(resampled(kib(400)), Bytes{20});
  world_.files.write(pod("a") + "/memory.stat", "inactive_file 30\n");
  EXPECT_EQ(resampled(kib(300)), Bytes{20}) << "counted from the last reading of memory.stat";
  EXPECT_EQ(resampled(kib(100)), Bytes{30}) << "a decrease is a step too";
}

TEST_F(ObserverWorkloads, ConfigureTakesEffectOnRefresh) {
  const auto observer = world_.observer({});
  EXPECT_EQ(observer->workload_count(), 4u);
  Config without;
  without.pods = false;
  observer->configure(without);
  EXPECT_EQ(observer->workload_count(), 4u);
  EXPECT_THAT(observer->refresh(), IsEmpty());
  EXPECT_EQ(observer->workload_count(), 0u);
}

class ObserverHost : public ::testing::Test {
 protected:
  ObserverHost() {
    auto found = kernel::CgroupTree::discover();
    if (!found) throw std::runtime_error(found.error().text());
    tree_ = std::move(found).value();
    path_ = scratch_.child("w");
    config_.pods = false;
    config_.workloads.push_back({scratch_.path() + "/*", {}, {}, {}, false});
    config_.thresholds.push_back(
        threshold(Signal::cgroup_memory_available, scratch_.path() + "/*"));
    auto made = Observer::create(tree_, config_);
    if (!made) throw std::runtime_error(made.error().text());
    observer_ = std::move(made).value();
  }
  test::ScratchCgroup scratch_;
  kernel::CgroupTree tree_;
  std::string path_;
  Config config_;
  std::unique_ptr<Observer> observer_;
};

TEST_F(ObserverHost, ValuesEqualTheFiles) {
  scratch_.limit(path_, mib(64));
  const test::Hog hog(scratch_, path_, mib(8));
  EXPECT_THAT(observer_->refresh(), IsEmpty());
  const auto low = scratch_.usage(path_);
  auto seen = evaluate(*observer_);
  observer_->add_workloads(seen, "");
  const auto high = scratch_.usage(path_);
  ASSERT_EQ(seen.watched.size(), 1u);
  EXPECT_EQ(seen.watched[0].limit, mib(64));
  ASSERT_TRUE(seen.watched[0].usage);
  EXPECT_GE(*seen.watched[0].usage, low);
  EXPECT_LE(*seen.watched[0].usage, high);
  EXPECT_TRUE(seen.watched[0].inactive_file);
  ASSERT_EQ(seen.workloads->size(), 1u);
  EXPECT_EQ(seen.workloads->front().processes, 1u);
  EXPECT_EQ(seen.workloads->front().workload.protection, Protection::none);
  EXPECT_EQ(seen.workloads->front().workload.cgroup, seen.watched[0].id);
  ASSERT_TRUE(seen.node.capacity && seen.node.usage && seen.node.inactive_file);
  EXPECT_LT(*seen.node.usage, *seen.node.capacity);
  EXPECT_GT(*seen.node.usage, Bytes{0});
  EXPECT_THAT(seen.notes, IsEmpty());
}

TEST_F(ObserverHost, ACgroupRemovedAfterTheRefreshIsDropped) {
  EXPECT_THAT(observer_->refresh(), IsEmpty());
  EXPECT_EQ(observer_->workload_count(), 1u);
  scratch_.remove_child(path_);
  auto seen = evaluate(*observer_);
  observer_->add_workloads(seen, "");
  EXPECT_THAT(seen.watched, IsEmpty());
  EXPECT_THAT(*seen.workloads, IsEmpty());
  EXPECT_THAT(seen.notes, IsEmpty());
  EXPECT_EQ(observer_->workload_count(), 0u);
  // With the same path again it is another cgroup, visible from the next refresh on.
  EXPECT_EQ(scratch_.child("w"), path_);
  EXPECT_THAT(evaluate(*observer_).watched, IsEmpty());
  EXPECT_THAT(observer_->refresh(), IsEmpty());
  EXPECT_EQ(evaluate(*observer_).watched.size(), 1u);
}

}  // namespace
}  // namespace forestall::sources
