// SPDX-License-Identifier: Apache-2.0
// The thread that makes removals, with a runtime that blocks until the test releases it.
// tests/clients tests the removals themselves.
#include "actuators/node_reclaim.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <string>

#include "base/unique_fd.h"

namespace forestall::actuators {
namespace {

using clients::ContainerRuntime;
using clients::DeadRemoval;
using clients::ImageRemoval;
using testing::ElementsAre;
using testing::HasSubstr;

bool readable(int fd, int timeout_ms) {
  pollfd waiting{fd, POLLIN, 0};
  return ::poll(&waiting, 1, timeout_ms) == 1;
}

// Shared by the test and its runtimes: `gate` passes one call of a runtime's thread at a time,
// `entered` shows that a call waits there.
struct Stage {
  UniqueFd gate{::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)};
  UniqueFd entered{::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)};
  std::atomic<int> connected{0};

  void let_go(eventfd_t calls = 100) const { ::eventfd_write(gate.get(), calls); }
  [[nodiscard]] bool wait_entered() const {
    eventfd_t count = 0;
    return readable(entered.get(), 20'000) && ::eventfd_read(entered.get(), &count) == 0;
  }
};

class GatedRuntime final : public ContainerRuntime {
 public:
  GatedRuntime(const Stage& stage, int cancel_fd) : stage_(stage), cancel_fd_(cancel_fd) {}

  Result<clients::RuntimeIdentity> identity() override { return error("not requested"); }
  Result<clients::RuntimeFilesystems> filesystems() override { return error("not requested"); }
  Result<std::vector<clients::ContainerUsage>> container_stats() override {
    return error("not requested");
  }
  Result<DeadRemoval> remove_dead_containers() override {
    TRY(pass());
    return DeadRemoval{3, 2, {}};
  }
  Result<ImageRemoval> remove_unused_images() override {
    TRY(pass());
    return ImageRemoval{1, mib(7), 0, 0, {}};
  }
  Result<void> note_images() override { return error("not requested"); }

 private:
  Result<void> pass() {
    ::eventfd_write(stage_.entered.get(), 1);
    std::array<pollfd, 2> waits{{{stage_.gate.get(), POLLIN, 0}, {cancel_fd_, POLLIN, 0}}};
    ::poll(waits.data(), waits.size(), -1);
    if (waits[1].revents != 0) return Error{ECANCELED, "called off"};
    eventfd_t count = 0;
    ::eventfd_read(stage_.gate.get(), &count);
    return {};
  }

  const Stage& stage_;
  const int cancel_fd_;
};

std::unique_ptr<NodeReclaim> reclaim_on(Stage& stage) {
  auto made = NodeReclaim::create([&stage](int cancel_fd) {
    ++stage.connected;
    return Result<std::unique_ptr<ContainerRuntime>>(
        std::make_unique<GatedRuntime>(stage, cancel_fd));
  });
  EXPECT_TRUE(made);
  return std::move(made).value();
}

TEST(NodeReclaim, OneJobWithItsResult) {
  Stage stage;
  const auto reclaim = reclaim_on(stage);
  EXPECT_FALSE(readable(reclaim->fd(), 0));
  EXPECT_FALSE(reclaim->take());
  ASSERT_TRUE(reclaim->start({ReclaimStep::dead_containers, ReclaimStep::unused_images}));
  EXPECT_TRUE(reclaim->running());
  stage.let_go();
  ASSERT_TRUE(readable(reclaim->fd(), 20'000));
  EXPECT_FALSE(reclaim->running());
  const auto result = reclaim->take();
  ASSERT_TRUE(result);
  EXPECT_THAT(result->steps, ElementsAre(ReclaimStep::dead_containers, ReclaimStep::unused_images));
  EXPECT_EQ(result->dead, (DeadRemoval{3, 2, {}}));
  EXPECT_EQ(result->images, (ImageRemoval{1, mib(7), 0, 0, {}}));
  EXPECT_TRUE(result->failures.empty());
  EXPECT_GT(result->took, Duration::zero());
  EXPECT_FALSE(reclaim->take());
}

TEST(NodeReclaim, RunsOnlyTheRequestedSteps) {
  Stage stage;
  const auto reclaim = reclaim_on(stage);
  ASSERT_TRUE(reclaim->start({ReclaimStep::unused_images}));
  stage.let_go();
  ASSERT_TRUE(readable(reclaim->fd(), 20'000));
  const auto result = reclaim->take();
  ASSERT_TRUE(result);
  EXPECT_FALSE(result->dead);
  EXPECT_TRUE(result->images);
}

TEST(NodeReclaim, NoStepsAreNoJob) {
  Stage stage;
  const auto reclaim = reclaim_on(stage);
  EXPECT_FALSE(reclaim->start({}));
  EXPECT_EQ(stage.connected, 0);
}

TEST(NodeReclaim, SecondJobIsRefusedUntilTheFirstIsOverAndTaken) {
  Stage stage;
  const auto reclaim = reclaim_on(stage);
  ASSERT_TRUE(reclaim->start({ReclaimStep::dead_containers}));
  ASSERT_TRUE(stage.wait_entered());
  EXPECT_FALSE(reclaim->start({ReclaimStep::unused_images}));
  EXPECT_FALSE(reclaim->take());
  stage.let_go();
  ASSERT_TRUE(readable(reclaim->fd(), 20'000));
  EXPECT_FALSE(reclaim->start({ReclaimStep::unused_images}));
  EXPECT_TRUE(reclaim->take());
  EXPECT_TRUE(reclaim->start({ReclaimStep::unused_images}));
  ASSERT_TRUE(readable(reclaim->fd(), 20'000));
  EXPECT_TRUE(reclaim->take()->images);
  EXPECT_EQ(stage.connected, 2) << "each job connects anew";
}

TEST(NodeReclaim, ManyJobsOneAfterAnother) {
  Stage stage;
  stage.let_go(1000);
  const auto reclaim = reclaim_on(stage);
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(reclaim->start({ReclaimStep::dead_containers})) << i;
    std::optional<NodeReclaimResult> result;
    // The event may be left over from a result that was taken early.
    while (!(result = reclaim->take())) ASSERT_TRUE(readable(reclaim->fd(), 20'000)) << i;
    EXPECT_TRUE(result->dead);
  }
}

TEST(NodeReclaim, RuntimeThatCannotBeReachedIsAResult) {
  auto made = NodeReclaim::create([](int) {
    return Result<std::unique_ptr<ContainerRuntime>>(Error{ENOENT, "connect /run/x"});
  });
  ASSERT_TRUE(made);
  NodeReclaim& reclaim = **made;
  ASSERT_TRUE(reclaim.start({ReclaimStep::dead_containers}));
  ASSERT_TRUE(readable(reclaim.fd(), 20'000));
  const auto result = reclaim.take();
  ASSERT_TRUE(result);
  EXPECT_FALSE(result->dead);
  EXPECT_THAT(result->failures, ElementsAre(Error{ENOENT, "connect /run/x"}));
}

TEST(NodeReclaim, DestructionCancelsAHangingJob) {
  Stage stage;
  auto reclaim = reclaim_on(stage);
  ASSERT_TRUE(reclaim->start({ReclaimStep::dead_containers, ReclaimStep::unused_images}));
  ASSERT_TRUE(stage.wait_entered());
  // The gate stays shut: this returns only because the job is cancelled.
  reclaim.reset();
}

TEST(NodeReclaim, EndpointIsCheckedAtOnceAndAnsweredLater) {
  const auto wrong = NodeReclaim::create("tcp://127.0.0.1:1");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().text(), HasSubstr("tcp://127.0.0.1:1"));

  auto absent = NodeReclaim::create("unix:///nonexistent/forestall-test.sock");
  ASSERT_TRUE(absent);
  ASSERT_TRUE((*absent)->start({ReclaimStep::dead_containers, ReclaimStep::unused_images}));
  ASSERT_TRUE(readable((*absent)->fd(), 20'000));
  const auto result = (*absent)->take();
  ASSERT_TRUE(result);
  ASSERT_EQ(result->failures.size(), 2U);
  EXPECT_EQ(result->failures[0].code, ENOENT);
  EXPECT_THAT(result->failures[1].text(), HasSubstr("unused-images"));
}

}  // namespace
}  // namespace forestall::actuators
