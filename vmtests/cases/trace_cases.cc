// SPDX-License-Identifier: Apache-2.0
// The tracer on machines of its own: PSI stalls where fentry is permitted, and a node that is short
// as a whole, each against the kernel's files. tests/integration/trace_test.cc and
// trace_command_test.cc test every tier, here as well.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <stdexcept>

#include "cases/psi_stall.h"
#include "cases/short_node.h"
#include "integration/bpf_events.h"
#include "kernel/reclaim_counts.h"
#include "kernel/trace_programs.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"
#include "support/trace_kind_name.h"
#include "trace/trace_events.h"

namespace forestall::vm {
namespace {

using kernel::TracePrograms;
using test::OpenCgroup;
using test::ScratchCgroup;

const kernel::CgroupTree& tree() {
  static const kernel::CgroupTree kTree = [] {
    auto found = kernel::CgroupTree::discover();
    if (!found) throw std::runtime_error(found.error().text());
    return std::move(found).value();
  }();
  return kTree;
}

std::unique_ptr<TracePrograms> load(const kernel::TraceSelection& selection) {
  auto programs = TracePrograms::load(selection, tree(), {});
  if (!programs) throw std::runtime_error(programs.error().text());
  return std::move(programs).value();
}

TEST(TraceParity, EveryKindIsSeen) {
  const auto programs = load({});
  for (const kernel::TraceKindReport& report : programs->reports()) {
    EXPECT_EQ(report.state, FeatureState::in_use)
        << test::trace_kind_name(report.kind) << ": " << report.evidence;
  }
}

TEST(TraceParity, StallsMatchMemoryPressure) {
  kernel::TraceSelection selection;
  selection.sums = true;
  selection.kinds.reset().set(ABI_TRACE_stall);
  const auto programs = load(selection);
  ScratchCgroup scratch;
  const std::string path = scratch.child("stalls");
  scratch.limit(path, mib(24));
  const OpenCgroup group(scratch.directory(path));
  const std::uint64_t psi_us = psi_us_of_stalls(scratch, path);
  programs->stop();
  std::uint64_t traced_us = 0;
  const auto sums = programs->sums();
  ASSERT_TRUE(sums) << sums.error().text();
  for (const kernel::TraceSum& each : *sums) {
    if (each.cgroup == group.id()) traced_us += each.sum.ns / 1000;
  }
  std::cout << "@metric trace_psi_total " << psi_us << " us\n@metric trace_stalls " << traced_us
            << " us\n";
  ASSERT_GT(traced_us, 0U);
  // The programs start their clock after the kernel's and stop it before: never more, and less by
  // their cost per stall, which is large under emulation.
  EXPECT_LE(traced_us, psi_us + psi_us / 100 + 1000);
  EXPECT_GE(traced_us, psi_us / 100 * 75);
}

// Direct reclaim and kswapd, whose memcg is NULL on 7.2: scanned and freed pages equal the counts
// of /proc/vmstat, and no program harms the kernel.
TEST(TraceParity, TotalsOfAShortNodeMatchVmstat) {
  ShortNode node;
  const auto before = kernel::parse_reclaim_counts(test::read_text("/proc/vmstat"));
  const auto programs = load({});
  const auto begun = kernel::parse_reclaim_counts(test::read_text("/proc/vmstat"));
  node.start();
  const auto direct = [&] {
    return programs->totals().value().kinds[ABI_TRACE_direct_reclaim].count;
  };
  std::uint64_t records = 0;
  const MonotonicTime end = SystemClock().now() + std::chrono::seconds(140);
  while (direct() < 20 && !node.over() && SystemClock().now() < end) {
    pollfd ring{programs->ring_fd(), POLLIN, 0};
    programs->about_to_wait();
    ::poll(&ring, 1, 100);
    records += programs->drain([](const abi_trace_event&) {});
  }
  const auto ended = kernel::parse_reclaim_counts(test::read_text("/proc/vmstat"));
  programs->stop();
  const auto after = kernel::parse_reclaim_counts(test::read_text("/proc/vmstat"));
  records += programs->drain([](const abi_trace_event&) {});
  const abi_trace_totals totals = programs->totals().value();
  const bool mglru = trace::multi_generational_lru();
  std::uint64_t scanned = 0;
  std::uint64_t reclaimed = 0;
  for (const abi_trace_kind kind :
       {ABI_TRACE_memcg_reclaim, ABI_TRACE_direct_reclaim, ABI_TRACE_kswapd}) {
    const abi_trace_total& total = totals.kinds[kind];
    scanned += mglru ? total.taken : total.scanned;
    reclaimed += total.reclaimed;
    std::cout << "@metric short_node_" << test::trace_kind_name(kind) << " " << total.count << "\n";
    EXPECT_EQ(total.count, total.reported + total.dropped + total.passed);
  }
  const std::uint64_t stalls = *ended.stalls - *begun.stalls;
  std::cout << fmt::format("@metric short_node_allocstall {}\n", stalls)
            << fmt::format("@metric short_node_scanned {} of {}..{} pages\n", scanned,
                           *ended.scanned - *begun.scanned, *after.scanned - *before.scanned)
            << fmt::format("@metric short_node_reclaimed {} of {}..{} pages\n", reclaimed,
                           *ended.reclaimed - *begun.reclaimed,
                           *after.reclaimed - *before.reclaimed);
  EXPECT_GT(totals.kinds[ABI_TRACE_direct_reclaim].count, 0U);
  EXPECT_GT(totals.kinds[ABI_TRACE_memcg_reclaim].count, 0U);
  EXPECT_GT(records, 0U);
  // allocstall counts tries of direct reclaim, of which one call may make several; those under way
  // at the reading have not ended for the tracer.
  EXPECT_LE(totals.kinds[ABI_TRACE_direct_reclaim].count, *after.stalls - *before.stalls);
  const auto near = [](std::uint64_t value, std::uint64_t least, std::uint64_t most) {
    // 2 %, and reclaims under way at either end.
    const std::uint64_t slack = most / 50 + 4096;
    return value + slack >= least && value <= most + slack;
  };
  EXPECT_TRUE(near(scanned, *ended.scanned - *begun.scanned, *after.scanned - *before.scanned));
  EXPECT_TRUE(
      near(reclaimed, *ended.reclaimed - *begun.reclaimed, *after.reclaimed - *before.reclaimed));
  EXPECT_EQ(totals.failures[ABI_TRACE_FAILURE_read], 0U);
  EXPECT_FALSE(kernel_has_oopsed());
}

}  // namespace
}  // namespace forestall::vm
