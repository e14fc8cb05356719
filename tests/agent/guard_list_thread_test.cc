// SPDX-License-Identifier: Apache-2.0
// Jobs of the thread that prepares the guard's lists, with a gate that the test opens.
#include "agent/guard_list_thread.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "agent/regular_list_job.h"
#include "base/unique_fd.h"
#include "support/manual_clock.h"

namespace forestall::agent {
namespace {

class GatedJob final : public GuardListJob {
 public:
  void open() const { ASSERT_EQ(::eventfd_write(gate_.get(), 1), 0); }
  void wait_until_it_runs() const {
    pollfd begun{begun_.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&begun, 1, -1), 1);
  }
  std::optional<std::thread::id> ran_on;
  bool was_cancelled = false;

 protected:
  void run() override {
    ran_on = std::this_thread::get_id();
    EXPECT_EQ(::eventfd_write(begun_.get(), 1), 0);
    eventfd_t opened = 0;
    EXPECT_EQ(::eventfd_read(gate_.get(), &opened), 0);
    was_cancelled = cancelled();
  }

 private:
  const UniqueFd begun_{::eventfd(0, EFD_CLOEXEC)};
  const UniqueFd gate_{::eventfd(0, EFD_CLOEXEC)};
};

// Runs until it is cancelled.
class EndlessJob final : public GuardListJob {
 protected:
  void run() override {
    while (!cancelled()) std::this_thread::yield();
  }
};

class GuardListThreadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = GuardListThread::create(clock_, counts_);
    ASSERT_TRUE(made) << made.error().text();
    thread_ = std::move(made).value();
  }
  // Waits until the thread has ended a job.
  void collect() {
    pollfd done{thread_->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&done, 1, -1), 1);
    thread_->collect();
  }

  test::ManualClock clock_;
  exports::LoopCounts counts_;
  std::unique_ptr<GuardListThread> thread_;  // last: it uses the above
};

TEST_F(GuardListThreadTest, RunsOneJobAfterTheOther) {
  const auto first = std::make_shared<GatedJob>();
  const auto second = std::make_shared<GatedJob>();
  thread_->start(first);
  thread_->start(second);
  first->wait_until_it_runs();
  thread_->collect();
  EXPECT_FALSE(first->done());
  first->open();
  collect();
  EXPECT_TRUE(first->done());
  EXPECT_FALSE(second->done());
  second->open();
  collect();
  EXPECT_TRUE(second->done());
  EXPECT_EQ(first->ran_on, second->ran_on);
  EXPECT_NE(first->ran_on, std::this_thread::get_id());
}

TEST_F(GuardListThreadTest, ACancelledJobIsNeverDone) {
  const auto job = std::make_shared<GatedJob>();
  thread_->start(job);
  job->wait_until_it_runs();
  job->cancel();
  job->open();
  collect();
  EXPECT_TRUE(job->was_cancelled);
  EXPECT_FALSE(job->done());
}

TEST_F(GuardListThreadTest, AJobThatIsCancelledBeforeItsTurnNeverRuns) {
  const auto first = std::make_shared<GatedJob>();
  const auto second = std::make_shared<GatedJob>();
  const auto third = std::make_shared<GatedJob>();
  for (const auto& job : {first, second, third}) thread_->start(job);
  second->cancel();
  first->open();
  third->open();
  collect();
  collect();
  EXPECT_TRUE(first->done());
  EXPECT_FALSE(second->ran_on);
  EXPECT_FALSE(second->done());
  EXPECT_TRUE(third->done());
}

TEST_F(GuardListThreadTest, CancelsTheRunningJobAtItsEnd) {
  thread_->start(std::make_shared<EndlessJob>());
  thread_.reset();
}

TEST_F(GuardListThreadTest, AJobIsLateOnceItHasRunAsLongAsAListIsInForce) {
  clock_.advance(std::chrono::seconds(1));
  EXPECT_FALSE(thread_->late_due());
  const auto job = std::make_shared<GatedJob>();
  thread_->start(job);
  EXPECT_EQ(counts_.guard_lists_since_ns, to_ns(clock_.now()));
  ASSERT_TRUE(thread_->late_due());
  EXPECT_EQ(*thread_->late_due(), clock_.now() + RegularListJob::kExpiry);
  clock_.advance(RegularListJob::kExpiry - Duration(1));
  EXPECT_FALSE(thread_->check_late());
  clock_.advance(Duration(1));
  EXPECT_TRUE(thread_->check_late());
  EXPECT_TRUE(thread_->check_late());
  EXPECT_FALSE(thread_->late_due());
  EXPECT_EQ(counts_.guard_lists_late, 1U);
  job->open();
  collect();
  EXPECT_FALSE(thread_->check_late());
  EXPECT_EQ(counts_.guard_lists_since_ns, 0);
}

TEST_F(GuardListThreadTest, TheNextJobIsLateByItsOwnTime) {
  const auto first = std::make_shared<GatedJob>();
  const auto second = std::make_shared<GatedJob>();
  thread_->start(first);
  thread_->start(second);
  clock_.advance(RegularListJob::kExpiry);
  first->open();
  collect();
  EXPECT_FALSE(thread_->check_late());
  clock_.advance(RegularListJob::kExpiry);
  EXPECT_TRUE(thread_->check_late());
  EXPECT_EQ(counts_.guard_lists_late, 1U);
  second->open();
  collect();
}

TEST_F(GuardListThreadTest, DestroysOnItsThread) {
  struct Garbage {
    std::thread::id& destroyed_on;
    ~Garbage() { destroyed_on = std::this_thread::get_id(); }
  };
  std::thread::id destroyed_on = std::this_thread::get_id();
  thread_->destroy(std::shared_ptr<Garbage>(new Garbage{destroyed_on}));
  collect();
  EXPECT_NE(destroyed_on, std::this_thread::get_id());
  EXPECT_NE(destroyed_on, std::thread::id());
}

}  // namespace
}  // namespace forestall::agent
