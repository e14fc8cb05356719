// SPDX-License-Identifier: Apache-2.0
// The guard's programs with lists made by the test, on a limited cgroup of its own.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "kernel/cgroup_tree.h"
#include "kernel/guard.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/scratch_filesystem.h"

namespace forestall::test {

inline constexpr Bytes kLine = mib(64);
// Far enough above the line that the kernel's OOM killer does not act.
inline constexpr Bytes kLimit = mib(256);
inline constexpr Bytes kCalm = mib(8);

// Fills `group` with 128 MiB of inactive page cache of `file`. A hole, read: clean pages, charged
// to the reader. Written data would pass the loop device, which also charges the writer for its
// backing file; in a VM that file is in memory.
inline void read_into_cache(const ScratchCgroup& scratch, const std::string& group,
                            const std::string& file) {
  Child reader([&] {
    scratch.add(group, ::getpid());
    const UniqueFd hole(::open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    if (::ftruncate(hole.get(), mib(128).count) != 0) return 1;
    std::vector<char> chunk(1 << 20);
    ssize_t got = 0;
    while ((got = ::read(hole.get(), chunk.data(), chunk.size())) > 0) {
    }
    return got == 0 ? 0 : 1;
  });
  ASSERT_TRUE(reader.wait_exit());
  ASSERT_GE(scratch.usage(scratch.path()), kLine);
}

// The kernel frees the guard of an agent of the test before a moment after its last descriptor.
inline void wait_for_the_end_of_other_guards() {
  const MonotonicTime give_up = SystemClock().now() + kPatience;
  for (;;) {
    const auto guard = kernel::GuardPrograms::load({.charge_hook = false});
    if (!guard) throw std::runtime_error(guard.error().text());
    if (!(*guard)->held_until()) return;
    if (SystemClock().now() > give_up) throw std::runtime_error((*guard)->hold_reason());
  }
}

class GuardFixture : public ::testing::Test {
 protected:
  // Loaded once, because an emulated machine verifies the programs for seconds.
  static void SetUpTestSuite() {
    wait_for_the_end_of_other_guards();
    auto loaded = kernel::GuardPrograms::load();
    ASSERT_TRUE(loaded.ok()) << loaded.error().text();
    shared_ = std::move(loaded).value();
    std::printf("%s\n", shared_->evidence().c_str());
  }
  static void TearDownTestSuite() { shared_.reset(); }

  GuardFixture() {
    if (!shared_) throw std::runtime_error("the guard could not be loaded");
    shared_->disarm();
    shared_->end_waits();
    shared_->drain([](const abi_guard_report&) {});
    auto tree = kernel::CgroupTree::discover();
    if (!tree.ok()) throw std::runtime_error(tree.error().text());
    tree_.emplace(std::move(tree).value());
    scratch_.limit(scratch_.path(), kLimit);
    root_.emplace(open(scratch_.path()));
    root_memcg_ = memcg_of(*root_);
  }

  std::uint64_t memcg_of(const kernel::CgroupDir& directory) {
    auto memcg = guard_->find_memcg(directory.fd(), directory.id());
    if (!memcg.ok()) throw std::runtime_error(memcg.error().text());
    return *memcg;
  }

  kernel::CgroupDir open(const std::string& path) {
    auto directory = tree_->open(path);
    if (!directory.ok()) throw std::runtime_error(directory.error().text());
    return std::move(directory).value();
  }

  abi_guard_victim approve(const Hog& hog, const std::string& path, std::uint32_t group) {
    auto victim = guard_->identify(hog.pid(), open(path).id());
    if (!victim.ok()) throw std::runtime_error(victim.error().text());
    victim->group = group;
    victim->expected = 12345;
    return *victim;
  }

  kernel::GuardList list(std::vector<abi_guard_victim> victims, Bytes line = kLine) const {
    kernel::GuardList list;
    list.subject = root_->id();
    list.memcg = root_memcg_;
    list.line = line;
    list.expires = SystemClock().now() + kPatience;
    list.victims = std::move(victims);
    return list;
  }

  void arm(const kernel::GuardList& list) {
    const auto failed = guard_->arm({&list, 1});
    ASSERT_TRUE(failed.ok()) << failed.error().text();
    ASSERT_THAT(*failed, ::testing::IsEmpty());
  }

  void drain() {
    guard_->drain([this](const abi_guard_report& report) { reports_.push_back(report); });
  }

  // Reports of that kind so far.
  std::vector<abi_guard_report> reported(std::uint32_t kind) {
    drain();
    std::vector<abi_guard_report> found;
    for (const abi_guard_report& report : reports_) {
      if (report.kind == kind) found.push_back(report);
    }
    return found;
  }

  // Waits until `count` reports of that kind have arrived.
  std::vector<abi_guard_report> wait_reported(std::uint32_t kind, std::size_t count) {
    const MonotonicTime deadline = SystemClock().now() + kPatience;
    for (;;) {
      auto found = reported(kind);
      if (found.size() >= count || SystemClock().now() >= deadline) return found;
      pollfd ready{guard_->fd(), POLLIN, 0};
      ::poll(&ready, 1, 1000);
    }
  }

  // Runs the programs once in this context, after which they have done everything they could.
  void settle() {
    const auto evaluated = guard_->evaluate();
    ASSERT_TRUE(evaluated.ok()) << evaluated.error().text();
  }

  static void expect_killed(Hog& hog) {
    ASSERT_TRUE(hog.child().wait_exit());
    const int status = hog.child().reap();
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
  }

  // A hog's pidfd shows its death; this shows that no other process died.
  void expect_only_guard_killed() const { EXPECT_EQ(scratch_.oom_kills(scratch_.path()), 0U); }

  ScratchCgroup scratch_;
  std::optional<kernel::CgroupTree> tree_;
  std::optional<kernel::CgroupDir> root_;
  std::uint64_t root_memcg_ = 0;
  inline static std::unique_ptr<kernel::GuardPrograms> shared_;
  kernel::GuardPrograms* const guard_ = shared_.get();
  std::vector<abi_guard_report> reports_;
};

}  // namespace forestall::test
