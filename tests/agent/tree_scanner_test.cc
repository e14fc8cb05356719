// SPDX-License-Identifier: Apache-2.0
// A thread refreshes the standby tree while the loop reads by the other one.
#include "agent/tree_scanner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "sources/observer.h"
#include "support/child.h"
#include "support/small_node.h"

namespace forestall::agent {
namespace {

bool is_readable(int fd, Duration patience) {
  pollfd over{fd, POLLIN, 0};
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  return ::poll(&over, 1, static_cast<int>(ms)) == 1;
}

class TreeScannerTest : public ::testing::Test {
 protected:
  // The cgroups that exist by now, with a standby tree, and a scanner.
  void open() {
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    ASSERT_TRUE(found) << found.error().text();
    tree_ = std::move(found).value();
    Config config;
    config.pods = false;
    config.workloads.emplace_back().cgroup = "/w*";
    auto observer = sources::Observer::create(tree_, config, files_ / "proc");
    ASSERT_TRUE(observer) << observer.error().text();
    observer_ = std::move(observer).value();
    observer_->make_standby_tree();
    auto scanner = TreeScannerThread::create();
    ASSERT_TRUE(scanner) << scanner.error().text();
    scanner_ = std::move(scanner).value();
  }

  test::SmallNode files_;
  kernel::CgroupTree tree_;
  std::unique_ptr<sources::Observer> observer_;
  std::unique_ptr<TreeScannerThread> scanner_;
};

TEST_F(TreeScannerTest, RefreshesTheStandbyTreeWhileTheOtherIsRead) {
  open();
  EXPECT_FALSE(scanner_->finish());
  for (int round = 1; round <= 20; ++round) {
    files_.set_group("/w" + std::to_string(round), 100, 10);
    scanner_->start(observer_->take_standby_tree());
    const auto sampled = [&] {
      Observation read;
      observer_->add_workloads(read, {}, sources::kUnscored);
      return read.workloads->size();
    };
    EXPECT_EQ(sampled(), static_cast<std::size_t>(round - 1));
    ASSERT_TRUE(is_readable(scanner_->fd(), test::kPatience));
    auto scan = scanner_->finish();
    ASSERT_TRUE(scan);
    observer_->exchange_tree(std::move(scan->tree));
    EXPECT_FALSE(is_readable(scanner_->fd(), Duration::zero()));
    EXPECT_EQ(sampled(), static_cast<std::size_t>(round));
  }
}

// Opening a file of a cgroup may take long, each one. Here each waits until the test opens the
// other end; at the end of the agent not all of them may have to.
TEST_F(TreeScannerTest, EndsAScanBetweenTwoWorkloads) {
  constexpr int kBlockingWorkloads = 20;
  std::vector<std::string> pipes;
  for (int i = 0; i < kBlockingWorkloads; ++i) {
    const std::string group = "cgroup/w" + std::to_string(i);
    files_.write(group + "/cgroup.procs", "");
    files_.write(group + "/memory.stat", "inactive_file 0\n");
    pipes.push_back(files_ / (group + "/memory.current"));
    ASSERT_EQ(::mkfifo(pipes.back().c_str(), 0600), 0);
  }
  open();
  scanner_->start(observer_->take_standby_tree());
  std::set<std::string> served;
  const auto serve = [&] {
    for (const std::string& each : pipes) {
      const UniqueFd other_end(::open(each.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
      if (other_end) served.insert(each);
    }
  };
  scanner_->stop();
  std::atomic<bool> ended{false};
  std::thread end([&] {
    scanner_.reset();
    ended = true;
  });
  while (!ended) serve();
  end.join();
  EXPECT_LE(served.size(), 1U);
}

}  // namespace
}  // namespace forestall::agent
