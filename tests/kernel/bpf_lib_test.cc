// SPDX-License-Identifier: Apache-2.0
// The functions of bpf/lib, run one by one in the kernel (bpf/lib_test.bpf.c).
// The skeleton needs these types.
#include "bpf/abi/counters.h"
#include "bpf/abi/guard.h"
#include "bpf/abi/watch.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf_lib_test.skel.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "kernel/bpf_host.h"
#include "kernel/bpf_log.h"
#include "kernel/bpf_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/straddler.h"

namespace forestall::kernel {
namespace {

using test::Child;
using test::Hog;
using test::ScratchCgroup;

// enum victim_match of bpf/lib/approval.bpf.h.
enum VictimMatch { kApproved, kDying, kOther };

constexpr __u64 kQuietNs = 20'000'000;  // QUIET_NS of bpf/lib/watches.bpf.h

using Skeleton = std::unique_ptr<bpf_lib_test, BpfDeleter<&bpf_lib_test::destroy>>;

class BpfLib : public testing::Test {
 protected:
  void SetUp() override {
    const BpfLog log;
    skeleton_.reset(bpf_lib_test__open());
    ASSERT_TRUE(skeleton_);
    skeleton_->rodata->page_shift = page_shift();
    skeleton_->rodata->reclaim_passes_memcg = passes_memcg_ ? 1 : 0;
    skeleton_->rodata->agent_tgid = agent_;
    const int failure = bpf_lib_test__load(skeleton_.get());
    if (failure == -EPERM || failure == -EACCES) {
      if (::geteuid() != 0)
        GTEST_SKIP() << "not applicable: without root; runs as root on this host";
    }
    ASSERT_EQ(failure, 0) << log.text();
  }

  int run(const bpf_program* program) {
    const auto result = run_program(program);
    EXPECT_TRUE(result.ok()) << result.error().text();
    return result.ok() ? *result : -1;
  }

  abi_counters counters() const {
    const __u32 key = 0;
    const auto sum = sum_over_cpus<abi_counters>(skeleton_->maps.counters, &key);
    EXPECT_TRUE(sum.ok());
    return sum.optional().value_or(abi_counters{});
  }

  void arm(__u64 line) {
    const __u32 slot = 1;
    const abi_watch watch{line};
    ASSERT_EQ(bpf_map_update_elem(bpf_map__fd(skeleton_->maps.watches), &slot, &watch, BPF_ANY), 0);
  }

  // The timer's reading of `cgroup` in slot 1.
  void note(__u64 cgroup, __u64 at_ns, __u64 usage, bool reached) {
    skeleton_->bss->cgroup = cgroup;
    skeleton_->bss->at_ns = at_ns;
    skeleton_->bss->usage = usage;
    skeleton_->bss->whole = reached ? 1 : 0;
    run(skeleton_->progs.note);
  }

  abi_readings readings() const {
    const __u32 slot = 1;
    abi_readings found{};
    EXPECT_EQ(bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.readings), &slot, &found), 0);
    return found;
  }

  __u64 armed_line() const {
    const __u32 slot = 1;
    abi_watch watch{};
    EXPECT_EQ(bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.watches), &slot, &watch), 0);
    return watch.line;
  }

  std::vector<abi_event> drain() {
    std::vector<abi_event> events;
    const auto visit = [](void* to, void* record, std::size_t) {
      static_cast<std::vector<abi_event>*>(to)->push_back(*static_cast<abi_event*>(record));
      return 0;
    };
    const BpfRing ring(
        ring_buffer__new(bpf_map__fd(skeleton_->maps.ring), visit, &events, nullptr));
    EXPECT_GE(ring_buffer__consume(ring.get()), 0);
    return events;
  }

  // Emits events of this kind until the ring refuses one; returns how many it took.
  std::size_t fill(abi_event_kind kind) {
    skeleton_->bss->kind = kind;
    std::size_t taken = 0;
    while (run(skeleton_->progs.emit) == 1) ++taken;
    return taken;
  }

  // Makes `pid` the victim that the programs examine.
  void take_victim(pid_t pid) {
    skeleton_->bss->victim = {};
    skeleton_->bss->victim.tgid = pid;
    const int found = run(skeleton_->progs.identify);
    if (found == -1) GTEST_SKIP() << "not applicable: this kernel has no bpf_task_from_pid";
    ASSERT_EQ(found, 1) << "pid " << pid;
  }

  int who() { return run(skeleton_->progs.approve); }

  bool passes_memcg_ = false;
  pid_t agent_ = 0;
  Skeleton skeleton_;
};

// ---- counters.bpf.h ----

TEST_F(BpfLib, AnEventIsZeroedExceptForItsKindAndTime) {
  skeleton_->bss->kind = ABI_EVENT_charge;
  skeleton_->bss->cgroup = 7;
  ASSERT_EQ(run(skeleton_->progs.emit), 1);
  const auto events = drain();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, ABI_EVENT_charge);
  EXPECT_EQ(events[0].cgroup, 7U);
  EXPECT_GT(events[0].at_ns, 0U);
  EXPECT_EQ(events[0].usage + events[0].line + events[0].stalled_ns, 0U);
  EXPECT_EQ(events[0].comm[0], 0);
  EXPECT_EQ(counters().emitted[ABI_EVENT_charge], 1U);
}

TEST_F(BpfLib, AnEventThatDoesNotWakeLeavesAQuarterOfTheRing) {
  const std::size_t silent = fill(ABI_EVENT_oom_score_adj);
  const std::size_t waking = fill(ABI_EVENT_charge);
  constexpr std::size_t kRecord = sizeof(abi_event) + 8;  // with the header
  const std::size_t ring = bpf_map__max_entries(skeleton_->maps.ring);
  EXPECT_EQ(silent, (ring / 4 * 3 + kRecord - 1) / kRecord);
  EXPECT_GE(waking, ring / 4 / kRecord - 1);
  const abi_counters counted = counters();
  EXPECT_EQ(counted.emitted[ABI_EVENT_oom_score_adj], silent);
  EXPECT_EQ(counted.dropped[ABI_EVENT_oom_score_adj], 1U);
  EXPECT_EQ(counted.emitted[ABI_EVENT_charge], waking);
  EXPECT_EQ(counted.dropped[ABI_EVENT_charge], 1U);
  EXPECT_EQ(drain().size(), silent + waking);
}

// ---- watches.bpf.h ----

TEST_F(BpfLib, ALineFiresOnceWhenUsageReachesIt) {
  arm(1000);
  skeleton_->bss->cgroup = 7;
  skeleton_->bss->usage = 999;
  run(skeleton_->progs.fire);
  EXPECT_TRUE(drain().empty());
  EXPECT_EQ(armed_line(), 1000U);
  skeleton_->bss->usage = 1000;
  run(skeleton_->progs.fire);
  run(skeleton_->progs.fire);
  const auto events = drain();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, ABI_EVENT_usage_timer);
  EXPECT_EQ(events[0].cgroup, 7U);
  EXPECT_EQ(events[0].usage, 1000U);
  EXPECT_EQ(events[0].line, 1000U);
  EXPECT_EQ(armed_line(), 0U);
}

TEST_F(BpfLib, ACrossingThatFindsTheRingFullStaysArmed) {
  fill(ABI_EVENT_charge);
  arm(1000);
  skeleton_->bss->usage = 2000;
  run(skeleton_->progs.fire);
  EXPECT_EQ(armed_line(), 1000U);
  EXPECT_EQ(counters().dropped[ABI_EVENT_usage_timer], 1U);
  drain();
  run(skeleton_->progs.fire);
  EXPECT_EQ(armed_line(), 0U);
  EXPECT_EQ(drain().size(), 1U);
}

TEST_F(BpfLib, AReadingIsKeptByTheSideOfTheLineOnWhichItIs) {
  note(7, 100, 500, false);
  note(7, 200, 1500, true);
  note(7, 300, 600, false);
  const abi_readings noted = readings();
  EXPECT_EQ(noted.cgroup, 7U);
  EXPECT_EQ(noted.sequence % 2, 0U);
  EXPECT_EQ(noted.below.begin_ns, 300U);
  EXPECT_EQ(noted.below.end_ns, 301U);
  EXPECT_EQ(noted.below.usage, 600U);
  EXPECT_EQ(noted.reached.begin_ns, 200U);
  EXPECT_EQ(noted.reached.usage, 1500U);
  note(8, 400, 700, false);
  EXPECT_EQ(readings().cgroup, 8U);
  EXPECT_EQ(readings().below.begin_ns, 400U);
  EXPECT_EQ(readings().reached.begin_ns, 0U) << "that was another subject";
}

TEST_F(BpfLib, ACrossingHasTheLastReadingBelowOfTheSameSubject) {
  note(7, 100, 900, false);
  note(7, 200, 1500, true);
  skeleton_->bss->usage = 1000;
  for (const __u64 cgroup : {7U, 8U}) {
    arm(1000);
    skeleton_->bss->cgroup = cgroup;
    run(skeleton_->progs.fire);
  }
  const auto events = drain();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].read_ns, 100U);
  EXPECT_EQ(events[0].read_usage, 900U);
  EXPECT_EQ(events[1].read_ns, 0U);
}

TEST_F(BpfLib, AnEventIsQuietUntilTheQuietTimeHasPassed) {
  auto& bss = *skeleton_->bss;
  bss.last_ns = 1'000'000'000;
  bss.at_ns = bss.last_ns + kQuietNs - 1;
  EXPECT_EQ(run(skeleton_->progs.quiet), 0);
  EXPECT_EQ(bss.last_ns, 1'000'000'000U);
  bss.at_ns += 1;
  EXPECT_EQ(run(skeleton_->progs.quiet), 1);
  EXPECT_EQ(bss.last_ns, bss.at_ns);
  // Another CPU may have stored a time slightly after this CPU's.
  bss.last_ns = bss.at_ns + 5;
  EXPECT_EQ(run(skeleton_->progs.quiet), 0);
}

TEST_F(BpfLib, ARemovedCgroupIsForgottenEverywhere) {
  skeleton_->bss->cgroup = 7;
  ASSERT_EQ(run(skeleton_->progs.watch_cgroup), 0);
  skeleton_->bss->cgroup = 8;
  run(skeleton_->progs.forget);
  skeleton_->bss->cgroup = 7;
  EXPECT_EQ(run(skeleton_->progs.forget), 0);
}

// ---- memcg.bpf.h ----

TEST_F(BpfLib, AMemcgHasTheInodeOfItsDirectory) {
  ScratchCgroup scratch;
  const std::string path = scratch.child("inner");
  struct stat inner {
  }, outer{}, root{};
  ASSERT_EQ(::stat(scratch.directory(path).c_str(), &inner), 0);
  ASSERT_EQ(::stat(scratch.directory(scratch.path()).c_str(), &outer), 0);
  ASSERT_EQ(::stat(test::mounts().memory.c_str(), &root), 0);
  // The program runs in the process that calls it, so this one moves; a child keeps the test
  // process where it is.
  Child child([&] {
    scratch.add(path, ::getpid());
    if (!run_program(skeleton_->progs.memcg).ok()) return 1;
    return 0;
  });
  ASSERT_TRUE(child.wait_exit());
  ASSERT_EQ(child.reap(), 0);
  const auto& bss = *skeleton_->bss;
  EXPECT_EQ(bss.id, inner.st_ino);
  EXPECT_EQ(bss.parent_id, outer.st_ino);
  EXPECT_EQ(bss.root_id, root.st_ino);
}

// A tenant decides how deep its tree is, and the agent may run in a deep one.
TEST_F(BpfLib, TheRootIsFoundFromADeepTree) {
  ScratchCgroup scratch;
  std::string name = "l";
  for (int i = 0; i < 60; ++i) name += "/l";
  const std::string path = scratch.child(name);
  struct stat root {};
  ASSERT_EQ(::stat(test::mounts().memory.c_str(), &root), 0);
  Child child([&] {
    scratch.add(path, ::getpid());
    return run_program(skeleton_->progs.memcg).ok() ? 0 : 1;
  });
  ASSERT_TRUE(child.wait_exit());
  ASSERT_EQ(child.reap(), 0);
  EXPECT_EQ(skeleton_->bss->root_id, root.st_ino);
}

TEST_F(BpfLib, ANullMemcgReadsAsZero) {
  run(skeleton_->progs.memcg);
  EXPECT_EQ(skeleton_->bss->null_sum, 0U);
}

// ---- node.bpf.h, file_pages.bpf.h ----

std::map<std::string, __u64> vmstat() {
  std::map<std::string, __u64> values;
  std::ifstream file("/proc/vmstat");
  std::string name;
  __u64 value = 0;
  while (file >> name >> value) values[name] = value << page_shift();
  return values;
}

TEST_F(BpfLib, TheNodesCountersAreThoseOfVmstat) {
  constexpr double kSlack = 64.0 * 1024 * 1024;  // memory moves between the two reads
  ASSERT_EQ(run(skeleton_->progs.node), 1);
  const auto expected = vmstat();
  const auto& bss = *skeleton_->bss;
  EXPECT_NEAR(static_cast<double>(bss.node_usage.file),
              static_cast<double>(expected.at("nr_file_pages")), kSlack);
  EXPECT_NEAR(static_cast<double>(bss.node_usage.anon),
              static_cast<double>(expected.at("nr_anon_pages")), kSlack);
  EXPECT_NEAR(static_cast<double>(bss.node_usage.inactive_file),
              static_cast<double>(expected.at("nr_inactive_file")), kSlack);
  EXPECT_NEAR(static_cast<double>(bss.free_bytes),
              static_cast<double>(expected.at("nr_free_pages")), kSlack);
  EXPECT_GT(bss.node_usage.at_ns, 0U);
}

TEST_F(BpfLib, TheRootsSubtreeHasTheNodesFilePages) {
  ASSERT_EQ(run(skeleton_->progs.node), 1);
  const auto& bss = *skeleton_->bss;
  ASSERT_EQ(bss.whole, 1U) << "more cgroups than one walk covers";
  EXPECT_NEAR(static_cast<double>(bss.bytes), static_cast<double>(bss.node_usage.inactive_file),
              64.0 * 1024 * 1024);
  EXPECT_NEAR(static_cast<double>(bss.active_bytes),
              static_cast<double>(vmstat().at("nr_active_file")), 64.0 * 1024 * 1024);
}

TEST_F(BpfLib, AWalkFromANullAddressIsIncomplete) {
  skeleton_->bss->whole = 1;
  EXPECT_EQ(run(skeleton_->progs.inactive_of_null), 1);
  EXPECT_EQ(skeleton_->bss->whole, 0U);
  EXPECT_EQ(skeleton_->bss->bytes, 0U);
}

// ---- score.bpf.h ----

TEST_F(BpfLib, ARunningProcessIsNeitherDyingNorReaped) {
  EXPECT_EQ(run(skeleton_->progs.score), 1);
  const auto& bss = *skeleton_->bss;
  constexpr unsigned kOnlyThread = 1, kHasMm = 8;
  EXPECT_EQ(bss.task_facts, kOnlyThread | kHasMm);
  EXPECT_GT(bss.counted[0] + bss.counted[1], 0);  // file and anonymous pages
}

// ---- approval.bpf.h, signal.bpf.h ----

TEST_F(BpfLib, AProcessIsApprovedAsLongAsItIsTheSameInTheSameCgroup) {
  ScratchCgroup scratch;
  const std::string inner = scratch.child("inner");
  Hog hog(scratch, inner, mib(4));
  take_victim(hog.pid());
  auto& victim = skeleton_->bss->victim;
  EXPECT_EQ(who(), kApproved);
  EXPECT_GE(skeleton_->bss->bytes, static_cast<__u64>(mib(4).count));
  // In an ancestor of its cgroup it lies as well.
  struct stat outer {};
  ASSERT_EQ(::stat(scratch.directory(scratch.path()).c_str(), &outer), 0);
  const __u64 own = std::exchange(victim.cgroup, outer.st_ino);
  EXPECT_EQ(who(), kApproved);
  victim.cgroup = own + 1'000'000;
  EXPECT_EQ(who(), kOther);
  victim.cgroup = own;
  ++victim.start_ns;
  EXPECT_EQ(who(), kOther);
}

// The rule of userspace/actuators/members.h, on the kernel's own structures.
#if !defined(__SANITIZE_THREAD__)
TEST_F(BpfLib, AThreadInAProtectedGroupSparesItsProcess) {
  if (!test::mounts().v1) {
    GTEST_SKIP() << "not applicable: on v2 all threads of a process share one memory cgroup; runs "
                    "on v1 hosts";
  }
  ScratchCgroup scratch;
  const std::string own = scratch.child("own"), other = scratch.child("other/below");
  test::Straddler process(scratch, own, other);
  take_victim(process.pid());
  EXPECT_EQ(who(), kApproved);
  struct stat above {
  }, group{};
  ASSERT_EQ(::stat(scratch.directory(scratch.path() + "/other").c_str(), &above), 0);
  ASSERT_EQ(::stat(scratch.directory(other).c_str(), &group), 0);
  const int map = bpf_map__fd(skeleton_->maps.guard_protected);
  const auto protect = [&](__u64 cgroup, __u32 with_descendants) {
    ASSERT_EQ(bpf_map_update_elem(map, &cgroup, &with_descendants, BPF_ANY), 0);
  };
  protect(above.st_ino, 0);
  EXPECT_EQ(who(), kApproved) << "its descendants are not protected";
  protect(above.st_ino, 1);
  EXPECT_EQ(who(), kOther);
  protect(above.st_ino, 0);
  protect(group.st_ino, 0);
  EXPECT_EQ(who(), kOther);
}
#endif

// Regression: 24 levels were read, and a process below them was never approved.
TEST_F(BpfLib, AProcessFarBelowIsInTheCgroup) {
  ScratchCgroup scratch;
  std::string name = "top";
  for (int level = 0; level < 100; ++level) name += "/d";
  const Hog hog(scratch, scratch.child(name), mib(1));
  take_victim(hog.pid());
  struct stat top {};
  ASSERT_EQ(::stat(scratch.directory(scratch.path() + "/top").c_str(), &top), 0);
  skeleton_->bss->victim.cgroup = top.st_ino;
  EXPECT_EQ(who(), kApproved);
}

TEST_F(BpfLib, AZombieIsNotApproved) {
  ScratchCgroup scratch;
  Hog hog(scratch, scratch.path(), mib(1));
  take_victim(hog.pid());
  ASSERT_EQ(::kill(hog.pid(), SIGKILL), 0);
  ASSERT_TRUE(hog.child().wait_exit());
  EXPECT_NE(who(), kApproved);
}

TEST_F(BpfLib, KernelThreadsAreNeverApproved) {
  take_victim(2);  // kthreadd
  EXPECT_EQ(who(), kOther);
}

class BpfLibOfAgent : public BpfLib {
 protected:
  BpfLibOfAgent() { agent_ = ::getpid(); }
};

TEST_F(BpfLibOfAgent, TheAgentIsNeverApproved) {
  take_victim(::getpid());
  EXPECT_EQ(who(), kOther);
}

TEST_F(BpfLib, TheSignalReachesTheVictim) {
  ScratchCgroup scratch;
  Hog hog(scratch, scratch.path(), mib(1));
  take_victim(hog.pid());
  EXPECT_EQ(run(skeleton_->progs.kill_victim), ABI_GUARD_BY_TASK);
  EXPECT_EQ(skeleton_->bss->code, 0);
  ASSERT_TRUE(hog.child().wait_exit());
  EXPECT_EQ(WTERMSIG(hog.child().reap()), SIGKILL);
}

TEST_F(BpfLib, AProcessThatTookOverThePidGetsNoSignal) {
  ScratchCgroup scratch;
  Hog hog(scratch, scratch.path(), mib(1));
  take_victim(hog.pid());
  ++skeleton_->bss->victim.start_ns;
  run(skeleton_->progs.kill_victim);
  EXPECT_EQ(skeleton_->bss->code, 0);
  EXPECT_TRUE(hog.alive());
}

TEST_F(BpfLib, OnlyRefusalsOfTheCallersStateAreRetried) {
  for (const int code : {EPERM, EBUSY, EAGAIN, EOPNOTSUPP}) {
    skeleton_->bss->code = -code;
    EXPECT_EQ(run(skeleton_->progs.retries), 1) << code;
  }
  for (const int code : {0, ESRCH, EINVAL}) {
    skeleton_->bss->code = -code;
    EXPECT_EQ(run(skeleton_->progs.retries), 0) << code;
  }
}

// ---- psi.bpf.h, reclaim.bpf.h ----

TEST_F(BpfLib, ANestedStallIsRecognizedAndAnUnreadableOneCounted) {
  auto& bss = *skeleton_->bss;
  bss.readable = 1;
  bss.nested_flags = 0;
  EXPECT_EQ(run(skeleton_->progs.psi_nested), 0);
  bss.nested_flags = 1;
  EXPECT_EQ(run(skeleton_->progs.psi_nested), 1);
  EXPECT_EQ(counters().failures[ABI_FAILURE_read], 0U);
  bss.readable = 0;
  EXPECT_EQ(run(skeleton_->progs.psi_nested), 1);
  EXPECT_EQ(counters().failures[ABI_FAILURE_read], 1U);
}

TEST_F(BpfLib, WithoutACgroupAtItsLimitReclaimIsOfTheTasksOwn) {
  ScratchCgroup scratch;
  Child child([&] {
    scratch.add(scratch.path(), ::getpid());
    const auto of = run_program(skeleton_->progs.reclaimed);
    return of.ok() ? *of : 100;
  });
  ASSERT_TRUE(child.wait_exit());
  EXPECT_EQ(WEXITSTATUS(child.reap()), 1);
}

class BpfLibSince72 : public BpfLib {
 protected:
  BpfLibSince72() { passes_memcg_ = true; }
};

TEST_F(BpfLibSince72, ReclaimIsOfTheCgroupThatTheTracepointPasses) {
  ScratchCgroup scratch;
  const std::string inner = scratch.child("inner");
  Child child([&] {
    scratch.add(inner, ::getpid());
    const auto of = run_program(skeleton_->progs.reclaimed);
    return of.ok() ? *of : 100;
  });
  ASSERT_TRUE(child.wait_exit());
  EXPECT_EQ(WEXITSTATUS(child.reap()), 2);
}

}  // namespace
}  // namespace forestall::kernel
