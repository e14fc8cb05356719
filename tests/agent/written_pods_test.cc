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

// Two processes that both list again at once: the later one stays.
TEST_F(WrittenPodsTest, AreOfTheLaterOfTwoWriters) {
  EXPECT_EQ(update(list(1, {"a"})), 0);
  EXPECT_EQ(update(list(2, {"b"})), 0);
  EXPECT_EQ(update(list(1, {"a"})), EAGAIN);
  EXPECT_EQ(update(request(2, {"c"})), 0);
  EXPECT_THAT(in_force(), ElementsAre("b", "c"));
  EXPECT_EQ(update(list(3, {"d"})), 0);
  EXPECT_EQ(update(list(2, {"b"})), EAGAIN);
  clock_.advance(WrittenPods::kSilence);
  EXPECT_EQ(update(list(1, {"a"})), 0) << "the later ones are gone";
  EXPECT_EQ(update(list(3, {"d"})), EAGAIN);
  EXPECT_THAT(in_force(), ElementsAre("a"));
}

// Two bytes of a request each.
TEST_F(WrittenPodsTest, HaveABoundedNumberOfParts) {
  EXPECT_EQ(update(list(1, {"a"})), 0);
  const std::vector<void (*)(v1::Pod&)> parts = {
      [](v1::Pod& pod) { pod.add_containers(); }, [](v1::Pod& pod) { pod.add_init_containers(); },
      [](v1::Pod& pod) { pod.add_volumes(); }, [](v1::Pod& pod) { pod.add_tolerations(); }};
  for (const auto add : parts) {
    v1::UpdatePodsRequest many = list(1, {"b"});
    for (std::size_t i = 0; i < WrittenPods::kPartsMax; ++i) add(*many.mutable_pods(0));
    EXPECT_EQ(update(many), 0);
    add(*many.mutable_pods(0));
    EXPECT_EQ(update(many), EINVAL);
  }
}

TEST_F(WrittenPodsTest, TakeABoundedAmountOfMemory) {
  v1::UpdatePodsRequest begin = request(1, {});
  begin.set_begins_list(true);
  EXPECT_EQ(update(begin), 0);
  v1::UpdatePodsRequest large = request(1, {"x"});
  for (std::size_t i = 0; i < WrittenPods::kPartsMax; ++i) {
    large.mutable_pods(0)->add_containers();
    large.mutable_pods(0)->add_init_containers();
  }
  int accepted = 0;
  int code = 0;
  for (; code == 0; ++accepted) {
    large.mutable_pods(0)->set_uid(std::to_string(accepted));
    code = update(large);
  }
  EXPECT_EQ(code, EINVAL);
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 1000);
  // The same pod again takes no more.
  large.mutable_pods(0)->set_uid("0");
  EXPECT_EQ(update(large), 0);
  EXPECT_EQ(update(request(1, {}, {"0", "1"})), 0);
  large.mutable_pods(0)->set_uid("new");
  EXPECT_EQ(update(large), 0);
}

// The writer has the network. What it writes ranks pods, and evicts none.
TEST_F(WrittenPodsTest, HaveNoLimitsOfDisk) {
  v1::UpdatePodsRequest limited = list(1, {"a"});
  v1::Pod& pod = *limited.mutable_pods(0);
  pod.mutable_limits()->set_ephemeral_storage("1");
  pod.mutable_limits()->set_memory("1Gi");
  pod.add_containers()->mutable_limits()->set_ephemeral_storage("1");
  pod.add_init_containers()->mutable_limits()->set_ephemeral_storage("1");
  pod.add_volumes()->set_size_limit("1");
  EXPECT_EQ(update(limited), 0);
  (void)pods_->take();
  const Pod& taken = *pods_->in_force()->front();
  EXPECT_FALSE(taken.limits->ephemeral_storage);
  EXPECT_TRUE(taken.limits->memory);
  EXPECT_FALSE(taken.containers.front().limits.ephemeral_storage);
  EXPECT_FALSE(taken.init_containers.front().limits.ephemeral_storage);
  EXPECT_FALSE(taken.volumes.front().size_limit);
}

// A list that is not complete is no news of the pods in force.
TEST_F(WrittenPodsTest, AreNotConfirmedByAListThatIsNotComplete) {
  EXPECT_EQ(update(list(1, {"a"})), 0);
  const MonotonicTime written = clock_.now();
  clock_.advance(std::chrono::seconds(10));
  v1::UpdatePodsRequest begin = request(1, {"b"});
  begin.set_begins_list(true);
  begin.set_age_ns(0);
  EXPECT_EQ(update(begin), 0);
  EXPECT_EQ(pods_->state()->written, written);
  EXPECT_EQ(pods_->state()->confirmed, std::nullopt);
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
