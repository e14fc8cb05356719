// SPDX-License-Identifier: Apache-2.0
// What memory QoS reports of a node of files (support/small_node.h).
#include "agent/memory_qos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "support/small_node.h"

namespace forestall::agent {
namespace {

using testing::HasSubstr;

class MemoryQosReportTest : public ::testing::Test {
 protected:
  MemoryQosReportTest() {
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    EXPECT_TRUE(found) << found.error().text();
    tree_ = std::move(found).value();
    facts_.config.mode = MemoryQosMode::observe;
    facts_.config.cgroups = {{"/db", Bytes{4096}, Bytes{8192}, Bytes{1 << 20}}};
  }
  void set(const std::string& file, const std::string& text) const {
    files_.write("cgroup" + file, text + "\n");
  }
  [[nodiscard]] MemoryQosReport report() const { return observe_memory_qos(tree_, facts_); }

  test::SmallNode files_{"/db"};
  kernel::CgroupTree tree_;
  MemoryQosFacts facts_;
};

TEST_F(MemoryQosReportTest, ComparesWithWhatIsPresent) {
  set("/db/memory.min", "4096");
  set("/db/memory.low", "0");
  set("/db/memory.high", "max");
  const auto values = report().values;
  ASSERT_EQ(values.size(), 3U);
  EXPECT_EQ(values[0].state, MemoryQosState::equal);
  EXPECT_EQ(values[1], (MemoryQosValue{"/db", "/db", MemoryQosFile::low, "0", 8192,
                                       MemoryQosState::would_write}));
  EXPECT_EQ(values[2].present, "max");
  EXPECT_EQ(values[2].state, MemoryQosState::would_write);
}

TEST_F(MemoryQosReportTest, AFileThatCannotBeReadIsAFailureAndNotZero) {
  set("/db/memory.min", "0");
  set("/db/memory.high", "max");
  const auto values = report().values;
  ASSERT_EQ(values.size(), 3U);
  EXPECT_EQ(values[1].state, MemoryQosState::failed);
  EXPECT_EQ(values[1].present, "");
  EXPECT_THAT(values[1].reason, HasSubstr("memory.low"));
}

TEST_F(MemoryQosReportTest, FindsTheContainersOfAPodByTheirIds) {
  set("/kubepods/podg/cri-containerd-c0ffee.scope/memory.min", "0");
  set("/kubepods/podg/cri-containerd-sandbox.scope/memory.min", "0");
  set("/kubepods/podg/memory.min", "0");
  set("/kubepods/memory.min", "0");
  Pod pod;
  pod.name = "g";
  pod.pod_namespace = "default";
  PodContainer container;
  container.name = "app";
  container.id = "c0ffee";
  container.requests.cpu = container.limits.cpu = parse_quantity("1").value();
  container.requests.memory = container.limits.memory = parse_quantity("64Mi").value();
  pod.containers = {container};
  facts_.config.cgroups.clear();
  facts_.config.reservation = MemoryReservation::tiered;
  facts_.config.kubelet_reserves = false;
  facts_.pods = {std::make_shared<const Pod>(pod)};
  facts_.cgroups = {{"/kubepods/podg", *tree_.id_at("/kubepods/podg"), facts_.pods[0], {}}};
  std::vector<std::string> written;
  for (const MemoryQosValue& each : report().values) {
    EXPECT_EQ(each.state, MemoryQosState::would_write) << each.reason;
    EXPECT_EQ(each.wanted, 64 << 20);
    written.push_back(each.path);
  }
  EXPECT_THAT(written, testing::ElementsAre("/kubepods", "/kubepods/podg",
                                            "/kubepods/podg/cri-containerd-c0ffee.scope"));

  // A cgroup that was created again at the path of the pod is not the pod's.
  facts_.cgroups[0].cgroup.inode += 1000;
  for (const MemoryQosValue& each : report().values) {
    EXPECT_EQ(each.state,
              each.path == "/kubepods" ? MemoryQosState::would_write : MemoryQosState::failed)
        << each.path;
  }
}

TEST_F(MemoryQosReportTest, CountsThePodsWithoutFacts) {
  facts_.unknown_pods = 3;
  EXPECT_EQ(report().unknown_pods, 3U);
}

}  // namespace
}  // namespace forestall::agent
