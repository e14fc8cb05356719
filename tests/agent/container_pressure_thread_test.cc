// SPDX-License-Identifier: Apache-2.0
// The thread that responds to memory pressure of containers, on a host of files.
#include "agent/container_pressure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "support/temp_tree.h"

namespace forestall::agent {
namespace {

using testing::HasSubstr;

ContainerPressureFacts facts_of(bool enforces) {
  ContainerPressureFacts facts;
  facts.config.rule.thresholds[0] = 10.0;
  facts.config.enforces = enforces;
  return facts;
}

// Until the thread has carried out an update with this mode.
std::shared_ptr<const ContainerPressureReport> wait_report(const LoopContainerPressure& pressure,
                                                           bool enforces) {
  for (;;) {
    if (auto report = pressure.report(); report && report->enforces == enforces) return report;
    std::this_thread::yield();
  }
}

TEST(ContainerPressureThreadTest, WhyNothingIsWatchedIsReportedAndLoggedOnce) {
  const test::TempTree files{{"memory/memory.stat", "cache 0\n"}};
  const auto tree = kernel::CgroupTree::discover(files.path());
  ASSERT_TRUE(tree) << tree.error().text();
  ASSERT_EQ(tree->version(), kernel::CgroupVersion::v1);
  const kernel::SettingRecords records(files / "records");
  testing::internal::CaptureStderr();
  {
    exports::Log log(exports::Log::Stream::standard_error, true, exports::LogLevel::info);
    auto pressure = ContainerPressureThread::create(*tree, records, log);
    ASSERT_TRUE(pressure) << pressure.error().text();
    for (const bool enforces : {true, false, true}) {
      ASSERT_TRUE((*pressure)->update(facts_of(enforces)));
      EXPECT_THAT(wait_report(**pressure, enforces)->problem, HasSubstr("cgroup v1"));
    }
  }
  const std::string logged = testing::internal::GetCapturedStderr();
  const auto first = logged.find("container-pressure problem=");
  ASSERT_NE(first, std::string::npos) << logged;
  EXPECT_EQ(logged.find("container-pressure problem=", first + 1), std::string::npos) << logged;
}

}  // namespace
}  // namespace forestall::agent
