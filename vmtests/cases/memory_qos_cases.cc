// SPDX-License-Identifier: Apache-2.0
// Memory QoS on cgroup v2, which the development host does not have: what `status` shows are the
// values of kubelet's formulas, next to what the kernel has; what `enforce` writes and restores,
// and that it protects.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "cli/agent_process.h"
#include "forestall/v1/status.pb.h"
#include "messages/json.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/file_changes.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"
#include "support/zram_swap.h"

namespace forestall::vm {
namespace {

using test::AgentRun;
using test::mounts;

constexpr Duration kQosPatience = std::chrono::seconds(90);
constexpr const char* kGuaranteed = "kubepods/pod11111111-aaaa-4ccc-8ddd-eeeeeeeeeeee";
constexpr const char* kBurstable = "kubepods/burstable/pod22222222-aaaa-4ccc-8ddd-eeeeeeeeeeee";
constexpr const char* kPods = R"({"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"g","namespace":"default",
"uid":"11111111-aaaa-4ccc-8ddd-eeeeeeeeeeee"},"spec":{"priority":0,"containers":[{"name":"app",
"resources":{"requests":{"cpu":"1","memory":"64Mi"},"limits":{"cpu":"1","memory":"64Mi"}}}]},
"status":{"phase":"Running","containerStatuses":[{"name":"app",
"containerID":"containerd://c0ffee1"}]}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","namespace":"default",
"uid":"22222222-aaaa-4ccc-8ddd-eeeeeeeeeeee"},"spec":{"priority":0,"containers":[{"name":"app",
"resources":{"requests":{"memory":"128Mi"},"limits":{"memory":"256Mi"}}}]},
"status":{"phase":"Running","containerStatuses":[{"name":"app",
"containerID":"containerd://c0ffee2"}]}}]})";

const std::vector<std::string> kPlanned = {"kubepods",  "kubepods/burstable",
                                           kGuaranteed, std::string(kGuaranteed) + "/c0ffee1",
                                           kBurstable,  std::string(kBurstable) + "/c0ffee2",
                                           "db"};

const std::map<std::string, std::string> kEnforced = {
    {"kubepods memory.min", "201326592"},
    {"kubepods/burstable memory.low", "134217728"},
    {std::string(kGuaranteed) + " memory.min", "67108864"},
    {std::string(kGuaranteed) + "/c0ffee1 memory.min", "67108864"},
    {std::string(kBurstable) + " memory.low", "134217728"},
    {std::string(kBurstable) + "/c0ffee2 memory.low", "134217728"},
    {"db memory.min", "33554432"}};

class MemoryQos : public ::testing::Test {
 protected:
  void SetUp() override {
    if (mounts().v1)
      GTEST_SKIP() << "not applicable: cgroup v1 has no memory.min; 6.12 v2 runs this";
    for (const auto& each : {std::string(kGuaranteed) + "/c0ffee1",
                             std::string(kBurstable) + "/c0ffee2", std::string("db")}) {
      scratch_.child(each);
    }
    files_.write("pods.json", kPods);
    files_.write("kubelet.yaml",
                 "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
                 "featureGates: {MemoryQoS: false}\n");
  }

  [[nodiscard]] std::string config(const std::string& mode = "observe") const {
    return fmt::format(
        "evictionHard: {{}}\nrecheckInterval: 200ms\npodList: {}\nkubeletConfig: {}\n"
        "pods: {{cgroupRoot: {}}}\nmemoryQoS: {}\nmemoryThrottlingFactor: 0.9\n"
        "memoryReservationPolicy: TieredReservation\n"
        "memoryQoSCgroups: [{{cgroup: {}/db, min: 32Mi, high: 1Gi}}]\n",
        files_ / "pods.json", files_ / "kubelet.yaml", scratch_.path(), mode, scratch_.path());
  }
  [[nodiscard]] std::string path(const std::string& below) const {
    return scratch_.path() + "/" + below;
  }

  // The first status with these values; the agent computes them on a thread of its own.
  static v1::MemoryQosStatus wait_values(
      AgentRun& agent, const std::function<bool(const v1::MemoryQosStatus&)>& wanted =
                           [](const v1::MemoryQosStatus& qos) { return qos.values_size() > 0; }) {
    v1::AgentStatus status;
    for (const auto end = SystemClock().now() + kQosPatience; SystemClock().now() < end;) {
      const auto ran =
          test::run_forestall({"status", "--run-dir", agent.directory() / "", "-o", "json"});
      if (messages::from_json(ran.output, status) && wanted(status.memory_qos())) break;
    }
    return status.memory_qos();
  }
  static std::function<bool(const v1::MemoryQosStatus&)> has(const std::string& file,
                                                             const std::string& state, int count) {
    return [=](const v1::MemoryQosStatus& qos) {
      return count == std::ranges::count_if(qos.values(), [&](const v1::MemoryQosValue& each) {
               return each.file() == file && each.state() == state;
             });
    };
  }
  // Waits for the text of a control file.
  [[nodiscard]] bool wait_text(const std::string& below, const std::string& file,
                               const std::string& text) const {
    return test::wait_for_files(scratch_.directory(path(below)), -1,
                                [&] { return scratch_.read(path(below), file) == text; });
  }
  // Every memory.min and memory.low that the plan has, below the scratch cgroup.
  [[nodiscard]] std::map<std::string, std::string> present() const {
    std::map<std::string, std::string> found;
    for (const std::string& below : kPlanned) {
      for (const std::string file : {"memory.min", "memory.low"}) {
        const std::string text = scratch_.read(path(below), file);
        if (text != "0\n") found[below + " " + file] = text.substr(0, text.size() - 1);
      }
    }
    return found;
  }
  [[nodiscard]] bool wait_present(const std::map<std::string, std::string>& wanted) const {
    return test::wait_for_files(scratch_.directory(scratch_.path()), -1,
                                [&] { return present() == wanted; });
  }
  static void kill_agent(AgentRun& agent) {
    ASSERT_EQ(kill(agent.process().pid(), SIGKILL), 0);
    ASSERT_TRUE(agent.process().wait_end(SystemClock().now() + kQosPatience));
  }
  // In the run directory of one that was killed.
  static Result<cli::AgentProcess> start_next(const AgentRun& agent) {
    unlink((agent.directory() / "notify").c_str());  // of the test, not of the agent
    return cli::AgentProcess::start(test::forestall_executable(),
                                    {"--config", agent.directory() / "config.yaml"},
                                    agent.directory().path());
  }
  static void end(AgentRun& agent) {
    ASSERT_EQ(kill(agent.process().pid(), SIGTERM), 0);
    ASSERT_TRUE(agent.process().wait_end(SystemClock().now() + kQosPatience));
  }
  // "<cgroup below the scratch cgroup> <file> <present> <wanted> <state>"
  [[nodiscard]] std::vector<std::string> rows(const v1::MemoryQosStatus& status) const {
    std::vector<std::string> rows;
    for (const auto& each : status.values()) {
      rows.push_back(fmt::format("{} {} {} {} {}", each.cgroup().substr(scratch_.path().size() + 1),
                                 each.file(), each.present(), each.wanted(), each.state()));
    }
    return rows;
  }

  test::ScratchCgroup scratch_;
  test::TempTree files_;
};

TEST_F(MemoryQos, ObserveShowsTheValuesOfTheFormulasAndWritesNothing) {
  scratch_.write(path(kGuaranteed), "memory.min", "67108864");
  AgentRun agent(config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto status = wait_values(agent);
  EXPECT_EQ(status.mode(), "observe");
  EXPECT_EQ(status.unknown_pods(), 0U);
  const std::string guaranteed = kGuaranteed;
  const std::string burstable = kBurstable;
  EXPECT_THAT(rows(status), testing::UnorderedElementsAre(
                                "kubepods memory.min 0 201326592 would-write",
                                "kubepods/burstable memory.low 0 134217728 would-write",
                                guaranteed + " memory.min 67108864 67108864 equal",
                                guaranteed + "/c0ffee1 memory.min 0 67108864 would-write",
                                burstable + " memory.low 0 134217728 would-write",
                                burstable + "/c0ffee2 memory.low 0 134217728 would-write",
                                burstable + "/c0ffee2 memory.high max 255012864 would-write",
                                "db memory.min 0 33554432 would-write",
                                "db memory.high max 1073741824 would-write"));
  EXPECT_EQ(scratch_.read(path("kubepods"), "memory.min"), "0\n");
  EXPECT_EQ(scratch_.read(path(burstable + "/c0ffee2"), "memory.high"), "max\n");
  EXPECT_EQ(scratch_.read(path("db"), "memory.min"), "0\n");
}

TEST_F(MemoryQos, WhatTheKubeletWritesIsLeftToIt) {
  files_.write("kubelet.yaml",
               "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
               "featureGates: {MemoryQoS: true}\nmemoryThrottlingFactor: 0.8\n");
  AgentRun agent(config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto status = wait_values(agent);
  ASSERT_EQ(status.values_size(), 9);
  for (const auto& each : status.values()) {
    const bool of_pods = !each.cgroup().ends_with("/db");
    EXPECT_EQ(each.state(), of_pods ? "left" : "would-write") << each.cgroup();
    EXPECT_EQ(each.reason(), of_pods ? "the kubelet writes it" : "") << each.cgroup();
  }
}

TEST_F(MemoryQos, EnforceWritesMinAndLowAndRestoresThemAtItsEnd) {
  scratch_.write(path("db"), "memory.min", "4096");
  AgentRun agent(config("enforce"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  EXPECT_TRUE(wait_present(kEnforced));
  const auto status = wait_values(agent, has("memory.min", "written", 4));
  EXPECT_EQ(status.mode(), "enforce");
  for (const auto& each : status.values()) {
    if (each.file() == "memory.high") {
      EXPECT_EQ(each.state(), "left");
      EXPECT_EQ(each.reason(), "enforce writes memory.min and memory.low only");
    } else {
      EXPECT_EQ(each.state(), "written") << each.cgroup() << " " << each.reason();
      // The root of this test is not the agent's.
      EXPECT_EQ(each.reason(), "limited by " + scratch_.path() + ", which has 0") << each.cgroup();
    }
  }
  EXPECT_EQ(scratch_.read(path(std::string(kBurstable) + "/c0ffee2"), "memory.high"), "max\n");
  end(agent);
  EXPECT_THAT(present(), testing::ElementsAre(testing::Pair("db memory.min", "4096")));
}

TEST_F(MemoryQos, WhatAKilledAgentWroteIsAdoptedAndRestoredByTheNext) {
  AgentRun agent(config("enforce"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  ASSERT_TRUE(wait_present(kEnforced));
  kill_agent(agent);
  ASSERT_EQ(present(), kEnforced);
  // The next agent writes nothing: the values have no gap.
  bool had_gap = false;
  auto next = start_next(agent);
  ASSERT_TRUE(next) << next.error().text();
  const auto status = wait_values(agent, [&](const v1::MemoryQosStatus& qos) {
    had_gap = had_gap || present() != kEnforced;
    return has("memory.min", "written", 4)(qos);
  });
  EXPECT_TRUE(has("memory.low", "written", 3)(status)) << "not equal: they are the agent's";
  EXPECT_FALSE(had_gap);
  ASSERT_EQ(kill(next->pid(), SIGTERM), 0);
  ASSERT_TRUE(next->wait_end(SystemClock().now() + kQosPatience));
  EXPECT_THAT(present(), testing::IsEmpty());
}

TEST_F(MemoryQos, AnAgentWithoutEnforceRestoresWhatAKilledOneWrote) {
  AgentRun agent(config("enforce"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  ASSERT_TRUE(wait_present(kEnforced));
  kill_agent(agent);
  agent.rewrite_config(config("observe"));
  auto next = start_next(agent);
  ASSERT_TRUE(next) << next.error().text();
  EXPECT_THAT(present(), testing::IsEmpty()) << "before it is ready";
}

TEST_F(MemoryQos, AReloadRestoresWhatIsNotPlannedAnyMore) {
  AgentRun agent(config("enforce"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  ASSERT_TRUE(wait_present(kEnforced));
  std::string changed = config("enforce");
  changed.replace(changed.find("TieredReservation"), 17, "None");
  agent.rewrite_config(changed);
  ASSERT_EQ(kill(agent.process().pid(), SIGHUP), 0);
  EXPECT_TRUE(wait_present({{"db memory.min", "33554432"}}));
  agent.rewrite_config(config("enforce") + "dryRun: true\n");
  ASSERT_EQ(kill(agent.process().pid(), SIGHUP), 0);
  EXPECT_TRUE(wait_present({}));
  const auto status = wait_values(agent, has("memory.min", "would-write", 4));
  EXPECT_TRUE(has("memory.min", "would-write", 4)(status));
  EXPECT_THAT(present(), testing::IsEmpty());
}

// As systemd does at a daemon-reload, and as an administrator does.
TEST_F(MemoryQos, AResetIsWrittenAgainAndAChosenValueIsLeft) {
  AgentRun agent(config("enforce"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  ASSERT_TRUE(wait_present(kEnforced));
  scratch_.write(path(kGuaranteed), "memory.min", "0");
  EXPECT_TRUE(wait_present(kEnforced));
  scratch_.write(path(kGuaranteed), "memory.min", "8192");
  const auto status = wait_values(agent, has("memory.min", "left", 1));
  EXPECT_EQ(status.rewrites(), 1U);
  EXPECT_TRUE(has("memory.min", "left", 1)(status));
  end(agent);
  EXPECT_THAT(present(), testing::ElementsAre(
                             testing::Pair(std::string(kGuaranteed) + " memory.min", "8192")));
}

TEST_F(MemoryQos, ARequestThatIsGoneIsRestored) {
  AgentRun agent(config("enforce"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  ASSERT_TRUE(wait_present(kEnforced));
  std::string pods = kPods;
  const std::string request = R"("requests":{"memory":"128Mi"},)";
  pods.erase(pods.find(request), request.size());
  const std::string limit = R"("limits":{"memory":"256Mi"})";
  pods.replace(pods.find(limit), limit.size(), R"("limits":{})");
  files_.write("pods.json", pods);
  auto wanted = kEnforced;
  wanted["kubepods memory.min"] = "67108864";
  wanted.erase("kubepods/burstable memory.low");
  wanted.erase(std::string(kBurstable) + " memory.low");
  wanted.erase(std::string(kBurstable) + "/c0ffee2 memory.low");
  EXPECT_TRUE(wait_present(wanted)) << testing::PrintToString(present());
}

// Touches anonymous memory of its own, all of it at each request.
class Toucher {
 public:
  Toucher(const test::ScratchCgroup& scratch, const std::string& cgroup, Bytes size)
      : requests_(pipe_ends()), replies_(pipe_ends()), child_([this, &scratch, cgroup, size] {
          scratch.add(cgroup, getpid());
          return serve(static_cast<std::size_t>(size.count));
        }) {}
  // False: it was killed.
  [[nodiscard]] bool touch_all() const {
    const char byte = 0;
    if (write(requests_.second.get(), &byte, 1) != 1) return false;
    pollfd reply{replies_.first.get(), POLLIN, 0};
    char answer = 0;
    return poll(&reply, 1, static_cast<int>(to_ms(kQosPatience))) == 1 &&
           read(replies_.first.get(), &answer, 1) == 1;
  }

 private:
  static std::pair<UniqueFd, UniqueFd> pipe_ends() {
    std::array<int, 2> ends{-1, -1};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
  }
  // Random words: zram stores a page of equal ones without any work.
  int serve(std::size_t size) const {
    void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return 1;
    auto* words = static_cast<std::uint64_t*>(mapped);
    std::mt19937_64 random(1);
    char byte = 0;
    while (read(requests_.first.get(), &byte, 1) == 1) {
      for (std::size_t at = 0; at < size / sizeof *words; at += 64) words[at] = random();
      if (write(replies_.second.get(), &byte, 1) != 1) return 2;
    }
    return 0;
  }

  std::pair<UniqueFd, UniqueFd> requests_;
  std::pair<UniqueFd, UniqueFd> replies_;
  test::Child child_;
};

// The acceptance of issue 18: two pods share too little memory. The one with memory.min keeps its
// working set while the other one needs more than there is.
TEST_F(MemoryQos, AGuaranteedPodKeepsItsWorkingSetWhileAnotherOneThrashes) {
  const test::ZramSwap swap(mib(256));
  // All pods together are promised 80 MiB: more than the limit would leave nothing to reclaim.
  scratch_.limit(scratch_.path(), mib(112));
  std::string pods = kPods;
  pods.replace(pods.find("128Mi"), 5, "16Mi");
  files_.write("pods.json", pods);
  const std::string guaranteed = path(std::string(kGuaranteed) + "/c0ffee1");
  const Toucher kept(scratch_, guaranteed, mib(40));
  const Toucher thrashing(scratch_, path(std::string(kBurstable) + "/c0ffee2"), mib(120));
  const auto refaults = [&] {
    const std::string stat = scratch_.read(guaranteed, "memory.stat");
    const std::string key = "\nworkingset_refault_anon ";
    return std::stoll(stat.substr(stat.find(key) + key.size()));
  };
  // Of the kept pages, in some rounds.
  const auto refaults_while_the_other_thrashes = [&] {
    EXPECT_TRUE(kept.touch_all());
    const auto begun = refaults();
    for (int round = 0; round < 2; ++round) {
      EXPECT_TRUE(thrashing.touch_all());
      EXPECT_TRUE(kept.touch_all());
    }
    return refaults() - begun;
  };
  const auto without = refaults_while_the_other_thrashes();
  AgentRun agent(config("enforce"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  ASSERT_TRUE(wait_text("kubepods", "memory.min", "83886080\n"));
  ASSERT_TRUE(wait_text(std::string(kGuaranteed) + "/c0ffee1", "memory.min", "67108864\n"));
  const auto with = refaults_while_the_other_thrashes();
  fmt::print("@metric qos_refaults_without_min {}\n@metric qos_refaults_with_min {}\n", without,
             with);
  EXPECT_GT(without, 3000) << "of 20480 pages: the other pod takes none, so this shows nothing";
  EXPECT_LT(with, without / 20);
}

}  // namespace
}  // namespace forestall::vm
