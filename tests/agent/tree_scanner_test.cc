// SPDX-License-Identifier: Apache-2.0
// A thread refreshes the spare tree while the loop reads by the other one.
#include "agent/tree_scanner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <atomic>
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

TEST(TreeScanner, RefreshesTheSpareTreeWhileTheOtherIsRead) {
  test::SmallNode files;
  const auto make = [&](int number) { files.set_group("/w" + std::to_string(number), 100, 10); };
  const auto tree = kernel::CgroupTree::discover(files / "cgroup");
  ASSERT_TRUE(tree) << tree.error().text();
  Config config;
  config.pods = false;
  WorkloadRule rule;
  rule.cgroup = "/w*";
  config.workloads = {rule};
  const auto observer = sources::Observer::create(*tree, config, files / "proc");
  ASSERT_TRUE(observer) << observer.error().text();
  (*observer)->make_spare_tree();
  const auto scanner = TreeScannerThread::create();
  ASSERT_TRUE(scanner) << scanner.error().text();
  EXPECT_FALSE((*scanner)->finish());
  for (int round = 1; round <= 20; ++round) {
    make(round);
    (*scanner)->start((*observer)->take_spare_tree());
    const auto sampled = [&] {
      Observation read;
      (*observer)->add_workloads(read, {}, sources::kUnscored);
      return read.workloads->size();
    };
    EXPECT_EQ(sampled(), static_cast<std::size_t>(round - 1));
    ASSERT_TRUE(is_readable((*scanner)->fd(), test::kPatience));
    auto scan = (*scanner)->finish();
    ASSERT_TRUE(scan);
    (*observer)->exchange_tree(std::move(scan->tree));
    EXPECT_FALSE(is_readable((*scanner)->fd(), Duration::zero()));
    EXPECT_EQ(sampled(), static_cast<std::size_t>(round));
  }
}

// Opening a file of a cgroup may take long, each one. Here each waits until the test opens the
// other end; at the end of the agent not all of them may have to.
TEST(TreeScanner, EndsAScanBetweenTwoWorkloads) {
  constexpr int kWorkloads = 20;
  test::SmallNode files;
  std::vector<std::string> pipes;
  for (int i = 0; i < kWorkloads; ++i) {
    const std::string group = "cgroup/w" + std::to_string(i);
    files.write(group + "/cgroup.procs", "");
    files.write(group + "/memory.stat", "inactive_file 0\n");
    pipes.push_back(files / (group + "/memory.current"));
    ASSERT_EQ(::mkfifo(pipes.back().c_str(), 0600), 0);
  }
  const auto tree = kernel::CgroupTree::discover(files / "cgroup");
  ASSERT_TRUE(tree) << tree.error().text();
  Config config;
  config.pods = false;
  WorkloadRule rule;
  rule.cgroup = "/w*";
  config.workloads = {rule};
  const auto observer = sources::Observer::create(*tree, config, files / "proc");
  ASSERT_TRUE(observer) << observer.error().text();
  (*observer)->make_spare_tree();
  auto scanner = TreeScannerThread::create();
  ASSERT_TRUE(scanner) << scanner.error().text();
  (*scanner)->start((*observer)->take_spare_tree());
  std::set<std::string> served;
  const auto serve = [&] {
    for (const std::string& each : pipes) {
      const UniqueFd other_end(::open(each.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
      if (other_end) served.insert(each);
    }
  };
  (*scanner)->stop();
  std::atomic<bool> ended{false};
  std::thread end([&] {
    scanner->reset();
    ended = true;
  });
  while (!ended) serve();
  end.join();
  EXPECT_LE(served.size(), 1U);
}

}  // namespace
}  // namespace forestall::agent
