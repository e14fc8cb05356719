// SPDX-License-Identifier: Apache-2.0
// Pods that another process writes: lists, changes, two writers, a writer that is gone.
#include "daemon/written_pods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <string>
#include <vector>

#include "exports/log.h"
#include "support/manual_clock.h"

namespace forestall::agent {
namespace {

using daemon::WrittenPods;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::UpdatePodsRequest request(std::uint64_t writer, const std::vector<std::string>& uids,
                              const std::vector<std::string>& removed = {}) {
  v1::UpdatePodsRequest made;
  made.set_writer(writer);
  for (const std::string& uid : uids) made.add_pods()->set_uid(uid);
  for (const std::string& uid : removed) made.add_removed(uid);
  return made;
}

v1::UpdatePodsRequest list(std::uint64_t writer, const std::vector<std::string>& uids) {
  v1::UpdatePodsRequest made = request(writer, uids);
  made.set_begins_list(true);
  made.set_ends_list(true);
  return made;
}

class WrittenPodsTest : public ::testing::Test {
 protected:
  WrittenPodsTest() { pods_ = WrittenPods::create(clock_, log_).value(); }

  // The errno; 0: it was accepted.
  int update(const v1::UpdatePodsRequest& request) {
    const auto updated = pods_->update(request);
    return updated ? 0 : updated.error().code;
  }
  [[nodiscard]] bool waits() const {
    pollfd fd{pods_->fd(), POLLIN, 0};
    return ::poll(&fd, 1, 0) == 1;
  }
  // UIDs in force after the loop has taken them.
  std::vector<std::string> in_force() {
    (void)pods_->take();
    std::vector<std::string> uids;
    if (!pods_->in_force()) return {"none"};
    for (const auto& pod : *pods_->in_force()) uids.push_back(pod->uid);
    return uids;
  }

  test::ManualClock clock_;
  exports::Log log_{exports::Log::Stream::standard_error, true, exports::LogLevel::error};
  std::unique_ptr<WrittenPods> pods_;
};

TEST_F(WrittenPodsTest, AreInForceWhenTheListIsComplete) {
  EXPECT_THAT(in_force(), ElementsAre("none"));
  v1::UpdatePodsRequest first = request(1, {"b"});
  first.set_begins_list(true);
  EXPECT_EQ(update(first), 0);
  EXPECT_FALSE(waits());
  EXPECT_FALSE(pods_->state());
  v1::UpdatePodsRequest last = request(1, {"a"});
  last.set_ends_list(true);
  EXPECT_EQ(update(last), 0);
  EXPECT_TRUE(waits());
  EXPECT_THAT(in_force(), ElementsAre("a", "b"));
  EXPECT_FALSE(waits());
  EXPECT_EQ(pods_->state()->pods, 2U);
}

TEST_F(WrittenPodsTest, AreChangedByTheirWriter) {
  EXPECT_EQ(update(list(1, {"a", "b"})), 0);
  EXPECT_THAT(in_force(), ElementsAre("a", "b"));
  EXPECT_EQ(update(request(1, {"c"}, {"a"})), 0);
  EXPECT_THAT(in_force(), ElementsAre("b", "c"));
  // The loop is woken only by a change.
  EXPECT_EQ(update(request(1, {"c"}, {"unknown"})), 0);
  EXPECT_FALSE(waits());
  v1::UpdatePodsRequest priority = request(1, {"c"});
  priority.mutable_pods(0)->set_priority(5);
  EXPECT_EQ(update(priority), 0);
  EXPECT_TRUE(waits());
}

TEST_F(WrittenPodsTest, KeepTheLastListWhileALaterOneIsNotComplete) {
  EXPECT_EQ(update(list(1, {"a", "b"})), 0);
  v1::UpdatePodsRequest next = request(1, {"c"});
  next.set_begins_list(true);
  EXPECT_EQ(update(next), 0);
  EXPECT_EQ(update(request(1, {"d"}, {"c"})), 0);
  EXPECT_THAT(in_force(), ElementsAre("a", "b"));
  v1::UpdatePodsRequest end = request(1, {});
  end.set_ends_list(true);
  EXPECT_EQ(update(end), 0);
  EXPECT_THAT(in_force(), ElementsAre("d"));
}

// An old process and its successor, or an agent that was started again.
TEST_F(WrittenPodsTest, AreOfOneWriter) {
  EXPECT_EQ(update(request(1, {"a"})), EAGAIN);
  v1::UpdatePodsRequest end = request(1, {});
  end.set_ends_list(true);
  EXPECT_EQ(update(end), EAGAIN);
  EXPECT_EQ(update(list(1, {"a"})), 0);
  EXPECT_EQ(update(end), EAGAIN);
  EXPECT_EQ(update(list(2, {"b"})), 0);
  EXPECT_EQ(update(request(1, {"c"}, {"b"})), EAGAIN);
  EXPECT_THAT(in_force(), ElementsAre("b"));
}

TEST_F(WrittenPodsTest, AreUnchangedByACallThatCannotBeRead) {
  EXPECT_EQ(update(list(1, {"a"})), 0);
  v1::UpdatePodsRequest bad = list(1, {"b", "c"});
  bad.mutable_pods(1)->mutable_requests()->set_memory("much");
  EXPECT_EQ(update(bad), EINVAL);
  EXPECT_EQ(update(list(1, {"b", ""})), EINVAL);
  bad = list(1, {"b"});
  bad.mutable_pods(0)->set_status_qos("Best");
  EXPECT_EQ(update(bad), EINVAL);
  EXPECT_THAT(in_force(), ElementsAre("a"));
}

TEST_F(WrittenPodsTest, AreBounded) {
  std::vector<std::string> many(WrittenPods::kPodsMax);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = std::to_string(i);
  EXPECT_EQ(update(list(1, many)), 0);
  EXPECT_EQ(update(request(1, {"more"})), EINVAL);
  EXPECT_EQ(update(list(1, {"a"})), 0);
  EXPECT_THAT(in_force(), ElementsAre("a"));
}

TEST_F(WrittenPodsTest, MayBeNone) {
  EXPECT_EQ(update(list(1, {})), 0);
  EXPECT_THAT(in_force(), IsEmpty());
  EXPECT_EQ(pods_->state()->pods, 0U);
}

TEST_F(WrittenPodsTest, ReportTheirAgeAndTheWritersProblem) {
  v1::UpdatePodsRequest first = list(1, {"a"});
  first.set_age_ns(2'000'000'000);
  EXPECT_EQ(update(first), 0);
  const MonotonicTime written = clock_.now();
  EXPECT_EQ(pods_->state()->written, written);
  EXPECT_EQ(pods_->state()->confirmed, written - std::chrono::seconds(2));
  EXPECT_EQ(pods_->state()->problem, "");
  clock_.advance(std::chrono::seconds(30));
  v1::UpdatePodsRequest problem = request(1, {});
  problem.set_problem("403: pods is forbidden\xff" + std::string(1000, 'x'));
  EXPECT_EQ(update(problem), 0);
  EXPECT_EQ(pods_->state()->confirmed, std::nullopt);
  EXPECT_EQ(pods_->state()->written, clock_.now());
  EXPECT_THAT(pods_->state()->problem, HasSubstr("403: pods is forbidden"));
  EXPECT_LT(pods_->state()->problem.size(), 600U);
}

}  // namespace
}  // namespace forestall::agent
