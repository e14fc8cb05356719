// SPDX-License-Identifier: Apache-2.0
#include "agent/pod_annotation_reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sources/workload_rules.h"
#include "support/small_node.h"

namespace forestall::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

const PodAnnotationPolicy kShop{{"shop"}, {"shop"}, {"shop"}};

// Pods of namespace "shop", with cgroups in files, and the log of the reporter.
class PodAnnotationReporterTest : public ::testing::Test {
 protected:
  PodAnnotationReporterTest() { config_.pod_annotations = kShop; }

  void add(const std::string& uid, const PodAnnotations& annotations, Bytes usage = mib(1)) {
    Pod pod;
    pod.uid = uid;
    pod.name = uid;
    pod.pod_namespace = "shop";
    pod.annotations = annotations;
    config_.known_pods.push_back(std::make_shared<const Pod>(pod));
    files_.set_group("/kubepods/pod" + uid, static_cast<int>(usage.count));
  }
  void open() {
    tree_ = kernel::CgroupTree::discover(files_ / "cgroup").value();
    reporter_ = std::make_unique<PodAnnotationReporter>(*tree_, *log_);
  }
  // As a rescan does: what report() logs.
  std::string report() {
    std::vector<SourceNote> notes;
    found_ = sources::find_workloads(*tree_, config_, "/kubepods", {}, {}, notes);
    workloads_.clear();
    for (Workload& each : found_) {
      each.cgroup = tree_->id_at(each.path).value();
      workloads_.push_back(&each);
    }
    return logged([this] { reporter_->report(workloads_, config_.pod_annotations); });
  }
  std::string show_next() {
    return logged([this] { reporter_->show_next(workloads_, config_.pod_annotations); });
  }
  std::string measure(std::optional<Bytes> capacity) {
    return logged([&] { reporter_->measure(workloads_, capacity); });
  }

  test::SmallNode files_;
  Config config_;
  std::optional<kernel::CgroupTree> tree_;
  std::optional<exports::Log> log_{std::in_place, exports::Log::Stream::standard_error, false,
                                   exports::LogLevel::info};
  std::unique_ptr<PodAnnotationReporter> reporter_;
  std::vector<Workload> found_;
  std::vector<const Workload*> workloads_;

 private:
  // A log writes all of its lines before its end.
  std::string logged(const std::function<void()>& work) {
    testing::internal::CaptureStderr();
    log_.emplace(exports::Log::Stream::standard_error, false, exports::LogLevel::info);
    work();
    log_.reset();
    return testing::internal::GetCapturedStderr();
  }
};

PodAnnotations marked(const std::string& value) {
  return {.is_protected = value, .prefer = {}, .avoid = {}};
}

int lines_of(const std::string& text) {
  return static_cast<int>(std::ranges::count(text, '\n'));
}

TEST_F(PodAnnotationReporterTest, CountsWhatHasAnEffect) {
  add("a", marked("true"));
  add("b", {.is_protected = {}, .prefer = "true", .avoid = {}});
  add("c", {.is_protected = {}, .prefer = {}, .avoid = "true"});
  add("d", {});
  open();
  EXPECT_EQ(report(), "");
  EXPECT_EQ(reporter_->counts().annotated, 1U);
  EXPECT_EQ(reporter_->counts().preferred, 1U);
  EXPECT_EQ(reporter_->counts().avoided, 1U);
  EXPECT_THAT(reporter_->counts().problems, SizeIs(0));
}

// Whatever protects it, it has no place in the order of kills.
TEST_F(PodAnnotationReporterTest, AProtectedPodIsNeitherPreferredNorAvoided) {
  add("a", {.is_protected = {}, .prefer = "true", .avoid = {}});
  add("b", {.is_protected = {}, .prefer = {}, .avoid = "true"});
  add("c", {.is_protected = "true", .prefer = {}, .avoid = "true"});
  for (const char* uid : {"a", "b"}) {
    PodRule rule;
    rule.uid = uid;
    rule.is_protected = true;
    config_.pod_rules.push_back(rule);
  }
  open();
  EXPECT_EQ(report(), "");
  EXPECT_EQ(reporter_->counts().annotated, 1U);
  EXPECT_EQ(reporter_->counts().preferred, 0U);
  EXPECT_EQ(reporter_->counts().avoided, 0U);
}

TEST_F(PodAnnotationReporterTest, LogsAProblemOnceForEachPod) {
  add("a", marked("True"));
  open();
  const std::string first = report();
  EXPECT_THAT(first, HasSubstr("shop/a"));
  EXPECT_THAT(first, HasSubstr("forestall.dev/protected"));
  EXPECT_THAT(first, HasSubstr("value=True"));
  EXPECT_THAT(first, HasSubstr("the value must be true or false"));
  EXPECT_EQ(report(), "") << "the next rescan";
  ASSERT_THAT(reporter_->counts().problems, SizeIs(1));
  EXPECT_EQ(reporter_->counts().problems.front().value, "True");
  EXPECT_EQ(reporter_->counts().annotated, 0U);
  // A tenant that changes the value all the time does not fill the log.
  config_.known_pods.clear();
  add("a", marked("yes"));
  EXPECT_EQ(report(), "");
  EXPECT_EQ(reporter_->counts().problems.front().value, "yes");
  // It is gone, and another one comes.
  config_.known_pods.clear();
  add("b", marked("yes"));
  EXPECT_THAT(report(), HasSubstr("shop/b"));
}

TEST_F(PodAnnotationReporterTest, ManyProblemsAreBounded) {
  for (int i = 0; i < 40; ++i) add("p" + std::to_string(i), marked("yes"));
  open();
  const std::string text = report();
  EXPECT_EQ(lines_of(text), 9) << text;
  EXPECT_THAT(text, HasSubstr("further_problems=32"));
  EXPECT_THAT(reporter_->counts().problems, SizeIs(16));
  EXPECT_EQ(reporter_->counts().problems_left_out, 24U);
}

// A client reports each of them, however many there are.
TEST_F(PodAnnotationReporterTest, AllProblemsAreShownInTurn) {
  for (int i = 0; i < 40; ++i) add("p" + std::to_string(i), marked("yes"));
  open();
  EXPECT_NE(report(), "");
  std::set<std::string> shown;
  const auto show = [&](std::size_t count) {
    const exports::AnnotationCounts& counts = reporter_->counts();
    EXPECT_THAT(counts.problems, SizeIs(count));
    EXPECT_EQ(counts.problems_left_out, 40 - count);
    for (const PodAnnotationProblem& each : counts.problems) shown.insert(each.pod);
  };
  for (const std::size_t count : {16U, 16U, 8U}) {
    show(count);
    EXPECT_EQ(report(), "");
    show(count);
    EXPECT_EQ(show_next(), "") << "each is logged once";
  }
  EXPECT_THAT(shown, SizeIs(40));
  show(16);
  EXPECT_EQ(show_next(), "");
  EXPECT_EQ(show_next(), "");
  // The part that is shown is gone.
  config_.known_pods.resize(2);
  EXPECT_EQ(report(), "");
  EXPECT_THAT(reporter_->counts().problems, SizeIs(2));
  EXPECT_EQ(reporter_->counts().problems_left_out, 0U);
  EXPECT_EQ(show_next(), "");
  EXPECT_THAT(reporter_->counts().problems, SizeIs(2));
}

// They are protected with it, and their memory is not that of protected pods.
TEST_F(PodAnnotationReporterTest, CgroupsAboveAProtectedPodAreNotMeasured) {
  add("a", marked("true"), mib(10));
  add("b", {}, mib(80));
  files_.set_group("/kubepods", static_cast<int>(mib(90).count));
  WorkloadRule rule;
  rule.cgroup = "/kubepods";
  config_.workloads = {rule};
  open();
  EXPECT_EQ(report(), "");
  ASSERT_THAT(workloads_, SizeIs(3));
  ASSERT_EQ(workloads_.front()->protection, Protection::annotated) << workloads_.front()->path;
  EXPECT_EQ(measure(mib(100)), "");
  EXPECT_EQ(reporter_->counts().usage, mib(10));
}

TEST_F(PodAnnotationReporterTest, WarnsOnceIfProtectedPodsUseMoreThanHalfOfTheNode) {
  add("a", marked("true"), mib(40));
  add("b", marked("true"), mib(20));
  add("c", {}, mib(500));
  open();
  EXPECT_EQ(report(), "");
  EXPECT_EQ(measure(mib(120)), "") << "exactly a half";
  EXPECT_EQ(reporter_->counts().usage, mib(60));
  EXPECT_THAT(measure(mib(100)), HasSubstr("more than half of the node's memory"));
  EXPECT_EQ(measure(mib(100)), "") << "it lasts";
  EXPECT_EQ(measure(std::nullopt), "") << "an unknown capacity";
  config_.pod_annotations = {};
  EXPECT_THAT(report(), HasSubstr("does not permit it"));
  EXPECT_EQ(reporter_->counts().annotated, 0U);
  EXPECT_EQ(reporter_->counts().usage, std::nullopt);
}

}  // namespace
}  // namespace forestall::agent
