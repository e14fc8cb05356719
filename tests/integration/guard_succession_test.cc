// SPDX-License-Identifier: Apache-2.0
// Guards that outlive their agent in a directory of pins, and the guard that follows them.
#include <bpf/bpf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "descriptor_store.h"
#include "guard_fixture.h"
#include "kernel/cgroup_tree.h"
#include "kernel/fd_store.h"
#include "kernel/guard.h"
#include "kernel/guard_succession.h"
#include "kernel/mapped_array.h"
#include "kernel/pin_directory.h"
#include "kernel/process_ref.h"
#include "scratch_bpffs.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "watched_store.h"

namespace forestall::test::guard_succession_test {
namespace {

using kernel::GuardPrograms;
using kernel::PinDirectory;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr Bytes kLine = mib(64);
constexpr Bytes kLimit = mib(256);
constexpr Bytes kPace = mib(2);

class GuardSuccession : public ::testing::Test {
 protected:
  GuardSuccession() : tree_(std::move(kernel::CgroupTree::discover()).value()) {
    scratch_.limit(scratch_.path(), kLimit);
    pins_ = open_pins();
  }
  static void SetUpTestSuite() { wait_for_the_end_of_other_guards(); }

  std::unique_ptr<PinDirectory> open_pins() {
    auto pins = PinDirectory::open(bpffs_.pins());
    if (!pins) throw std::runtime_error(pins.error().text());
    return std::move(*pins);
  }
  std::unique_ptr<GuardPrograms> load() {
    auto guard = GuardPrograms::load({.charge_hook = true, .store = pins_.get()});
    if (!guard) throw std::runtime_error(guard.error().text());
    return std::move(*guard);
  }
  std::string add(const std::string& name) { return scratch_.child(name); }

  // A standing list of the scratch cgroup with one workload.
  void stand(GuardPrograms& guard, const Hog& hog, const std::string& path,
             Duration lasts = kPatience, std::uint8_t flags = 0) {
    const auto root = tree_.open(scratch_.path());
    const auto workload = tree_.open(path);
    ASSERT_TRUE(root.ok() && workload.ok());
    const auto memcg = guard.memcg_of(workload->fd(), workload->id());
    const auto subject = guard.find_memcg(root->fd(), root->id());
    auto victim = guard.identify(hog.pid(), workload->id());
    ASSERT_TRUE(memcg.ok() && subject.ok() && victim.ok());
    kernel::StandingGuardList list;
    list.subject = root->id();
    list.memcg = *subject;
    list.line = kLine;
    list.usage = scratch_.usage(scratch_.path());
    list.limit = kLimit;
    list.expires = SystemClock().now() + lasts;
    list.by_growth = true;
    abi_standing_workload entry{};
    entry.memcg = memcg->address;
    entry.held = static_cast<__u64>(memcg->held.count);
    entry.cgroup = workload->id().inode;
    entry.count = 1;
    entry.flags = flags;
    list.workloads = {entry};
    list.processes = {*victim};
    const auto stood = guard.stand(list);
    ASSERT_TRUE(stood.ok()) << stood.error().text();
    // A thread starts the clocks.
    const MonotonicTime give_up = SystemClock().now() + kPatience;
    while (lasts > Duration::zero() && guard.clocks() == 0 && SystemClock().now() < give_up) {
      ::sched_yield();
    }
  }

  // A guard of another process, as of a former agent, with a list for `hog`.
  void leave(const Hog& hog, const std::string& path, std::uint8_t flags = 0) {
    Child former([&] {
      const auto guard = load();
      stand(*guard, hog, path, kPatience, flags);
      return HasFailure() ? 1 : 0;
    });
    ASSERT_TRUE(former.wait_exit());
    ASSERT_EQ(former.reap(), 0);
  }
  // Lists `hog` until the guard is not held back. False: it stays so.
  bool wait_until_free(GuardPrograms& guard, const Hog& hog, const std::string& path) {
    const MonotonicTime give_up = SystemClock().now() + kPatience;
    while (guard.held_until()) {
      if (SystemClock().now() > give_up || HasFailure()) return false;
      stand(guard, hog, path);
    }
    return true;
  }

  // The turn of the guards in the directory.
  kernel::MappedArray<abi_guard_turn> turn() {
    const UniqueFd fd(bpf_obj_get((bpffs_.pins() + "/guard-turn").c_str()));
    auto turn = kernel::MappedArray<abi_guard_turn>::map(fd.get(), 1, "guard_turn");
    if (!turn) throw std::runtime_error(turn.error().text());
    return std::move(*turn);
  }

  struct Kills {
    std::vector<abi_guard_report> own;
    std::vector<abi_guard_report> former;
  };
  static Kills kills_of(GuardPrograms& guard) {
    Kills kills;
    const auto into = [](std::vector<abi_guard_report>& list) {
      return [&list](const abi_guard_report& report) {
        if (report.kind == ABI_GUARD_KILLED) list.push_back(report);
      };
    };
    guard.drain(into(kills.own), into(kills.former));
    return kills;
  }
  static bool take_over(GuardPrograms& guard, std::optional<MonotonicTime> at = {}) {
    const MonotonicTime give_up = SystemClock().now() + kPatience;
    while (!guard.take_over(at.value_or(SystemClock().now()))) {
      if (SystemClock().now() > give_up) return false;
    }
    return true;
  }
  // The thread that ends the former guard is over.
  static bool wait_former_ended(GuardPrograms& guard) {
    const MonotonicTime give_up = SystemClock().now() + kPatience;
    for (;;) {
      const auto ended = guard.former_ended();
      if (!ended.ok() || SystemClock().now() > give_up) return false;
      if (*ended) return true;
      ::sched_yield();
    }
  }
  static void expect_killed(Hog& hog) {
    ASSERT_TRUE(hog.child().wait_exit());
    const int status = hog.child().reap();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }

  kernel::CgroupTree tree_;
  ScratchBpffs bpffs_;
  ScratchCgroup scratch_;
  std::unique_ptr<PinDirectory> pins_;
};

TEST_F(GuardSuccession, ActsAfterItsProcessAndReportsToTheNextGuard) {
  Hog leak(scratch_, add("leak"), mib(8));
  {
    const auto guard = load();
    EXPECT_TRUE(guard->outlives_process()) << guard->store_problem();
    EXPECT_FALSE(guard->waits());
    stand(*guard, leak, scratch_.path() + "/leak");
  }
  leak.leak(kLine + mib(64), kPace);
  const pid_t pid = leak.pid();
  expect_killed(leak);
  EXPECT_EQ(scratch_.oom_kills(scratch_.path()), 0U);
  const auto next = load();
  EXPECT_TRUE(next->waits());
  EXPECT_FALSE(next->take_over(SystemClock().now())) << "its report is not read";
  const auto kills = kills_of(*next).former;
  ASSERT_THAT(kills, SizeIs(1));
  EXPECT_EQ(kills[0].victim.tgid, pid);
  EXPECT_EQ(next->crossings(), 1U);
  const MonotonicTime crossed = from_ns(static_cast<std::int64_t>(kills[0].crossed_ns));
  EXPECT_TRUE(take_over(*next, crossed));
  EXPECT_FALSE(next->awaits_release(crossed)) << "the ladder waits for a kill with a report";
  EXPECT_FALSE(next->waits());
  EXPECT_TRUE(wait_former_ended(*next));
  EXPECT_THAT(bpffs_.names(), Contains(StartsWith("guard-2-")));
  EXPECT_THAT(bpffs_.names(), Each(::testing::Not(StartsWith("guard-1-"))));
}

TEST_F(GuardSuccession, OnlyTheGuardWithTheTurnFires) {
  Hog first(scratch_, add("first"), mib(8));
  Hog second(scratch_, add("second"), mib(8));
  const auto former = load();
  const auto next = load();
  stand(*former, first, scratch_.path() + "/first");
  stand(*next, first, scratch_.path() + "/first");
  first.leak(kLine + mib(64), kPace);
  expect_killed(first);
  EXPECT_EQ(next->crossings(), 1U);
  // The reports are in the former guard's ring, which both can read.
  EXPECT_FALSE(next->take_over(SystemClock().now()));
  const Kills kills = kills_of(*former);
  EXPECT_THAT(kills.own, SizeIs(1));
  EXPECT_THAT(kills_of(*next).own, IsEmpty());
  stand(*former, second, scratch_.path() + "/second");
  stand(*next, second, scratch_.path() + "/second");
  ASSERT_TRUE(take_over(*next));
  second.leak(kLine + mib(64), kPace);
  expect_killed(second);
  EXPECT_THAT(kills_of(*former).own, IsEmpty());
  EXPECT_THAT(kills_of(*next).own, SizeIs(1));
  EXPECT_EQ(next->crossings(), 2U);
  EXPECT_EQ(scratch_.oom_kills(scratch_.path()), 0U);
}

// The handover is at another distance from the line in each trial. A guard is loaded once for each,
// because an emulated machine takes long for it.
TEST_F(GuardSuccession, ACrossingDuringTheHandoverKillsOnce) {
  auto former = load();
  for (int trial = 0; trial < 4; ++trial) {
    const std::string name = "leak" + std::to_string(trial);
    Hog leak(scratch_, add(name), mib(8));
    auto next = load();
    stand(*former, leak, scratch_.path() + "/" + name);
    stand(*next, leak, scratch_.path() + "/" + name);
    leak.leak(kLine + mib(96), Bytes{256 << 10});
    while (leak.alive() && scratch_.usage(scratch_.path()) < kLine - mib(1) + Bytes{trial << 18}) {
    }
    if (!next->take_over(SystemClock().now())) next->withdraw_standing();
    expect_killed(leak);
    // Before Linux 6.13 a crossing may be over before its victim runs: then it is given up.
    std::map<std::uint32_t, int> reports;
    for (GuardPrograms* guard : {former.get(), next.get()}) {
      const auto tally = [&](const abi_guard_report& report) { ++reports[report.kind]; };
      guard->drain(tally, tally);
    }
    EXPECT_EQ(reports[ABI_GUARD_KILLED], 1) << trial;
    EXPECT_EQ(reports[ABI_GUARD_CROSSED] - reports[ABI_GUARD_GIVEN_UP], 1) << trial;
    ASSERT_TRUE(take_over(*next));
    former = std::move(next);
  }
  EXPECT_EQ(scratch_.oom_kills(scratch_.path()), 0U);
}

TEST_F(GuardSuccession, AnExpiredListKillsNothing) {
  Hog leak(scratch_, add("leak"), mib(8));
  {
    const auto guard = load();
    stand(*guard, leak, scratch_.path() + "/leak", Duration::zero());
  }
  leak.grow(kLine + mib(16));
  ASSERT_TRUE(leak.wait_grown());
  const auto next = load();
  ASSERT_TRUE(next->evaluate().ok());
  EXPECT_TRUE(leak.alive());
  const auto described = kernel::describe_kept_guards(*pins_, SystemClock().now());
  ASSERT_TRUE(described.ok());
  EXPECT_THAT(*described, Contains(HasSubstr("guard 1 has no list in force")));
  EXPECT_TRUE(take_over(*next));
  EXPECT_THAT(kills_of(*next).former, IsEmpty());
}

TEST_F(GuardSuccession, AnAgentWithoutAGuardEndsTheFormerOne) {
  Hog leak(scratch_, add("leak"), mib(8));
  {
    const auto guard = load();
    stand(*guard, leak, scratch_.path() + "/leak");
  }
  const auto dropped = kernel::drop_former_guards(*pins_);
  ASSERT_TRUE(dropped.ok()) << dropped.error().text();
  EXPECT_THAT(bpffs_.names(), IsEmpty());
  leak.grow(kLine + mib(16));
  ASSERT_TRUE(leak.wait_grown());
  EXPECT_TRUE(leak.alive());
}

// Two agents with run directories of their own, and the same place.
TEST_F(GuardSuccession, TheGuardOfAnAgentThatRunsStays) {
  const auto guard = load();
  Child agent([] { return ::pause(); });
  const auto process = kernel::read_process_id(agent.pid());
  ASSERT_TRUE(process.ok());
  turn().data()->agent = static_cast<__u32>(agent.pid());
  turn().data()->agent_start = process->start_ticks;
  const auto names = bpffs_.names();
  const auto dropped = kernel::drop_former_guards(*pins_);
  ASSERT_FALSE(dropped.ok());
  EXPECT_THAT(dropped.error().text(), HasSubstr("which runs; set another --keep-guard"));
  EXPECT_EQ(bpffs_.names(), names);
  EXPECT_TRUE(guard->take_over(SystemClock().now())) << "it has the turn still";
  ASSERT_EQ(::kill(agent.pid(), SIGKILL), 0);
  ASSERT_TRUE(agent.wait_exit());
  static_cast<void>(agent.reap());
  EXPECT_TRUE(kernel::drop_former_guards(*pins_).ok());
}

// A map of another build: its size differs.
TEST_F(GuardSuccession, ATurnOfAnotherLayoutIsRemovedUnread) {
  const UniqueFd turn(bpf_map_create(BPF_MAP_TYPE_ARRAY, "guard_turn", 4, 64, 1, nullptr));
  ASSERT_TRUE(turn);
  ASSERT_EQ(bpf_obj_pin(turn.get(), (bpffs_.pins() + "/guard-turn").c_str()), 0);
  const UniqueFd clocks(bpf_map_create(BPF_MAP_TYPE_ARRAY, "guard_clocks", 4, 64, 1, nullptr));
  ASSERT_TRUE(clocks);
  ASSERT_EQ(bpf_obj_pin(clocks.get(), (bpffs_.pins() + "/guard-7-9-clocks").c_str()), 0);
  const auto guard = load();
  EXPECT_FALSE(guard->waits());
  EXPECT_TRUE(guard->outlives_process()) << guard->store_problem();
  EXPECT_THAT(bpffs_.names(), ::testing::Not(Contains("guard-7-9-clocks")));
  EXPECT_THAT(bpffs_.names(), Contains(StartsWith("guard-8-")));
}

// The reports of another build are not read, because their layout is unknown. The crossing is known
// all the same, and the memory of its victim is awaited.
TEST_F(GuardSuccession, ReportsOfAnotherLayoutAreNotRead) {
  Hog leak(scratch_, add("leak"), mib(8));
  {
    const auto guard = load();
    stand(*guard, leak, scratch_.path() + "/leak");
  }
  leak.leak(kLine + mib(64), kPace);
  expect_killed(leak);
  const auto pins = bpffs_.pins();
  for (const std::string& name : bpffs_.names()) {
    if (!name.starts_with("guard-1-1-")) continue;
    const auto other = pins + "/guard-1-999-" + name.substr(std::string("guard-1-1-").size());
    ASSERT_EQ(::rename((pins + "/" + name).c_str(), other.c_str()), 0);
  }
  const auto next = load();
  EXPECT_THAT(next->store_problem(), HasSubstr("reports of layout 999, this agent reads 1"));
  EXPECT_THAT(kills_of(*next).former, IsEmpty());
  EXPECT_EQ(next->crossings(), 1U);
  const MonotonicTime crossed = from_ns(static_cast<std::int64_t>(turn().data()->crossed_ns));
  const MonotonicTime back = crossed + kernel::GuardSuccession::kRelease;
  EXPECT_TRUE(take_over(*next, crossed));
  EXPECT_EQ(next->held_until(), back);
  EXPECT_THAT(next->hold_reason(), HasSubstr("no report of it"));
  EXPECT_TRUE(next->awaits_release(back - Duration(1)));
  EXPECT_FALSE(next->awaits_release(back));
  next->check_hold(back);
  EXPECT_FALSE(next->held_until());
}

// To close a link the kernel may wait for a grace period.
TEST_F(GuardSuccession, AnotherThreadEndsTheFormerGuard) {
  static_cast<void>(load());
  WatchedStore store(*pins_);
  auto next = GuardPrograms::load({.charge_hook = true, .store = &store});
  ASSERT_TRUE(next.ok()) << next.error().text();
  ASSERT_TRUE((*next)->waits());
  EXPECT_TRUE(take_over(**next) && wait_former_ended(**next));
  EXPECT_EQ(store.dropped_here(), 0);
  EXPECT_THAT(bpffs_.names(), Each(::testing::Not(StartsWith("guard-1-"))));
}

TEST_F(GuardSuccession, AGuardThatIsKeptInPartIsNotKept) {
  for (const char* part : {"turn", "clocks", "ring", "memcg-reclaim"}) {
    WatchedStore store(*pins_);
    store.refuse(part);
    const auto guard = GuardPrograms::load({.charge_hook = true, .store = &store});
    ASSERT_TRUE(guard.ok()) << guard.error().text();
    EXPECT_FALSE((*guard)->outlives_process()) << part;
    EXPECT_FALSE((*guard)->waits());
    EXPECT_THAT((*guard)->store_problem(), HasSubstr("no room for "));
    EXPECT_THAT(bpffs_.names(), IsEmpty()) << part;
  }
}

TEST_F(GuardSuccession, AWithdrawnGuardLeavesNothingInItsStore) {
  const auto former = load();
  const auto next = load();
  const MonotonicTime now = SystemClock().now();
  EXPECT_EQ(next->withdraw_from_store().value(), false) << "the former guard is in force";
  ASSERT_TRUE(next->take_over(now));
  ASSERT_TRUE(wait_former_ended(*next));
  EXPECT_FALSE(bpffs_.names().empty());
  while (!next->withdraw_from_store().value() && SystemClock().now() < now + kPatience) {
  }
  EXPECT_THAT(bpffs_.names(), IsEmpty());
  EXPECT_FALSE(next->outlives_process());
}

// The exchange ends a kill whose victim does not run. Its bit must not delay a later exchange.
TEST_F(GuardSuccession, AKillThatWasEndedDelaysNoLaterExchange) {
  auto former = load();
  turn().data()->busy[1] = 1;
  auto next = load();
  const MonotonicTime now = SystemClock().now();
  EXPECT_FALSE(next->take_over(now));
  EXPECT_TRUE(next->take_over(now + kernel::GuardSuccession::kBusyMax));
  for (int later = 0; later < 2; ++later) {
    EXPECT_TRUE(wait_former_ended(*next));
    former = std::exchange(next, load());
    EXPECT_TRUE(next->take_over(now)) << later;
  }
}

// As if the directory were refused, or another one were set.
TEST_F(GuardSuccession, AFormerGuardThatCannotBeEndedHoldsTheNextOneBack) {
  Hog calm(scratch_, add("calm"), mib(8));
  Hog leak(scratch_, add("leak"), mib(8));
  leave(calm, scratch_.path() + "/calm");
  auto next = GuardPrograms::load({.charge_hook = true, .store = nullptr});
  ASSERT_TRUE(next.ok()) << next.error().text();
  ASSERT_TRUE((*next)->held_until());
  EXPECT_GT(*(*next)->held_until(), SystemClock().now());
  EXPECT_THAT((*next)->hold_reason(), HasSubstr("cannot be taken over"));
  stand(**next, leak, scratch_.path() + "/leak");
  leak.grow(kLine + mib(16));
  ASSERT_TRUE(leak.wait_grown());
  ASSERT_TRUE((*next)->evaluate().ok());
  EXPECT_EQ((*next)->crossings(), 0U);
  EXPECT_TRUE(leak.alive());
  ASSERT_TRUE((*next)->hold_check_due());
  EXPECT_LE(*(*next)->hold_check_due(), SystemClock().now() + std::chrono::seconds(1));
  ASSERT_TRUE(kernel::drop_former_guards(*pins_).ok());
  (*next)->check_hold(*(*next)->hold_check_due());
  EXPECT_FALSE((*next)->held_until());
  // The list that was held back is above its line, so it fires at once. Before Linux 6.13 its
  // victim must run.
  leak.leak(mib(32), kPace);
  expect_killed(leak);
  EXPECT_THAT(kills_of(**next).own, SizeIs(1));
  EXPECT_TRUE(calm.alive());
}

TEST_F(GuardSuccession, AnotherAgentThatRunsHoldsNoGuardBack) {
  Hog calm(scratch_, add("calm"), mib(8));
  const auto other = load();
  stand(*other, calm, scratch_.path() + "/calm");
  const auto next = GuardPrograms::load({.charge_hook = true, .store = nullptr});
  ASSERT_TRUE(next.ok()) << next.error().text();
  EXPECT_FALSE((*next)->held_until()) << (*next)->hold_reason();
}

TEST_F(GuardSuccession, ARefusedDirectoryEndsTheFormerGuard) {
  Hog calm(scratch_, add("calm"), mib(8));
  Hog leak(scratch_, add("leak"), mib(8));
  leave(leak, scratch_.path() + "/leak");
  const UniqueFd map(bpf_map_create(BPF_MAP_TYPE_ARRAY, "other", 4, 64, 1, nullptr));
  ASSERT_TRUE(map);
  ASSERT_EQ(bpf_obj_pin(map.get(), (bpffs_.pins() + "/other").c_str()), 0);
  const auto next = load();
  EXPECT_FALSE(next->outlives_process());
  EXPECT_THAT(bpffs_.names(), ::testing::ElementsAre("other"));
  ASSERT_TRUE(wait_until_free(*next, calm, scratch_.path() + "/calm"));
  leak.grow(kLine + mib(16));
  ASSERT_TRUE(leak.wait_grown());
  EXPECT_TRUE(leak.alive());
}

// The next agent may be started in a session, whose cgroup is listed.
TEST_F(GuardSuccession, TheNextAgentIsNotSignalled) {
  Hog listed(scratch_, add("session"), mib(1));
  const std::string path = scratch_.path() + "/session";
  // By another process: this one forks an agent, which starts threads.
  leave(listed, path, ABI_STANDING_WHOLE);
  Child agent([&] {
    const auto next = load();
    scratch_.add(path, ::getpid());
    // Not written by this program: a sanitizer keeps as much memory again for what is.
    const void* memory =
        ::mmap(nullptr, static_cast<std::size_t>((kLine + mib(64)).count), PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) return 2;
    const MonotonicTime end = SystemClock().now() + std::chrono::milliseconds(500);
    while (SystemClock().now() < end) {
    }
    return next->crossings() == 1 ? 0 : 1;
  });
  ASSERT_TRUE(agent.wait_exit());
  EXPECT_EQ(agent.reap(), 0);
}

// The guard works without the directory, and leaves what is in it.
TEST_F(GuardSuccession, AForeignPinRefusesTheDirectory) {
  const UniqueFd map(bpf_map_create(BPF_MAP_TYPE_ARRAY, "other", 4, 64, 1, nullptr));
  ASSERT_TRUE(map);
  ASSERT_EQ(bpf_obj_pin(map.get(), (bpffs_.pins() + "/other").c_str()), 0);
  const auto guard = load();
  EXPECT_FALSE(guard->outlives_process());
  EXPECT_THAT(guard->store_problem(), HasSubstr("contains other, which is not a pin"));
  EXPECT_FALSE(guard->waits());
  EXPECT_THAT(bpffs_.names(), ::testing::ElementsAre("other"));
}

TEST_F(GuardSuccession, AnObjectUnderAWrongNameRefusesTheDirectory) {
  const UniqueFd map(bpf_map_create(BPF_MAP_TYPE_ARRAY, "other", 4, 64, 1, nullptr));
  ASSERT_TRUE(map);
  for (const char* name : {"guard-1-1-ring", "guard-1-1-charges", "guard-turn"}) {
    const std::string pin = bpffs_.pins() + "/" + name;
    ASSERT_EQ(bpf_obj_pin(map.get(), pin.c_str()), 0);
    const auto guard = load();
    EXPECT_FALSE(guard->outlives_process());
    EXPECT_THAT(guard->store_problem(), HasSubstr("not the BPF object of that name"));
    EXPECT_THAT(bpffs_.names(), IsEmpty()) << "the name is the guard's";
  }
}

// ---- the descriptor store of the service manager ----

TEST_F(GuardSuccession, TheServiceManagerKeepsTheGuardBetweenTwoProcesses) {
  DescriptorStore manager;
  Hog leak(scratch_, add("leak"), mib(8));
  {
    const auto store = kernel::FdStore::inherit();
    auto guard = GuardPrograms::load({.charge_hook = true, .store = store.get()});
    ASSERT_TRUE(guard.ok()) << guard.error().text();
    EXPECT_TRUE((*guard)->outlives_process()) << (*guard)->store_problem();
    stand(**guard, leak, scratch_.path() + "/leak");
  }
  manager.receive();
  EXPECT_EQ(manager.polled(), 0);
  EXPECT_THAT(manager.names(), Contains("guard-turn"));
  EXPECT_THAT(manager.names(), Contains("guard-1-1-clocks"));
  const pid_t pid = leak.pid();
  leak.leak(kLine + mib(64), kPace);
  expect_killed(leak);
  EXPECT_EQ(scratch_.oom_kills(scratch_.path()), 0U);
  Child next([&] {
    manager.pass();
    const auto store = kernel::FdStore::inherit();
    auto guard = GuardPrograms::load({.charge_hook = true, .store = store.get()});
    if (!guard.ok() || !(*guard)->waits()) return 1;
    const auto kills = kills_of(**guard).former;
    if (kills.size() != 1 || kills[0].victim.tgid != pid) return 2;
    return take_over(**guard) && wait_former_ended(**guard) ? 0 : 3;
  });
  ASSERT_TRUE(next.wait_exit());
  const int status = next.reap();
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
  manager.receive();
  EXPECT_THAT(manager.names(), ::testing::Not(Contains("guard-1-1-clocks")));
  EXPECT_THAT(manager.names(), Contains("guard-2-1-clocks"));
}

// Loading has read the store already. The service manager may take its time to empty it.
TEST_F(GuardSuccession, AGuardThatDoesNotLoadEndsTheOneOfTheServiceManager) {
  DescriptorStore manager;
  Hog leak(scratch_, add("leak"), mib(8));
  {
    const auto store = kernel::FdStore::inherit();
    auto guard = GuardPrograms::load({.charge_hook = true, .store = store.get()});
    ASSERT_TRUE(guard.ok()) << guard.error().text();
    stand(**guard, leak, scratch_.path() + "/leak");
  }
  manager.receive();
  ASSERT_THAT(manager.names(), Contains("guard-1-1-clocks"));
  Child next([&] {
    manager.pass();
    const auto store = kernel::FdStore::inherit();
    if (!store->kept().ok()) return 1;
    const auto turn =
        kernel::MappedArray<abi_guard_turn>::map(store->turn().get(), 1, "guard_turn");
    if (!turn.ok()) return 3;
    turn->data()->agent = turn->data()->last_agent = 0;  // the former agent, which runs this test
    const auto ended = kernel::drop_former_guards(*store);
    return ended.ok() && ended->objects > 2 ? 0 : 2;
  });
  ASSERT_TRUE(next.wait_exit());
  EXPECT_EQ(next.reap(), 0);
  EXPECT_THAT(manager.names(), Contains("guard-1-1-clocks")) << "not removed yet";
  leak.grow(kLine + mib(16));
  ASSERT_TRUE(leak.wait_grown());
  EXPECT_TRUE(leak.alive());
  {
    const auto other = GuardPrograms::load({.charge_hook = true, .store = nullptr});
    ASSERT_TRUE(other.ok()) << other.error().text();
    EXPECT_FALSE((*other)->held_until()) << (*other)->hold_reason();
  }
  manager.receive();
  EXPECT_THAT(manager.names(), IsEmpty());
}

}  // namespace
}  // namespace forestall::test::guard_succession_test
