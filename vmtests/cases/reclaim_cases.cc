// SPDX-License-Identifier: Apache-2.0
// cgroup v2: a stop of the agent while its thread waits for the kernel to reclaim what a tenant
// left behind.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <random>
#include <string>

#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/scratch_filesystem.h"
#include "support/zram_swap.h"

namespace forestall::vm {
namespace {

using test::AgentRun;
using test::Child;
using test::kPatience;
using test::ScratchCgroup;
using test::ScratchFilesystem;
using test::ScratchKind;
using test::ZramSwap;

constexpr Bytes kCgroupLimit = mib(320);
constexpr Bytes kWatchedThreshold = mib(64);
constexpr Bytes kFile = mib(260);
// What the kernel has swapped out when the agent gets SIGTERM.
constexpr Bytes kBegun = mib(4);

// Random bytes: zram stores a page of equal words without any work.
bool write_random(const std::string& path, Bytes size) {
  const UniqueFd file(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  std::mt19937_64 random(1);
  std::string piece(1 << 20, '\0');
  for (std::size_t at = 0; at < piece.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    piece.replace(at, sizeof(word), reinterpret_cast<const char*>(&word), sizeof(word));
  }
  for (std::int64_t left = size.count; left > 0; left -= static_cast<std::int64_t>(piece.size())) {
    if (write(file.get(), piece.data(), piece.size()) < 0) return false;
  }
  return true;
}

TEST(Reclaim, AStopDoesNotWaitForItsEnd) {
  const ZramSwap swap(mib(400));
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kCgroupLimit);
  const std::string tenant = scratch.child("tenant");
  const ScratchFilesystem tmpfs(ScratchKind::tmpfs, kCgroupLimit, 64);
  Child owner([&] {
    scratch.add(tenant, getpid());
    return write_random(tmpfs / "file", kFile) ? 0 : 1;
  });
  ASSERT_TRUE(owner.wait_exit(std::chrono::seconds(120)));
  ASSERT_EQ(owner.reap(), 0);
  const Bytes before = scratch.usage(tenant);
  ASSERT_GT(before, kCgroupLimit - kWatchedThreshold);
  AgentRun agent(
      fmt::format("evictionHard: {{}}\npods: {{enabled: false}}\nwatch:\n  - {{cgroup: "
                  "{0}, available: {1}Mi}}\nworkloads:\n  - {{cgroup: {0}/*}}\n",
                  scratch.path(), kWatchedThreshold.count >> 20));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const MonotonicTime deadline = SystemClock().now() + kPatience;
  while (scratch.usage(tenant) > before - kBegun && SystemClock().now() < deadline) {
    poll(nullptr, 0, 1);
  }
  ASSERT_EQ(kill(agent.process().pid(), SIGTERM), 0);
  const MonotonicTime sent = SystemClock().now();
  const auto status = agent.process().wait_end(sent + kPatience);
  ASSERT_TRUE(status) << agent.process().log();
  EXPECT_EQ(*status, 0) << agent.process().log();
  const Bytes left = scratch.usage(tenant);
  EXPECT_LT(left, before - kBegun) << "no reclaim ran\n" << agent.process().log();
  EXPECT_GT(left, mib(32)) << "the reclaim had ended before the stop\n" << agent.process().log();
  fmt::print("@metric stop_during_reclaim {:.1f} ms\n@metric left_after_stop {} MiB\n",
             static_cast<double>((SystemClock().now() - sent).count()) / 1e6, left.count >> 20);
}

}  // namespace
}  // namespace forestall::vm
