// SPDX-License-Identifier: Apache-2.0
#include "intake/managed_oom_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace forestall::intake {
namespace {

using rulesets::ManagedOomElement;
using rulesets::ManagedOomProperty;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ManagedOomReport, HasTheElementsThatAreNotMalformed) {
  const auto report = read_managed_oom_report(
      R"({"method":"io.systemd.oom.ReportManagedOOMCGroups","oneway":true,"new":1,
        "parameters":{"cgroups":[
          {"mode":"kill","path":"/a","property":"ManagedOOMSwap"},
          {"mode":"often","path":"/b","property":"ManagedOOMSwap"},
          {"mode":"auto","path":"/c","property":"ManagedOOMMemoryPressure","limit":7}]}})");
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_TRUE(report->oneway);
  EXPECT_THAT(
      report->elements,
      ElementsAre(ManagedOomElement{true, "/a", ManagedOomProperty::swap, 0, {}},
                  ManagedOomElement{false, "/c", ManagedOomProperty::memory_pressure, 7, {}}));
}

TEST(ManagedOomReport, AnythingElseIsRefused) {
  const std::pair<std::string, std::string> broken[] = {
      {"", "invalid JSON"},
      {"[]", "not an object"},
      {"{}", "not ReportManagedOOMCGroups"},
      {R"({"method":1})", "not ReportManagedOOMCGroups"},
      {R"({"method":"io.systemd.oom.ReportManagedOOMCGroups"})", "no list 'cgroups'"},
      {R"({"method":"io.systemd.oom.ReportManagedOOMCGroups","parameters":{"cgroups":{}}})",
       "no list 'cgroups'"}};
  for (const auto& [text, problem] : broken) {
    const auto report = read_managed_oom_report(text);
    ASSERT_FALSE(report) << text;
    EXPECT_THAT(report.error().text(), HasSubstr(problem)) << text;
  }
}

}  // namespace
}  // namespace forestall::intake
