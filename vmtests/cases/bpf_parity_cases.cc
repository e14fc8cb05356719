// SPDX-License-Identifier: Apache-2.0
// BPF's full tier on kernels that permit fentry: exact crossings, PSI stalls against
// memory.pressure, the OOM path; and that no program harms a kernel when a tracepoint passes NULL.
// tests/integration/bpf_programs_test.cc tests every tier.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cases/psi_stall.h"
#include "cases/short_node.h"
#include "integration/bpf_events.h"
#include "kernel/bpf_programs.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::vm {
namespace {

using kernel::BpfPrograms;
using test::BpfEvents;
using test::CacheFile;
using test::Child;
using test::Hog;
using test::OpenCgroup;
using test::ScratchCgroup;

class BpfParity : public test::BpfSuite {};

TEST_F(BpfParity, EveryFeatureIsInUse) {
  BpfPrograms& programs = all_programs();
  for (const FeatureReport& report : programs.reports()) {
    EXPECT_EQ(report.state, FeatureState::in_use)
        << to_string(report.feature) << ": " << report.evidence;
  }
}

TEST_F(BpfParity, AChargeCrossingIsExact) {
  BpfPrograms& programs = programs_without(test::set_of({Feature::bpf_timer}));
  ScratchCgroup scratch;
  const std::string path = scratch.child("pod/container");
  const OpenCgroup leaf(scratch.directory(path));
  const OpenCgroup top(scratch.directory(scratch.path()));
  const kernel::BpfWatch watches[] = {leaf.watch(mib(48)), top.watch(mib(56))};
  Hog hog(scratch, path, mib(16));
  ASSERT_THAT(programs.watch(watches).value(), testing::IsEmpty());
  BpfEvents events(programs);
  hog.grow(mib(64));
  for (const auto& [group, line] : {std::pair{&leaf, mib(48)}, std::pair{&top, mib(56)}}) {
    const abi_event* crossed = events.wait(test::crossing(group->id()));
    ASSERT_NE(crossed, nullptr);
    EXPECT_EQ(crossed->kind, ABI_EVENT_charge);
    // One charge is a batch of 64 pages (MEMCG_CHARGE_BATCH), and two CPUs may charge at once.
    EXPECT_GE(crossed->usage, static_cast<__u64>(line.count));
    EXPECT_LE(crossed->usage, static_cast<__u64>((line + kib(2 * 256)).count));
    std::cout << "@metric charge_overshoot " << crossed->usage - static_cast<__u64>(line.count)
              << " bytes\n";
  }
  ASSERT_TRUE(hog.wait_grown());
  events.drain();
  EXPECT_EQ(events.count(test::crossing(leaf.id())), 1U);
  EXPECT_EQ(events.count(test::crossing(top.id())), 1U);
}

// A tenant decides how deep its tree is.
TEST_F(BpfParity, ADeepTreeHidesNeitherACrossingNorAStall) {
  BpfPrograms& programs = programs_without(test::set_of({Feature::bpf_timer}));
  ScratchCgroup scratch;
  const std::string top = scratch.child("tenant");
  std::string deep = "tenant";
  for (int i = 0; i < 60; ++i) deep += "/l";
  deep = scratch.child(deep);
  scratch.limit(top, mib(24));
  const OpenCgroup group(scratch.directory(top));
  const kernel::BpfWatch watch = group.watch(mib(20));
  ASSERT_THAT(programs.watch({&watch, 1}).value(), testing::IsEmpty());
  const CacheFile cache(mib(96));
  BpfEvents events(programs);
  Child reader([&] {
    scratch.add(deep, ::getpid());
    return cache.read_through(CacheFile::kUntilEnded);
  });
  const abi_event* crossed = events.wait(test::crossing(group.id()), std::chrono::seconds(90));
  ASSERT_NE(crossed, nullptr);
  EXPECT_EQ(crossed->kind, ABI_EVENT_charge);
  EXPECT_NE(events.wait(test::of(ABI_EVENT_stall, group.id()), std::chrono::seconds(90)), nullptr);
}

// In a callback of bpf_loop, Linux 6.1 removes the check of an index that begins as a constant.
// Without unknown_zero() the ids of the others are written over the stack of the kernel.
TEST_F(BpfParity, AStallCountsForTheLowestFourWatchedOfADeepTree) {
  BpfPrograms& programs = all_programs();
  ScratchCgroup scratch;
  std::string deep;
  std::vector<std::unique_ptr<OpenCgroup>> groups;
  std::vector<kernel::BpfWatch> watches;
  for (int i = 0; i < 10; ++i) {
    deep += "/watched";
    groups.push_back(
        std::make_unique<OpenCgroup>(scratch.directory(scratch.child(deep.substr(1)))));
    watches.push_back(groups.back()->watch(gib(1)));
  }
  scratch.limit(scratch.path() + "/watched", mib(24));
  for (int i = 0; i < ABI_STALL_LEVELS; ++i) deep += "/l";
  deep = scratch.child(deep.substr(1));
  ASSERT_THAT(programs.watch(watches).value(), testing::IsEmpty());
  const CacheFile cache(mib(96));
  BpfEvents events(programs);
  Child reader([&] {
    scratch.add(deep, ::getpid());
    return cache.read_through(CacheFile::kUntilEnded);
  });
  const std::size_t lowest = groups.size() - ABI_STALL_WATCHED;
  for (std::size_t i = groups.size(); i-- > lowest;)
    EXPECT_NE(events.wait(test::of(ABI_EVENT_stall, groups[i]->id()), std::chrono::seconds(90)),
              nullptr);
  for (std::size_t i = 0; i < lowest; ++i)
    EXPECT_EQ(events.count(test::of(ABI_EVENT_stall, groups[i]->id())), 0U);
}

TEST_F(BpfParity, PsiStallMatchesMemoryPressure) {
  BpfPrograms& programs = all_programs();
  ASSERT_TRUE(programs.in_use(Feature::bpf_stall));
  ScratchCgroup scratch;
  const std::string path = scratch.child("stalls");
  scratch.limit(path, mib(24));
  const OpenCgroup group(scratch.directory(path));
  const std::uint64_t psi_us = psi_us_of_stalls(scratch, path);
  const abi_stall_sum stall = programs.stall(group.id())->sums[ABI_STALL_PSI];
  std::cout << "@metric psi_total " << psi_us << " us\n@metric bpf_stall " << stall.ns / 1000
            << " us\n";
  ASSERT_GT(stall.count, 0U);
  // The programs start their clock after the kernel's and stop it before: never more, and less by
  // the cost of the trampolines per stall, which is large under emulation.
  EXPECT_LE(stall.ns / 1000, psi_us + psi_us / 100 + 1000);
  EXPECT_GE(stall.ns / 1000, psi_us / 100 * 80);
}

TEST_F(BpfParity, ReportsAStallOfAWatchedCgroup) {
  BpfPrograms& programs = all_programs();
  ScratchCgroup scratch;
  const std::string path = scratch.child("stalls");
  scratch.limit(path, mib(24));
  const OpenCgroup group(scratch.directory(path));
  const kernel::BpfWatch watch = group.watch(gib(1));
  ASSERT_THAT(programs.watch({&watch, 1}).value(), testing::IsEmpty());
  const CacheFile cache(mib(96));
  BpfEvents events(programs);
  Child reader([&] {
    scratch.add(path, ::getpid());
    return cache.read_through(CacheFile::kUntilEnded);
  });
  const abi_event* stall =
      events.wait(test::of(ABI_EVENT_stall, group.id()), std::chrono::seconds(90));
  ASSERT_NE(stall, nullptr);
  EXPECT_GE(stall->stalled_ns, 20'000'000U);
}

TEST_F(BpfParity, TheLastCallComesBeforeTheKill) {
  BpfPrograms& programs = all_programs();
  ScratchCgroup scratch;
  const std::string path = scratch.child("dies");
  scratch.limit(path, mib(32));
  const OpenCgroup group(scratch.directory(path));
  BpfEvents events(programs);
  Hog hog(scratch, path, mib(8));
  hog.grow(mib(64));
  const abi_event* kill = events.wait(test::of(ABI_EVENT_oom_kill, group.id()));
  ASSERT_NE(kill, nullptr);
  EXPECT_EQ(kill->tgid, hog.pid());
  const abi_event* call = events.wait(test::of(ABI_EVENT_oom_last_call, group.id()));
  ASSERT_NE(call, nullptr);
  EXPECT_LT(call->at_ns, kill->at_ns);
}

// On 7.2 mm_vmscan_direct_reclaim_begin passes a NULL memcg when the whole node is short. A program
// that trusts the type would crash the kernel.
TEST_F(BpfParity, NoProgramHarmsTheKernelUnderGlobalAndMemcgReclaim) {
  const auto programs = test::load_programs();  // whose sums begin at 0
  ShortNode node;
  const OpenCgroup limited_group(node.scratch().directory(node.limited()));
  const kernel::BpfWatch watches[] = {{{}, -1, gib(1 << 20)}, limited_group.watch(gib(1))};
  ASSERT_TRUE(programs->watch(watches).ok());
  BpfEvents events(*programs);
  node.start();
  const auto direct = [&] { return programs->stall({})->sums[ABI_STALL_DIRECT_RECLAIM].count; };
  const MonotonicTime end = SystemClock().now() + std::chrono::seconds(140);
  while (direct() < 20 && !node.over() && SystemClock().now() < end) {
    pollfd ring{programs->ring_fd(), POLLIN, 0};
    ::poll(&ring, 1, 100);
    events.drain();
  }
  const abi_stall stalls = programs->stall({}).value();
  std::cout << "@metric direct_reclaims " << stalls.sums[ABI_STALL_DIRECT_RECLAIM].count << "\n"
            << "@metric memcg_reclaims " << stalls.sums[ABI_STALL_MEMCG_RECLAIM].count << "\n"
            << "@metric kswapd_runs " << stalls.sums[ABI_STALL_KSWAPD].count << "\n";
  EXPECT_GT(stalls.sums[ABI_STALL_DIRECT_RECLAIM].count, 0U);
  EXPECT_GT(stalls.sums[ABI_STALL_MEMCG_RECLAIM].count, 0U);
  EXPECT_GT(stalls.sums[ABI_STALL_KSWAPD].count, 0U);
  EXPECT_GT(events.count([](const abi_event& event) {
    return event.kind == ABI_EVENT_kswapd || (event.kind == ABI_EVENT_reclaim && event.cgroup == 0);
  }),
            0U);
  EXPECT_FALSE(kernel_has_oopsed());
  const abi_counters counters = programs->counters().value();
  EXPECT_EQ(counters.failures[ABI_FAILURE_read], 0U);
}

}  // namespace
}  // namespace forestall::vm
