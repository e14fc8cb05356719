// SPDX-License-Identifier: Apache-2.0
// Crossings of a former guard without a report that the next guard has.
#include <bpf/bpf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "guard_fixture.h"
#include "kernel/cgroup_tree.h"
#include "kernel/guard.h"
#include "kernel/guard_succession.h"
#include "kernel/guard_turn.h"
#include "kernel/mapped_array.h"
#include "kernel/pin_directory.h"
#include "scratch_bpffs.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test::guard_unreported_test {
namespace {

using kernel::GuardPrograms;
using kernel::GuardSuccession;
using kernel::PinDirectory;
using ::testing::HasSubstr;

class GuardSuccessionUnreported : public ::testing::Test {
 protected:
  GuardSuccessionUnreported() : tree_(std::move(kernel::CgroupTree::discover()).value()) {
    scratch_.limit(scratch_.path(), kLimit);
    auto pins = PinDirectory::open(bpffs_.pins());
    if (!pins) throw std::runtime_error(pins.error().text());
    pins_ = std::move(*pins);
  }
  static void SetUpTestSuite() { wait_for_the_end_of_other_guards(); }

  std::unique_ptr<GuardPrograms> load() {
    auto guard = GuardPrograms::load({.charge_hook = true, .store = pins_.get()});
    if (!guard) throw std::runtime_error(guard.error().text());
    return std::move(*guard);
  }
  kernel::MappedArray<abi_guard_turn> turn() {
    const UniqueFd fd(bpf_obj_get((bpffs_.pins() + "/guard-turn").c_str()));
    auto turn = kernel::MappedArray<abi_guard_turn>::map(fd.get(), 1, "guard_turn");
    if (!turn) throw std::runtime_error(turn.error().text());
    return std::move(*turn);
  }
  // A standing list of the scratch cgroup, with a workload that does not grow.
  void stand_with(GuardPrograms& guard, const Hog& calm, const std::string& path) {
    const auto root = tree_.open(scratch_.path());
    const auto workload = tree_.open(path);
    ASSERT_TRUE(root.ok() && workload.ok());
    const auto memcg = guard.memcg_of(workload->fd(), workload->id());
    const auto subject = guard.find_memcg(root->fd(), root->id());
    auto victim = guard.identify(calm.pid(), workload->id());
    ASSERT_TRUE(memcg.ok() && subject.ok() && victim.ok());
    kernel::StandingGuardList list;
    list.subject = root->id();
    list.memcg = *subject;
    list.line = kLine;
    list.usage = scratch_.usage(scratch_.path());
    list.limit = kLimit;
    list.expires = SystemClock().now() + kPatience;
    list.by_growth = true;
    abi_standing_workload entry{};
    entry.memcg = memcg->address;
    entry.held = static_cast<__u64>(memcg->held.count);
    entry.cgroup = workload->id().inode;
    entry.count = 1;
    list.workloads = {entry};
    list.processes = {*victim};
    const auto stood = guard.stand(list);
    ASSERT_TRUE(stood.ok()) << stood.error().text();
  }
  // The first report of a former guard of that kind.
  static std::optional<abi_guard_report> wait_former(GuardPrograms& guard, std::uint32_t kind) {
    std::optional<abi_guard_report> found;
    const MonotonicTime give_up = SystemClock().now() + kPatience;
    while (!found && SystemClock().now() < give_up) {
      guard.drain([](const abi_guard_report&) {},
                  [&](const abi_guard_report& report) {
                    if (report.kind == kind && !found) found = report;
                  });
      ::sched_yield();
    }
    return found;
  }

  kernel::CgroupTree tree_;
  ScratchBpffs bpffs_;
  ScratchCgroup scratch_;
  std::unique_ptr<PinDirectory> pins_;
};

// The memory of such a kill would be awaited by nothing.
TEST_F(GuardSuccessionUnreported, ACrossingAfterTheCheckFailsTheExchange) {
  const auto former = load();
  GuardSuccession next = GuardSuccession::find(pins_.get());
  ASSERT_TRUE(next.begin(next.turn(), {}).ok());
  const MonotonicTime now = SystemClock().now();
  const auto shared = turn();
  const auto cross = [&] {
    shared.data()->crossed_ns = static_cast<__u64>(to_ns(now));
    __atomic_fetch_add(&shared.data()->holder, 1, __ATOMIC_SEQ_CST);
  };
  EXPECT_FALSE(next.take_over(now, cross));
  EXPECT_TRUE(next.waits());
  std::optional<MonotonicTime> due;
  EXPECT_TRUE(next.take_over(now, [&] { due = next.release_due(now); }));
  EXPECT_EQ(due, now + GuardSuccession::kRelease);
}

TEST_F(GuardSuccessionUnreported, AReportWithoutAVictimIsNotThatOfAKill) {
  Hog calm(scratch_, scratch_.child("calm"), mib(8));
  Hog unlisted(scratch_, scratch_.child("unlisted"), mib(8));
  const auto former = load();
  stand_with(*former, calm, scratch_.path() + "/calm");
  const auto next = load();
  unlisted.grow(kLine + mib(16));
  ASSERT_TRUE(unlisted.wait_grown());
  const auto report = wait_former(*next, ABI_GUARD_NO_VICTIM);
  ASSERT_TRUE(report);
  // As of a kill before it, whose report was lost.
  turn().data()->crossed_ns = report->crossed_ns - 1;
  const MonotonicTime now = from_ns(static_cast<std::int64_t>(report->crossed_ns));
  ASSERT_TRUE(next->take_over(now));
  EXPECT_TRUE(next->awaits_release(now));
  EXPECT_THAT(next->hold_reason(), HasSubstr("no report of it"));
}

// The directory is refused, so no report in it is read.
TEST_F(GuardSuccessionUnreported, AKillOfGuardsThatWereDroppedIsAwaited) {
  static_cast<void>(load());
  const MonotonicTime now = SystemClock().now();
  turn().data()->crossed_ns = static_cast<__u64>(to_ns(now));
  const UniqueFd map(bpf_map_create(BPF_MAP_TYPE_ARRAY, "other", 4, 64, 1, nullptr));
  ASSERT_TRUE(map);
  ASSERT_EQ(bpf_obj_pin(map.get(), (bpffs_.pins() + "/other").c_str()), 0);
  GuardSuccession next = GuardSuccession::find(pins_.get());
  EXPECT_FALSE(next.keeps());
  EXPECT_EQ(next.release_due(now), now + GuardSuccession::kRelease);
  EXPECT_EQ(next.release_due(now + GuardSuccession::kRelease), std::nullopt);
}

// A map of another build: its size differs.
TEST_F(GuardSuccessionUnreported, AKillIsAwaitedAfterATurnOfAnotherLayout) {
  const UniqueFd other(bpf_map_create(BPF_MAP_TYPE_ARRAY, "guard_turn", 4, 64, 1, nullptr));
  ASSERT_TRUE(other);
  ASSERT_EQ(bpf_obj_pin(other.get(), (bpffs_.pins() + "/guard-turn").c_str()), 0);
  const MonotonicTime began = SystemClock().now();
  const GuardSuccession next = GuardSuccession::find(pins_.get());
  EXPECT_TRUE(next.keeps());
  EXPECT_EQ(next.release_due(began), began + GuardSuccession::kRelease);
}

TEST_F(GuardSuccessionUnreported, DroppedGuardsWithoutAKillDelayNothing) {
  static_cast<void>(load());
  const auto dropped = kernel::drop_former_guards(*pins_);
  ASSERT_TRUE(dropped.ok()) << dropped.error().text();
  EXPECT_GT(dropped->objects, 2U);
  EXPECT_EQ(dropped->killed, std::nullopt);
}

TEST_F(GuardSuccessionUnreported, AKillUnderWayIsOneOfNow) {
  static_cast<void>(load());
  turn().data()->busy[1] = 1;
  const MonotonicTime before = SystemClock().now();
  const auto dropped = kernel::drop_former_guards(*pins_);
  ASSERT_TRUE(dropped.ok() && dropped->killed);
  EXPECT_GE(*dropped->killed, before);
}

}  // namespace
}  // namespace forestall::test::guard_unreported_test
