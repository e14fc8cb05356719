// SPDX-License-Identifier: Apache-2.0
// How `forestall plan` and `forestall doctor` compare an agent with the kubelet of its node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "forestall/internal/plan.pb.h"
#include "forestall/v1/doctor.pb.h"
#include "forestall/v1/kubelet.pb.h"
#include "messages/json.h"
#include "support/agent_run.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kKubeletFile =
    "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"
    "evictionHard: {memory.available: 500Mi}\n";

class KubeletComparison : public ::testing::Test {
 protected:
  KubeletComparison() {
    tree_.write("kubelet/config.yaml", kKubeletFile);
    tree_.write("agent.yaml", "kubeletConfig: kubelet/config.yaml\n" + own_);
    tree_.write("alone.yaml", "filesystems: {nodefs: " + (tree_ / "kubelet") + "}\n" + own_);
    tree_.write("none.yaml", "filesystems: {nodefs: " + (tree_ / "nowhere") + "}\n" + own_);
  }

  [[nodiscard]] Ran plan(const std::string& config, std::vector<std::string> more) const {
    std::vector<std::string> arguments{"plan", "--config", tree_ / config};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_forestall(arguments);
  }

  template <typename Report>
  [[nodiscard]] Report json_report(const std::string& command, const std::string& config) const {
    const Ran ran = run_forestall({command, "--config", tree_ / config, "--output", "json"});
    Report report;
    const auto read = messages::from_json(ran.output, report);
    EXPECT_TRUE(read) << read.error().text() << "\n" << ran.output << ran.errors;
    return report;
  }

  const std::string own_ = "evictionHard: {memory.available: 100Mi}\n";
  const TempTree tree_;
};

// The words of a row, without the spaces that align them.
std::vector<std::string> row_with(const std::string& output, const std::string& signal) {
  const auto begin = output.find("\n  " + signal + "  ");
  if (begin == std::string::npos) return {};
  std::istringstream line(output.substr(begin + 1, output.find('\n', begin + 1) - begin - 1));
  std::vector<std::string> words;
  for (std::string word; words.size() < 4 && line >> word;) words.push_back(word);
  return words;
}

TEST_F(KubeletComparison, IsPrintedByPlan) {
  const Ran ran = plan("agent.yaml", {"--memory-capacity", "32Gi"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("Agent and kubelet (" + (tree_ / "kubelet/config.yaml") +
                                    "; its flags and drop-in files are not read)\n"));
  EXPECT_THAT(row_with(ran.output, "memory.available"),
              ElementsAre("memory.available", "<100Mi", "<500Mi", "kubelet"));
  EXPECT_THAT(ran.output, HasSubstr("\n  warning (kubelet-first): memory.available: "));
}

TEST_F(KubeletComparison, HasThePlannedThresholdsOfTheAgent) {
  tree_.write("default.yaml", "kubeletConfig: kubelet/config.yaml\nevictionHard: {}\n");
  const Ran ran = plan("default.yaml", {"--memory-capacity", "32Gi", "--evict-at", "95%"});
  EXPECT_THAT(row_with(ran.output, "memory.available"),
              ElementsAre("memory.available", "<1600Mi", "<500Mi", "agent"));
}

TEST_F(KubeletComparison, IsInTheJsonOfPlan) {
  const auto report = json_report<internal::PlanReport>("plan", "agent.yaml");
  ASSERT_TRUE(report.has_kubelet());
  ASSERT_EQ(report.kubelet().thresholds_size(), 1);
  const v1::ComparedThreshold& row = report.kubelet().thresholds(0);
  EXPECT_EQ(row.signal(), "memory.available");
  EXPECT_EQ(row.agent(), "<100Mi");
  EXPECT_EQ(row.kubelet(), "<500Mi");
  EXPECT_EQ(row.first(), v1::ComparedThreshold::KUBELET);
  ASSERT_EQ(report.kubelet().advice_size(), 1);
  EXPECT_EQ(report.kubelet().advice(0).topic(), "kubelet-first");
}

TEST_F(KubeletComparison, FindsTheFileOfThisHostOnly) {
  EXPECT_THAT(plan("alone.yaml", {}).output,
              HasSubstr("Agent and kubelet (" + (tree_ / "kubelet/config.yaml")));
  EXPECT_THAT(plan("alone.yaml", {"--memory-capacity", "32Gi"}).output,
              Not(HasSubstr("Agent and kubelet")))
      << "the capacity is of another node";
  EXPECT_THAT(plan("none.yaml", {}).output, Not(HasSubstr("Agent and kubelet")));
}

TEST_F(KubeletComparison, IsUnknownIfTheKubeletRefusesItsFile) {
  tree_.write("kubelet/config.yaml", "kind: KubeletConfiguration\n");
  const Ran ran = plan("alone.yaml", {});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("  unknown: the kubelet's configuration is invalid"));
  EXPECT_THAT(ran.output, HasSubstr("'apiVersion' is missing"));
}

TEST_F(KubeletComparison, IsPrintedByDoctor) {
  const Ran ran = run_forestall({"doctor", "--config", tree_ / "alone.yaml"});
  EXPECT_THAT(row_with(ran.output, "memory.available"),
              ElementsAre("memory.available", "<100Mi", "<500Mi", "kubelet"));
  const auto report = json_report<v1::DoctorReport>("doctor", "alone.yaml");
  EXPECT_EQ(report.kubelet().file(), tree_ / "kubelet/config.yaml");
  ASSERT_EQ(report.kubelet().thresholds_size(), 1);
  EXPECT_EQ(report.kubelet().thresholds(0).first(), v1::ComparedThreshold::KUBELET);
}

}  // namespace
}  // namespace forestall::test
