// SPDX-License-Identifier: Apache-2.0
// What memory QoS reports of a node of files (support/small_node.h).
#include "agent/memory_qos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "support/file_changes.h"
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
    facts_.min_limit = 1 << 30;
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

// A plain file keeps the tail of a longer text, unlike a control file: all values have 4 digits.
class MemoryQosEnforcedTest : public MemoryQosReportTest {
 protected:
  MemoryQosEnforcedTest() {
    facts_.config.mode = MemoryQosMode::enforce;
    facts_.config.cgroups = {{"/db", Bytes{4096}, Bytes{8192}, Bytes{1 << 20}}};
    set("/db/memory.min", "1000");
    set("/db/memory.low", "8192");
    set("/db/memory.high", "max");
  }
  [[nodiscard]] std::string text(const std::string& file) const {
    return test::read_text(files_ / ("cgroup" + file)).substr(0, 4);
  }

  test::TempTree run_;
  kernel::SettingRecords min_{run_ / "memory-min"};
  kernel::SettingRecords low_{run_ / "memory-low"};
  kernel::SettingRecords high_{run_ / "memory-high"};
  std::optional<actuators::MemoryReserveWriter> writer_{
      std::in_place, tree_, actuators::MemoryReserveWriter::Records{min_, low_}};
};

TEST_F(MemoryQosEnforcedTest, ReportsWhatIsWrittenAndWhatIsLeft) {
  const auto values = observe_memory_qos(tree_, facts_, {&*writer_}).values;
  ASSERT_EQ(values.size(), 3U);
  EXPECT_EQ(values[0], (MemoryQosValue{"/db", "/db", MemoryQosFile::min, "4096", 4096,
                                       MemoryQosState::written}));
  EXPECT_EQ(values[1].state, MemoryQosState::equal);
  EXPECT_EQ(values[2].state, MemoryQosState::would_write);
  EXPECT_EQ(values[2].present, "max");
  writer_.reset();
  EXPECT_EQ(text("/db/memory.min"), "1000");
}

TEST_F(MemoryQosEnforcedTest, ReportsWhyAMemoryHighIsNotWritten) {
  exports::Log log(exports::Log::Stream::standard_error, true, exports::LogLevel::error);
  const auto controller = MemoryHighController::create(tree_, high_, log);
  ASSERT_TRUE(controller) << controller.error().text();
  const auto values = observe_memory_qos(tree_, facts_, {&*writer_, controller->get()}).values;
  ASSERT_EQ(values.size(), 3U);
  EXPECT_EQ(values[2].state, MemoryQosState::left);
  EXPECT_THAT(values[2].reason, HasSubstr("memory.events.local"));
  EXPECT_EQ(values[2].present, "max");
}

TEST_F(MemoryQosEnforcedTest, AParentWithLessLimitsAValueAndIsNamed) {
  set("/slice/memory.min", "1000");
  set("/slice/db/memory.min", "1000");
  set("/slice/db/memory.low", "1000");
  facts_.config.cgroups = {{"/slice/db", Bytes{8192}, Bytes{4096}, std::nullopt}};
  auto values = observe_memory_qos(tree_, facts_, {&*writer_}).values;
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values[0].state, MemoryQosState::written);
  EXPECT_EQ(values[0].reason, "limited by /slice, which has 1000");
  EXPECT_EQ(values[1].reason, "limited by /slice, which has 1000");
  set("/slice/memory.low", "4096");
  values = observe_memory_qos(tree_, facts_, {&*writer_}).values;
  EXPECT_EQ(values[1].reason, "");
}

TEST_F(MemoryQosEnforcedTest, ADryRunWritesNothing) {
  facts_.dry_run = true;
  EXPECT_FALSE(enforces_memory_qos(tree_, facts_.config, facts_.dry_run));
  const auto values = observe_memory_qos(tree_, facts_).values;
  ASSERT_EQ(values.size(), 3U);
  EXPECT_EQ(values[0].state, MemoryQosState::would_write);
  EXPECT_EQ(values[0].reason, "dry run");
  EXPECT_EQ(text("/db/memory.min"), "1000");
}

// systemd may have given another slice a memory.min.
TEST_F(MemoryQosEnforcedTest, MemoryMinOfOtherCgroupsCounts) {
  set("/system/memory.min", "9000");
  facts_.min_limit = 12000;
  const auto values = observe_memory_qos(tree_, facts_, {&*writer_}).values;
  ASSERT_EQ(values.size(), 3U);
  EXPECT_EQ(values[0].state, MemoryQosState::left);
  EXPECT_THAT(values[0].reason, HasSubstr("of which the node has 3000 to guarantee"));
  EXPECT_EQ(text("/db/memory.min"), "1000");
}

// "systemctl set-property db.slice MemoryMin=" after the agent has written it.
TEST_F(MemoryQosEnforcedTest, WhatAnotherProcessHasWrittenSinceLeavesLessToTheOthers) {
  set("/app/memory.min", "1000");
  facts_.config.cgroups = {{"/db", Bytes{4096}, std::nullopt, std::nullopt},
                           {"/app", Bytes{4096}, std::nullopt, std::nullopt}};
  facts_.min_limit = 12288;
  auto values = observe_memory_qos(tree_, facts_, {&*writer_}).values;
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values[1].state, MemoryQosState::written);
  set("/db/memory.min", "9000");
  for (int update = 0; update < 3; ++update) {
    values = observe_memory_qos(tree_, facts_, {&*writer_}).values;
    ASSERT_EQ(values.size(), 2U);
    EXPECT_EQ(values[0].state, MemoryQosState::left);
    EXPECT_EQ(values[0].reason, "another process has written it since");
    EXPECT_EQ(values[1].state, MemoryQosState::left);
    EXPECT_THAT(values[1].reason, HasSubstr("the node has 3288 to guarantee"));
    EXPECT_EQ(text("/db/memory.min"), "9000") << update;
    EXPECT_EQ(text("/app/memory.min"), "1000") << update;
  }
  facts_.min_limit = 13096;
  values = observe_memory_qos(tree_, facts_, {&*writer_}).values;
  EXPECT_EQ(values[1].state, MemoryQosState::written) << values[1].reason;
  EXPECT_EQ(text("/db/memory.min"), "9000");
}

TEST_F(MemoryQosEnforcedTest, WithoutTheMemoryMinOfAnotherCgroupNoneIsWritten) {
  set("/system/memory.low", "0");  // no memory.min: the cgroup has no memory controller
  auto values = observe_memory_qos(tree_, facts_, {&*writer_}).values;
  ASSERT_EQ(values.size(), 3U);
  EXPECT_EQ(values[0].state, MemoryQosState::written);
  set("/system/memory.min", "?");
  values = observe_memory_qos(tree_, facts_, {&*writer_}).values;
  ASSERT_EQ(values.size(), 3U);
  EXPECT_EQ(values[0].state, MemoryQosState::left);
  EXPECT_EQ(values[0].reason, "memory.min of other cgroups cannot be read");
  EXPECT_EQ(text("/db/memory.min"), "1000") << "what the agent had written is restored";
  set("/system/memory.min", "0");
  values = observe_memory_qos(tree_, facts_, {&*writer_}).values;
  EXPECT_EQ(values[0].state, MemoryQosState::written);
}

TEST_F(MemoryQosEnforcedTest, TheThreadWritesAndItsEndRestores) {
  exports::Log log(exports::Log::Stream::standard_error, true, exports::LogLevel::error);
  auto thread = MemoryQosThread::create(tree_, {min_, low_, high_}, log);
  ASSERT_TRUE(thread) << thread.error().text();
  ASSERT_TRUE((*thread)->update(facts_));
  EXPECT_TRUE(test::wait_for_files(files_ / "cgroup/db", -1,
                                   [&] { return text("/db/memory.min") == "4096"; }));
  facts_.config.mode = MemoryQosMode::off;
  ASSERT_TRUE((*thread)->update(facts_));
  EXPECT_TRUE(test::wait_for_files(files_ / "cgroup/db", -1,
                                   [&] { return text("/db/memory.min") == "1000"; }));
  facts_.config.mode = MemoryQosMode::enforce;
  ASSERT_TRUE((*thread)->update(facts_));
  EXPECT_TRUE(test::wait_for_files(files_ / "cgroup/db", -1,
                                   [&] { return text("/db/memory.min") == "4096"; }));
  thread->reset();
  EXPECT_EQ(text("/db/memory.min"), "1000");
  EXPECT_THAT(min_.all().value().records, testing::IsEmpty());
}

}  // namespace
}  // namespace forestall::agent
