// SPDX-License-Identifier: Apache-2.0
// BPF samples as model types: scanned processes and OOM kills.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "sources/oom_event.h"
#include "sources/task_sample.h"

namespace forestall::sources {
namespace {

const auto kPage = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));

TEST(TaskSample, EachFigureInItsPlace) {
  abi_task task{};
  task.start_ns = 12'345'678'901;
  task.cgroup = 9;
  task.memory_id = 7;
  task.counted[ABI_TASK_FILE] = 1;
  task.counted[ABI_TASK_ANON] = 2;
  task.counted[ABI_TASK_SWAP] = 3;
  task.counted[ABI_TASK_SHMEM] = 4;
  task.summed[ABI_TASK_ANON] = 20;
  task.page_table_bytes = 5 * kPage + 1;
  task.nodes_allowed = 3;
  task.nodes_bound = 1;
  task.pid = 101;  // a thread in place of its leader
  task.tgid = 100;
  task.uid = 7;
  task.oom_score_adj = -3;
  task.flags = ABI_TASK_DYING | ABI_TASK_OOM_VICTIM;
  std::memcpy(task.comm, "sixteen bytes!!!", 16);
  const auto sample = to_sample(task, kernel::RssCounting::counted);
  EXPECT_EQ(sample.id, (ProcessId{100, 1234}));
  EXPECT_EQ(sample.cgroup, CgroupId{9});
  EXPECT_EQ(sample.memory_id, 7U);
  EXPECT_EQ(sample.memory, (ProcessMemory{1, 2, 4, 3, 5}));
  EXPECT_EQ(to_sample(task, kernel::RssCounting::summed).memory, (ProcessMemory{0, 20, 0, 0, 5}));
  EXPECT_EQ(sample.oom_score_adj, -3);
  EXPECT_EQ(sample.uid, 7U);
  EXPECT_EQ(sample.nodes_allowed, 3U);
  EXPECT_EQ(sample.nodes_bound, 1U);
  EXPECT_EQ(sample.order, task.start_ns);
  EXPECT_EQ(sample.name(), "sixteen bytes!!");
  EXPECT_TRUE(sample.dying);
  EXPECT_TRUE(sample.oom_victim);
  EXPECT_FALSE(sample.oom_victim_reaped);
  EXPECT_FALSE(sample.oom_origin);
}

TEST(TaskSample, ReasonsInTheKernelsOrder) {
  abi_task task{};
  const auto reason = [&] { return to_sample(task, kernel::RssCounting::counted).unkillable; };
  EXPECT_EQ(reason(), Unkillable::none);
  task.flags |= ABI_TASK_IN_VFORK;
  EXPECT_EQ(reason(), Unkillable::in_vfork);
  task.flags |= ABI_TASK_REAPED;
  EXPECT_EQ(reason(), Unkillable::reaped);
  task.oom_score_adj = kOomScoreAdjMin;
  EXPECT_EQ(reason(), Unkillable::adjusted);
  task.flags |= ABI_TASK_NO_MEMORY;
  EXPECT_EQ(reason(), Unkillable::no_memory);
  task.flags |= ABI_TASK_KERNEL_THREAD;
  EXPECT_EQ(reason(), Unkillable::kernel_thread);
  task.flags |= ABI_TASK_INIT;
  EXPECT_EQ(reason(), Unkillable::init);
}

abi_oom_kill kill() {
  abi_oom_kill made{};
  made.event.kind = ABI_EVENT_oom_kill;
  made.event.at_ns = 1000;
  made.event.cgroup = 9;
  made.event.pid = 101;
  made.event.tgid = 100;
  made.event.uid = 7;
  made.event.value = -5;
  std::memcpy(made.event.comm, "hog", 3);
  return made;
}

TEST(OomEvent, FlaggedFieldsAreKnown) {
  auto event = kill();
  event.flags = ABI_OOM_MEMORY | ABI_OOM_EXACT | ABI_OOM_POINTS | ABI_OOM_WITH_ANOTHER;
  event.start_ns = 20'000'000;
  event.counted[ABI_TASK_FILE] = 1;
  event.counted[ABI_TASK_ANON] = 2;
  event.counted[ABI_TASK_SWAP] = 3;
  event.counted[ABI_TASK_SHMEM] = 4;
  event.page_table_bytes = 5 * kPage;
  event.points = 15;
  event.total_pages = 1000;
  event.constraint = ABI_OOM_CONSTRAINT_MEMCG;
  event.domain = 8;
  event.domain_usage = 4096;
  event.killer_tgid = 60;
  event.killer_pid = 61;
  event.killer_start_ns = 30'000'000;
  std::memcpy(event.killer_comm, "eater", 5);
  const auto found = to_event(event);
  EXPECT_EQ(found.at, from_ns(1000));
  EXPECT_EQ(found.victim, (ProcessId{100, 2}));
  EXPECT_STREQ(found.comm.data(), "hog");
  EXPECT_EQ(found.uid, 7U);
  EXPECT_EQ(found.oom_score_adj, -5);
  EXPECT_EQ(found.cgroup, CgroupId{9});
  EXPECT_EQ(found.memory, (ProcessMemory{1, 2, 4, 3, 5}));
  EXPECT_EQ(found.points, 15);
  EXPECT_EQ(found.total_pages, 1000);
  EXPECT_EQ(found.constraint, Constraint::memcg);
  EXPECT_FALSE(found.constraint_deduced);
  EXPECT_EQ(found.domain, CgroupId{8});
  EXPECT_EQ(found.domain_usage, Bytes{4096});
  EXPECT_EQ(found.domain_limit, std::nullopt);
  EXPECT_EQ(found.killer, (ProcessId{60, 3}));
  EXPECT_STREQ(found.killer_comm.data(), "eater");
  EXPECT_TRUE(found.with_another);
}

TEST(OomEvent, UnflaggedFieldsAreUnknown) {
  auto event = kill();
  auto found = to_event(event);
  EXPECT_EQ(found.victim, (ProcessId{100, 0}));
  EXPECT_EQ(found.memory, std::nullopt);
  EXPECT_EQ(found.points, std::nullopt);
  EXPECT_EQ(found.total_pages, std::nullopt);
  EXPECT_EQ(found.killer, std::nullopt);
  EXPECT_EQ(found.domain_usage, std::nullopt);
  EXPECT_EQ(found.constraint, Constraint::none);
  EXPECT_TRUE(found.constraint_deduced);
  event.domain = 8;
  event.domain_limit = 4096;
  found = to_event(event);
  EXPECT_EQ(found.constraint, Constraint::memcg);
  EXPECT_TRUE(found.constraint_deduced);
  EXPECT_EQ(found.domain_limit, Bytes{4096});
}

}  // namespace
}  // namespace forestall::sources
