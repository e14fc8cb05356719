// SPDX-License-Identifier: Apache-2.0
// Compares the two process sources: one walk in the kernel, and /proc.
#include "sources/process_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>

#include "kernel/cgroup_path.h"
#include "kernel/task_scan.h"
#include "sources/task_sample.h"
#include "support/child.h"
#include "support/process_forest.h"

namespace forestall::test {
namespace {

using Samples = std::map<pid_t, ProcessSample>;

// Each process once, ordered by pid.
Samples by_pid(const std::vector<ProcessSample>& samples) {
  Samples found;
  for (const auto& sample : samples) {
    EXPECT_TRUE(found.emplace(sample.id.pid, sample).second) << sample.id.pid << " is there twice";
  }
  return found;
}

Samples scan(sources::ProcessSource& source, std::optional<CgroupId> subtree) {
  std::vector<ProcessSample> samples;
  const auto done = source.scan(subtree, samples);
  EXPECT_TRUE(done.ok()) << source.name() << ": " << done.error().text();
  return by_pid(samples);
}

// The fields that do not depend on the moment or the way of counting. /proc gives the start time in
// ticks and another number for an address space.
ProcessSample identity(ProcessSample sample) {
  sample.memory = {};
  sample.memory_id = 0;
  sample.order = 0;
  sample.dying = false;
  return sample;
}

// For each process, the lowest pid with which it shares its memory.
std::map<pid_t, pid_t> sharers(const Samples& samples) {
  std::map<std::uint64_t, pid_t> first;
  std::map<pid_t, pid_t> least;
  for (const auto& [pid, sample] : samples) {
    if (sample.memory_id == 0) continue;
    least[pid] = first.try_emplace(sample.memory_id, pid).first->second;
  }
  return least;
}

class ProcessSourceTest : public testing::Test {
 protected:
  ProcessSourceTest()
      : tree_(kernel::CgroupTree::discover().value()),
        scan_(kernel::TaskScan::load().value()),
        proc_(sources::proc_process_source(tree_).value()) {}

  [[nodiscard]] CgroupId id_of(const std::string& path) const {
    return tree_.open(path).value().id();
  }
  // By the given way of counting, if this kernel uses it.
  Samples scan_bpf(CgroupId subtree, kernel::RssCounting counting) {
    std::vector<ProcessSample> samples;
    const auto done = scan_->visit({subtree, 0, true}, [&](const abi_task& task) {
      samples.push_back(sources::to_sample(task, counting));
    });
    EXPECT_TRUE(done.ok()) << done.error().text();
    return by_pid(samples);
  }

  kernel::CgroupTree tree_;
  std::unique_ptr<kernel::TaskScan> scan_;
  std::unique_ptr<sources::ProcessSource> proc_;
};

TEST_F(ProcessSourceTest, BothSourcesAgreeOnAnIdleForest) {
  ProcessForest forest(
      {.seed = 4, .processes = 150, .most_pages = 96, .lowest_adj = 0, .equals = 5});
  const CgroupId top = id_of(forest.root());
  const Samples proc = scan(*proc_, top);
  ASSERT_GE(proc.size(), 150U);
  const Samples counted = scan_bpf(top, kernel::RssCounting::counted);
  const Samples summed = scan_bpf(top, kernel::RssCounting::summed);
  ASSERT_EQ(proc.size(), summed.size());
  // /proc uses one way of counting for all processes.
  std::size_t as_counted = 0;
  std::size_t as_summed = 0;
  for (const auto& [pid, sample] : proc) {
    ASSERT_TRUE(summed.contains(pid)) << pid << '\n' << forest.text();
    const ProcessSample& other = summed.at(pid);
    EXPECT_EQ(identity(sample), identity(other)) << pid << " proc: " << to_string(sample.unkillable)
                                                 << " bpf: " << to_string(other.unkillable) << '\n'
                                                 << forest.text();
    EXPECT_EQ(sample.dying, other.dying) << pid;
    EXPECT_LE(sample.order / 10'000'000, other.order / 10'000'000 + 1) << pid;
    as_summed += sample.memory == other.memory ? 1 : 0;
    as_counted += sample.memory == counted.at(pid).memory ? 1 : 0;
  }
  EXPECT_EQ(std::max(as_counted, as_summed), proc.size())
      << as_counted << " as counted, " << as_summed << " as summed";
  EXPECT_EQ(sharers(proc), sharers(summed));
  std::cout << "compared " << proc.size() << " processes, " << as_summed << " equal as summed, "
            << as_counted << " as counted\n";
}

TEST_F(ProcessSourceTest, AndWhileOthersAreBornAndDie) {
  ProcessForest forest({.seed = 5, .processes = 40, .most_pages = 80, .lowest_adj = 0});
  const std::string storm = forest.groups().child("storm");
  std::vector<Child> mothers;
  for (int i = 0; i < 2; ++i) {
    mothers.emplace_back([&] {
      forest.groups().add(storm, getpid());
      for (;;) {
        const pid_t child = fork();
        if (child == 0) _exit(0);
        if (child > 0) waitpid(child, nullptr, 0);
      }
      return 0;
    });
  }
  auto bpf = sources::bpf_process_source(std::move(scan_));
  EXPECT_EQ(bpf->name(), "bpf");
  EXPECT_EQ(proc_->name(), "proc");
  const CgroupId top = id_of(forest.root());
  std::size_t compared = 0;
  std::size_t strangers = 0;
  for (int round = 0; round < 10; ++round) {
    const Samples fast = scan(*bpf, top);
    const Samples slow = scan(*proc_, top);
    for (const auto& [pid, sample] : fast) {
      const auto other = slow.find(pid);
      if (other == slow.end() || other->second.id != sample.id) {
        ++strangers;
        continue;
      }
      if (sample.cgroup == id_of(storm)) continue;
      ++compared;
      EXPECT_EQ(identity(sample), identity(other->second)) << pid << '\n' << forest.text();
    }
    EXPECT_GE(slow.size(), forest.alive().size());
  }
  EXPECT_GE(compared, 10 * forest.alive().size());
  std::cout << "compared " << compared << ", met by one of them only " << strangers << "\n";
}

TEST_F(ProcessSourceTest, TheNodeHoldsUsAndNoKernelThread) {
  for (const bool fast : {false, true}) {
    auto bpf = fast ? sources::bpf_process_source(std::move(scan_)) : nullptr;
    const Samples node = scan(fast ? *bpf : *proc_, std::nullopt);
    ASSERT_TRUE(node.contains(getpid()));
    // Some kernels' iterators skip pid 1, which is never chosen anyway.
    ASSERT_TRUE(fast || node.contains(1));
    const auto init = node.find(1);
    EXPECT_TRUE(init == node.end() || init->second.unkillable == Unkillable::init);
    EXPECT_FALSE(node.contains(2));  // kthreadd
    const auto path = kernel::cgroup_path(tree_, node.at(getpid()).cgroup);
    ASSERT_TRUE(path.ok()) << path.error().text();
    EXPECT_EQ(*path, tree_.path_of(getpid()).value());
  }
}

TEST_F(ProcessSourceTest, TheOrderWithinACgroup) {
  ProcessForest forest(
      {.seed = 6, .processes = 10, .most_pages = 64, .lowest_adj = 0, .corners = false});
  auto bpf = sources::bpf_process_source(std::move(scan_));
  const std::string home = forest.processes().front().path;
  std::vector<ProcessSample> samples;
  ASSERT_TRUE(bpf->scan(id_of(home), samples).ok());
  std::erase_if(samples, [&](const ProcessSample& sample) { return sample.cgroup != id_of(home); });
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < samples.size(); ++i) all.push_back(i);
  auto by_proc = samples;
  const auto known = bpf->order(samples, all);
  ASSERT_TRUE(known.ok()) << known.error().text();
  EXPECT_TRUE(*known);
  const auto shown = proc_->order(by_proc, all);
  ASSERT_TRUE(shown.ok()) << shown.error().text();
  // v1 sorts its list, so only v2 shows the order.
  EXPECT_EQ(*shown, !mounts().v1);
  if (!*shown) return;
  for (std::size_t i = 0; i < samples.size(); ++i) EXPECT_EQ(samples[i], by_proc[i]);
}

TEST(CgroupPath, ForExistingAndRemovedCgroups) {
  ScratchCgroup scratch;
  const auto tree = kernel::CgroupTree::discover().value();
  const auto child = scratch.child("some (deleted)");
  const CgroupId id = tree.open(child).value().id();
  EXPECT_EQ(kernel::cgroup_path(tree, id).value(), child);
  EXPECT_TRUE(kernel::is_mounted_whole(tree));
  EXPECT_EQ(kernel::cgroup_path(tree, tree.open("/").value().id()).value(), "/");
  scratch.remove_child(child);
  EXPECT_FALSE(kernel::cgroup_path(tree, id).ok());
  EXPECT_FALSE(kernel::cgroup_path(tree, CgroupId{~std::uint64_t{0}}).ok());
}

}  // namespace
}  // namespace forestall::test
