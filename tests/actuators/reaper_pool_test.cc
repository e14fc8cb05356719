// SPDX-License-Identifier: Apache-2.0
#include "actuators/reaper_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernel/process_ref.h"
#include "support/child.h"

namespace forestall::actuators {
namespace {

using kernel::ProcessRef;
using test::Child;

int live() {
  for (;;) pause();
  return 0;
}

// All reports up to the `count`-th, by ticket.
std::map<std::uint64_t, ReapReport> wait_reports(ReaperPool& pool, std::size_t count) {
  std::vector<ReapReport> reports;
  while (reports.size() < count) {
    pollfd ready{pool.fd(), POLLIN, 0};
    if (poll(&ready, 1, 20'000) != 1) break;
    pool.drain(reports);
  }
  std::map<std::uint64_t, ReapReport> by_ticket;
  for (const auto& report : reports) by_ticket[report.ticket] = report;
  EXPECT_EQ(by_ticket.size(), reports.size()) << "each job is reported once";
  return by_ticket;
}

ReapJob job_for(std::uint64_t ticket, const ProcessRef& process) {
  auto copy = process.duplicate();
  if (!copy.ok()) throw std::runtime_error(copy.error().text());
  return {ticket, std::move(*copy)};
}

ProcessRef ref_to(const Child& child) {
  auto ref = ProcessRef::open(child.pid());
  if (!ref.ok()) throw std::runtime_error(ref.error().text());
  return std::move(*ref);
}

TEST(ReaperPool, FreesTheDyingAndGivesUpOnTheLiving) {
  auto pool = ReaperPool::create(2, 8);
  ASSERT_TRUE(pool.ok());
  Child living(live), dying(live), dead([] { return 0; });
  ASSERT_TRUE(dead.wait_exit());
  const auto dying_ref = ref_to(dying);
  ASSERT_TRUE((*pool)->submit(job_for(1, ref_to(living))));
  ASSERT_TRUE((*pool)->submit(job_for(2, ref_to(dead))));
  ASSERT_TRUE(dying_ref.send_signal(SIGKILL).ok());
  ASSERT_TRUE((*pool)->submit(job_for(3, dying_ref)));
  const auto reports = wait_reports(**pool, 3);
  ASSERT_EQ(reports.size(), 3U);
  EXPECT_EQ(reports.at(1).result, ReapResult::not_yet);
  EXPECT_EQ(reports.at(1).code, EINVAL);
  EXPECT_EQ(reports.at(2).result, ReapResult::gone);
  EXPECT_TRUE(reports.at(3).result == ReapResult::freed ||
              reports.at(3).result == ReapResult::gone);
  EXPECT_TRUE(living.wait_exit(Duration::zero()) == false);
}

TEST(ReaperPool, ReportsARefusalWithItsReason) {
  auto pool = ReaperPool::create(1, 4);
  ASSERT_TRUE(pool.ok());
  // No pidfd at all: EBADF stands for every error that a retry does not change.
  ASSERT_TRUE((*pool)->submit({7, UniqueFd(memfd_create("no-pidfd", MFD_CLOEXEC))}));
  const auto reports = wait_reports(**pool, 1);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports.at(7).result, ReapResult::failed);
  EXPECT_EQ(reports.at(7).code, EBADF);
}

TEST(ReaperPool, RefusesJobsBeyondItsCapacityUntilDrained) {
  auto pool = ReaperPool::create(2, 4);
  ASSERT_TRUE(pool.ok());
  Child dead([] { return 0; });
  ASSERT_TRUE(dead.wait_exit());
  const auto ref = ref_to(dead);
  for (std::uint64_t ticket = 0; ticket < 4; ++ticket) {
    EXPECT_TRUE((*pool)->submit(job_for(ticket, ref)));
  }
  EXPECT_FALSE((*pool)->submit(job_for(4, ref)));
  EXPECT_EQ(wait_reports(**pool, 4).size(), 4U);
  EXPECT_TRUE((*pool)->submit(job_for(5, ref)));
  EXPECT_EQ(wait_reports(**pool, 1).size(), 1U);
}

TEST(ReaperPool, CarriesManyJobsThroughASmallRing) {
  auto pool = ReaperPool::create(3, 16);
  ASSERT_TRUE(pool.ok());
  Child dead([] { return 0; });
  ASSERT_TRUE(dead.wait_exit());
  const auto ref = ref_to(dead);
  std::vector<ReapReport> reports;
  std::uint64_t next = 0;
  while (reports.size() < 500) {
    while (next < 500 && (*pool)->submit(job_for(next, ref))) ++next;
    pollfd ready{(*pool)->fd(), POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 20'000), 1);
    (*pool)->drain(reports);
  }
  std::uint64_t sum = 0;
  for (const auto& report : reports) sum += report.ticket;
  EXPECT_EQ(sum, 499U * 500U / 2);
}

// Regression: a thread that already ran SCHED_FIFO could not create the pool.
TEST(ReaperPool, IsMadeByARealTimeThreadAndDoesNotInheritIt) {
  Child maker([] {
    sched_param wanted{};
    wanted.sched_priority = 50;
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &wanted) != 0) return 2;
    auto pool = ReaperPool::create(1, 1);
    if (!pool.ok()) return 3;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      const pid_t tid = std::stoi(task.path().filename());
      if (tid != getpid() && sched_getscheduler(tid) != SCHED_OTHER) return 4;
    }
    return 0;
  });
  ASSERT_TRUE(maker.wait_exit());
  EXPECT_EQ(maker.reap(), 0);
}

TEST(ReaperPool, StopsWithJobsQueuedAndRunning) {
  Child living(live);
  const auto ref = ref_to(living);
  for (int round = 0; round < 20; ++round) {
    auto pool = ReaperPool::create(2, 16);
    ASSERT_TRUE(pool.ok());
    for (std::uint64_t ticket = 0; ticket < 16; ++ticket) {
      ASSERT_TRUE((*pool)->submit(job_for(ticket, ref)));
    }
  }
}

// The kernel may take the whole amount of one write in one step, and a stop would wait for it.
TEST(ReaperPool, WritesAReclaimInPieces) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(pipe2(pipe.data(), O_CLOEXEC), 0);
  const UniqueFd read_end(pipe[0]);
  auto pool = ReaperPool::create(1, 1);
  ASSERT_TRUE(pool.ok());
  ASSERT_TRUE((*pool)->submit({1, UniqueFd(pipe[1]), ReapCall::reclaim, mib(128) + Bytes{1}}));
  EXPECT_EQ(wait_reports(**pool, 1)[1].result, ReapResult::freed);
  std::array<char, 64> text{};
  const ssize_t size = read(read_end.get(), text.data(), text.size());
  EXPECT_EQ(std::string_view(text.data(), static_cast<std::size_t>(size)),
            "67108864"
            "67108864"
            "1");
}

// Whether another thread of this process is in write(2).
bool writes_elsewhere() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (std::stoi(task.path().filename()) == gettid()) continue;
    long call = -1;
    if (std::ifstream(task.path() / "syscall") >> call && call == SYS_write) return true;
  }
  return false;
}

// A write to memory.force_empty may take minutes. Here a write to a full pipe takes its place.
TEST(ReaperPool, StopsDuringAWriteWithoutEnd) {
  Child child([] {
    std::array<int, 2> pipe{};
    if (pipe2(pipe.data(), O_CLOEXEC) != 0) return 2;
    UniqueFd read_end(pipe[0]), full(pipe[1]);
    const std::vector<char> all(static_cast<std::size_t>(fcntl(full.get(), F_GETPIPE_SZ)));
    if (write(full.get(), all.data(), all.size()) != static_cast<ssize_t>(all.size())) return 3;
    auto pool = ReaperPool::create(1, 1);
    if (!pool.ok()) return 4;
    const ReapCall call = ReapCall::reclaim;
    if (!(*pool)->submit({1, std::move(full), call, mib(1)})) return 5;
    while (!writes_elsewhere()) sched_yield();
    return 0;
  });
  ASSERT_TRUE(child.wait_exit());
  EXPECT_EQ(child.reap(), 0);
}

}  // namespace
}  // namespace forestall::actuators
