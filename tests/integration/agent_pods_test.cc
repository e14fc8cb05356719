// SPDX-License-Identifier: Apache-2.0
// Pods: disks that fill up (real filesystems on loop devices with the kubelet's directory layout),
// limits on local storage, oom_score_adj. The test makes the pods' cgroups. In place of the
// kubelet, the test removes the volumes of a pod that has ended.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/scratch_filesystem.h"

namespace forestall::test::agent_pods_test {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kDisk = mib(128);
constexpr Duration kPatience = std::chrono::seconds(90);

struct DiskPod {
  std::string name;
  int priority = 0;
  std::string storage_request = "0";
  std::string storage_limit = "";  // empty: none
  std::string size_limit = "";     // of its emptyDir; empty: none
};

// A kubelet's directory on a filesystem of its own, and pods in cgroups of their own.
class DiskNode {
 public:
  explicit DiskNode(std::vector<DiskPod> pods)
      : disk_(ScratchKind::ext4, kDisk, 4096), pods_(std::move(pods)) {
    for (std::size_t i = 0; i < pods_.size(); ++i) {
      scratch_.child(fmt::format("kubepods/burstable/pod{}/c0ffee{}", uid(i), i));
      fs::create_directories(volume(i));
      fs::create_directories(files_ / fmt::format("logs/default_{}_{}/app", pods_[i].name, uid(i)));
    }
    files_.write("pods.json", pod_list());
  }

  [[nodiscard]] std::string config(const std::string& thresholds, const std::string& more = "") {
    return fmt::format(
        "{}\npodList: {}\npods: {{cgroupRoot: {}}}\nevictionPressureTransitionPeriod: 2s\n"
        "filesystems: {{nodefs: {}, podLogs: {}}}\n{}",
        thresholds, files_ / "pods.json", scratch_.path(), disk_.path(), files_ / "logs", more);
  }

  // A process of the pod that runs `body` in its volume and then waits until it is killed.
  [[nodiscard]] Child inhabitant(const std::string& pod, const std::function<void()>& body) {
    const std::size_t i = index(pod);
    const std::string cgroup =
        fmt::format("{}/kubepods/burstable/pod{}/c0ffee{}", scratch_.path(), uid(i), i);
    return Child([this, i, cgroup, body]() -> int {
      scratch_.add(cgroup, getpid());
      if (chdir(volume(i).c_str()) != 0) return 1;
      body();
      for (;;) pause();
    });
  }
  // Does what the kubelet does for a pod that has ended.
  void clean_up(const std::string& pod) const { fs::remove_all(volume(index(pod))); }

 private:
  [[nodiscard]] std::size_t index(const std::string& name) const {
    for (std::size_t i = 0; i < pods_.size(); ++i) {
      if (pods_[i].name == name) return i;
    }
    throw std::runtime_error("no pod " + name);
  }
  [[nodiscard]] static std::string uid(std::size_t i) {
    return fmt::format("{:08x}-bbbb-4ccc-8ddd-eeeeeeeeeeee", i + 1);
  }
  [[nodiscard]] std::string volume(std::size_t i) const {
    return fmt::format("{}/pods/{}/volumes/kubernetes.io~empty-dir/scratch", disk_.path(), uid(i));
  }
  [[nodiscard]] std::string pod_list() const {
    std::string items;
    for (std::size_t i = 0; i < pods_.size(); ++i) {
      const DiskPod& pod = pods_[i];
      const std::string limit =
          pod.storage_limit.empty()
              ? ""
              : fmt::format(R"(,"limits":{{"ephemeral-storage":"{}"}})", pod.storage_limit);
      const std::string size =
          pod.size_limit.empty() ? "" : fmt::format(R"("sizeLimit":"{}")", pod.size_limit);
      items += fmt::format(
          R"({}{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{}","namespace":"default",)"
          R"("uid":"{}"}},"spec":{{"priority":{},"containers":[{{"name":"app","resources":)"
          R"({{"requests":{{"ephemeral-storage":"{}"}}{}}}}}],"volumes":[{{"name":"scratch",)"
          R"("emptyDir":{{{}}}}}]}},"status":{{"phase":"Running","qosClass":"Burstable",)"
          R"("containerStatuses":[{{"name":"app","containerID":"containerd://c0ffee{}"}}]}}}})",
          i == 0 ? "" : ",", pod.name, uid(i), pod.priority, pod.storage_request, limit, size, i);
    }
    return R"({"apiVersion":"v1","kind":"List","items":[)" + items + "]}";
  }

  ScratchFilesystem disk_;
  ScratchCgroup scratch_;
  TempTree files_;
  std::vector<DiskPod> pods_;
};

void write_file(const char* name, Bytes size) {
  const UniqueFd file(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  static char chunk[1 << 16];
  for (std::int64_t done = 0; done < size.count; done += static_cast<std::int64_t>(sizeof chunk)) {
    if (write(file.get(), chunk, sizeof chunk) < 0) return;
  }
  fsync(file.get());
}

void make_files(int count) {
  for (int i = 0; i < count; ++i) {
    const UniqueFd file(open(fmt::format("f{}", i).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    if (!file) return;
  }
}

bool disk_pressure_changed(const v1::Record& record, bool status) {
  for (const auto& each : record.decision().conditions()) {
    if (each.type() == "DiskPressure" && each.changed()) return each.status() == status;
  }
  return false;
}

// The agent evicts `victim`; after its files are gone, the condition is false.
void expect_eviction_and_recovery(DiskNode& node, AgentRun& agent, const std::string& victim) {
  bool risen = false;
  const auto killed = agent.wait_record(
      [&](const v1::Record& record) {
        risen = risen || disk_pressure_changed(record, true);
        return record.decision().action() == v1::Decision::KILL && record.has_outcome();
      },
      kPatience);
  ASSERT_TRUE(killed) << agent.process().log();
  EXPECT_TRUE(risen) << agent.process().log();
  EXPECT_EQ(killed->outcome().victim().name(), "default/" + victim) << agent.process().log();
  node.clean_up(victim);
  EXPECT_TRUE(agent.wait_record(
      [](const v1::Record& record) { return disk_pressure_changed(record, false); }, kPatience))
      << agent.process().log();
}

TEST(AgentPods, TheDiskFillsUp) {
  DiskNode node({{"modest", 0, "8Mi"}, {"hoarder", 0, "8Mi"}, {"important", 1000, "8Mi"}});
  Child modest = node.inhabitant("modest", [] { write_file("data", mib(12)); });
  Child important = node.inhabitant("important", [] { write_file("data", mib(40)); });
  AgentRun agent(node.config("evictionHard: {nodefs.available: 20%}"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  Child hoarder = node.inhabitant("hoarder", [] { write_file("data", mib(128)); });
  expect_eviction_and_recovery(node, agent, "hoarder");
  EXPECT_TRUE(hoarder.wait_exit());
  EXPECT_FALSE(modest.ended());
  EXPECT_FALSE(important.ended());
}

TEST(AgentPods, TheInodesRunOut) {
  DiskNode node({{"modest", 0}, {"crumbler", 0}});
  Child modest = node.inhabitant("modest", [] { write_file("data", mib(16)); });
  AgentRun agent(node.config("evictionHard: {nodefs.inodesFree: 20%}"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  Child crumbler = node.inhabitant("crumbler", [] { make_files(4096); });
  expect_eviction_and_recovery(node, agent, "crumbler");
  EXPECT_TRUE(crumbler.wait_exit());
  EXPECT_FALSE(modest.ended());
}

TEST(AgentPods, EvictsAPodOverItsEmptyDirLimitWithoutAThreshold) {
  DiskNode node({{"bounded", 0, "0", "", "16Mi"}, {"unbounded", 0}});
  Child unbounded = node.inhabitant("unbounded", [] { write_file("data", mib(24)); });
  Child bounded = node.inhabitant("bounded", [] { write_file("data", mib(24)); });
  AgentRun agent(node.config("evictionHard: {}", "recheckInterval: 500ms"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto killed = agent.wait_kill(kPatience);
  ASSERT_TRUE(killed) << agent.process().log();
  EXPECT_EQ(killed->outcome().victim().name(), "default/bounded");
  EXPECT_EQ(killed->decision().evictions(0).message(),
            "Usage of EmptyDir volume \"scratch\" exceeds the limit \"16Mi\". ");
  EXPECT_TRUE(bounded.wait_exit());
  EXPECT_FALSE(unbounded.ended());
}

std::int64_t oom_score_adj_of(pid_t pid) {
  std::int64_t value = 0;
  std::ifstream("/proc/" + std::to_string(pid) + "/oom_score_adj") >> value;
  return value;
}

TEST(AgentPods, AnOomScoreAdjThatDeviatesIsSetWhereThatIsWanted) {
  DiskNode node({{"modest", 0}});
  Child modest = node.inhabitant("modest", [] {});
  AgentRun agent(node.config("evictionHard: {}", "recheckInterval: 100ms\noomScoreAdj: enforce\n"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const MonotonicTime deadline = SystemClock().now() + kPatience;
  // Burstable without a memory request: the highest oom_score_adj of that class.
  while (oom_score_adj_of(modest.pid()) != 999 && SystemClock().now() < deadline) {
  }
  EXPECT_EQ(oom_score_adj_of(modest.pid()), 999) << agent.process().log();
}

TEST(AgentPods, EvictsNoPodWithoutPressure) {
  DiskNode node({{"modest", 0, "8Mi"}});
  Child modest = node.inhabitant("modest", [] { write_file("data", mib(12)); });
  AgentRun agent(node.config("evictionHard: {nodefs.available: 20%, nodefs.inodesFree: 5%}",
                             "recheckInterval: 200ms"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  EXPECT_FALSE(agent.wait_record(
      [](const v1::Record& record) { return record.decision().action() == v1::Decision::KILL; },
      std::chrono::seconds(2)));
  EXPECT_FALSE(modest.ended());
}

// A process of a container, with the value that kubelet would give it.
// Lowering it needs CAP_SYS_RESOURCE. Returns the value in force.
int set_oom_score_adj(pid_t pid, int value) {
  const std::string path = fmt::format("/proc/{}/oom_score_adj", pid);
  std::ofstream(path) << value;
  int in_force = 0;
  std::ifstream(path) >> in_force;
  return in_force;
}

// Without a list of the pods, the larger pod would go first: neither has a known request.
TEST(AgentPods, SparesAPodThatMayBeCriticalIfNothingIsDeclared) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), mib(256));
  const std::string group = "kubepods/besteffort/pod";
  const auto critical_path = scratch.child(group + "11111111-bbbb-4ccc-8ddd-eeeeeeeeeeee/c1");
  const auto leak_path = scratch.child(group + "22222222-bbbb-4ccc-8ddd-eeeeeeeeeeee/c2");
  Hog critical(scratch, critical_path, mib(110));
  Hog leak(scratch, leak_path, mib(8));
  // Without the capability it stays 0, which may be critical just as well.
  const int of_critical = set_oom_score_adj(critical.pid(), -997);
  ASSERT_LE(of_critical, 0);
  ASSERT_EQ(set_oom_score_adj(leak.pid(), 1000), 1000);
  AgentRun agent(
      fmt::format("evictionHard: {{}}\nreleaseTimeout: 20s\npods: {{cgroupRoot: {0}}}\n"
                  "watch:\n  - {{cgroup: {0}, available: 64Mi, tuneMemoryHigh: true}}\n",
                  scratch.path()));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  leak.leak(mib(98), mib(2));
  const auto record = agent.wait_kill();
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->outcome().victim().pod_uid(), "22222222-bbbb-4ccc-8ddd-eeeeeeeeeeee")
      << agent.process().log();
  EXPECT_TRUE(leak.child().wait_exit());
  EXPECT_TRUE(critical.alive());
  // A pre-ranked list need not contain the protected pod.
  const auto& considered = record->decision().considered();
  ASSERT_FALSE(considered.empty());
  for (const v1::Candidate& each : considered) {
    const bool is_victim = each.exclusion() == v1::Candidate::NONE;
    EXPECT_TRUE(each.key().priority_unknown());
    EXPECT_EQ(each.sample().workload().inferred().oom_score_adj(), is_victim ? 1000 : of_critical);
    EXPECT_EQ(each.sample().workload().inferred().qos_class(), "BestEffort");
  }
  EXPECT_NE(agent.process().log().find("event=pod-facts"), std::string::npos)
      << agent.process().log();
}

}  // namespace
}  // namespace forestall::test::agent_pods_test
