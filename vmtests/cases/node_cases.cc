// SPDX-License-Identifier: Apache-2.0
// The whole machine runs out of memory, and the agent must act first: the right pod is evicted, the
// kernel's OOM killer does not act, no other process dies. Whole-machine pressure only inside a VM.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "cases/pod_node.h"

namespace forestall::vm {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

// Far enough above the reserve of the kernel before it reclaims heavily (some 50 MiB in a guest of
// this size), and small relative to the machine.
constexpr Bytes kThreshold = mib(250);
// How far past the line a leak grows at full speed, and its rate from there: some 18 s until the
// kernel must act, on any slow or busy host.
constexpr Bytes kPastLine = mib(48);
constexpr Bytes kPace = mib(8);
// For the list of a calm agent, and for the record of its kill.
constexpr Duration kListed = std::chrono::seconds(90);

std::vector<Pod> three_pods() {
  return {{"database", 1000, mib(256), mib(128)},
          {"web", 100, mib(64), mib(96)},
          {"leak", 10, mib(64), mib(16)}};
}

void expect_only(PodNode& node, test::AgentRun& agent, const std::string& victim,
                 std::uint64_t oom_kills_before, bool met_at_start = false) {
  const auto record = agent.wait_kill(std::chrono::seconds(90));
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->outcome().victim().name(), victim) << agent.process().log();
  EXPECT_EQ(record->outcome().state(), v1::KillProgress::RELEASED);
  EXPECT_TRUE(node.hog(victim).child().wait_exit());
  EXPECT_THAT(node.dead(), ElementsAre(victim)) << agent.process().log();
  EXPECT_EQ(kernel_oom_kills(), oom_kills_before) << agent.process().log();
  ASSERT_EQ(record->crossing().has_last_above(), !met_at_start);
  if (met_at_start) return;
  const std::int64_t above = record->crossing().last_above().at_ns();
  fmt::print("@metric crossing_to_signal_at_most {:.1f} us\n",
             static_cast<double>(record->outcome().signalled_ns() - above) / 1e3);
}

// Grows fast until `past_line` (before it, if negative), then slowly, until it is killed.
void leak(PodNode& node, Bytes past_line = kPastLine) {
  node.hog("leak").leak(memory_available() - kThreshold + past_line, kPace);
}

void leak_and_expect(Driver driver, Bytes past_line, std::vector<std::string> disabled) {
  PodNode node(driver, three_pods());
  const std::uint64_t before = kernel_oom_kills();
  const auto agent = guard(node, node.config(kThreshold), std::move(disabled));
  ASSERT_FALSE(agent->failure()) << agent->failure()->text();
  leak(node, past_line);
  expect_only(node, *agent, "leak", before);
}

TEST(Node, FastLeak) {
  leak_and_expect(Driver::cgroupfs, kPastLine, {});
}
TEST(Node, FastLeakSystemdDriver) {
  leak_and_expect(Driver::systemd, kPastLine, {});
}
TEST(Node, FastLeakWithoutBpf) {
  leak_and_expect(Driver::cgroupfs, kPastLine, {"bpf"});
}
TEST(Node, SlowLeak) {
  leak_and_expect(Driver::cgroupfs, mib(-64), {});
}
TEST(Node, SlowLeakWithoutBpf) {
  leak_and_expect(Driver::systemd, mib(-64), {"bpf"});
}

// A disk of zeroes whose pages, once read, are clean page cache of the reader.
class ZeroDisk {
 public:
  explicit ZeroDisk(Bytes size) {
    std::ofstream reset("/sys/block/zram0/reset");
    reset << "1" << std::flush;
    std::ofstream disk("/sys/block/zram0/disksize");
    disk << size.count << std::flush;
    usable_ = disk.good();
  }
  ~ZeroDisk() {
    std::ofstream reset("/sys/block/zram0/reset");
    reset << "1" << std::flush;
  }
  [[nodiscard]] bool usable() const { return usable_; }

 private:
  bool usable_ = false;
};

// Reads the whole disk repeatedly, from inside a pod's cgroup.
test::Child cache_reader(const PodNode& node, const std::string& pod) {
  return test::Child([&node, pod] {
    node.groups().add(node.container_path(pod), getpid());
    const int disk = open("/dev/zram0", O_RDONLY | O_CLOEXEC);
    static char chunk[1 << 18];
    for (;;) {
      const ssize_t got = read(disk, chunk, sizeof(chunk));
      if (got < 0) return 1;
      if (got == 0) lseek(disk, 0, SEEK_SET);
    }
  });
}

// Waits until the kernel has charged `amount` of page cache to the pod.
bool cache_reaches(const PodNode& node, const std::string& pod, Bytes amount) {
  const MonotonicTime deadline = SystemClock().now() + std::chrono::seconds(60);
  while (SystemClock().now() < deadline) {
    if (node.groups().usage(node.pod_path(pod)) >= amount) return true;
  }
  return false;
}

void leak_beside_page_cache(std::vector<std::string> disabled) {
  // Read twice it is active, which counts as used: all of it may be, before the leak begins.
  const ZeroDisk disk(mib(640));
  ASSERT_TRUE(disk.usable()) << "zram0 is not there";
  PodNode node(Driver::cgroupfs, three_pods());
  const test::Child reader = cache_reader(node, "database");
  ASSERT_TRUE(cache_reaches(node, "database", mib(400)));
  const std::uint64_t before = kernel_oom_kills();
  const auto agent = guard(node, node.config(kThreshold), std::move(disabled));
  ASSERT_FALSE(agent->failure()) << agent->failure()->text();
  leak(node);
  expect_only(node, *agent, "leak", before);
}

TEST(Node, LeakBesidePageCache) {
  leak_beside_page_cache({});
}
TEST(Node, LeakBesidePageCacheWithoutBpf) {
  leak_beside_page_cache({"bpf"});
}

// The guard's standing list: no other exists so far from every threshold.
TEST(Node, ALeakThatBeginsWhileTheAgentIsStopped) {
  PodNode node(Driver::cgroupfs, {{"calm", 10, mib(64), mib(96)}, {"leak", 10, mib(64), mib(16)}});
  const std::uint64_t before = kernel_oom_kills();
  const std::string config = fmt::format(
      "untilOom: {{available: {}Mi}}\nmanifest: manifest.yaml\nguard: on\n"
      "ranking: kubelet+growth\n",
      kThreshold.count >> 20);
  const auto agent = guard(node, config);
  ASSERT_FALSE(agent->failure()) << agent->failure()->text();
  ASSERT_TRUE(agent->process().wait_for_log("what=standing", SystemClock().now() + kListed))
      << agent->process().log();
  ASSERT_EQ(::kill(agent->process().pid(), SIGSTOP), 0);
  // Past the guard's line, which is at half of the threshold.
  leak(node, Bytes{kThreshold.count / 2} + mib(16));
  EXPECT_TRUE(node.hog("leak").child().wait_exit());
  EXPECT_THAT(node.dead(), ElementsAre("leak"));
  EXPECT_EQ(kernel_oom_kills(), before);
  ASSERT_EQ(::kill(agent->process().pid(), SIGCONT), 0);
  const auto record = agent->wait_kill(kListed);
  ASSERT_TRUE(record) << agent->process().log();
  EXPECT_EQ(record->decision().reason(), v1::Decision::GUARD_SHOT);
  EXPECT_EQ(record->outcome().victim().name(), "leak");
}

TEST(Node, SeveralPodsAllocatingAtOnce) {
  PodNode node(Driver::cgroupfs, {{"database", 1000, mib(256), mib(128)},
                                  {"one", 10, mib(32), mib(16)},
                                  {"two", 10, mib(32), mib(16)},
                                  {"three", 10, mib(32), mib(16)}});
  const std::uint64_t before = kernel_oom_kills();
  const auto agent = guard(node, node.config(kThreshold));
  ASSERT_FALSE(agent->failure()) << agent->failure()->text();
  // All at full speed, as far past the line as a single one in other cases; the remaining ones
  // again after each kill. So at the end all three are dead.
  std::vector<std::string> spiking{"one", "two", "three"};
  while (!spiking.empty()) {
    const Bytes together = memory_available() - kThreshold + kPastLine;
    const auto count = static_cast<std::int64_t>(spiking.size());
    for (const std::string& each : spiking) node.hog(each).grow({together.count / count});
    // With its outcome: its memory is free, so that the amount can be read.
    ASSERT_TRUE(agent->wait_kill(std::chrono::seconds(90))) << agent->process().log();
    std::erase_if(spiking, [&](const std::string& each) { return !node.hog(each).alive(); });
    for (const std::string& each : spiking) {
      EXPECT_TRUE(node.hog(each).wait_grown() || !node.hog(each).alive());
    }
  }
  EXPECT_THAT(node.dead(), UnorderedElementsAre("one", "two", "three")) << agent->process().log();
  EXPECT_EQ(kernel_oom_kills(), before) << agent->process().log();
}

TEST(Node, RankingIsKubelets) {
  // No pod leaks; the biggest is within its request, and the pod most above its request has
  // priority.
  PodNode node(Driver::systemd, {{"big-within-request", 0, mib(512), mib(256)},
                                 {"over-but-important", 1000, mib(16), mib(96)},
                                 {"over-and-cheap", 0, mib(16), mib(64)}});
  const std::uint64_t before = kernel_oom_kills();
  // A threshold that is met at once, and unmet after 30 MiB are freed.
  const Bytes now_available = memory_available();
  ASSERT_LT(now_available, machine_memory());
  const auto agent = guard(node, node.config(now_available + mib(24)));
  ASSERT_FALSE(agent->failure()) << agent->failure()->text();
  expect_only(node, *agent, "over-and-cheap", before, /*met_at_start=*/true);
}

// Each source that can see the whole node fill up, alone.
class NodeWake : public testing::TestWithParam<const char*> {};

TEST_P(NodeWake, IsEnough) {
  const std::string feature = GetParam();
  if (const auto line = test::missing_feature(feature)) {
    GTEST_SKIP() << "not applicable: this environment lacks it (" << *line << ")";
  }
  // Sources that see only reclaim or stalls need reclaimable memory before memory is used up.
  const bool sees_reclaim_only = feature == "bpf-reclaim" || feature == "psi-trigger";
  const ZeroDisk disk(gib(1));
  ASSERT_TRUE(disk.usable());
  PodNode node(Driver::cgroupfs, three_pods());
  std::optional<test::Child> reader;
  if (sees_reclaim_only) {
    reader.emplace(cache_reader(node, "database"));
    ASSERT_TRUE(cache_reaches(node, "database", mib(300)));
  }
  const std::uint64_t before = kernel_oom_kills();
  auto disabled = test::all_wakes_but(feature);
  if (feature.substr(0, 3) != "bpf") disabled.push_back("bpf");
  const auto agent = guard(node, node.config(kThreshold, "recheckInterval: 10m"), disabled);
  ASSERT_FALSE(agent->failure()) << agent->failure()->text();
  leak(node);
  expect_only(node, *agent, "leak", before);
}

INSTANTIATE_TEST_SUITE_P(Wake, NodeWake,
                         testing::Values("bpf-timer", "bpf-reclaim", "usage-eventfd", "psi-trigger",
                                         "poll"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace forestall::vm
